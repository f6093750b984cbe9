/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "scheduler-ext/core/plan_work.h"

/*
 * The search where rules are not about single nodes: run by run, the largest first, each in the supernode
 * with the least room that suffices, its pods where they leave the domains most even, then beside each other,
 * then on the fullest node. It goes back where that fails.
 */
enum {
    RULE_PODS_MAX = 1 << 13, /* depth of the recursion */
    RULE_WORK = 1 << 19,     /* nodes that are looked at, beside twice all nodes for each run: milliseconds */
    RULE_WORK_MAX = 1 << 23,
};

struct rule_run {
    const struct gt_plan_unit *unit;
    uint32_t first, count;
};

struct rule_search {
    struct rule_work *work;
    struct job *job;
    struct rule_run *runs;
    uint32_t run_count, budget;
};

static int rule_run_compare(const void *x, const void *y)
{
    const struct rule_run *a = x, *b = y;
    uint64_t size_a = (uint64_t)a->count * a->unit->gpus, size_b = (uint64_t)b->count * b->unit->gpus;
    if (size_a != size_b)
        return size_a > size_b ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

static bool make_runs(struct rule_search *search)
{
    struct job *job = search->job;
    search->runs = malloc(((size_t)job->pod_count + 1) * sizeof(*search->runs));
    if (!search->runs)
        return false;
    for (uint32_t u = 0; u < job->unit_count; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        uint32_t size = gt_unit_run(unit);
        for (uint32_t first = unit->first; first < unit->first + unit->pods; first += size)
            if (!gt_run_is_placed(job, first, size))
                search->runs[search->run_count++] = (struct rule_run){unit, first, size};
    }
    qsort(search->runs, search->run_count, sizeof(*search->runs), rule_run_compare);
    return true;
}

static bool node_accepts(struct rule_search *search, const struct rule_run *run, uint32_t pod, uint32_t node)
{
    search->budget -= search->budget > 0;
    return gt_draft_count(search->job, node) >= run->unit->gpus &&
           gt_rule_allows(search->work, search->work->rules->sort[pod], node);
}

/* How good a node is for a pod: less is better. */
static uint64_t search_key(const struct rule_search *search, uint32_t pod, uint32_t node, uint32_t beside)
{
    uint64_t pods = 0;
    for (unsigned i = 0; i < search->work->rules->count; i++) {
        const struct gt_plan_rule *rule = &search->work->rules->rules[i];
        uint32_t domain = gt_rule_domain(rule, node);
        if (rule->kind == GT_PEER_SPREAD && gt_rule_has(rule->who, search->work->rules->sort[pod]))
            pods += search->work->tallies[i].with[domain] + (rule->there ? rule->there[domain] : 0);
    }
    return pods << 40 | (uint64_t)(node != beside) << 39 | (uint64_t)gt_draft_count(search->job, node) << 32 |
           node;
}

/* The best node after the one of `*key` (0 begins). */
static uint32_t next_node(struct rule_search *search, const struct rule_run *run, uint32_t pod,
                          uint32_t super, uint32_t beside, uint64_t *key)
{
    const struct gt_cluster *cluster = search->job->cluster;
    uint64_t best = UINT64_MAX;
    for (uint32_t node = cluster->supers[super].first_node; node != GT_NONE; node = cluster->next[node]) {
        uint64_t own =
            node_accepts(search, run, pod, node) ? search_key(search, pod, node, beside) : UINT64_MAX;
        if (own < best && own >= *key)
            best = own;
    }
    *key = best + 1;
    return best == UINT64_MAX ? GT_NONE : (uint32_t)best;
}

static bool place_run(struct rule_search *search, uint32_t at);

static bool search_place_pods(struct rule_search *search, uint32_t at, uint32_t pod, uint32_t super,
                              uint32_t beside)
{
    const struct rule_run *run = &search->runs[at];
    struct job *job = search->job;
    while (pod < run->first + run->count && job->pods[pod].running)
        pod++;
    if (pod == run->first + run->count)
        return place_run(search, at + 1);
    unsigned sort = search->work->rules->sort[pod], gpus = run->unit->gpus;
    uint64_t key = 0;
    for (uint32_t node;
         search->budget && (node = next_node(search, run, pod, super, beside, &key)) != GT_NONE;) {
        job->cluster->draft_count[node] = (uint8_t)(gt_draft_count(job, node) - gpus);
        job->pods[pod].place.node = node;
        gt_rule_count(search->work, sort, node, true, 1);
        bool found = search_place_pods(search, at, pod + 1, super, node);
        job->cluster->draft_count[node] = (uint8_t)(gt_draft_count(job, node) + gpus);
        if (found)
            return true;
        gt_rule_count(search->work, sort, node, true, -1);
        job->pods[pod].place.node = GT_NONE;
    }
    return false;
}

/* How many pods of the run a supernode could hold; at most `need` are counted. */
static uint32_t room_of(struct rule_search *search, const struct rule_run *run, uint32_t super, uint32_t pod)
{
    const struct gt_cluster *cluster = search->job->cluster;
    uint32_t room = 0;
    for (uint32_t node = cluster->supers[super].first_node; node != GT_NONE; node = cluster->next[node]) {
        bool takes = false; /* one of its pods */
        for (uint32_t i = pod; i < run->first + run->count && !takes; i++)
            takes = (i == pod || search->work->rules->sort[i] != search->work->rules->sort[i - 1]) &&
                    node_accepts(search, run, i, node);
        room += takes ? gt_core_slots(run->unit->gpus, gt_draft_count(search->job, node)) : 0;
    }
    return room;
}

/* The supernode where a pod of the run runs, or GT_NONE; false: they run in several. */
static bool home_of_run(const struct rule_search *search, const struct rule_run *run, uint32_t *ret)
{
    *ret = GT_NONE;
    for (uint32_t i = run->first; i < run->first + run->count; i++) {
        uint32_t super = search->job->pods[i].running ? gt_pod_super(search->job, i) : GT_NONE;
        if (super != GT_NONE && *ret != GT_NONE && super != *ret)
            return false;
        *ret = super != GT_NONE ? super : *ret;
    }
    return true;
}

/* Whether the unit has pods in the supernode: then its further atoms go there first. */
static bool has_unit(const struct rule_search *search, const struct gt_plan_unit *unit, uint32_t super)
{
    for (uint32_t i = unit->first; unit->atom && i < unit->first + unit->pods; i++)
        if (gt_pod_super(search->job, i) == super)
            return true;
    return false;
}

static bool place_run(struct rule_search *search, uint32_t at)
{
    if (at == search->run_count)
        return gt_rules_are_kept(search->work);
    const struct rule_run *run = &search->runs[at];
    const struct gt_cluster *cluster = search->job->cluster;
    uint32_t home, need = 0, pod = GT_NONE;
    for (uint32_t i = run->first + run->count; i-- > run->first;)
        if (!search->job->pods[i].running) {
            pod = i;
            need++;
        }
    if (!home_of_run(search, run, &home))
        return false;
    for (uint64_t key = 0; search->budget;) {
        uint64_t best = UINT64_MAX;
        for (uint32_t s = 0; s < cluster->super_count; s++) {
            if (cluster->supers[s].tier != 1 || (home != GT_NONE && s != home))
                continue;
            uint32_t room = room_of(search, run, s, pod);
            uint64_t own = (uint64_t)!has_unit(search, run->unit, s) << 63 | (uint64_t)room << 32 | s;
            if (room >= need && own >= key && own < best)
                best = own;
        }
        if (best == UINT64_MAX)
            return false;
        key = best + 1;
        if (search_place_pods(search, at, run->first, (uint32_t)best, GT_NONE))
            return true;
    }
    return false;
}

bool gt_rule_search(struct rule_work *work, bool *ret_exact)
{
    struct job job = gt_plan_begin(work->cluster, work->request);
    struct rule_search search = {.work = work, .job = &job};
    *ret_exact = false;
    if (job.pod_count > RULE_PODS_MAX)
        return false;
    gt_plan_clear(&job);
    bool made = gt_rule_work_make(work) && make_runs(&search);
    uint64_t budget = RULE_WORK + UINT64_C(2) * search.run_count * work->cluster->node_count;
    search.budget = budget < RULE_WORK_MAX ? (uint32_t)budget : RULE_WORK_MAX;
    bool found = made && place_run(&search, 0);
    *ret_exact = made && search.budget > 0;
    for (uint32_t at = 0; at < search.run_count && found; at++) {
        struct gt_plan_unit *unit = &job.units[search.runs[at].unit - job.units];
        unit->feasible = 0;
        unit->searched = true;
        for (uint32_t i = search.runs[at].first; i < search.runs[at].first + search.runs[at].count; i++)
            if (!job.pods[i].running)
                gt_place_on_node(&job, job.pods[i].place.node, unit->gpus, &job.pods[i], 1);
    }
    if (found)
        gt_plan_finish(&job);
    free(search.runs);
    gt_rule_work_done(work);
    return found;
}
