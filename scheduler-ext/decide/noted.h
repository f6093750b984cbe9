/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_NOTED_H
#define GPUTOPO_DECIDE_NOTED_H

#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/node_set.h"

/*
 * What the replica of gputopo-scheduler that acts keeps, as it notes it in its Lease for all others
 * (api/lease_note.h): places of pods which are not there, and nodes for a job that waits or for pods whose
 * node is lost.
 */
struct gt_noted_place {
    uint32_t node;
    uint64_t mask;
};
struct gt_noted {
    struct gt_noted_place *places; /* by node */
    uint32_t count;
    struct gt_node_set nodes; /* that are kept as a whole */
};

/* In the place of what was read before; words that make no sense are passed over. */
void gt_noted_read(struct gt_noted *noted, const struct gt_cluster *cluster, const char *note);
void gt_noted_done(struct gt_noted *noted);
/* GPUs of a node that are reserved for pods to come. */
uint64_t gt_noted_gpus(const struct gt_noted *noted, uint32_t node);

#endif
