/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/advise.h"

/* The input of the search for the best set of pods to move, and its two algorithms. */

/* A cost: pods in the upper half, GPUs in the lower. Costs add up and compare as numbers. */
#define ADVISE_NEVER UINT64_MAX

struct advise_item { /* a movable pod that would free something */
    uint32_t super, node, pod;
    unsigned gain; /* GPUs that become available */
    uint64_t mask; /* the mask of these GPUs */
    bool moved;
};

struct advise_place {      /* a node with such pods */
    uint32_t first, count; /* items */
    unsigned available;
    unsigned slots; /* pods of the job that it holds more when all of them leave */
};

struct advise_region {     /* a tier-1 supernode that can hold more runs */
    uint32_t first, count; /* places */
    uint32_t room, runs;   /* what it holds now */
    uint32_t slots, more;  /* pods and runs that it can hold beyond that */
};

struct advisor {
    const struct gt_advise_job *job;
    struct gt_err **err;
    struct advise_item *items;
    uint32_t item_count;
    struct advise_place *places;
    uint32_t place_count;
    struct advise_region *regions;
    uint32_t region_count;
    uint32_t need; /* missing runs; at most what all regions can hold beyond their `runs` */
};

static inline uint64_t advise_cost(const struct advise_item *item)
{
    return UINT64_C(1) << 32 | item->gain;
}

/* Marks the items of the best set. `work` as in gt_advise(); -E2BIG, without an error object, where it is not
 * enough. */
int gt_advise_exact(struct advisor *advisor, uint64_t work);

/* Marks the items of a sufficient set. */
int gt_advise_greedy(struct advisor *advisor);
