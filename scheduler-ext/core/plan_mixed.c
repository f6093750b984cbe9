/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

/*
 * Units of several sizes share supernodes, and pods of several sizes share nodes, so no fixed order always
 * succeeds. Where the usual orders have failed, small jobs on small clusters are placed by an exhaustive
 * search: unit by unit, the largest first, in each supernode, its pods on one node after the other. Nodes of
 * a supernode with equally many GPUs left are equivalent.
 */
enum {
    MIXED_UNITS_MAX = 64,
    MIXED_PODS_MAX = 512, /* depth of the recursion */
    MIXED_WORK = 200000,  /* steps of the search: below a millisecond */
};

struct mixed_search {
    struct job *job;
    uint8_t *left; /* [node] of the draft; changed and restored */
    const struct gt_plan_unit *order[MIXED_UNITS_MAX];
    uint32_t work;
};

static bool place_unit(struct mixed_search *search, uint32_t at);

static bool plan_mixed_is_repeated(const struct mixed_search *search, uint32_t from, uint32_t node)
{
    const uint32_t *next = search->job->cluster->next;
    for (; from != node; from = next[from])
        if (search->left[from] == search->left[node])
            return true;
    return false;
}

/* Places the unit's pods from `pod` on, on this node of the supernode and those after it. */
static bool place_pods(struct mixed_search *search, uint32_t at, uint32_t pod, uint32_t from)
{
    const struct gt_plan_unit *unit = search->order[at];
    if (pod == unit->pods)
        return place_unit(search, at + 1);
    for (uint32_t node = from; node != GT_NONE && search->work; node = search->job->cluster->next[node]) {
        search->work--;
        if (search->left[node] < unit->gpus || plan_mixed_is_repeated(search, from, node))
            continue;
        search->left[node] = (uint8_t)(search->left[node] - unit->gpus);
        search->job->pods[unit->first + pod].place.node = node;
        bool found = place_pods(search, at, pod + 1, node);
        search->left[node] = (uint8_t)(search->left[node] + unit->gpus);
        if (found)
            return true;
    }
    return false;
}

static bool place_unit(struct mixed_search *search, uint32_t at)
{
    const struct gt_cluster *cluster = search->job->cluster;
    if (at == search->job->unit_count)
        return true;
    for (uint32_t super = 0; super < cluster->super_count && search->work; super++) {
        search->work--;
        if (cluster->supers[super].tier == 1 && place_pods(search, at, 0, cluster->supers[super].first_node))
            return true;
    }
    return false;
}

static bool is_larger(const struct gt_plan_unit *a, const struct gt_plan_unit *b)
{
    uint64_t x = (uint64_t)a->pods * a->gpus, y = (uint64_t)b->pods * b->gpus;
    return x != y ? x > y : a->gpus > b->gpus;
}

static void sort_units(struct mixed_search *search)
{
    for (uint32_t u = 0; u < search->job->unit_count; u++) {
        uint32_t at = u;
        for (; at && is_larger(&search->job->units[u], search->order[at - 1]); at--)
            search->order[at] = search->order[at - 1];
        search->order[at] = &search->job->units[u];
    }
}

bool gt_place_mixed(struct job *job, bool *ret_exact)
{
    struct mixed_search search = {.job = job, .left = job->cluster->draft_count, .work = MIXED_WORK};
    *ret_exact = false;
    if (job->any_running || job->unit_count > MIXED_UNITS_MAX || job->pod_count > MIXED_PODS_MAX)
        return false;
    for (uint32_t u = 0; u < job->unit_count; u++)
        if (gt_unit_run(&job->units[u]) != job->units[u].pods)
            return false; /* it may be split: not searched */
    gt_draft_begin(job);
    sort_units(&search);
    bool found = place_unit(&search, 0);
    *ret_exact = search.work > 0;
    for (uint32_t u = 0; u < job->unit_count && found; u++) {
        struct gt_plan_unit *unit = &job->units[u];
        unit->feasible = 0;
        unit->with = GT_NONE;
        unit->node_in_use = false;
        unit->searched = true;
        for (uint32_t pod = unit->first; pod < unit->first + unit->pods; pod++)
            gt_place_on_node(job, job->pods[pod].place.node, unit->gpus, &job->pods[pod], 1);
    }
    return found;
}
