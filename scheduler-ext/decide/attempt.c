/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/attempt.h"

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

static int attempt_rules_make(struct gt_cache *cache, const struct gt_job_view *view, struct gt_attempt *to,
                              struct gt_err **err)
{
    bool any = false;
    for (uint32_t i = 0; i < view->count && !any; i++)
        any = view->members[i].pod && gt_cache_pod_has_peers(cache, view->members[i].pod);
    if (!any)
        return 0;
    gt_auto_free struct gt_cache_peer_member *members = calloc(view->count, sizeof(*members));
    if (!members)
        return gt_fail_sys(err, ENOMEM, "plan");
    const struct gt_cache_pod *last = NULL;
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        const struct gt_cache_pod *pod = member->pod;
        bool has_place = pod && (pod->node_name || pod->plan == GT_CACHE_PLAN_ASSUMED);
        members[i].counted = has_place && member->state != GT_MEMBER_MOVING;
        members[i].pod = pod ? pod : like_member(view, i, last);
        members[i].guessed = !pod;
        last = pod ? pod : last;
    }
    to->said = (struct gt_buf)GT_BUF(RULES_SAID_MAX);
    return gt_cache_peer_rules(cache, members, view->count, &to->rules, &to->said, err);
}

static void attempt_rules_done(struct gt_attempt *attempt)
{
    if (attempt->rules)
        gt_plan_rules_done(attempt->rules);
    free(attempt->rules);
    gt_buf_done(&attempt->said);
}

void gt_attempt_done(struct gt_attempt *attempt)
{
    free(attempt->pods);
    gt_node_set_done(&attempt->excluded);
    gt_demands_done(&attempt->demands);
    attempt_rules_done(attempt);
    *attempt = (struct gt_attempt){0};
}

/* The GPUs of a member with a place; 0: not known. */
static uint64_t attempt_gpus_of(const struct gt_job_view *view, const struct gt_reservations *reservations,
                                uint32_t at)
{
    const struct gt_cache_pod *pod = view->members[at].pod;
    if (view->members[at].state == GT_MEMBER_MOVING)
        return reservations->reservations[at].place.mask;
    if (pod)
        return pod->plan == GT_CACHE_PLAN_ASSUMED || pod->plan == GT_CACHE_PLAN_RUNNING ? pod->plan_mask : 0;
    return view->members[at].state == GT_MEMBER_RESERVED ? reservations->reservations[at].place.mask : 0;
}

/* Pods of one role come from one template, so one pod of each role is checked. */
static unsigned representatives(const struct gt_cache *cache, const struct gt_job_view *view,
                                const struct gt_cache_pod *to[static GT_JOB_ROLES_MAX])
{
    unsigned count = 0;
    for (uint32_t i = 0; i < view->count && count < GT_JOB_ROLES_MAX; i++) {
        const struct gt_cache_pod *pod = view->members[i].pod;
        unsigned known = 0;
        if (!pod || !gt_member_is_open(&view->members[i]))
            continue;
        while (known < count && strcmp(to[known]->identity.role, pod->identity.role) != 0)
            known++;
        if (known == count)
            to[count++] = pod;
    }
    unsigned constrained = 0;
    for (unsigned i = 0; i < count; i++)
        if (gt_cache_pod_is_constrained(cache, to[i]))
            to[constrained++] = to[i];
    return constrained;
}

/* Whether no plan has restricted it to a node. */
static bool attempt_is_free(const struct gt_cache_pod *pod)
{
    return pod->state == GT_CACHE_GATED ||
           (pod->state == GT_CACHE_WAITING && pod->plan == GT_CACHE_PLAN_NONE);
}

static bool matches_all(const struct gt_cache *cache, const struct gt_cache_pod *const *pods, unsigned count,
                        uint32_t node)
{
    for (unsigned i = 0; i < count; i++)
        if (attempt_is_free(pods[i]) ? !gt_cache_pod_fits_node(cache, pods[i], node)
                                     : !gt_cache_successor_fits_node(cache, pods[i], node))
            return false;
    return true;
}

/* Collects the supernodes of started runs with missing members. */
static int add_homes(const struct gt_cluster *cluster, const struct gt_job_view *view,
                     const struct gt_plan_pod *pods, struct gt_node_set *to, struct gt_err **err)
{
    int r = 0;
    for (uint32_t at = 0, first, end; at < view->count && r >= 0; at = end) {
        uint32_t home = GT_NONE;
        bool lacks = false;
        gt_job_view_run(view, at, &first, &end);
        for (uint32_t i = first; i < end; i++) {
            struct gt_cluster_node info;
            lacks = lacks || !pods[i].running;
            if (pods[i].running && gt_cluster_get_node(cluster, pods[i].node, &info))
                home = info.supernode;
        }
        if (lacks && home != GT_NONE)
            r = gt_node_set_add(to, home, err);
    }
    return r;
}

