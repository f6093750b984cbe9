/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "scheduler-ext/core/plan_work.h"

/* ---- tallies ---- */

static uint32_t there_in(const struct gt_plan_rule *rule, uint32_t domain)
{
    return rule->there && rule->there[domain] != GT_NONE ? rule->there[domain] : 0;
}

static bool domain_counts(const struct gt_plan_rule *rule, uint32_t domain)
{
    return domain != GT_NONE && !(rule->there && rule->there[domain] == GT_NONE);
}

void gt_rule_count(struct rule_work *work, unsigned sort, uint32_t node, bool open, int sign)
{
    for (unsigned i = 0; i < work->rules->count; i++) {
        const struct gt_plan_rule *rule = &work->rules->rules[i];
        struct rule_tally *tally = &work->tallies[i];
        bool who = gt_rule_has(rule->who, sort), with = gt_rule_has(rule->with, sort);
        uint32_t domain = gt_rule_domain(rule, node);
        tally->to_come -= open && with ? (uint32_t)sign : 0;
        if (domain == GT_NONE)
            continue;
        tally->who[domain] += who ? (uint32_t)sign : 0;
        tally->open[domain] += who && open ? (uint32_t)sign : 0;
        tally->with[domain] += with ? (uint32_t)sign * (rule->take ? rule->take[sort] : 1) : 0;
        bool both = who && with && (open || rule->kind == GT_PEER_APART);
        tally->both[domain] += both ? (uint32_t)sign : 0;
        tally->placed += who ? (uint32_t)sign : 0;
        if (who)
            tally->home = tally->placed ? domain : GT_NONE;
        if (with && domain_counts(rule, domain))
            tally->sum += (uint64_t)(int64_t)sign;
    }
}

static bool tally_make(struct rule_work *work, unsigned at)
{
    const struct gt_plan_rule *rule = &work->rules->rules[at];
    struct rule_tally *tally = &work->tallies[at];
    uint32_t domains = rule->domain ? rule->domains : work->cluster->node_count;
    *tally = (struct rule_tally){.domains = domains, .home = GT_NONE};
    tally->who = calloc(4 * ((size_t)domains + 1), sizeof(*tally->who));
    if (!tally->who)
        return false;
    tally->with = tally->who + domains + 1;
    tally->open = tally->with + domains + 1;
    tally->both = tally->open + domains + 1;
    bool any = false;
    for (uint32_t d = 0; d < domains; d++) {
        tally->counting += domain_counts(rule, d) && (rule->domain || gt_core_has_node(work->cluster, d));
        tally->sum += there_in(rule, d);
        any |= there_in(rule, d) > 0;
    }
    for (uint32_t i = 0; i < work->request->pod_count; i++) {
        const struct gt_plan_pod *pod = &work->request->pods[i];
        unsigned sort = work->rules->sort[i];
        bool with = gt_rule_has(rule->with, sort);
        tally->to_come += !pod->running && with;
        tally->seeded |= with && (pod->running ? gt_core_has_node(work->cluster, pod->place.node)
                                               : !gt_rule_has(rule->who, sort));
        tally->begins |= with && !pod->running && gt_rule_has(rule->who, sort);
    }
    tally->begins &= !any && !tally->seeded;
    return true;
}

bool gt_rule_work_make(struct rule_work *work)
{
    for (unsigned i = 0; i < work->rules->count; i++)
        if (!tally_make(work, i))
            return false;
    for (uint32_t i = 0; i < work->request->pod_count; i++) {
        const struct gt_plan_pod *pod = &work->request->pods[i];
        if (work->rules->sort[i] != GT_PLAN_SORT_NONE && gt_core_has_node(work->cluster, pod->place.node))
            gt_rule_count(work, work->rules->sort[i], pod->place.node, !pod->running, 1);
    }
    return true;
}

void gt_rule_work_done(struct rule_work *work)
{
    for (unsigned i = 0; i < work->rules->count; i++)
        free(gt_steal(work->tallies[i].who)); /* the next gt_rule_work_make() may not come so far */
}

/* ---- checks ---- */

static bool rule_allows(const struct rule_work *work, unsigned at, unsigned sort, uint32_t node)
{
    const struct gt_plan_rule *rule = &work->rules->rules[at];
    const struct rule_tally *tally = &work->tallies[at];
    bool who = gt_rule_has(rule->who, sort), with = gt_rule_has(rule->with, sort);
    uint32_t domain = gt_rule_domain(rule, node);
    switch (rule->kind) {
    case GT_PEER_APART:
        return domain == GT_NONE || !((who && tally->with[domain]) || (with && tally->who[domain]));
    case GT_PEER_TOGETHER:
        if (!who || domain == GT_NONE)
            return !who;
        return tally->begins ? tally->home == GT_NONE || tally->home == domain
                             : there_in(rule, domain) || tally->seeded;
    case GT_PEER_TAKE:
        return !who || (uint64_t)tally->with[domain] + rule->take[sort] <= rule->there[domain];
    case GT_PEER_SPREAD:
        break;
    }
    if (!who)
        return true;
    if (!domain_counts(rule, domain))
        return false;
    /* The least domain cannot get more than all of them had if they were even. */
    uint64_t even = tally->counting < rule->fewest ? 0 : (tally->sum + tally->to_come) / tally->counting;
    return there_in(rule, domain) + tally->with[domain] + with <= rule->skew + even;
}

bool gt_rule_allows(const struct rule_work *work, unsigned sort, uint32_t node)
{
    if (sort >= work->rules->sorts)
        return true;
    bool allowed = !gt_node_set_has(&work->rules->barred[sort], node);
    for (unsigned i = 0; allowed && i < work->rules->count; i++)
        allowed = rule_allows(work, i, sort, node);
    return allowed;
}

