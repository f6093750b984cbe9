/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/informer.h"
#include "scheduler-ext/companion/groups_source.h"
#include "scheduler-ext/companion/hypernodes.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/companion/problem_events.h"
#include "scheduler-ext/companion/servers.h"

struct gt_supernodes_stats {
    uint64_t joins;
    double seconds; /* of all joins */
    uint32_t supernodes[GT_JOIN_TIERS_MAX + 1];
    uint32_t problems[GT_JOIN_PROBLEM_KINDS];
    uint32_t nodes, nodes_silent, nodes_placed;
    uint32_t refused; /* supernodes that are not projected as a whole */
};

/* The part's state. */
struct gt_supernodes {
    const struct gt_part_env *env;
    struct gt_groups_source *source;
    struct gt_groups *recovered; /* from the published Supernodes, while the configuration cannot be read */
    struct gt_apply_set *set, *hypernodes, *nodefeatures; /* the last two are NULL where not wanted */
    struct gt_servers *servers;
    bool knows_servers; /* it has learned the holders that were published before this replica led */
    struct gt_problem_events *events;
    struct gt_source *timer;
    uint64_t last_ms;
    bool is_due, leads;
    bool reported_old_label;
    struct gt_supernodes_stats stats;
};

/* supernodes_events.c: reports the present problems as Events. */
void gt_supernodes_events(struct gt_supernodes *self, const struct gt_view *view,
                          const struct gt_projected *projected);

/* supernodes_metrics.c */
void gt_supernodes_metrics(const void *self, struct gt_buf *to);

/* supernodes_recover.c: the groups of the published Supernodes. NULL: none, or no memory. */
struct gt_groups *gt_supernodes_recover(const struct gt_apply_set *set);
