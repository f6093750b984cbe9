/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"
#include "kube/index.h"
#include "scheduler-ext/core/cluster.h"

/*
 * The ranks of planned pods whose names do not contain them (pods of a ReplicaSet, or of an unknown
 * controller): their position in the order of names when they were planned, from memory or from their
 * annotations. They are kept since a pod that replaces another has another name and must not change the ranks
 * of the others.
 */
struct gt_ranks {
    struct gt_index index; /* an entry's mark is the rank */
};

enum { GT_RANKS_MAX = 1 << 18 };

void gt_ranks_set(struct gt_ranks *ranks, const char *namespace_, const char *name, uint32_t rank);
void gt_ranks_remove(struct gt_ranks *ranks, const char *namespace_, const char *name);
/* GT_NONE: not known. `ranks` may be NULL. */
uint32_t gt_ranks_find(const struct gt_ranks *ranks, const char *namespace_, const char *name);
/* Reads the rank from a pod's annotations, where it has a plan and is of such a kind. */
void gt_ranks_read(struct gt_ranks *ranks, const struct gt_pod *pod);
void gt_ranks_done(struct gt_ranks *ranks);
