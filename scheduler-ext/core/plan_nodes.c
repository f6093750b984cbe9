/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

#include "base/bits.h"

/* The nodes of a supernode by how many GPUs are available on them. */
struct nodes {
    uint32_t *same;
    unsigned gpus;
    uint64_t there;                  /* bit n - 1: there is a node with n */
    uint32_t first[GT_GPUS_MAX + 1]; /* [n], the lowest id; further ones in `same` */
};

static void sort_nodes(const struct job *job, uint32_t super, unsigned gpus, struct nodes *ret)
{
    const struct gt_cluster *cluster = job->cluster;
    ret->same = cluster->same;
    ret->gpus = gpus;
    ret->there = 0;
    for (uint32_t node = cluster->supers[super].first_node; node != GT_NONE; node = cluster->next[node]) {
        unsigned n = gt_draft_count(job, node);
        if (n < gpus)
            continue;
        uint64_t bit = UINT64_C(1) << (n - 1);
        ret->same[node] = ret->there & bit ? ret->first[n] : GT_NONE;
        ret->first[n] = node;
        ret->there |= bit;
    }
}

/* The node for the next pods: the fullest that holds all of them; else the fullest of those that hold
 * most. */
static uint32_t take_node(struct nodes *nodes, uint32_t need, uint32_t *ret_slots)
{
    if (!nodes->there)
        return GT_NONE;
    unsigned most = 64 - (unsigned)__builtin_clzll(nodes->there);
    uint32_t slots = gt_core_slots(nodes->gpus, most);
    slots = slots < need ? slots : need;
    uint64_t enough = nodes->there & ~UINT64_C(0) << (slots * nodes->gpus - 1);
    unsigned n = gt_bit_first(enough) + 1;
    uint32_t node = nodes->first[n];
    nodes->first[n] = nodes->same[node];
    if (nodes->first[n] == GT_NONE)
        nodes->there &= ~(UINT64_C(1) << (n - 1));
    *ret_slots = slots;
    return node;
}

void gt_place_on_node(struct job *job, uint32_t node, unsigned gpus, struct gt_plan_pod *pods, uint32_t count)
{
    uint64_t available = gt_draft_available(job, node);
    bool takes_all = count == 1 && gt_core_bits(available) == gpus;
    gt_draft_take(job, node, count * gpus);
    for (uint32_t i = 0; i < count; i++) {
        pods[i].place.node = node;
        pods[i].place.mask = available;
        pods[i].gpus = takes_all ? 0 : (uint8_t)gpus;
    }
    job->any_open |= !takes_all;
}

bool gt_place_in_super(struct job *job, uint32_t super, unsigned gpus, uint32_t first, uint32_t count)
{
    const struct gt_plan_pod *pods = job->pods;
    uint32_t end = first + count;
    if (job->close)
        gt_run_touch(job, super);
    for (uint32_t pod = first; pod < end;) {
        uint32_t need = 0; /* pods up to the next one that runs */
        while (pod + need < end && !pods[pod + need].running)
            need++;
        struct nodes nodes;
        if (need)
            sort_nodes(job, super, gpus, &nodes);
        while (need) {
            uint32_t slots = 0, node = take_node(&nodes, need, &slots);
            if (node == GT_NONE)
                return false;
            gt_place_on_node(job, node, gpus, job->pods + pod, slots);
            pod += slots;
            need -= slots;
        }
        while (pod < end && pods[pod].running)
            pod++;
    }
    return true;
}
