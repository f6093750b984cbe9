/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/victims.h"

#include <string.h>

#include "base/bits.h"
#include "scheduler-ext/core/advise.h"

enum {
    PLANS_MAX = 2000,       /* most plans for finding a less costly set */
    ALONE_MAX = 64,         /* most jobs, and supernodes, that are tried alone */
    ADVISE_WORK = 10000000, /* steps, see gt_advise() */
};

struct cost {
    uint32_t jobs, pods, gpus;
};

/* Pods that are tried together: those of a job or a supernode, in `by_job` or `by_super`. */
struct group {
    uint32_t first, count;
    struct cost cost;
};

struct victim_search {
    struct gt_cluster *cluster;
    struct gt_plan_request request;
    const uint64_t *anyway; /* the request's `freed`; may be NULL */
    struct gt_running_pod *victims;
    uint32_t count;
    uint64_t *freed, *used;      /* [node] */
    bool *in, *before, *best;    /* [victim]: in the current set, in it before a step, in the best set */
    uint32_t *by_job, *by_super; /* victims that may go, in groups */
    struct group *jobs, *supers;
    uint32_t job_count, super_count, allowed; /* allowed: how many may go */
    bool *seen;                               /* [job group] scratch */
    uint32_t *job_of;                         /* [victim] its group; GT_NONE: it may not go */
    struct cost least;
    bool found;
    uint32_t plans;
};

static int compare_cost(const struct cost *a, const struct cost *b)
{
    GT_BY(a->jobs, b->jobs);
    GT_BY(a->pods, b->pods);
    return (a->gpus > b->gpus) - (a->gpus < b->gpus);
}

/* ---- the current set ---- */

/* Plans without the pods of the set. */
static bool victims_fits(struct victim_search *search)
{
    struct gt_plan_failure failure;
    size_t nodes = gt_cluster_nodes(search->cluster);
    if (search->anyway)
        memcpy(search->freed, search->anyway, nodes * sizeof(*search->freed));
    else
        memset(search->freed, 0, nodes * sizeof(*search->freed));
    for (uint32_t i = 0; i < search->count; i++)
        if (search->in[i])
            search->freed[search->victims[i].node] |= search->victims[i].mask;
    search->plans++;
    return gt_plan_job(search->cluster, &search->request, &failure);
}

/* Keeps only those pods of the set whose GPUs the last plan uses. */
static void keep_touched(struct victim_search *search)
{
    const struct gt_plan_request *request = &search->request;
    for (uint32_t i = 0; i < request->pod_count; i++)
        if (!request->pods[i].running)
            search->used[request->pods[i].node] |= request->pods[i].mask;
    for (uint32_t i = 0; i < search->count; i++)
        search->in[i] = search->in[i] && (search->used[search->victims[i].node] & search->victims[i].mask);
    for (uint32_t i = 0; i < request->pod_count; i++)
        if (!request->pods[i].running)
            search->used[request->pods[i].node] = 0;
}

static void copy_set(const struct victim_search *search, bool *to, const bool *from)
{
    memcpy(to, from, search->count * sizeof(*to));
}

/* Removes pods from the set if the job fits nevertheless. Says whether it does. */
static bool victims_try_without(struct victim_search *search, const uint32_t *list, uint32_t count)
{
    bool any = false;
    copy_set(search, search->before, search->in);
    for (uint32_t i = 0; i < count; i++) {
        any = any || search->in[list[i]];
        search->in[list[i]] = false;
    }
    bool fits = any && victims_fits(search);
    if (fits)
        keep_touched(search);
    else
        copy_set(search, search->in, search->before);
    return fits;
}

static struct cost cost_of(struct victim_search *search)
{
    struct cost cost = {0};
    memset(search->seen, 0, search->job_count * sizeof(*search->seen));
    for (uint32_t i = 0; i < search->count; i++) {
        if (!search->in[i])
            continue;
        cost.jobs += !search->seen[search->job_of[i]];
        search->seen[search->job_of[i]] = true;
        cost.pods++;
        cost.gpus += gt_bit_count(search->victims[i].mask);
    }
    return cost;
}

