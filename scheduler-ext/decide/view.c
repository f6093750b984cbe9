/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

enum { RANK_NAME_MAX = 16 };

void gt_job_view_free(struct gt_job_view *view)
{
    if (view->job)
        gt_job_free(view->job);
    free(view->members);
    free(view->open);
    free(view);
}

/* The input for the job; parallel arrays. */
struct inputs {
    struct gt_pod_meta *metas;
    struct gt_cache_pod **pods;
    uint32_t count;
    char (*names)[RANK_NAME_MAX];
    uint32_t *ranks; /* ascending, like the names */
};

static void free_inputs(struct inputs *inputs)
{
    free(inputs->metas);
    free(inputs->pods);
    free(inputs->names);
    free(inputs->ranks);
}
#define auto_inputs __attribute__((cleanup(free_inputs)))

static int view_collect(const struct gt_cache_job *job, struct inputs *to, struct gt_err **err)
{
    to->metas = calloc((size_t)job->pod_count + 1, sizeof(*to->metas));
    to->pods = calloc((size_t)job->pod_count + 1, sizeof(*to->pods));
    GT_NEED(to->metas && to->pods, err, "job %s", job->key);
    for (struct gt_cache_pod *pod = job->pods; pod && to->count < job->pod_count; pod = pod->next) {
        if (!gt_job_view_counts(pod))
            continue;
        to->metas[to->count] = pod->meta;
        to->pods[to->count++] = pod;
    }
    return 0;
}

static int view_by_name(const void *a, const void *b)
{
    const struct gt_cache_pod *const *x = a, *const *y = b;
    int order = gt_natural_order((*x)->meta.name, (*y)->meta.name);
    return order ? order : strcmp((*x)->meta.name, (*y)->meta.name);
}

/*
 * Gives pods whose names contain no rank new names that do: the rank with which they were planned, for others
 * the lowest free one, in the order of their names. `members`: number of members of the job, existing or not.
 */
static int name_by_rank(const struct gt_ranks *ranks, struct inputs *inputs, uint32_t members,
                        struct gt_err **err)
{
    uint32_t count = inputs->count, next = 0, size = members > count ? members : count;
    gt_auto_free uint32_t *taken = calloc((size_t)size + 1, sizeof(*taken)); /* [rank]: pod + 1 */
    inputs->names = calloc((size_t)count + 1, sizeof(*inputs->names));
    inputs->ranks = calloc((size_t)count + 1, sizeof(*inputs->ranks));
    GT_NEED(taken && inputs->names && inputs->ranks, err, "job");
    qsort(inputs->pods, count, sizeof(*inputs->pods), view_by_name);
    for (uint32_t i = 0; i < count; i++) {
        const struct gt_pod_meta *meta = &inputs->pods[i]->meta;
        uint32_t rank = gt_ranks_find(ranks, meta->namespace_, meta->name);
        inputs->metas[i] = *meta;
        if (rank < size && !taken[rank])
            taken[rank] = i + 1;
        else
            inputs->metas[i].name = NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (inputs->metas[i].name)
            continue;
        while (taken[next])
            next++;
        taken[next] = i + 1;
    }
    for (uint32_t rank = 0, i = 0; rank < size; rank++) {
        if (!taken[rank])
            continue;
        snprintf(inputs->names[i], RANK_NAME_MAX, "%010u", rank);
        inputs->metas[taken[rank] - 1].name = inputs->names[i];
        inputs->ranks[i++] = rank;
    }
    return 0;
}

/* Names give an order without gaps: where members are missing, the others are moved to their ranks. A rank is
 * never below the position in this order, so moving from the last one on overwrites nothing. */
static void spread(const struct inputs *inputs, struct gt_job *job)
{
    for (uint32_t i = inputs->count; i-- > 0;) {
        uint32_t to = inputs->ranks[i];
        if (to == i || to >= job->member_count || job->members[i].pod == GT_NONE ||
            job->members[to].pod != GT_NONE)
            continue;
        struct gt_job_member from = job->members[i], over = job->members[to];
        job->members[to] = (struct gt_job_member){over.rank, from.pod, from.gpus, over.template, over.needed};
        job->members[i] = (struct gt_job_member){from.rank, over.pod, over.gpus, from.template, from.needed};
    }
}

