/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/peers.h"

/*
 * KAI's topology plugin, with the supernode as the preferred level of the job and the required one of each
 * unit (its sub groups): of the lowest level with domains that have enough room for all pods, the domain
 * where the job is the largest part of the free GPUs, then the first; in it unit by unit in the same way. A
 * domain where that fails is followed by the next one, also of higher levels. Pods are counted, not units.
 */
struct kai_state {
    uint32_t first, end; /* supernodes for the units */
};

static uint32_t kai_choose(void *p, const struct gt_world *world, const uint32_t *slots, uint32_t pods)
{
    const struct kai_state *state = p;
    uint32_t best = GT_NONE;
    for (uint32_t s = state->first; s < world->site->super_count && s < state->end; s++)
        if (slots[s] >= pods && (best == GT_NONE || world->slots[1][s] < world->slots[1][best]))
            best = s;
    return best;
}

struct kai_domain {
    uint32_t first, end, gpus; /* its supernodes; free */
};

static bool kai_is_before(struct kai_domain a, struct kai_domain b)
{
    return a.gpus != b.gpus ? a.gpus < b.gpus : a.first < b.first;
}

/* The best domain of a level with room for the pods, of those behind `last`. */
static bool kai_next(const struct gt_world *world, unsigned level, const struct gt_sim_job *job,
                     const struct kai_domain *last, struct kai_domain *ret)
{
    bool found = false;
    for (uint32_t first = 0, end; first < world->site->super_count; first = end) {
        end = gt_site_domain_end(world->site, level, first);
        struct kai_domain domain = {.first = first, .end = end};
        uint64_t pods = 0;
        for (uint32_t s = first; s < end; s++) {
            pods += world->slots[job->gpus][s];
            domain.gpus += world->slots[1][s];
        }
        if (pods < job->pods || (last && !kai_is_before(*last, domain)) ||
            (found && !kai_is_before(domain, *ret)))
            continue;
        *ret = domain;
        found = true;
    }
    return found;
}

static bool kai_place(void *p, struct gt_world *world, const struct gt_sim_job *job, struct gt_place *places)
{
    (void)p;
    for (unsigned level = 0; level <= GT_SITE_UPPER + 1; level++) { /* the last one is the cluster */
        struct kai_domain domain, last;
        bool any = false;
        if (level && level <= GT_SITE_UPPER && !world->site->upper[level - 1])
            continue;
        while (kai_next(world, level, job, any ? &last : NULL, &domain)) {
            struct kai_state state = {domain.first, domain.end};
            if (gt_group_each_unit(&state, world, job, places, kai_choose))
                return true;
            last = domain;
            any = true;
        }
    }
    return false;
}

const struct gt_group_policy gt_group_kai = {.name = "kai", .keeps_groups = true, .place = kai_place};
