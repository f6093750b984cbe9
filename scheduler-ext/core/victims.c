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

/* Pods that are tried together: those of a job or a supernode. */
struct group {
    uint32_t first, count;
    struct cost cost;
};

struct victim_groups {
    uint32_t *list; /* victims that may go, group by group */
    struct group *group;
    uint32_t count;
};

struct victim_set {
    uint32_t *list; /* victims */
    uint32_t count;
};

struct victim_search {
    struct gt_cluster *cluster;
    struct gt_plan_request request;
    const uint64_t *anyway; /* the request's `freed`; may be NULL */
    struct gt_running_pod *victims;
    uint32_t count;
    int64_t lacks;            /* the victims must free so many GPUs at least */
    uint64_t *freed, *used;   /* [node] */
    struct victim_set set;    /* the current one */
    struct victim_set best;   /* the least costly one */
    struct cost least;        /* jobs UINT32_MAX: none is found */
    uint32_t *before, *order; /* scratch: the set before a step; in the order in which pods are tried */
    struct victim_groups jobs, supers;
    uint32_t allowed;   /* how many may go */
    bool *seen;         /* [job group] scratch */
    uint32_t *job_of;   /* [victim] its group; GT_NONE: it may not go */
    uint32_t *super_of; /* [victim] */
    uint32_t plans;
};

static int compare_cost(const struct cost *a, const struct cost *b)
{
    GT_BY(a->jobs, b->jobs);
    GT_BY(a->pods, b->pods);
    return (a->gpus > b->gpus) - (a->gpus < b->gpus);
}

/* ---- the current set ---- */

static void set_freed(struct victim_search *search, bool on)
{
    for (uint32_t i = 0; i < search->set.count; i++) {
        const struct gt_running_pod *pod = &search->victims[search->set.list[i]];
        uint64_t anyway = search->anyway ? search->anyway[pod->node] : 0;
        search->freed[pod->node] = on ? search->freed[pod->node] | pod->mask : anyway;
    }
}

/* Plans without the pods of the set. */
static bool victims_fits(struct victim_search *search)
{
    struct gt_plan_failure failure;
    int64_t lacks = search->lacks;
    for (uint32_t i = 0; i < search->set.count && lacks > 0; i++)
        lacks -= gt_bit_count(search->victims[search->set.list[i]].mask);
    search->plans++;
    if (lacks > 0)
        return false;
    set_freed(search, true);
    bool fits = gt_plan_job(search->cluster, &search->request, &failure);
    set_freed(search, false);
    return fits;
}

/* Keeps only those pods of the set whose GPUs the last plan uses. */
static void keep_touched(struct victim_search *search)
{
    const struct gt_plan_request *request = &search->request;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < request->pod_count; i++)
        if (!request->pods[i].running)
            search->used[request->pods[i].node] |= request->pods[i].mask;
    for (uint32_t i = 0; i < search->set.count; i++) {
        const struct gt_running_pod *pod = &search->victims[search->set.list[i]];
        if (search->used[pod->node] & pod->mask)
            search->set.list[kept++] = search->set.list[i];
    }
    search->set.count = kept;
    for (uint32_t i = 0; i < request->pod_count; i++)
        if (!request->pods[i].running)
            search->used[request->pods[i].node] = 0;
}

/* Removes a pod, or all of its job, from the set if the job fits nevertheless. Says whether it does. */
static bool victims_try_without(struct victim_search *search, uint32_t victim, bool whole_job)
{
    uint32_t before = search->set.count, kept = 0;
    memcpy(search->before, search->set.list, before * sizeof(*search->set.list));
    for (uint32_t i = 0; i < before; i++)
        if (whole_job ? search->job_of[search->set.list[i]] != search->job_of[victim]
                      : search->set.list[i] != victim)
            search->set.list[kept++] = search->set.list[i];
    search->set.count = kept;
    bool fits = kept < before && victims_fits(search);
    if (fits) {
        keep_touched(search);
    } else {
        memcpy(search->set.list, search->before, before * sizeof(*search->set.list));
        search->set.count = before;
    }
    return fits;
}

static struct cost cost_of(struct victim_search *search)
{
    struct cost cost = {.pods = search->set.count};
    for (uint32_t i = 0; i < search->set.count; i++) {
        uint32_t job = search->job_of[search->set.list[i]];
        cost.jobs += !search->seen[job];
        search->seen[job] = true;
        cost.gpus += gt_bit_count(search->victims[search->set.list[i]].mask);
    }
    for (uint32_t i = 0; i < search->set.count; i++)
        search->seen[search->job_of[search->set.list[i]]] = false;
    return cost;
}

/* The most costly job first. */
static int victims_by_group(const void *a, const void *b, void *arg)
{
    const struct victim_search *search = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    GT_BY(search->job_of[y], search->job_of[x]);
    return (x > y) - (x < y);
}

