/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "topology/discovery/discovery.h"

/* A small machine as a tree of files in a temporary directory, for tests of the readers. */
struct machine {
    char root[64];
};

/* An empty machine: sys/bus/pci/devices and nothing more. */
void machine_new(struct machine *machine);
void machine_free(struct machine *machine);

/* Writes a file below the root, with the directories above it. */
void machine_write(const struct machine *machine, const char *path, const char *text);
void machine_mkdir(const struct machine *machine, const char *path);
void machine_symlink(const struct machine *machine, const char *path, const char *target);
void machine_remove(const struct machine *machine, const char *path);

/* A PCI device with all attributes that the readers look at; `parents` as in "pci0000:00/0000:00:01.0". */
void machine_add_device(const struct machine *machine, const char *parents, const char *bdf,
                        const char *vendor, const char *class);

/* Two CPUs and one NUMA node, which hwloc needs. */
void machine_add_processors(const struct machine *machine);

/* Scans with these options; the scan must succeed. */
struct gt_node *scan_ok(const struct gt_scan_options *options, struct gt_raw *ret_raw);
/* Scans with these options; the scan must fail with one clear line that contains `part`. */
void scan_fails(const struct gt_scan_options *options, const char *part);

/* Why something is missing by the node's `missing`, NULL if it is not listed. */
const char *missing_why(const struct gt_node *node, const char *what);

/* Asserts that two nodes are equal in their JSON form. */
void assert_same_node(const struct gt_node *a, const struct gt_node *b);
