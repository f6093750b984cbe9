/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/decide.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "scheduler-ext/cache/peers.h"

enum { RULES_SAID_MAX = 2048 };

/* A member without a pod gets one like the last before it with as many GPUs, or like any. */
static const struct gt_cache_pod *like_member(const struct gt_job_view *view, uint32_t at,
                                              const struct gt_cache_pod *last)
{
    unsigned gpus = view->job->units.units[view->members[at].unit].gpus;
    if (last && last->gpus == gpus)
        return last;
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].pod && view->members[i].pod->gpus == gpus)
            return view->members[i].pod;
    return last;
}

/* Pods of a job, each for those that may run on the same nodes. */
struct attempt_kinds {
    const struct gt_cache_pod *pods[GT_PLAN_SORTS_MAX];
    unsigned count;
    bool constrained, whole; /* whole: there are no more */
};

/* Whether no plan has restricted it to a node. */
static bool attempt_is_free(const struct gt_cache_pod *pod)
{
    return pod->state == GT_CACHE_GATED ||
           (pod->state == GT_CACHE_WAITING && pod->plan == GT_CACHE_PLAN_NONE);
}

/* Pods of one role come from one template; of those that a plan has restricted, only that is known. */
static bool attempt_are_alike(const struct gt_cache_pod *a, const struct gt_cache_pod *b)
{
    bool is_free = attempt_is_free(a);
    return is_free == attempt_is_free(b) &&
           (is_free ? gt_cache_pods_fit_alike(a, b) : strcmp(a->identity.role, b->identity.role) == 0);
}

static unsigned kind_of(const struct attempt_kinds *kinds, const struct gt_cache_pod *pod)
{
    unsigned kind = 0;
    while (kind < kinds->count && !attempt_are_alike(kinds->pods[kind], pod))
        kind++;
    return kind;
}

static struct attempt_kinds kinds_of(const struct gt_job_view *view)
{
    struct attempt_kinds kinds = {.whole = true};
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gt_cache_pod *pod = view->members[i].pod;
        if (!pod || !gt_member_is_open(&view->members[i]) || kind_of(&kinds, pod) < kinds.count)
            continue;
        kinds.whole = kinds.count < GT_PLAN_SORTS_MAX;
        if (!kinds.whole)
            break;
        kinds.pods[kinds.count++] = pod;
        kinds.constrained |= gt_cache_pod_is_constrained(view->cache, pod);
    }
    return kinds;
}

static bool kind_fits(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node)
{
    return attempt_is_free(pod) ? gt_cache_pod_fits_node(cache, pod, node)
                                : gt_cache_successor_fits_node(cache, pod, node);
}

/* How many of them fit. */
static unsigned kinds_that_fit(const struct gt_cache *cache, const struct attempt_kinds *kinds, uint32_t node)
{
    unsigned fit = 0;
    for (unsigned i = 0; i < kinds->count; i++)
        fit += kind_fits(cache, kinds->pods[i], node);
    return fit;
}

static int bar_unfit(struct gt_cache *cache, const struct gt_cache_pod *pod, struct gt_node_set *to,
                     struct gt_err **err)
{
    for (uint32_t n = 0; n < gt_cluster_nodes(gt_cache_cluster(cache)); n++)
        if (!kind_fits(cache, pod, n))
            GT_TRY(gt_node_set_add(to, n, err));
    return 0;
}

/* Tells pods of different kinds apart, and bars nodes where they may not run. */
static int add_kinds(struct gt_cache *cache, const struct attempt_kinds *kinds,
                     const struct gt_cache_peer_member *members, uint32_t count, struct gt_plan_rules *rules,
                     struct gt_err **err)
{
    int sort_of[GT_PLAN_SORTS_MAX][GT_PLAN_SORTS_MAX + 1], r = 0; /* [sort as it was][kind] */
    bool known[GT_PLAN_SORTS_MAX] = {0};
    memset(sort_of, 0xff, sizeof(sort_of));
    rules->incomplete |= !kinds->whole;
    for (uint32_t i = 0; i < count; i++) {
        unsigned sort = rules->sort[i];
        if (sort == GT_PLAN_SORT_NONE || !members[i].pod)
            continue;
        int *at = &sort_of[sort][kind_of(kinds, members[i].pod)];
        if (*at < 0) {
            *at = known[sort] ? gt_plan_rules_add_sort(rules, sort) : (int)sort;
            known[sort] = true;
            if (*at == -ENOMEM)
                return gt_fail_sys(err, ENOMEM, "plan");
            rules->incomplete |= *at < 0;
            *at = *at < 0 ? (int)sort : *at; /* it may run where both may */
        }
        rules->sort[i] = (uint8_t)*at;
    }
    for (unsigned sort = 0; sort < GT_PLAN_SORTS_MAX; sort++)
        for (unsigned kind = 0; kind < kinds->count && r >= 0; kind++)
            if (sort_of[sort][kind] >= 0)
                r = bar_unfit(cache, kinds->pods[kind], &rules->barred[sort_of[sort][kind]], err);
    return r;
}

