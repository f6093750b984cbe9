/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/serve/feasible_nodes.h"

/*
 * For explanations of a job that waits for room for its units: what each supernode has, what it lacks for one
 * more unit, who is in the way there, and the least that would have to change. What must lie in one supernode
 * counts as a unit here, also where it is an atom.
 */
enum { GT_UNIT_ROOMS = 10, GT_OBSTACLES = 4 };

enum gt_obstacle_kind {
    GT_OBSTACLE_JOB,       /* GPUs of a job */
    GT_OBSTACLE_NODES,     /* nodes that are refused as a whole */
    GT_OBSTACLE_UNHEALTHY, /* GPUs */
    GT_OBSTACLE_RESERVED,  /* GPUs that are reserved for pods that do not exist yet */
    GT_OBSTACLE_UNKNOWN,   /* GPUs with a user that is not in the cluster */
    GT_OBSTACLE_RESOURCES, /* GPUs on nodes with too little else */
};

struct gt_obstacle {
    enum gt_obstacle_kind kind;
    const struct gt_cache_job *job; /* of GT_OBSTACLE_JOB */
    enum gt_refusal refusal;        /* of GT_OBSTACLE_NODES */
    uint32_t gpus, nodes;           /* in this supernode */
};

struct gt_unit_room {
    uint32_t supernode;
    uint32_t nodes;
    uint32_t slots; /* pods that it has room for */
    uint32_t units; /* units that fit */
    uint32_t lacks; /* GPUs for one more */
    struct gt_obstacle obstacles[GT_OBSTACLES];
    unsigned obstacle_count, more; /* the largest ones; how many others there are */
};

struct gt_unit_rooms {
    unsigned gpus;  /* of a pod */
    uint32_t pods;  /* of a unit */
    uint32_t count; /* supernodes with nodes */
    struct gt_unit_room rooms[GT_UNIT_ROOMS];
    unsigned room_count; /* those that lack least */
    /* What has to go so that one more unit fits: as few GPUs as possible. */
    uint32_t least_supernode; /* GT_NONE: nothing that can go would be enough */
    struct gt_obstacle least[GT_OBSTACLES];
    unsigned least_count;
};

/* False where the pod is not of a job whose pods have to lie together. */
bool gt_unit_rooms_apply(const struct gt_debug_view *view, const struct gt_cache_pod *pod);
/* `pod` is one without a place that stands for the others of its job. */
int gt_unit_rooms_find(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                       struct gt_unit_rooms *ret, struct gt_err **err);

void gt_unit_rooms_text(const struct gt_debug_view *view, const struct gt_unit_rooms *rooms,
                        struct gt_buf *to);
/* Appends the members "unit", "supernodes" and "leastChange". */
void gt_unit_rooms_json(const struct gt_debug_view *view, const struct gt_unit_rooms *rooms,
                        struct gt_buf *to);