static enum gt_member_state view_state_of(const struct gt_job_view_spec *spec, const struct gt_cache_pod *pod)
{
    if (pod->state >= GT_CACHE_BOUND)
        return GT_MEMBER_PLACED;
    bool assumed = pod->plan == GT_CACHE_PLAN_ASSUMED;
    if (pod->state == GT_CACHE_GATED && !(spec->is_lifted && spec->is_lifted(spec->arg, pod)))
        return assumed ? GT_MEMBER_PLANNED : GT_MEMBER_TO_PLACE;
    if (spec->ungated && pod->plan == GT_CACHE_PLAN_NONE)
        return GT_MEMBER_TO_PLACE;
    return assumed ? GT_MEMBER_LIFTED : pod->plan == GT_CACHE_PLAN_LOST ? GT_MEMBER_LOST : GT_MEMBER_LOOSE;
}

/* Records the place of a member's pod, for when the pod is gone. */
static void view_record_place(struct gt_reservation *reservation, const struct gt_cluster *cluster,
                              const struct gt_cache_pod *pod)
{
    uint32_t node = pod->state >= GT_CACHE_BOUND ? pod->node : pod->planned.node;
    uint64_t mask = pod->plan == GT_CACHE_PLAN_NONE || pod->planned.node != node ? 0 : pod->planned.mask;
    *reservation = (struct gt_reservation){.state = GT_RESERVATION_POD,
                                           .promise = {.kind = GT_PROMISE_RESERVED,
                                                       .place.node = node,
                                                       .owner = pod->job->number,
                                                       .place.mask = mask},
                                           .node_digest = gt_reservations_node_digest(cluster, node),
                                           .offered_ms = reservation->offered_ms};
}

bool gt_job_view_has_ended(const struct gt_job_view *view, const struct gt_owner *owner, uint32_t at)
{
    return owner && (view->missing <= owner->ended || gt_owner_has_ended(owner, view->job->members[at].rank));
}

/* Finds the pods that have to leave, as recorded when their new places were reserved. */
static void find_moving(struct gt_job_view *view, const struct gt_job_view_spec *spec,
                        const struct gt_reservations *reservations)
{
    for (uint32_t i = 0; spec->leave_before_s && i < view->count; i++) {
        const struct gt_reservation *next = &reservations->reservations[i];
        bool has_place = next->state == GT_RESERVATION_HELD || next->state == GT_RESERVATION_POD;
        if (next->moves && has_place && gt_job_view_stays(&view->members[i]) &&
            view->members[i].pod->created_s <= spec->leave_before_s)
            gt_job_view_set_state(view, i, GT_MEMBER_MOVING);
    }
}

/* Places of members that left a started job are to be reserved again; not those of a job without any pod
 * left, since its pods were evicted for another job's room. */
static void update_reservations(struct gt_job_view *view, const struct gt_job_view_spec *spec,
                                struct gt_reservations *reservations, struct gt_cluster *cluster)
{
    for (uint32_t i = 0; i < view->count; i++) {
        struct gt_reservation *reservation = &reservations->reservations[i];
        const struct gt_cache_pod *pod = view->members[i].pod;
        uint64_t until = spec->wanted_until;
        if (reservation->moves && reservation->until < spec->moving_until)
            reservation->until = spec->moving_until;
        if (view->members[i].state == GT_MEMBER_MOVING)
            continue;
        if (pod && (pod->state >= GT_CACHE_BOUND || pod->plan == GT_CACHE_PLAN_ASSUMED)) {
            gt_reservations_release(reservations, cluster, i); /* it came with its place */
            view_record_place(reservation, cluster, pod);
        } else if (gt_node_set_has(spec->refused, gt_reservations_node(reservations, cluster, i)) ||
                   (!pod && ((spec->none_come && !gt_reservation_is_offered(reservation, spec->now)) ||
                             gt_job_view_has_ended(view, spec->owner, i))))
            gt_reservations_release(reservations, cluster, i);
        else if (reservation->state == GT_RESERVATION_POD && reservation->promise.place.mask &&
                 (view->states[GT_MEMBER_PLACED] || reservation->moves) &&
                 view->members[i].state != GT_MEMBER_LOST) /* which may still exist, and get it again */
            *reservation = (struct gt_reservation){
                .state = GT_RESERVATION_WANTED,
                .promise = reservation->promise,
                .node_digest = reservation->node_digest,
                .moves = reservation->moves,
                .returns =
                    !spec->owner || !spec->owner->sequential, /* otherwise missing pods always get places */
                .until = reservation->moves && until < spec->moving_until ? spec->moving_until : until,
                .offered_ms = reservation->offered_ms};
        else if (reservation->state == GT_RESERVATION_POD ||
                 (reservation->state == GT_RESERVATION_WANTED && view->whole && !reservation->moves))
            gt_reservations_release(reservations, cluster, i);
    }
}

