/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/victims.h"

#include <string.h>

#include "base/bits.h"
#include "scheduler-ext/core/advise.h"

enum {
    PLANS_MAX = 2000,       /* most plans for finding a less costly set */
    ALONE_MAX = 64,         /* most jobs, and supernodes, that are tried alone */
    ADVISE_WORK = 10000000, /* steps, see gt_advise() */
    EXACT_MAX = 12,         /* most units and lone pods of which all sets are tried */
    EXACT_WORK = 4000000,   /* most sets, times the nodes of the cluster */
};

#define VICTIM_STAYS INT64_MAX /* priority of a unit with a pod that may not go */

struct cost {
    int64_t priority; /* the highest one */
    uint32_t jobs, gpus, pods;
};

/* A unit, or a lone pod: it goes as a whole. Its first pod's entry has its data. */
struct victim_unit {
    int64_t priority; /* the highest one of its pods, or VICTIM_STAYS */
    uint32_t first;   /* of each pod */
    uint32_t job,
        super; /* of each pod: the group in `jobs` (GT_NONE: it may not go); that of the first pod */
    uint32_t gpus, bit;
    bool kept;
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
    struct victim_unit *units; /* [victim] */
    int64_t lacks, least;   /* the victims must free so many GPUs at least: for the job; as the caller says */
    uint64_t *freed, *used; /* [node] */
    struct victim_set set;  /* the current one */
    struct victim_set best; /* the least costly one */
    struct cost least_cost; /* priority VICTIM_STAYS: none is found */
    uint32_t *before, *order; /* scratch: the set before a step; in the order in which pods are tried */
    struct victim_groups jobs, supers;
    uint32_t allowed; /* how many may go */
    bool *seen;       /* [job group] scratch */
    uint32_t plans;
};

static int compare_cost(const struct cost *a, const struct cost *b)
{
    GT_BY(a->priority, b->priority);
    GT_BY(a->jobs, b->jobs);
    GT_BY(a->gpus, b->gpus);
    return (a->pods > b->pods) - (a->pods < b->pods);
}

static struct victim_unit *victim_unit_of(const struct victim_search *search, uint32_t victim)
{
    return &search->units[search->units[victim].first];
}

/* ---- the current set ---- */

static void set_freed(struct victim_search *search, bool on)
{
    for (uint32_t i = 0; i < search->set.count; i++) {
        const struct gt_running_pod *pod = &search->victims[search->set.list[i]];
        uint64_t anyway = search->anyway ? search->anyway[pod->place.node] : 0;
        search->freed[pod->place.node] = on ? search->freed[pod->place.node] | pod->place.mask : anyway;
    }
}

/* Plans without the pods of the set. */
static bool victims_fits(struct victim_search *search)
{
    struct gt_plan_failure failure;
    int64_t lacks = search->lacks;
    for (uint32_t i = 0; i < search->set.count && lacks > 0; i++)
        lacks -= gt_bit_count(search->victims[search->set.list[i]].place.mask);
    search->plans++;
    if (lacks > 0)
        return false;
    set_freed(search, true);
    bool fits = gt_plan_job(search->cluster, &search->request, &failure);
    set_freed(search, false);
    return fits;
}

/* Keeps only those units of the set whose GPUs the last plan uses, and as many more as must go. */
static void keep_touched(struct victim_search *search)
{
    const struct gt_plan_request *request = &search->request;
    uint32_t count = search->set.count, *list = search->set.list;
    int64_t spare = -search->least;
    for (uint32_t i = 0; i < request->pod_count; i++)
        if (!request->pods[i].running)
            search->used[request->pods[i].place.node] |= request->pods[i].place.mask;
    for (uint32_t i = 0; i < count; i++) {
        const struct gt_running_pod *pod = &search->victims[list[i]];
        spare += gt_bit_count(pod->place.mask);
        if (search->used[pod->place.node] & pod->place.mask)
            victim_unit_of(search, list[i])->kept = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct victim_unit *unit = &search->units[list[i]];
        if (unit->first != list[i] || unit->kept)
            continue;
        unit->kept = unit->gpus > spare;
        spare -= unit->kept ? 0 : unit->gpus;
    }
    search->set.count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (victim_unit_of(search, list[i])->kept)
            list[search->set.count++] = list[i];
    for (uint32_t i = 0; i < search->set.count; i++)
        victim_unit_of(search, list[i])->kept = false;
    for (uint32_t i = 0; i < request->pod_count; i++)
        if (!request->pods[i].running)
            search->used[request->pods[i].place.node] = 0;
}

