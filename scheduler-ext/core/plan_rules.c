/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

#include <errno.h>
#include <stdlib.h>

void gt_plan_rules_done(struct gt_plan_rules *rules)
{
    free(rules->sort);
    for (unsigned i = 0; i < rules->sorts; i++)
        gt_node_set_done(&rules->barred[i]);
    for (unsigned i = 0; i < rules->count; i++) {
        free(rules->rules[i].domain);
        free(rules->rules[i].there);
        free(rules->rules[i].take);
    }
    *rules = (struct gt_plan_rules){0};
}

static bool has_same_nodes(const struct gt_node_set *a, const struct gt_node_set *b)
{
    if (gt_node_set_count(a) != gt_node_set_count(b))
        return false;
    for (uint32_t n = 0; (n = gt_node_set_next(a, n)) != UINT32_MAX; n++)
        if (!gt_node_set_has(b, n))
            return false;
    return true;
}

static bool plan_rules_are_alike(const struct gt_plan_rules *rules, unsigned a, unsigned b)
{
    for (unsigned i = 0; i < rules->count; i++) {
        const struct gt_plan_rule *rule = &rules->rules[i];
        if (gt_rule_has(rule->who, a) != gt_rule_has(rule->who, b) ||
            gt_rule_has(rule->with, a) != gt_rule_has(rule->with, b) ||
            (rule->take && rule->take[a] != rule->take[b]))
            return false;
    }
    return has_same_nodes(&rules->barred[a], &rules->barred[b]);
}

void gt_plan_rules_merge(struct gt_plan_rules *rules, uint32_t pods)
{
    uint8_t to[GT_PLAN_SORT_NONE + 1];
    for (unsigned s = 0; s <= GT_PLAN_SORT_NONE; s++)
        for (to[s] = 0; to[s] < s && (s >= rules->sorts || !plan_rules_are_alike(rules, to[s], s));)
            to[s]++;
    for (uint32_t i = 0; i < pods; i++)
        rules->sort[i] = to[rules->sort[i]];
}

int gt_plan_rules_add_sort(struct gt_plan_rules *rules, unsigned like)
{
    const struct gt_node_set *barred = &rules->barred[like];
    unsigned made = rules->sorts;
    if (made == GT_PLAN_SORTS_MAX)
        return -ENOSPC;
    rules->barred[made] = (struct gt_node_set){0};
    rules->sorts++;
    for (uint32_t n = 0; (n = gt_node_set_next(barred, n)) != UINT32_MAX; n++)
        if (gt_node_set_add(&rules->barred[made], n, NULL) < 0)
            return -ENOMEM;
    for (unsigned i = 0; i < rules->count; i++) {
        rules->rules[i].who |= (rules->rules[i].who >> like & 1) << made;
        rules->rules[i].with |= (rules->rules[i].with >> like & 1) << made;
        if (rules->rules[i].take)
            rules->rules[i].take[made] = rules->rules[i].take[like];
    }
    return (int)made;
}

/* ---- rules about single nodes ---- */

/* The sort and GPUs of all pods to be placed; false: they differ, or none is. */
static bool only_sort(const struct rule_work *work, unsigned *ret_sort, unsigned *ret_gpus)
{
    const struct gt_plan_request *request = work->request;
    *ret_sort = *ret_gpus = 0;
    bool any = false;
    for (uint32_t u = 0; u < request->unit_count; u++)
        for (uint32_t i = request->units[u].first; i < request->units[u].first + request->units[u].pods;
             i++) {
            if (request->pods[i].running)
                continue;
            unsigned sort = work->rules->sort[i], gpus = request->units[u].gpus;
            if (any && (sort != *ret_sort || gpus != *ret_gpus))
                return false;
            any = true;
            *ret_sort = sort;
            *ret_gpus = gpus;
        }
    return any && *ret_sort < work->rules->sorts;
}

/* Whether the rule only limits the pods of this sort on each node, wherever its other pods are placed. */
static bool is_separable(const struct rule_work *work, unsigned at, unsigned sort)
{
    const struct gt_plan_rule *rule = &work->rules->rules[at];
    const struct rule_tally *tally = &work->tallies[at];
    if (rule->kind == GT_PEER_TAKE)
        return true;
    if (rule->kind == GT_PEER_APART)
        return !rule->domain || !gt_rule_has(rule->who & rule->with, sort);
    return !gt_rule_has(rule->who, sort) ||
           (rule->kind == GT_PEER_TOGETHER && !tally->begins && !tally->seeded);
}

/* How many such pods the node, which may get one, may still get by rules that count what they take. */
static unsigned rule_pods(const struct rule_work *work, unsigned sort, uint32_t node)
{
    uint32_t most = GT_GPUS_MAX;
    for (unsigned i = 0; i < work->rules->count; i++) {
        const struct gt_plan_rule *rule = &work->rules->rules[i];
        if (rule->kind != GT_PEER_TAKE || !rule->take[sort])
            continue;
        uint32_t pods = (rule->there[node] - work->tallies[i].with[node]) / rule->take[sort];
        most = pods < most ? pods : most;
    }
    return most;
}

/* Lowers the limits: nodes barred to all, one pod on each where pods are apart, and what pods take there.
 * Returns their number. */
