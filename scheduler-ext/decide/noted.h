/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_NOTED_H
#define GPUTOPO_DECIDE_NOTED_H

#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/node_set.h"

/*
 * The reservations of the leading replica of gputopo-scheduler, which it writes into its Lease for the others
 * (api/lease_note.h): places for pods that do not exist yet, and nodes for a waiting job or for pods that
 * have lost their node.
 */
struct gt_noted_place {
    uint32_t node;
    uint64_t mask;
};
struct gt_noted {
    struct gt_noted_place *places; /* by node */
    uint32_t count;
    struct gt_node_set nodes; /* nodes that are reserved as a whole */
};

/* Reads a note, in place of the last one; invalid words are skipped. */
void gt_noted_read(struct gt_noted *noted, const struct gt_cluster *cluster, const char *note);
void gt_noted_done(struct gt_noted *noted);
/* GPUs of a node that are reserved for pods to come. */
uint64_t gt_noted_gpus(const struct gt_noted *noted, uint32_t node);

#endif
