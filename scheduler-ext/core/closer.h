/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/crossing.h"
#include "scheduler-ext/core/relocate.h"

/* Which pods of others would have to move so that a job lies in one domain less: what people are told. */
struct gt_closer_spec {
    const struct gt_crossing *crossing; /* of the job */
    const uint32_t *nodes;              /* of its pods */
    uint32_t count, run;                /* its pods; those that lie together in one supernode */
    unsigned gpus;                      /* of each pod */
    uint64_t requests;                  /* as in struct gt_advise_job */
    const struct gt_node_set *avoids;   /* nodes that its pods may not use; NULL: none */
    bool placed; /* its pods have their GPUs: those in one domain would go to its other domains. Otherwise all
                    of them are placed again, perhaps in other domains */
    const struct gt_running_pod *pods; /* of others; only movable ones move */
    uint32_t pod_count;
    bool (*may_go)(const void *arg, uint32_t pod, uint32_t node); /* as in relocate.h */
    const void *arg;
    uint64_t work; /* of all searches together, as in relocate.h */
};

struct gt_closer {
    uint32_t domains;            /* of the crossing's highest tier that would do; 0: no way was found */
    uint32_t leaves;             /* `placed`: the domain that it would leave; else GT_NONE */
    uint32_t own;                /* `placed`: its pods there */
    struct gt_relocation others; /* what moves before; the caller frees others.moves */
};

/* The cheapest way that a short search finds. */
int gt_closer_find(struct gt_cluster *cluster, const struct gt_closer_spec *spec, struct gt_closer *ret,
                   struct gt_err **err);

/* "; 2 leaves would do if 2 pods of team-b moved", "; 2 leaves would do if 2 pods of 2 jobs and its 4 in
 * leaf3 moved"; nothing where no way was found. `job`: whose the first of the others is; "" not known. */
void gt_closer_text(const struct gt_cluster *cluster, const struct gt_crossing *crossing,
                    const struct gt_closer *closer, const char *job, struct gt_buf *to);