static int attempt_exclude(struct gt_cache *cache, const struct gt_job_view *view,
                           const struct gt_node_set *avoid, const struct gt_node_set *leave,
                           struct gt_attempt *attempt, struct gt_err **err)
{
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    const struct gt_cache_pod *pods[GT_JOB_ROLES_MAX];
    unsigned constrained = representatives(cache, view, pods);
    const struct gt_node_set *refused = view->refused && view->refused->nodes ? view->refused : NULL;
    const struct gt_node_set *spares = view->spares && view->spares->nodes ? view->spares : NULL;
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set homes = {0};
    int r = spares ? add_homes(cluster, view, attempt->pods, &homes, err) : 0;
    for (uint32_t n = 0;
         r >= 0 && (constrained || avoid || leave || refused || spares) && n < gt_cluster_nodes(cluster);
         n++) {
        struct gt_cluster_node info;
        if (!gt_cluster_get_node(cluster, n, &info) || !info.eligible)
            continue;
        bool matches = !constrained || matches_all(cache, pods, constrained, n),
             is_refused = gt_node_set_has(refused, n);
        bool is_reserved = gt_node_set_has(avoid, n);
        bool is_spare = gt_node_set_has(spares, n) && !gt_node_set_has(&homes, info.supernode);
        if (matches && !is_refused && !is_reserved && !is_spare && !gt_node_set_has(leave, n))
            continue;
        attempt->spares += matches && !is_refused && !is_reserved && is_spare;
        attempt->unsuitable += !matches;
        attempt->refused += matches && is_refused;
        attempt->reserved_nodes += matches && !is_refused && is_reserved;
        attempt->reserved_gpus += matches && !is_refused && is_reserved ? gt_bit_count(info.available) : 0;
        r = gt_node_set_add(&attempt->excluded, n, err);
    }
    return r;
}

int gt_attempt_unfit(struct gt_cache *cache, const struct gt_job_view *view, struct gt_node_set *to,
                     struct gt_err **err)
{
    const struct gt_cache_pod *pods[GT_JOB_ROLES_MAX];
    unsigned constrained = representatives(cache, view, pods);
    int r = 0;
    for (uint32_t n = 0; r >= 0 && constrained && n < gt_cluster_nodes(gt_cache_cluster(cache)); n++)
        if (!matches_all(cache, pods, constrained, n))
            r = gt_node_set_add(to, n, err);
    return r;
}

int gt_attempt_make(struct gt_cache *cache, const struct gt_job_view *view,
                    const struct gt_reservations *reservations, const struct gt_node_set *avoid,
                    const struct gt_node_set *leave, enum gt_cache_room room, struct gt_attempt *ret,
                    struct gt_err **err)
{
    struct gt_plan_pod *pods = ret->pods = calloc((size_t)view->count + 1, sizeof(*pods));
    if (!pods)
        return gt_fail_sys(err, ENOMEM, "plan");
    for (uint32_t i = 0; i < view->count; i++)
        if (gt_member_is_open(&view->members[i]))
            pods[i].node = GT_NONE;
        else
            pods[i] = (struct gt_plan_pod){
                .running = true,
                .node = gt_job_view_place(view, reservations, gt_cache_cluster(cache), i, NULL),
                .mask = attempt_gpus_of(view, reservations, i)};
    GT_TRY(attempt_exclude(cache, view, avoid, leave, ret, err));
    GT_TRY(attempt_rules_make(cache, view, ret, err));
    return gt_demands_make(cache, view, room, &ret->demands, err);
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
                                    .within = view->job->sizes.within,
                                    .several = gt_job_view_has_several(view)};
}

uint64_t gt_attempt_choose(struct gt_attempt *attempt, const struct gt_job_view *view,
                           const struct gt_waiting_units *part, uint32_t first, uint32_t count)
{
    uint64_t gpus = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct gt_plan_unit *unit = &view->job->units.units[part->units[i]];
        bool chosen = i >= first && i < first + count;
        for (uint32_t at = unit->first; at < unit->first + unit->pods; at++)
            if (gt_member_is_open(&view->members[at]))
                attempt->pods[at] =
                    (struct gt_plan_pod){.running = !chosen, .left_out = !chosen, .node = GT_NONE};
        gpus += chosen ? gt_part_gpus(view, part->units[i]) : 0;
    }
    return gpus;
}