static int make_members(const struct gt_job_view *view, struct gt_cache_peer_member **ret,
                        struct gt_err **err)
{
    struct gt_cache_peer_member *members = *ret = calloc((size_t)view->count + 1, sizeof(*members));
    const struct gt_cache_pod *last = NULL;
    for (uint32_t i = 0; members && i < view->count; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        const struct gt_cache_pod *pod = member->pod;
        bool has_place = pod && (pod->node_name || pod->plan == GT_CACHE_PLAN_ASSUMED);
        members[i].counted = has_place && member->state != GT_MEMBER_MOVING;
        members[i].pod = pod ? pod : like_member(view, i, last);
        members[i].guessed = !pod;
        last = pod ? pod : last;
    }
    return members ? 0 : gt_fail_sys(err, ENOMEM, "plan");
}

/* Of pods that are all alike, until they are told apart. */
static int make_plain_rules(const struct gt_cache_peer_member *members, uint32_t count,
                            struct gt_plan_rules **ret, struct gt_err **err)
{
    struct gt_plan_rules *rules = *ret = calloc(1, sizeof(*rules));
    if (rules)
        rules->sort = malloc((size_t)count + 1);
    GT_NEED(rules && rules->sort, err, "plan");
    rules->sorts = 1;
    for (uint32_t i = 0; i < count; i++)
        rules->sort[i] = members[i].pod && !members[i].counted ? 0 : GT_PLAN_SORT_NONE;
    return 0;
}

static int attempt_rules_make(const struct gt_job_view *view, const struct attempt_kinds *kinds,
                              struct gt_attempt *to, struct gt_err **err)
{
    bool any = gt_cache_has_ordered(view->cache), differ = to->partly > 0;
    for (uint32_t i = 0; i < view->count && !any; i++)
        any = view->members[i].pod && gt_cache_pod_has_peers(view->cache, view->members[i].pod);
    if (!any && !differ)
        return 0;
    gt_auto_free struct gt_cache_peer_member *members = NULL;
    GT_TRY(make_members(view, &members, err));
    to->said = (struct gt_buf)GT_BUF(RULES_SAID_MAX);
    if (any)
        GT_TRY(gt_cache_peer_rules(view->cache, members, view->count, &to->rules, &to->said, err));
    if (to->rules)
        to->rules->in_order = view->ungated; /* Volcano allocates so */
    if (!differ)
        return 0;
    if (!to->rules)
        GT_TRY(make_plain_rules(members, view->count, &to->rules, err));
    to->rules->excluded = &to->unusable;
    return add_kinds(view->cache, kinds, members, view->count, to->rules, err);
}

void gt_attempt_done(struct gt_attempt *attempt)
{
    free(attempt->pods);
    gt_node_set_done(&attempt->excluded);
    gt_node_set_done(&attempt->unusable);
    gt_demands_done(&attempt->demands);
    if (attempt->rules)
        gt_plan_rules_done(attempt->rules);
    free(attempt->rules);
    gt_buf_done(&attempt->said);
    *attempt = (struct gt_attempt){0};
}

/* The GPUs of a member with a place; 0: not known. */
static uint64_t attempt_gpus_of(const struct gt_job_view *view, uint32_t at)
{
    const struct gt_cache_pod *pod = view->members[at].pod;
    enum gt_member_state state = view->members[at].state;
    if (state == GT_MEMBER_MOVING || (!pod && state == GT_MEMBER_RESERVED))
        return view->reservations->reservations[at].promise.place.mask;
    bool planned = pod && (pod->plan == GT_CACHE_PLAN_ASSUMED || pod->plan == GT_CACHE_PLAN_RUNNING);
    return planned ? pod->planned.mask : 0;
}

/* Collects the supernodes of started runs with missing members. */
static int add_homes(const struct gt_cluster *cluster, const struct gt_job_view *view,
                     const struct gt_plan_pod *pods, struct gt_node_set *to, struct gt_err **err)
{
    for (uint32_t at = 0, first, end; at < view->count; at = end) {
        uint32_t home = GT_NONE;
        bool lacks = false;
        gt_job_view_run(view, at, &first, &end);
        for (uint32_t i = first; i < end; i++) {
            struct gt_cluster_node info;
            lacks = lacks || !pods[i].running;
            if (pods[i].running && gt_cluster_get_node(cluster, pods[i].place.node, &info))
                home = info.supernode;
        }
        if (lacks && home != GT_NONE)
            GT_TRY(gt_node_set_add(to, home, err));
    }
    return 0;
}

