/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/discovery/discovery.h"
#include "topology/discovery/facts.h"

/* The backends, private to topology/discovery. Each adds to the facts, whose `vendor` says which GPUs are
 * searched, and fails only if it found nothing to read. `root` is the directory that holds sys/ and proc/. */

/* libpci: all devices, and sysfs.c's details of the devices of interest (gt_fact_is_of_interest). */
int gt_pci_scan(const char *root, struct gt_facts *facts, struct gt_err **err);

/* The details of a device from its attributes in sysfs; `rootfd` is the root. Missing attributes stay
 * unknown. */
void gt_sysfs_fill(int rootfd, struct gt_fact *fact);
/* The switch that a network device is connected to; `dirfd` is its directory in sysfs. */
void gt_lldp_fill(int rootfd, int dirfd, struct gt_fact *fact);
/* The same for devices of which that knows nothing, from lldpd's neighbours in a file. */
void gt_lldp_fill_saved(int rootfd, struct gt_facts *facts);
/* The text of that file, what `lldpcli -f json0 show neighbors` prints. -EINVAL: it is something else. */
int gt_lldp_read_saved(const char *text, size_t len, struct gt_facts *facts, struct gt_err **err);
/* The first neighbour of such a file, and its port ("" not known); false: it has none. */
bool gt_lldp_neighbour(const void *data, size_t len, char peer[static GT_PEER_SIZE],
                       char port[static GT_PEER_SIZE]);
/* Attributes of the GPUs' kernel module. */
void gt_sysfs_fill_module(int rootfd, struct gt_facts *facts);

/*
 * hwloc on a machine below `root` ("/": this one). Completes the devices that were found (locality, names),
 * adds direct links, and adds the devices of interest if the PCI backend failed. *ret_xml is the topology as
 * XML, which the caller frees.
 *
 * hwloc reads some settings, and a root other than "/", only from the environment. They are written if they
 * differ from those of the call before.
 */
int gt_hwloc_scan(const char *root, struct gt_facts *facts, char **ret_xml, struct gt_err **err);

/* Writes those settings in advance, so that scans of this root do not write them. */
void gt_hwloc_prepare(const char *root);

/* The root directory of the machine that the options name; NULL if a file is read instead. */
struct gt_scan_options;
const char *gt_scan_root(const struct gt_scan_options *options);

/* Evidence about the health of GPUs from the PCI bus, and from the device nodes below `dev_root`. */
void gt_host_health_pci(const char *root, struct gt_node *node);
void gt_host_health_device_nodes(const char *dev_root, struct gt_node *node);

/* As gt_hwloc_scan(), from XML text that hwloc has exported. `text` is NUL-terminated after `len` bytes. */
int gt_hwloc_read(const char *text, size_t len, const char *source, struct gt_facts *facts,
                  struct gt_err **err);

/* Checks the text before hwloc's XML reader gets it, since that reader does no checks: tags must match;
 * depth, sizes and numbers are limited. -EINVAL with the number of the wrong line. */
int gt_xml_check(const char *text, size_t len, const char *source, struct gt_err **err);

/* What scan.c and recording.c share; private to topology/discovery. */

/*
 * The last step of a live scan and of a replay alike: facts and vendor answers become a node. `answers` is
 * the vendor call log, NULL: there is none, and `why_none` says why. Without any GPU in the facts, the vendor
 * library's devices are the GPUs. `name` is the node's, and may be NULL.
 */
int gt_assemble(const struct gt_facts *facts, const char *answers, const char *why_none, const char *name,
                struct gt_node **ret, struct gt_err **err);

/* Reads the file that --from names (options->from): hwloc XML, a recording, a node's JSON, or a matrix. */
int gt_replay(const struct gt_scan_options *options, struct gt_node **ret, struct gt_raw *ret_raw,
              struct gt_err **err);

/*
 * The node that a matrix tells of, as `mx-smi topo -m` and `-n` and `nvidia-smi topo -m` print it: kinds of
 * connections, NUMA nodes and CPUs, NICs. What it lacks is in `missing`. `text` is changed. -EINVAL if there
 * is no matrix in it, a row is too short, or two rows contradict each other; -E2BIG above the limits of a
 * node.
 */
int gt_matrix_read(char *text, const char *source, const char *name, struct gt_node **ret,
                   struct gt_err **err);

#define GT_MISSING_PCI    "PCI"
#define GT_MISSING_HWLOC  "hwloc"
#define GT_MISSING_VENDOR "vendor library"
enum { GT_VENDOR_METAX = 0x9999 };