/* GPUs of a unit without any pod; 0: it has one. */
static uint64_t gpus_ahead(const struct gt_job_view *view, const struct gt_plan_unit *unit)
{
    uint64_t gpus = 0;
    for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
        if (view->members[i].pod)
            return 0;
        gpus += unit->gpus;
    }
    return gpus;
}

/* GPUs of missing pods of started units. */
static uint64_t gpus_missing(const struct gt_job_view *view)
{
    uint64_t gpus = 0;
    for (uint32_t u = 0; u < view->job->units.count; u++) {
        const struct gt_plan_unit *unit = &view->job->units.units[u];
        bool begun = !gpus_ahead(view, unit);
        for (uint32_t i = unit->first; begun && i < unit->first + unit->pods; i++)
            gpus += view->members[i].pod ? 0 : unit->gpus;
    }
    return gpus;
}

/* Whether a unit has only gated pods, as the new units of a growing job. */
static bool is_fresh(const struct gt_job_view *view, const struct gt_plan_unit *unit)
{
    bool gated = false;
    for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        if (member->pod && member->state != GT_MEMBER_TO_PLACE && member->state != GT_MEMBER_PLANNED)
            return false;
        gated = gated || member->pod;
    }
    return gated;
}

/* Members without pods: those of a job or unit that begins, or of a job whose pods are created one by one,
 * get reservations for a time. A job begins until its first gate is removed; until then they are planned
 * again by a new leader, or when a reserved place was taken. No places are reserved where some members have
 * ended and it is not known which, nor for members whose pods are created later. */
static void judge_missing(struct gt_job_view *view, const struct gt_job_view_spec *spec,
                          const struct gt_reservations *reservations)
{
    const struct gt_owner *owner = spec->owner;
    bool begins = !gt_job_view_has_begun(view), sequential = owner && owner->sequential;
    bool known = owner && (!owner->ended || owner->ended_at) && !spec->none_come;
    bool in_time = spec->now < spec->missing_until;
    bool wanted = known && ((begins && (in_time || view->whole)) ||
                            (sequential && (in_time || view->states[GT_MEMBER_TO_PLACE])));
    uint64_t ahead = 0, missing = sequential ? gpus_missing(view) : 0;
    uint32_t turn = 0, at_once = owner ? owner->spec.at_once : 0;
    for (uint32_t u = 0; u < view->job->units.count; u++) {
        const struct gt_plan_unit *unit = &view->job->units.units[u];
        ahead += sequential ? gpus_ahead(view, unit) : 0;
        bool fits = !ahead || (ahead <= spec->ahead_gpus && ahead + missing <= spec->missing_gpus);
        bool wants = (wanted && fits) || (known && is_fresh(view, unit));
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
            struct gt_job_view_member *member = &view->members[i];
            enum gt_reservation_state reservation = reservations->reservations[i].state;
            turn += member->pod || !gt_job_view_has_ended(view, owner, i);
            wants = wants && (!at_once || turn <= at_once);
            if (member->pod)
                continue;
            member->state =
                reservation == GT_RESERVATION_HELD ? GT_MEMBER_RESERVED
                : wants && reservation != GT_RESERVATION_WANTED && !gt_job_view_has_ended(view, owner, i)
                    ? GT_MEMBER_TO_RESERVE
                    : GT_MEMBER_ABSENT;
            view->states[member->state]++;
        }
    }
}

