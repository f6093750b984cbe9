/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/discovery/discovery.h"
#include "topology/discovery/facts.h"

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
