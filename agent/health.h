/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_HEALTH_H
#define GPUTOPO_AGENT_HEALTH_H

#include "topology/model/node.h"

/*
 * Debouncing of health: what a scan saw becomes what the agent says only after so many scans in a row. Keeps
 * one entry per GPU, by BDF; a GPU that left the node is forgotten after it has been away for some scans, and
 * one in whose place another UUID is seen, at once: a new card does not inherit the health of the old one.
 */
struct gt_health {
    unsigned unhealthy_after, healthy_after; /* scans in a row, at least 1 */
    unsigned count;
    struct gt_health_entry {
        char bdf[GT_BDF_SIZE];
        char uuid[GT_ID_SIZE];     /* as last known, "" never */
        enum gt_gpu_health health; /* as last said */
        unsigned ill_by;           /* the words of the vendor library that called it so, gt_told */
        char reason[128];          /* why not healthy, as last said */
        unsigned streak;           /* scans in a row that saw the opposite */
        unsigned away;             /* scans in a row without this GPU */
    } gpus[2 * GT_GPUS_MAX];
};

enum {
    GT_HEALTH_AT_ONCE = 1, /* a person asked for the scan: what it saw is believed without waiting */
    GT_HEALTH_ALL = 2,     /* the scan knows all there is (a recording), with or without the vendor library */
};

/*
 * Changes the health of a node that nobody else has yet to what is to be said.
 *
 * A GPU that the vendor library called unhealthy stays so until a scan hears from the library about the very
 * thing again, unless it is GT_HEALTH_ALL: not knowing is no recovery, and who is ill may well be who hangs.
 */
void gt_health_apply(struct gt_health *health, struct gt_node *node, unsigned flags);

/* Whether some GPU is in between: one scan saw a change that is not said yet. */
bool gt_health_pending(const struct gt_health *health);

#endif