/* In a job that runs unit by unit the pods of a unit are created one by one: they are planned when all
 * exist. */
static void judge_turns(struct gt_job_view *view, const struct gt_owner *owner)
{
    for (uint32_t u = 0; owner && owner->spec.at_once && u < view->job->units.count; u++) {
        const struct gt_plan_unit *unit = &view->job->units.units[u];
        uint32_t to_come = 0, end = unit->first + unit->pods;
        for (uint32_t i = unit->first; is_fresh(view, unit) && i < end; i++)
            to_come += view->members[i].state == GT_MEMBER_ABSENT && !gt_job_view_has_ended(view, owner, i);
        for (uint32_t i = unit->first; to_come && i < end; i++)
            if (view->members[i].state == GT_MEMBER_TO_PLACE)
                gt_job_view_set_state(view, i, GT_MEMBER_EARLY);
    }
}

static void set_units(struct gt_job_view *view)
{
    for (uint32_t u = 0; u < view->job->units.count; u++) {
        const struct gt_plan_unit *unit = &view->job->units.units[u];
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
            view->members[i].unit = u;
    }
}

uint32_t gt_job_view_place(const struct gt_job_view *view, uint32_t at, uint64_t *ret_mask)
{
    const struct gt_job_view_member *member = &view->members[at];
    const struct gt_cache_pod *pod = member->pod;
    uint64_t unused = 0;
    ret_mask = ret_mask ? ret_mask : &unused;
    *ret_mask = 0;
    switch (member->state) {
    case GT_MEMBER_PLACED:
        *ret_mask = pod->plan != GT_CACHE_PLAN_NONE && pod->planned.node == pod->node ? pod->planned.mask : 0;
        return pod->node;
    case GT_MEMBER_LIFTED:
    case GT_MEMBER_LOST: /* it cannot run elsewhere */
    case GT_MEMBER_PLANNED:
        *ret_mask = pod->planned.mask;
        return pod->planned.node;
    case GT_MEMBER_RESERVED:
    case GT_MEMBER_MOVING:
        *ret_mask = view->reservations->reservations[at].promise.place.mask;
        return gt_reservations_node(view->reservations, gt_cache_cluster(view->cache), at);
    default:
        return GT_NONE;
    }
}

unsigned gt_job_view_tier(const struct gt_job_view *view, uint32_t number)
{
    const struct gt_job_units *units = &view->job->units;
    const struct gt_plan_unit *unit = number < units->count ? &units->units[number] : NULL;
    struct gt_cluster_supernode supernode;
    uint32_t common = GT_NONE;
    for (uint32_t i = unit ? unit->first : 0; unit && i < unit->first + unit->pods; i++) {
        uint32_t node = gt_job_view_place(view, i, NULL);
        if (node != GT_NONE && !gt_cluster_widen(gt_cache_cluster(view->cache), node, &common))
            return 0;
    }
    return gt_cluster_get_supernode(gt_cache_cluster(view->cache), common, &supernode) ? supernode.tier : 0;
}

bool gt_job_view_unit_moves(const struct gt_job_view *view, uint32_t unit)
{
    const struct gt_plan_unit *of = &view->job->units.units[unit];
    for (uint32_t i = of->first; view->states[GT_MEMBER_MOVING] && i < of->first + of->pods; i++)
        if (view->members[i].state == GT_MEMBER_MOVING)
            return true;
    return false;
}

void gt_job_view_run(const struct gt_job_view *view, uint32_t at, uint32_t *ret_first, uint32_t *ret_end)
{
    const struct gt_plan_unit *unit = &view->job->units.units[view->members[at].unit];
    uint32_t size = unit->atom ? unit->atom : unit->pods;
    *ret_first = unit->first + (at - unit->first) / size * size;
    *ret_end = *ret_first + size;
}

bool gt_job_view_is_torn(const struct gt_job_view *view, uint32_t first, uint32_t end)
{
    uint32_t super = GT_NONE;
    for (uint32_t i = first; i < end && i < view->count; i++) {
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(gt_cache_cluster(view->cache), gt_job_view_place(view, i, NULL), &node))
            continue;
        if (super != GT_NONE && super != node.supernode)
            return true;
        super = node.supernode;
    }
    return false;
}