static uint32_t least_domain(const struct rule_work *work, const struct gt_plan_rule *rule,
                             const struct rule_tally *tally)
{
    uint32_t least = GT_NONE;
    for (uint32_t d = 0; d < tally->domains; d++) {
        uint32_t pods = there_in(rule, d) + tally->with[d];
        if (domain_counts(rule, d) && (rule->domain || gt_core_has_node(work->cluster, d)) && pods < least)
            least = pods;
    }
    return tally->counting < rule->fewest || least == GT_NONE ? 0 : least;
}

static bool is_kept(const struct rule_work *work, unsigned at)
{
    const struct gt_plan_rule *rule = &work->rules->rules[at];
    const struct rule_tally *tally = &work->tallies[at];
    uint32_t least = rule->kind == GT_PEER_SPREAD ? least_domain(work, rule, tally) : 0, homes = 0;
    bool seeded = false, lone = false, begun = false;
    for (uint32_t d = 0; d < tally->domains; d++) {
        uint32_t with = tally->with[d];
        switch (rule->kind) {
        case GT_PEER_APART:
            if ((uint64_t)tally->who[d] * with > tally->both[d])
                return false;
            break;
        case GT_PEER_TOGETHER:
            homes += tally->who[d] > 0;
            seeded |= there_in(rule, d) || with > tally->both[d];
            lone |= tally->open[d] && !there_in(rule, d) && with == tally->both[d];
            begun |= tally->both[d] > 0;
            break;
        case GT_PEER_TAKE:
            if (with > rule->there[d])
                return false;
            break;
        case GT_PEER_SPREAD:
            if (tally->open[d] && there_in(rule, d) + with > rule->skew + least)
                return false;
            break;
        }
    }
    return rule->kind != GT_PEER_TOGETHER || (seeded ? !lone : !homes || (homes == 1 && begun));
}

/* Whether the scheduler would bind this pod now that those are bound which are counted. */
static bool passes_now(const struct rule_work *work, unsigned at, unsigned sort, uint32_t node)
{
    const struct gt_plan_rule *rule = &work->rules->rules[at];
    const struct rule_tally *tally = &work->tallies[at];
    uint32_t domain = gt_rule_domain(rule, node);
    if (!gt_rule_waits(rule) || !gt_rule_has(rule->who, sort))
        return true;
    bool with = gt_rule_has(rule->with, sort), any = false;
    uint32_t pods = there_in(rule, domain) + tally->with[domain];
    if (rule->kind == GT_PEER_SPREAD)
        return pods + with <= rule->skew + least_domain(work, rule, tally);
    for (uint32_t d = 0; d < tally->domains && !pods && !any; d++)
        any = there_in(rule, d) || tally->with[d];
    return pods || (with && !any);
}

/* Whether all pods get bound one after the other, where a rule of one may wait for another pod. In order:
 * each has to pass when its turn comes. */
static bool get_bound(struct rule_work *work)
{
    const struct gt_plan_request *request = work->request;
    const uint8_t *sorts = work->rules->sort;
    bool *bound = calloc((size_t)request->pod_count + 1, sizeof(*bound)), more = bound;
    for (uint32_t i = 0; i < request->pod_count; i++)
        if (!request->pods[i].running && sorts[i] != GT_PLAN_SORT_NONE)
            gt_rule_count(work, sorts[i], request->pods[i].place.node, true, -1);
    uint32_t left = 0;
    while (more) {
        more = false;
        left = 0;
        for (uint32_t i = 0; i < request->pod_count; i++) {
            if (request->pods[i].running || sorts[i] == GT_PLAN_SORT_NONE || bound[i])
                continue;
            bound[i] = true;
            for (unsigned k = 0; k < work->rules->count && bound[i]; k++)
                bound[i] = passes_now(work, k, sorts[i], request->pods[i].place.node);
            if (bound[i])
                gt_rule_count(work, sorts[i], request->pods[i].place.node, true, 1);
            more |= bound[i];
            left += !bound[i];
        }
        more &= !work->rules->in_order;
    }
    for (uint32_t i = 0; left && i < request->pod_count; i++)
        if (!request->pods[i].running && sorts[i] != GT_PLAN_SORT_NONE && !bound[i])
            gt_rule_count(work, sorts[i], request->pods[i].place.node, true, 1);
    bool all = bound && !left;
    free(bound);
    return all;
}

bool gt_rules_are_kept(struct rule_work *work)
{
    bool waits = false;
    for (uint32_t i = 0; i < work->request->pod_count; i++) {
        unsigned sort = work->rules->sort[i];
        uint32_t node = work->request->pods[i].place.node;
        if (work->request->pods[i].running || sort >= work->rules->sorts)
            continue;
        if (gt_node_set_has(&work->rules->barred[sort], node))
            return false;
        for (unsigned k = 0; k < work->rules->count; k++) {
            const struct gt_plan_rule *rule = &work->rules->rules[k];
            bool needs = gt_rule_has(rule->who, sort) && gt_rule_waits(rule);
            if (needs && !domain_counts(rule, gt_rule_domain(rule, node)))
                return false;
        }
    }
    for (unsigned i = 0; i < work->rules->count; i++)
        if (!is_kept(work, i))
            return false;
    for (unsigned i = 0; i < work->rules->count; i++)
        waits |= gt_rule_waits(&work->rules->rules[i]);
    return !waits || get_bound(work);
}