static uint32_t rule_limits(struct rule_work *work, unsigned sort, unsigned gpus,
                            struct gt_plan_limit *limits)
{
    uint32_t count = 0;
    const struct gt_cluster *cluster = work->cluster;
    bool apart = false;
    for (unsigned i = 0; i < work->rules->count; i++) {
        const struct gt_plan_rule *rule = &work->rules->rules[i];
        apart |= rule->kind == GT_PEER_APART && !rule->domain && gt_rule_has(rule->who & rule->with, sort);
    }
    for (uint32_t n = 0; n < cluster->node_count; n++) {
        unsigned most = !cluster->usable[n]              ? 0
                        : !gt_rule_allows(work, sort, n) ? 0
                        : apart                          ? gpus
                                                         : rule_pods(work, sort, n) * gpus;
        if (most < cluster->usable[n])
            limits[count++] = (struct gt_plan_limit){n, most};
    }
    return count;
}

/* Both lists have a node at most once; `of` is in order of nodes. */
static uint32_t merge_limits(const struct gt_plan_request *request, uint32_t nodes, uint32_t *of,
                             struct gt_plan_limit *limits, uint32_t count)
{
    for (uint32_t n = 0; n < nodes; n++)
        of[n] = GT_NONE;
    for (uint32_t i = 0; i < count; i++)
        of[limits[i].node] = i;
    for (uint32_t i = 0; i < request->limit_count; i++) {
        const struct gt_plan_limit *limit = &request->limits[i];
        uint32_t at = limit->node < nodes ? of[limit->node] : GT_NONE;
        if (at == GT_NONE)
            limits[count++] = *limit;
        else if (limit->gpus < limits[at].gpus)
            limits[at].gpus = limit->gpus;
    }
    return count;
}

/* Plans by node sets and limits alone. *ret_exact: where that fails, there is no plan. */
static bool plan_by_limits(struct rule_work *work, struct gt_plan_failure *ret_failure, bool *ret_exact)
{
    unsigned sort, gpus;
    uint32_t nodes = work->cluster->node_count;
    struct gt_plan_request limited = *work->request;
    struct gt_plan_limit *limits = malloc(((size_t)nodes + work->request->limit_count + 1) * sizeof(*limits));
    uint32_t *of = malloc(((size_t)nodes + 1) * sizeof(*of));
    bool one = only_sort(work, &sort, &gpus), made = gt_rule_work_make(work) && limits && of;
    *ret_exact = made && one;
    for (unsigned i = 0; i < work->rules->count && *ret_exact; i++)
        *ret_exact = is_separable(work, i, sort);
    if (made && one) {
        limited.limit_count =
            merge_limits(work->request, nodes, of, limits, rule_limits(work, sort, gpus, limits));
        limited.limits = limits;
        limited.rules = *ret_exact ? NULL : limited.rules; /* the limits say it all */
    }
    gt_rule_work_done(work);
    bool fits = made, kept = false;
    /* A job that is brought together may lie in domains that a rule does not allow. */
    for (unsigned way = 0, ways = work->cluster->uppers ? 2 : 1; way < ways && fits && !kept; way++) {
        limited.flat |= way > 0;
        fits = kept = gt_plan_job(work->cluster, &limited, ret_failure);
        if (fits && !*ret_exact) {
            kept = gt_rule_work_make(work) && gt_rules_are_kept(work);
            gt_rule_work_done(work);
        }
    }
    free(limits);
    free(of);
    return kept;
}

static bool begin_and_plan(struct rule_work *work, struct gt_plan_failure *ret_failure, bool *ret_exact)
{
    const struct gt_plan_request *request = work->request;
    for (uint32_t i = 0; i < request->pod_count; i++)
        if (!request->pods[i].running)
            request->pods[i].place.node = GT_NONE;
    ret_failure->inexact = false; /* where there is no memory to plan */
    return plan_by_limits(work, ret_failure, ret_exact);
}

bool gt_plan_ruled(struct gt_cluster *cluster, const struct gt_plan_request *request,
                   struct gt_plan_failure *ret_failure)
{
    if (!request->rules)
        return gt_plan_job(cluster, request, ret_failure);
    if (gt_plan_has_tier(cluster, request))
        return gt_plan_within(cluster, request, gt_plan_ruled, ret_failure);
    struct rule_work work = {.cluster = cluster, .request = request, .rules = request->rules};
    struct gt_plan_request wider = *request;
    bool exact;
    if (begin_and_plan(&work, ret_failure, &exact))
        return true;
    if (request->rules->excluded) {
        wider.excluded = request->rules->excluded;
        work.request = request = &wider;
        if (begin_and_plan(&work, ret_failure, &exact))
            return true;
    }
    exact = exact && !ret_failure->inexact;
    if (!exact && gt_rule_search(&work, &exact)) {
        bool within = true; /* the search does not look at tiers */
        for (uint32_t u = 0; u < request->unit_count; u++)
            within &= !request->units[u].within || request->units[u].tier <= request->units[u].within;
        if (within)
            return true;
        exact = false;
    }
    bool fits = gt_plan_job(cluster, request, ret_failure);
    if (fits)
        *ret_failure =
            (struct gt_plan_failure){.reason = GT_PLAN_RULED, .supernode = GT_NONE, .could_fit = true};
    /* What does not fit without the rules fits with none of them. */
    ret_failure->inexact = (fits || ret_failure->inexact) && (!exact || request->rules->incomplete);
    return false;
}