void gt_job_view_set_state(struct gt_job_view *view, uint32_t at, enum gt_member_state state)
{
    struct gt_job_view_member *member = &view->members[at];
    bool was_open = gt_member_is_open(member);
    view->states[member->state]--;
    view->states[state]++;
    member->state = state;
    view->open[member->unit] += gt_member_is_open(member) - was_open;
}

/* Pods without GPUs, and ended pods, count for the minimum only. */
static void set_minimum(struct gt_job_view *view, uint32_t reported, uint32_t ended)
{
    const struct gt_job *job = view->job;
    uint32_t minimum = job->minimum > reported ? job->minimum : reported;
    uint32_t without = job->others + ended;
    view->minimum = minimum > without ? minimum - without : 1;
    if (!minimum || view->minimum > view->count)
        view->minimum = view->count;
}

int gt_job_view_make(struct gt_cache *cache, struct gt_cache_job *job, const struct gt_job_view_spec *given,
                     struct gt_reservations *reservations, struct gt_job_view **ret, struct gt_err **err)
{
    const struct gt_owner *owner = given->owner;
    auto_inputs struct inputs inputs = {0};
    gt_auto_job_view struct gt_job_view *view = calloc(1, sizeof(*view));
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    GT_NEED(view, err, "job %s", job->key);
    view->cache = cache;
    view->reservations = reservations;
    const struct gt_job_spec *spec = owner ? &owner->spec : NULL;
    GT_TRY(view_collect(job, &inputs, err));
    GT_TRY(gt_job_make(inputs.metas, inputs.count, spec, &view->job, err));
    if (gt_job_kind_is_nameless(view->job->kind) && view->job->units.units) {
        uint32_t members = view->job->member_count + view->job->rest;
        gt_job_free(gt_steal(view->job)); /* its sentences had the real names */
        GT_TRY(name_by_rank(given->ranks, &inputs, members, err));
        GT_TRY(gt_job_make(inputs.metas, inputs.count, spec, &view->job, err));
        spread(&inputs, view->job);
    }
    view->grouped = view->job->units.units != NULL;
    if (view->grouped && owner && owner->refusal)
        return gt_fail(err, EINVAL, "%s", owner->refusal);
    view->count = view->job->member_count;
    view->members = calloc((size_t)view->count + 1, sizeof(*view->members));
    view->open = calloc((size_t)view->job->units.count + 1, sizeof(*view->open));
    GT_NEED(view->members && view->open, err, "job %s", job->key);
    view->whole = true;
    view->missing = view->count;
    view->refused = given->refused;
    view->ungated = given->ungated;
    view->spares = given->spares;
    for (uint32_t i = 0; i < view->count; i++) {
        uint32_t at = view->job->members[i].pod;
        if (at == GT_NONE)
            continue;
        struct gt_job_view_member *member = &view->members[i];
        member->pod = inputs.pods[at];
        member->state = view_state_of(given, member->pod);
        view->states[member->state]++;
        view->missing--;
        view->whole = view->whole && member->state == GT_MEMBER_TO_PLACE;
    }
    uint32_t ended = owner ? owner->ended : 0;
    set_minimum(view, given->minimum, ended < view->missing ? ended : view->missing);
    reservations->owner = job->number;
    reservations->cache = cache;
    reservations->job = job;
    GT_TRY(gt_reservations_resize(reservations, cluster, view->grouped ? view->count : 0, err));
    if (view->grouped) {
        set_units(view);
        find_moving(view, given, reservations);
        update_reservations(view, given, reservations, cluster);
        gt_reservations_extend(reservations, given->missing_until);
        gt_reservations_sync(reservations, cluster, given->now);
        judge_missing(view, given, reservations);
        for (uint32_t i = 0; i < view->count; i++)
            view->open[view->members[i].unit] += gt_member_is_open(&view->members[i]);
        judge_turns(view, owner);
    }
    *ret = gt_steal(view);
    return 0;
}
