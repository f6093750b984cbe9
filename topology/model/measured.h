/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/node.h"

/* What somebody has measured: the bandwidth of a pair of GPUs, or of a GPU to all others. It lowers the
 * weights of pairs, and never raises one. */
enum {
    GT_MEASURED_MAX = 256,
    GT_MEASURED_AGE_S = 30 * 24 * 3600, /* older values do not count */
    GT_MEASURED_AHEAD_S = 300,          /* clocks differ */
    GT_MEASURED_GBPS_MAX = 65535,
};

struct gt_measurement {
    /* As in struct gt_isolation, or "#N" for the GPU that the vendor counts as N. `peer` "": all pairs of the
     * GPU. */
    char gpu[GT_ID_SIZE], peer[GT_ID_SIZE];
    uint64_t mbps;
};

/* Who tells them. */
enum gt_measured_source {
    GT_MEASURED_BY_OBJECT, /* `spec.measured` of the node's object */
    GT_MEASURED_BY_FILES,  /* --measured-dir */
    GT_MEASURED_SOURCES,
};

struct gt_measured {
    unsigned count;
    struct gt_measurement of[GT_MEASURED_MAX];
};

/* Sets the pairs' measured_mbps and weights; the lowest value counts. The node must not be shared yet. A name
 * that the node has no GPU for has no effect. */
int gt_measured_apply(const struct gt_measured *measured, struct gt_node *node, struct gt_err **err);

bool gt_measured_equal(const struct gt_measured *a, const struct gt_measured *b);