static int attempt_exclude(const struct gt_job_view *view, const struct attempt_kinds *kinds,
                           const struct gt_node_set *avoid, const struct gt_node_set *last_resort,
                           struct gt_attempt *attempt, struct gt_err **err)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    const struct gt_node_set *refused = view->refused && view->refused->nodes ? view->refused : NULL;
    const struct gt_node_set *spares = view->spares && view->spares->nodes ? view->spares : NULL;
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set homes = {0};
    int r = spares ? add_homes(cluster, view, attempt->pods, &homes, err) : 0;
    for (uint32_t n = 0; r >= 0 && (kinds->constrained || avoid || last_resort || refused || spares) &&
                         n < gt_cluster_nodes(cluster);
         n++) {
        struct gt_cluster_node info;
        if (!gt_cluster_get_node(cluster, n, &info) || !info.eligible)
            continue;
        unsigned fit = kinds->constrained ? kinds_that_fit(view->cache, kinds, n) : kinds->count;
        bool matches = fit || !kinds->count, is_refused = gt_node_set_has(refused, n);
        bool is_reserved = gt_node_set_has(avoid, n);
        bool is_spare = gt_node_set_has(spares, n) && !gt_node_set_has(&homes, info.supernode);
        bool is_usable =
            matches && !is_refused && !is_reserved && !is_spare && !gt_node_set_has(last_resort, n);
        if (is_usable && fit == kinds->count)
            continue;
        attempt->spares += matches && !is_refused && is_spare && !is_reserved;
        bool by_people = !matches && !gt_cache_may_use(view->cache, kinds->pods[0], n);
        attempt->by_people += by_people;
        attempt->unsuitable += !matches && !by_people;
        attempt->partly += is_usable;
        attempt->refused += matches && is_refused;
        attempt->reserved_nodes += matches && !is_refused && is_reserved;
        attempt->reserved_gpus += matches && !is_refused && is_reserved ? gt_bit_count(info.available) : 0;
        r = gt_node_set_add(&attempt->excluded, n, err);
        if (r >= 0 && !is_usable)
            r = gt_node_set_add(&attempt->unusable, n, err);
    }
    return r;
}

int gt_attempt_unfit(const struct gt_job_view *view, struct gt_node_set *to, struct gt_err **err)
{
    const struct attempt_kinds kinds = kinds_of(view);
    for (uint32_t n = 0; kinds.constrained && n < gt_cluster_nodes(gt_cache_cluster(view->cache)); n++)
        if (!kinds_that_fit(view->cache, &kinds, n) &&
            gt_cache_may_use(view->cache, kinds.pods[0], n)) /* that ends */
            GT_TRY(gt_node_set_add(to, n, err));
    return 0;
}

int gt_attempt_make(const struct gt_job_view *view, const struct gt_node_set *avoid,
                    const struct gt_node_set *last_resort, enum gt_cache_room room, struct gt_attempt *ret,
                    struct gt_err **err)
{
    struct gt_plan_pod *pods = ret->pods = calloc((size_t)view->count + 1, sizeof(*pods));
    GT_NEED(pods, err, "plan");
    for (uint32_t i = 0; i < view->count; i++)
        if (gt_member_is_open(&view->members[i]))
            pods[i].place.node = GT_NONE;
        else
            pods[i] = (struct gt_plan_pod){
                .running = true, .place = {gt_job_view_place(view, i, NULL), attempt_gpus_of(view, i)}};
    for (uint32_t i = 0; i < view->count; i++)
        pods[i].requests = view->job->members[i].gpus.requests;
    const struct attempt_kinds kinds = kinds_of(view);
    GT_TRY(attempt_exclude(view, &kinds, avoid, last_resort, ret, err));
    GT_TRY(attempt_rules_make(view, &kinds, ret, err));
    return gt_demands_make(view, room, &ret->demands, err);
}

struct gt_plan_request gt_attempt_request(const struct gt_job_view *view, const struct gt_attempt *attempt)
{
    return (struct gt_plan_request){.units = view->job->units.units,
                                    .unit_count = view->job->units.count,
                                    .pods = attempt->pods,
                                    .pod_count = view->count,
                                    .excluded = &attempt->excluded,
                                    .rules = attempt->rules,
                                    .flat = view->job->sizes.flat,
                                    .slow = view->job->sizes.slow,
                                    .within = view->job->sizes.within};
}

uint64_t gt_attempt_choose(struct gt_attempt *attempt, const struct gt_job_view *view,
                           const struct gt_waiting_units *waiting, uint32_t first, uint32_t count)
{
    uint64_t gpus = 0;
    for (uint32_t i = 0; i < waiting->count; i++) {
        const struct gt_plan_unit *unit = &view->job->units.units[waiting->units[i]];
        bool chosen = i >= first && i < first + count;
        for (uint32_t at = unit->first; at < unit->first + unit->pods; at++)
            if (gt_member_is_open(&view->members[at]))
                attempt->pods[at] = (struct gt_plan_pod){.running = !chosen,
                                                         .left_out = !chosen,
                                                         .place.node = GT_NONE,
                                                         .requests = attempt->pods[at].requests};
        gpus += chosen ? gt_part_gpus(view, waiting->units[i]) : 0;
    }
    return gpus;
}