/* Removes a unit, or all of its job, from the set if the job fits nevertheless. Says whether it does. */
static bool victims_try_without(struct victim_search *search, uint32_t victim, bool whole_job)
{
    uint32_t before = search->set.count, kept = 0;
    memcpy(search->before, search->set.list, before * sizeof(*search->set.list));
    for (uint32_t i = 0; i < before; i++)
        if (whole_job ? search->units[search->set.list[i]].job != search->units[victim].job
                      : search->units[search->set.list[i]].first != search->units[victim].first)
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
    struct cost cost = {.priority = INT64_MIN, .pods = search->set.count};
    for (uint32_t i = 0; i < search->set.count; i++) {
        uint32_t job = search->units[search->set.list[i]].job;
        cost.jobs += !search->seen[job];
        search->seen[job] = true;
        cost.gpus += gt_bit_count(search->victims[search->set.list[i]].place.mask);
        int64_t priority = victim_unit_of(search, search->set.list[i])->priority;
        cost.priority = priority > cost.priority ? priority : cost.priority;
    }
    for (uint32_t i = 0; i < search->set.count; i++)
        search->seen[search->units[search->set.list[i]].job] = false;
    return cost;
}

/* The most costly job first. */
static int victims_by_group(const void *a, const void *b, void *arg)
{
    const struct victim_search *search = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    GT_BY(search->units[y].job, search->units[x].job);
    return (x > y) - (x < y);
}

/* Small ones first, so that a few large ones are left. */
static int victims_by_gpus(const void *a, const void *b, void *arg)
{
    const struct victim_search *search = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    GT_BY(search->units[x].gpus, search->units[y].gpus);
    return (x > y) - (x < y);
}

static void victims_keep_best(struct victim_search *search, const struct cost *cost)
{
    search->least_cost = *cost;
    memcpy(search->best.list, search->set.list, search->set.count * sizeof(*search->best.list));
    search->best.count = search->set.count;
}

/* Reduces the current set, with which the job fits, as far as possible. */
static void reduce(struct victim_search *search)
{
    keep_touched(search);
    uint32_t count = search->set.count, *order = search->order;
    memcpy(order, search->set.list, count * sizeof(*order));
    qsort_r(order, count, sizeof(*order), victims_by_group, search);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || search->units[order[i]].job != search->units[order[i - 1]].job)
            victims_try_without(search, order[i], true);
    /* Again after each change: with units of several sizes, more room may hurt, so that a pod may stay only
     * once another one stays. */
    qsort_r(order, count, sizeof(*order), victims_by_gpus, search);
    for (bool changed = true; changed && search->plans < PLANS_MAX;) {
        changed = false;
        for (uint32_t i = 0; i < count; i++)
            if (search->units[order[i]].first == order[i])
                changed = victims_try_without(search, order[i], false) || changed;
    }
    struct cost cost = cost_of(search);
    if (compare_cost(&cost, &search->least_cost) < 0)
        victims_keep_best(search, &cost);
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
        search->victims[i].movable =
            search->units[i].job != GT_NONE &&
            !gt_node_set_has(search->request.excluded, search->victims[i].place.node);
    int r = gt_advise(search->cluster, search->victims, search->count, &job, &advice, NULL);
    for (uint32_t i = 0; i < search->count; i++)
        search->victims[i].movable = victim_unit_of(search, i)->priority != VICTIM_STAYS;
    if (r < 0)
        return;
    for (uint32_t i = 0; i < advice.count; i++)
        victim_unit_of(search, advice.moved[i])->kept = true;
    free(advice.moved);
    search->set.count = 0;
    for (uint32_t i = 0; i < search->count; i++)
        if (victim_unit_of(search, i)->kept)
            search->set.list[search->set.count++] = i;
    for (uint32_t i = 0; i < search->set.count; i++)
        victim_unit_of(search, search->set.list[i])->kept = false;
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
    uint32_t left = search->units[x].super, right = search->units[y].super;
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
        for (; i < search->allowed && (supers ? search->units[list[i]].super == search->units[first].super
                                              : search->victims[list[i]].job == search->victims[first].job);
             i++) {
            group->count++;
            group->cost.gpus += gt_bit_count(search->victims[list[i]].place.mask);
        }
        search->set.count = 0;
        if (supers)
            add_group(search, groups, groups->count);
        group->cost = supers ? cost_of(search)
                             : (struct cost){.jobs = 1, .gpus = group->cost.gpus, .pods = group->count};
        group->cost.priority = 0;
    }
    qsort(groups->group, groups->count, sizeof(*groups->group), by_group_cost);
}