/* Small ones first, so that a few large ones are left. */
static int victims_by_gpus(const void *a, const void *b, void *arg)
{
    const struct victim_search *search = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    GT_BY(gt_bit_count(search->victims[x].mask), gt_bit_count(search->victims[y].mask));
    return (x > y) - (x < y);
}

/* Reduces the current set, with which the job fits, as far as possible. */
static void reduce(struct victim_search *search)
{
    keep_touched(search);
    uint32_t count = search->set.count, *order = search->order;
    memcpy(order, search->set.list, count * sizeof(*order));
    qsort_r(order, count, sizeof(*order), victims_by_group, search);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || search->job_of[order[i]] != search->job_of[order[i - 1]])
            victims_try_without(search, order[i], true);
    /* Again after each change: with units of several sizes, more room may hurt, so that a pod may stay only
     * once another one stays. */
    qsort_r(order, count, sizeof(*order), victims_by_gpus, search);
    for (bool changed = true; changed && search->plans < PLANS_MAX;) {
        changed = false;
        for (uint32_t i = 0; i < count; i++)
            changed = victims_try_without(search, order[i], false) || changed;
    }
    struct cost cost = cost_of(search);
    if (compare_cost(&cost, &search->least) >= 0)
        return;
    search->least = cost;
    memcpy(search->best.list, search->set.list, search->set.count * sizeof(*search->best.list));
    search->best.count = search->set.count;
}

static void add_group(struct victim_search *search, const struct victim_groups *groups, uint32_t k)
{
    const struct group *group = &groups->group[k];
    memcpy(search->set.list + search->set.count, groups->list + group->first,
           group->count * sizeof(*search->set.list));
    search->set.count += group->count;
}

/* ---- sets to begin with ---- */

static void try_set(struct victim_search *search)
{
    if (search->plans < PLANS_MAX && victims_fits(search))
        reduce(search);
}

static void try_alone(struct victim_search *search, const struct victim_groups *groups)
{
    for (uint32_t k = 0, left = ALONE_MAX; k < groups->count && left; k++) {
        search->set.count = 0;
        add_group(search, groups, k);
        uint32_t before = search->plans;
        try_set(search);
        left -= search->plans - before > 1; /* many are too small: they cost one plan each */
    }
}

/* The smallest group of supernodes, by binary search. */
static void try_row(struct victim_search *search)
{
    uint32_t low = 0, high = search->supers.count; /* it fits with `high`, not with `low` */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        search->set.count = 0;
        for (uint32_t k = 0; k < middle; k++)
            add_group(search, &search->supers, k);
        if (victims_fits(search))
            high = middle;
        else
            low = middle;
    }
    search->set.count = 0;
    for (uint32_t k = 0; k < high; k++)
        add_group(search, &search->supers, k);
    try_set(search);
}

static void victims_try_advice(struct victim_search *search)
{
    struct gt_advise_job job;
    struct gt_advice advice = {0};
    if (!gt_advise_job_of(&search->request, &job))
        return;
    job.work = ADVISE_WORK;
    for (uint32_t i = 0; i < search->count; i++)
        search->victims[i].movable = search->job_of[i] != GT_NONE &&
                                     !gt_node_set_has(search->request.excluded, search->victims[i].node);
    if (gt_advise(search->cluster, search->victims, search->count, &job, &advice, NULL) < 0)
        return;
    search->set.count = advice.count;
    for (uint32_t i = 0; i < advice.count; i++)
        search->set.list[i] = advice.moved[i];
    free(advice.moved);
    if (advice.possible)
        try_set(search);
}

/* ---- candidates ---- */

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
    uint32_t left = search->super_of[x], right = search->super_of[y];
    return left != right ? (left > right) - (left < right) : (x > y) - (x < y);
}

static int by_group_cost(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    int order = compare_cost(&x->cost, &y->cost);
    return order ? order : (x->first > y->first) - (x->first < y->first);
}

/* Puts those that have the same key into one group, the least costly group first. */
static void make_groups(struct victim_search *search, struct victim_groups *groups, bool supers)
{
    const uint32_t *list = groups->list;
    groups->count = 0;
    for (uint32_t i = 0; i < search->allowed; groups->count++) {
        struct group *group = &groups->group[groups->count];
        uint32_t first = list[i];
        *group = (struct group){.first = i};
        for (; i < search->allowed && (supers ? search->super_of[list[i]] == search->super_of[first]
                                              : search->victims[list[i]].job == search->victims[first].job);
             i++) {
            group->count++;
            group->cost.gpus += gt_bit_count(search->victims[list[i]].mask);
        }
        search->set.count = 0;
        if (supers)
            add_group(search, groups, groups->count);
        group->cost = supers ? cost_of(search) : (struct cost){1, group->count, group->cost.gpus};
    }
    qsort(groups->group, groups->count, sizeof(*groups->group), by_group_cost);
}