/* Reduces the current set, with which the job fits, as far as possible. */
static void reduce(struct victim_search *search)
{
    keep_touched(search);
    for (uint32_t k = search->job_count; k-- > 0;) /* the most costly first */
        victims_try_without(search, search->by_job + search->jobs[k].first, search->jobs[k].count);
    /*
     * Small ones first, so that a few large ones are left. Again after each change: with units of
     * several sizes, more room may hurt, so that a pod may stay only once another one stays.
     */
    for (bool changed = true; changed && search->plans < PLANS_MAX;) {
        changed = false;
        for (unsigned size = 1; size <= GT_GPUS_MAX; size++)
            for (uint32_t i = 0; i < search->count; i++)
                if (search->in[i] && gt_bit_count(search->victims[i].mask) == size)
                    changed = victims_try_without(search, &i, 1) || changed;
    }
    struct cost cost = cost_of(search);
    if (search->found && compare_cost(&cost, &search->least) >= 0)
        return;
    search->least = cost;
    search->found = true;
    copy_set(search, search->best, search->in);
}

static void begin_set(struct victim_search *search, bool all)
{
    for (uint32_t i = 0; i < search->count; i++)
        search->in[i] = all && search->job_of[i] != GT_NONE;
}

static void add_group(struct victim_search *search, const uint32_t *list, const struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        search->in[list[group->first + i]] = true;
}

/* ---- sets to begin with ---- */

static void try_set(struct victim_search *search)
{
    if (search->plans < PLANS_MAX && victims_fits(search))
        reduce(search);
}

static void try_alone(struct victim_search *search, const uint32_t *list, const struct group *groups,
                      uint32_t count)
{
    for (uint32_t k = 0, left = ALONE_MAX; k < count && left; k++) {
        begin_set(search, false);
        add_group(search, list, &groups[k]);
        uint32_t before = search->plans;
        try_set(search);
        left -= search->plans - before > 1; /* many are too small: they cost one plan each */
    }
}

/* The smallest group of supernodes, by binary search. */
static void try_row(struct victim_search *search)
{
    uint32_t low = 0, high = search->super_count; /* it fits with `high`, not with `low` */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        begin_set(search, false);
        for (uint32_t k = 0; k < middle; k++)
            add_group(search, search->by_super, &search->supers[k]);
        if (victims_fits(search))
            high = middle;
        else
            low = middle;
    }
    begin_set(search, false);
    for (uint32_t k = 0; k < high; k++)
        add_group(search, search->by_super, &search->supers[k]);
    try_set(search);
}

static void victims_try_advice(struct victim_search *search)
{
    struct gt_advise_job job;
    struct gt_advice advice = {0};
    if (!gt_advise_job_of(&search->request, &job))
        return;
    for (uint32_t i = 0; i < search->count; i++)
        search->victims[i].movable = search->job_of[i] != GT_NONE &&
                                     !gt_node_set_has(search->request.excluded, search->victims[i].node);
    if (gt_advise(search->cluster, search->victims, search->count, &job, ADVISE_WORK, &advice, NULL) < 0)
        return;
    begin_set(search, false);
    for (uint32_t i = 0; i < advice.count; i++)
        search->in[advice.moved[i]] = true;
    free(advice.moved);
    if (advice.possible)
        try_set(search);
}

/* ---- candidates ---- */

static uint32_t super_of(const struct victim_search *search, uint32_t victim)
{
    struct gt_cluster_node node;
    return gt_cluster_get_node(search->cluster, search->victims[victim].node, &node) ? node.supernode
                                                                                     : GT_NONE;
}

static int by_job_number(const void *a, const void *b, void *arg)
{
    const struct victim_search *search = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t left = search->victims[x].job, right = search->victims[y].job;
    return left != right ? (left > right) - (left < right) : (x > y) - (x < y);
}

static int by_super_number(const void *a, const void *b, void *arg)
{
    const struct victim_search *search = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t left = super_of(search, x), right = super_of(search, y);
    return left != right ? (left > right) - (left < right) : (x > y) - (x < y);
}

static int by_group_cost(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    int order = compare_cost(&x->cost, &y->cost);
    return order ? order : (x->first > y->first) - (x->first < y->first);
}

/* Puts those of [first, allowed) that have the same key into one group, the least costly group first. */
static uint32_t make_groups(struct victim_search *search, const uint32_t *list, bool supers,
                            struct group *groups)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->allowed; count++) {
        struct group *group = &groups[count];
        uint32_t first = list[i];
        *group = (struct group){.first = i};
        memset(search->in, 0, search->count * sizeof(*search->in));
        for (; i < search->allowed && (supers ? super_of(search, list[i]) == super_of(search, first)
                                              : search->victims[list[i]].job == search->victims[first].job);
             i++) {
            group->count++;
            if (supers)
                search->in[list[i]] = true;
            else
                group->cost.gpus += gt_bit_count(search->victims[list[i]].mask);
        }
        group->cost = supers ? cost_of(search) : (struct cost){1, group->count, group->cost.gpus};
    }
    qsort(groups, count, sizeof(*groups), by_group_cost);
    return count;
}

