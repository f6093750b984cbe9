/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DISCOVERY_BACKENDS_H
#define GPUTOPO_DISCOVERY_BACKENDS_H

#include "topology/discovery/facts.h"

/* The backends, private to topology/discovery. Each adds to the facts and fails as a whole only where it
 * found nothing to read. `root` is the directory that holds sys/ and proc/. */

/* libpci: which devices there are, and sysfs.c's details of those of interest. */
int gt_pci_scan(const char *root, unsigned vendor, struct gt_facts *facts, struct gt_err **err);

/* The details of a device from its attributes in sysfs; `rootfd` is the root. What is not there stays
 * unknown. */
void gt_sysfs_fill(int rootfd, struct gt_fact *fact);
/* Attributes of the GPUs' kernel module. */
void gt_sysfs_fill_module(int rootfd, struct gt_facts *facts);

/*
 * hwloc on a machine below `root` ("/": this one). Completes devices that are there (locality, names), adds
 * those of interest where the PCI backend did not deliver, and direct links. *ret_xml is the topology as XML
 * (NULL: not wanted), to be freed.
 *
 * hwloc takes some settings, and a root other than "/", from the environment only. They are written where
 * they differ from those of the call before.
 */
int gt_hwloc_scan(const char *root, unsigned vendor, struct gt_facts *facts, char **ret_xml,
                  struct gt_err **err);

/* Writes those settings, so that scans of this root do not. */
void gt_hwloc_prepare(const char *root);

/* The directory with the machine that the options mean; NULL where a file is read instead. */
struct gt_scan_options;
const char *gt_scan_root(const struct gt_scan_options *options);

/* Evidence about the health of GPUs from the PCI bus, and from the device nodes below `dev_root`. */
void gt_host_health_pci(const char *root, struct gt_node *node);
void gt_host_health_device_nodes(const char *dev_root, struct gt_node *node);

/* The same from XML text that hwloc has exported. `text` is NUL-terminated behind `len` bytes. */
int gt_hwloc_read(const char *text, size_t len, const char *source, unsigned vendor, struct gt_facts *facts,
                  struct gt_err **err);

/* Whether the text is sound enough to be given to hwloc's XML reader, which trusts what it reads: tags that
 * match, limited depth, sizes and numbers. -EINVAL with the line of the culprit. */
int gt_xml_check(const char *text, size_t len, const char *source, struct gt_err **err);

#endif