/* Allows victims of no higher priority. */
static void allow(struct victim_search *search, int32_t priority)
{
    search->allowed = 0;
    for (uint32_t i = 0; i < search->count; i++) {
        search->job_of[i] = GT_NONE;
        if (search->victims[i].priority <= priority)
            search->jobs.list[search->allowed++] = i;
    }
    memcpy(search->supers.list, search->jobs.list, search->allowed * sizeof(*search->supers.list));
    qsort_r(search->jobs.list, search->allowed, sizeof(*search->jobs.list), by_job_number, search);
    make_groups(search, &search->jobs, false);
    for (uint32_t k = 0; k < search->jobs.count; k++)
        for (uint32_t i = 0; i < search->jobs.group[k].count; i++)
            search->job_of[search->jobs.list[search->jobs.group[k].first + i]] = k;
    qsort_r(search->supers.list, search->allowed, sizeof(*search->supers.list), by_super_number, search);
    make_groups(search, &search->supers, true);
}

static bool fits_without(struct victim_search *search, int32_t priority)
{
    search->set.count = 0;
    for (uint32_t i = 0; i < search->count; i++)
        if (search->victims[i].priority <= priority)
            search->set.list[search->set.count++] = i;
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
    if (victims_fits(search))
        return true;
    if (!search->count || !find_priority(search, priorities, &priority))
        return false;
    allow(search, priority);
    search->set.count = 0;
    for (uint32_t i = 0; i < search->count; i++)
        if (search->job_of[i] != GT_NONE)
            search->set.list[search->set.count++] = i;
    try_set(search);
    victims_try_advice(search);
    try_row(search);
    try_alone(search, &search->supers);
    try_alone(search, &search->jobs);
    memcpy(search->set.list, search->best.list, search->best.count * sizeof(*search->set.list));
    search->set.count = search->best.count;
    if (search->least.jobs == UINT32_MAX || !victims_fits(search))
        return false;
    for (uint32_t i = 0; i < search->set.count; i++)
        search->victims[search->set.list[i]].chosen = true;
    return true;
}

/* What does not change with the set. */
static void victims_read(struct victim_search *search)
{
    const struct gt_plan_request *request = &search->request;
    struct gt_cluster_node node;
    for (uint32_t n = 0; n < gt_cluster_nodes(search->cluster); n++) {
        search->freed[n] = search->anyway ? search->anyway[n] : 0;
        search->lacks -= gt_cluster_available(search->cluster)[n] + gt_bit_count(search->freed[n]);
    }
    for (uint32_t u = 0; u < request->unit_count; u++)
        for (uint32_t i = 0; i < request->units[u].pods; i++)
            search->lacks += request->pods[request->units[u].first + i].running ? 0 : request->units[u].gpus;
    for (uint32_t i = 0; i < search->count; i++)
        search->super_of[i] =
            gt_cluster_get_node(search->cluster, search->victims[i].node, &node) ? node.supernode : GT_NONE;
}

bool gt_victims_choose(struct gt_cluster *cluster, const struct gt_plan_request *request,
                       struct gt_running_pod *victims, uint32_t count)
{
    size_t n = (size_t)count + 1, nodes = (size_t)gt_cluster_nodes(cluster) + 1;
    gt_auto_free uint64_t *freed = calloc(nodes, sizeof(*freed)), *used = calloc(nodes, sizeof(*used));
    gt_auto_free bool *seen = calloc(n, sizeof(*seen));
    gt_auto_free uint32_t *numbers = calloc(8 * n, sizeof(*numbers));
    gt_auto_free struct group *groups = calloc(2 * n, sizeof(*groups));
    gt_auto_free int32_t *priorities = calloc(n, sizeof(*priorities));
    for (uint32_t i = 0; i < count; i++)
        victims[i].chosen = false;
    if (!freed || !used || !seen || !numbers || !groups || !priorities)
        return false;
    struct victim_search search = {.cluster = cluster,
                                   .request = *request,
                                   .anyway = request->freed,
                                   .victims = victims,
                                   .count = count,
                                   .freed = freed,
                                   .used = used,
                                   .set.list = numbers,
                                   .best.list = numbers + n,
                                   .least.jobs = UINT32_MAX,
                                   .before = numbers + 2 * n,
                                   .order = numbers + 3 * n,
                                   .jobs = {.list = numbers + 4 * n, .group = groups},
                                   .supers = {.list = numbers + 5 * n, .group = groups + n},
                                   .seen = seen,
                                   .job_of = numbers + 6 * n,
                                   .super_of = numbers + 7 * n};
    search.request.freed = freed;
    victims_read(&search);
    return victims_choose(&search, priorities);
}