/* Allows victims of no higher priority. */
static void allow(struct victim_search *search, int32_t priority)
{
    search->allowed = 0;
    for (uint32_t i = 0; i < search->count; i++) {
        search->job_of[i] = GT_NONE;
        if (search->victims[i].priority <= priority)
            search->by_job[search->allowed++] = i;
    }
    memcpy(search->by_super, search->by_job, search->allowed * sizeof(*search->by_super));
    qsort_r(search->by_job, search->allowed, sizeof(*search->by_job), by_job_number, search);
    search->job_count = make_groups(search, search->by_job, false, search->jobs);
    for (uint32_t k = 0; k < search->job_count; k++)
        for (uint32_t i = 0; i < search->jobs[k].count; i++)
            search->job_of[search->by_job[search->jobs[k].first + i]] = k;
    qsort_r(search->by_super, search->allowed, sizeof(*search->by_super), by_super_number, search);
    search->super_count = make_groups(search, search->by_super, true, search->supers);
}

static bool fits_without(struct victim_search *search, int32_t priority)
{
    for (uint32_t i = 0; i < search->count; i++)
        search->in[i] = search->victims[i].priority <= priority;
    return victims_fits(search);
}

static int by_priority(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The lowest priority such that the job fits without all pods of at most this priority. */
static bool find_priority(struct victim_search *search, int32_t *priorities, int32_t *ret)
{
    for (uint32_t i = 0; i < search->count; i++)
        priorities[i] = search->victims[i].priority;
    qsort(priorities, search->count, sizeof(*priorities), by_priority);
    uint32_t low = 0, high = search->count - 1; /* fits with high, with none below low */
    if (!fits_without(search, priorities[high]))
        return false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (fits_without(search, priorities[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    *ret = priorities[high];
    return true;
}

static bool victims_choose(struct victim_search *search, int32_t *priorities)
{
    int32_t priority;
    memset(search->in, 0, search->count * sizeof(*search->in));
    if (victims_fits(search))
        return true;
    if (!search->count || !find_priority(search, priorities, &priority))
        return false;
    allow(search, priority);
    begin_set(search, true);
    try_set(search);
    victims_try_advice(search);
    try_row(search);
    try_alone(search, search->by_super, search->supers, search->super_count);
    try_alone(search, search->by_job, search->jobs, search->job_count);
    copy_set(search, search->in, search->best);
    if (!search->found || !victims_fits(search))
        return false;
    for (uint32_t i = 0; i < search->count; i++)
        search->victims[i].chosen = search->in[i];
    return true;
}

bool gt_victims_choose(struct gt_cluster *cluster, const struct gt_plan_request *request,
                       struct gt_running_pod *victims, uint32_t count)
{
    size_t n = (size_t)count + 1, nodes = (size_t)gt_cluster_nodes(cluster) + 1;
    gt_auto_free uint64_t *freed = calloc(nodes, sizeof(*freed)), *used = calloc(nodes, sizeof(*used));
    gt_auto_free bool *sets = calloc(4 * n, sizeof(*sets));
    gt_auto_free uint32_t *numbers = calloc(3 * n, sizeof(*numbers));
    gt_auto_free struct group *groups = calloc(2 * n, sizeof(*groups));
    gt_auto_free int32_t *priorities = calloc(n, sizeof(*priorities));
    for (uint32_t i = 0; i < count; i++)
        victims[i].chosen = false;
    if (!freed || !used || !sets || !numbers || !groups || !priorities)
        return false;
    struct victim_search search = {.cluster = cluster,
                                   .request = *request,
                                   .anyway = request->freed,
                                   .victims = victims,
                                   .count = count,
                                   .freed = freed,
                                   .used = used,
                                   .in = sets,
                                   .before = sets + n,
                                   .best = sets + 2 * n,
                                   .seen = sets + 3 * n,
                                   .by_job = numbers,
                                   .by_super = numbers + n,
                                   .job_of = numbers + 2 * n,
                                   .jobs = groups,
                                   .supers = groups + n};
    search.request.freed = freed;
    return victims_choose(&search, priorities);
}