/* Allows victims of no higher priority. */
static void allow(struct victim_search *search, int64_t priority)
{
    search->allowed = 0;
    for (uint32_t i = 0; i < search->count; i++) {
        search->units[i].job = GT_NONE;
        if (victim_unit_of(search, i)->priority <= priority)
            search->jobs.list[search->allowed++] = i;
    }
    memcpy(search->supers.list, search->jobs.list, search->allowed * sizeof(*search->supers.list));
    qsort_r(search->jobs.list, search->allowed, sizeof(*search->jobs.list), by_job_number, search);
    make_groups(search, &search->jobs, false);
    for (uint32_t k = 0; k < search->jobs.count; k++)
        for (uint32_t i = 0; i < search->jobs.group[k].count; i++)
            search->units[search->jobs.list[search->jobs.group[k].first + i]].job = k;
    qsort_r(search->supers.list, search->allowed, sizeof(*search->supers.list), by_super_number, search);
    make_groups(search, &search->supers, true);
}

static bool fits_without(struct victim_search *search, int64_t priority)
{
    search->set.count = 0;
    for (uint32_t i = 0; i < search->count; i++)
        if (victim_unit_of(search, i)->priority <= priority)
            search->set.list[search->set.count++] = i;
    return victims_fits(search);
}

static int by_priority(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The lowest priority such that the job fits without all units of at most this priority. */
static bool find_priority(struct victim_search *search, int64_t *priorities, int64_t *ret)
{
    uint32_t low = 0, high = 0; /* fits with high, with none below low */
    for (uint32_t i = 0; i < search->count; i++) {
        priorities[high] = victim_unit_of(search, i)->priority;
        high += priorities[high] != VICTIM_STAYS;
    }
    if (!high)
        return false;
    qsort(priorities, high--, sizeof(*priorities), by_priority);
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

/* All sets of a few units. */
static void try_every_set(struct victim_search *search)
{
    uint32_t pods = 0, units = 0, *list = search->order;
    for (uint32_t i = 0; i < search->count; i++) {
        struct victim_unit *unit = victim_unit_of(search, i);
        if (unit->priority == VICTIM_STAYS)
            continue;
        if (unit->first == i) {
            if (units == EXACT_MAX)
                return;
            unit->bit = units++;
        }
        list[pods++] = i;
    }
    if ((UINT64_C(1) << units) * gt_cluster_nodes(search->cluster) > EXACT_WORK)
        return;
    allow(search, VICTIM_STAYS - 1);
    for (uint32_t bits = 1; bits >> units == 0; bits++) {
        search->set.count = 0;
        for (uint32_t i = 0; i < pods; i++)
            if (bits >> victim_unit_of(search, list[i])->bit & 1)
                search->set.list[search->set.count++] = list[i];
        struct cost cost = cost_of(search);
        if (compare_cost(&cost, &search->least_cost) < 0 && victims_fits(search))
            victims_keep_best(search, &cost);
    }
}

static void try_some_sets(struct victim_search *search, int64_t priority)
{
    allow(search, priority);
    search->set.count = 0;
    for (uint32_t i = 0; i < search->count; i++)
        if (search->units[i].job != GT_NONE)
            search->set.list[search->set.count++] = i;
    try_set(search);
    victims_try_advice(search);
    try_row(search);
    try_alone(search, &search->supers);
    try_alone(search, &search->jobs);
}

static bool victims_choose(struct victim_search *search, int64_t *priorities)
{
    struct gt_advise_job job;
    int64_t priority;
    if (victims_fits(search))
        return true;
    if (find_priority(search, priorities, &priority))
        try_some_sets(search, priority);
    else if (gt_advise_job_of(&search->request, &job)) /* more room never hurts equal units */
        return false;
    try_every_set(search);
    memcpy(search->set.list, search->best.list, search->best.count * sizeof(*search->set.list));
    search->set.count = search->best.count;
    if (search->least_cost.priority == VICTIM_STAYS || !victims_fits(search))
        return false;
    for (uint32_t i = 0; i < search->set.count; i++)
        search->victims[search->set.list[i]].chosen = true;
    return true;
}

static int by_unit_number(const void *a, const void *b, void *arg)
{
    const struct gt_running_pod *victims = arg;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    GT_BY(victims[i].job, victims[k].job);
    GT_BY(victims[i].unit, victims[k].unit);
    return (i > k) - (i < k);
}

static void victims_read_units(struct victim_search *search)
{
    uint32_t count = 0, *order = search->order;
    for (uint32_t i = 0; i < search->count; i++) {
        const struct gt_running_pod *pod = &search->victims[i];
        search->units[i] = (struct victim_unit){.priority = pod->movable ? pod->priority : VICTIM_STAYS,
                                                .first = i,
                                                .gpus = gt_bit_count(pod->place.mask)};
        if (pod->unit != GT_NONE)
            order[count++] = i;
    }
    qsort_r(order, count, sizeof(*order), by_unit_number, search->victims);
    for (uint32_t i = 1; i < count; i++) {
        const struct gt_running_pod *pod = &search->victims[order[i]], *last = &search->victims[order[i - 1]];
        struct victim_unit *own = &search->units[order[i]], *unit = victim_unit_of(search, order[i - 1]);
        if (pod->job != last->job || pod->unit != last->unit)
            continue;
        own->first = unit->first;
        unit->gpus += own->gpus;
        unit->priority = own->priority > unit->priority ? own->priority : unit->priority;
    }
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
    if (search->lacks < search->least)
        search->lacks = search->least;
    victims_read_units(search);
    for (uint32_t i = 0; i < search->count; i++) {
        uint32_t at = search->victims[search->units[i].first].place.node;
        search->units[i].super = gt_cluster_get_node(search->cluster, at, &node) ? node.supernode : GT_NONE;
    }
}

bool gt_victims_choose(struct gt_cluster *cluster, const struct gt_plan_request *request,
                       struct gt_running_pod *victims, uint32_t count, uint32_t least)
{
    size_t n = (size_t)count + 1, nodes = (size_t)gt_cluster_nodes(cluster) + 1;
    gt_auto_free uint64_t *freed = calloc(nodes, sizeof(*freed)), *used = calloc(nodes, sizeof(*used));
    gt_auto_free bool *seen = calloc(n, sizeof(*seen));
    gt_auto_free uint32_t *numbers = calloc(6 * n, sizeof(*numbers));
    gt_auto_free struct group *groups = calloc(2 * n, sizeof(*groups));
    gt_auto_free struct victim_unit *units = calloc(n, sizeof(*units));
    gt_auto_free int64_t *priorities = calloc(n, sizeof(*priorities));
    for (uint32_t i = 0; i < count; i++)
        victims[i].chosen = false;
    if (!freed || !used || !seen || !numbers || !groups || !units || !priorities)
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
                                   .least_cost.priority = VICTIM_STAYS,
                                   .units = units,
                                   .least = least,
                                   .before = numbers + 2 * n,
                                   .order = numbers + 3 * n,
                                   .jobs = {.list = numbers + 4 * n, .group = groups},
                                   .supers = {.list = numbers + 5 * n, .group = groups + n},
                                   .seen = seen};
    search.request.freed = freed;
    victims_read(&search);
    return victims_choose(&search, priorities);
}
