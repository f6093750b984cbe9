/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "scheduler-ext/core/drain.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/decide/demands.h"
#include "scheduler-ext/decide/part.h"

/* ---- one attempt ---- */

/* One attempt: what gt_plan_job() is given. */
struct attempt {
    struct gt_plan_pod *pods;
    struct gt_node_set excluded;
    struct gt_demands demands;
    uint32_t unsuitable; /* of those: the job's pods may not run there */
    uint32_t refused;    /* of the others: its scheduler refused them */
    uint32_t kept;       /* of the others: kept for somebody else */
    uint32_t spares;     /* of the others: kept for replacements */
    uint32_t kept_gpus;  /* GPUs that are available there */
};

static void attempt_done(struct attempt *attempt)
{
    free(attempt->pods);
    gt_node_set_done(&attempt->excluded);
    gt_demands_done(&attempt->demands);
    *attempt = (struct attempt){0};
}

#define auto_attempt __attribute__((cleanup(attempt_done)))

static uint32_t place_of(const struct gt_job_view *view, const struct gt_reservations *reservations,
                         const struct gt_cluster *cluster, uint32_t at)
{
    uint64_t mask;
    return gt_job_view_place(view, reservations, cluster, at, &mask);
}

/* The GPUs of a member that has its place; 0: not known. */
static uint64_t gpus_of(const struct gt_job_view *view, const struct gt_reservations *reservations,
                        uint32_t at)
{
    const struct gt_cache_pod *pod = view->members[at].pod;
    if (view->members[at].state == GT_MEMBER_MOVING)
        return reservations->reservations[at].mask;
    if (pod)
        return pod->plan == GT_CACHE_PLAN_HELD || pod->plan == GT_CACHE_PLAN_KEPT ? pod->plan_mask : 0;
    return view->members[at].state == GT_MEMBER_RESERVED ? reservations->reservations[at].mask : 0;
}

/* Pods of one role are made from one template: one of each is asked. */
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
    unsigned choosy = 0;
    for (unsigned i = 0; i < count; i++)
        if (gt_cache_pod_is_constrained(cache, to[i]))
            to[choosy++] = to[i];
    return choosy;
}

/* Whether no plan has bound it to a node. */
static bool is_free(const struct gt_cache_pod *pod)
{
    return pod->state == GT_CACHE_GATED ||
           (pod->state == GT_CACHE_WAITING && pod->plan == GT_CACHE_PLAN_NONE);
}

static bool suits_all(const struct gt_cache *cache, const struct gt_cache_pod *const *pods, unsigned count,
                      uint32_t node)
{
    for (unsigned i = 0; i < count; i++)
        if (is_free(pods[i]) ? !gt_cache_pod_fits_node(cache, pods[i], node)
                             : !gt_cache_successor_fits_node(cache, pods[i], node))
            return false;
    return true;
}

/* The supernodes of runs that have begun and lack members. */
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

static int exclude(struct gt_cache *cache, const struct gt_job_view *view, const struct gt_node_set *avoid,
                   const struct gt_node_set *leave, struct attempt *attempt, struct gt_err **err)
{
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    const struct gt_cache_pod *pods[GT_JOB_ROLES_MAX];
    unsigned choosy = representatives(cache, view, pods);
    const struct gt_node_set *refused = view->refused && view->refused->nodes ? view->refused : NULL;
    const struct gt_node_set *spares = view->spares && view->spares->nodes ? view->spares : NULL;
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set homes = {0};
    int r = spares ? add_homes(cluster, view, attempt->pods, &homes, err) : 0;
    for (uint32_t n = 0;
         r >= 0 && (choosy || avoid || leave || refused || spares) && n < gt_cluster_nodes(cluster); n++) {
        struct gt_cluster_node info;
        if (!gt_cluster_get_node(cluster, n, &info) || !info.eligible)
            continue;
        bool suits = !choosy || suits_all(cache, pods, choosy, n), is_refused = gt_node_set_has(refused, n);
        bool is_kept = gt_node_set_has(avoid, n);
        bool is_spare = gt_node_set_has(spares, n) && !gt_node_set_has(&homes, info.supernode);
        if (suits && !is_refused && !is_kept && !is_spare && !gt_node_set_has(leave, n))
            continue;
        attempt->spares += suits && !is_refused && !is_kept && is_spare;
        attempt->unsuitable += !suits;
        attempt->refused += suits && is_refused;
        attempt->kept += suits && !is_refused && is_kept;
        attempt->kept_gpus += suits && !is_refused && is_kept ? gt_bit_count(info.available) : 0;
        r = gt_node_set_add(&attempt->excluded, n, err);
    }
    return r;
}

/* Leaves out the nodes that the job's pods may not use, that its scheduler refused, and those of `avoid` and
 * `leave` (NULL: none). attempt_done() in any case. */
static int attempt_make(struct gt_cache *cache, const struct gt_job_view *view,
                        const struct gt_reservations *reservations, const struct gt_node_set *avoid,
                        const struct gt_node_set *leave, enum gt_cache_room room, struct attempt *ret,
                        struct gt_err **err)
{
    struct gt_plan_pod *pods = ret->pods = calloc((size_t)view->count + 1, sizeof(*pods));
    if (!pods)
        return gt_fail_sys(err, ENOMEM, "plan");
    for (uint32_t i = 0; i < view->count; i++)
        if (gt_member_is_open(&view->members[i]))
            pods[i].node = GT_NONE;
        else
            pods[i] = (struct gt_plan_pod){.running = true,
                                           .node = place_of(view, reservations, gt_cache_cluster(cache), i),
                                           .mask = gpus_of(view, reservations, i)};
    int r = exclude(cache, view, avoid, leave, ret, err);
    return r < 0 ? r : gt_demands_make(cache, view, room, &ret->demands, err);
}

static struct gt_plan_request request_of(const struct gt_job_view *view, const struct attempt *attempt)
{
    return (struct gt_plan_request){.units = view->job->units.units,
                                    .unit_count = view->job->units.count,
                                    .pods = attempt->pods,
                                    .pod_count = view->count,
                                    .excluded = &attempt->excluded};
}

static bool plan_attempt(struct gt_cache *cache, const struct gt_job_view *view, struct attempt *attempt,
                         struct gt_plan_failure *ret_failure)
{
    const struct gt_plan_request request = request_of(view, attempt);
    return gt_demands_plan(cache, &attempt->demands, &request, ret_failure);
}

/* ---- a part of the units that wait ---- */

struct part_search {
    struct gt_cache *cache;
    const struct gt_job_view *view;
    struct attempt *attempt;
    const struct gt_decide_spec *spec; /* NULL: no limit */
    struct gt_plan_failure *failure;   /* of the last attempt that failed */
    struct gt_waiting_units part;
};

/* Those that are left out stand there as if they ran somewhere, and bind nothing. */
static uint64_t choose_units(struct part_search *search, uint32_t first, uint32_t count)
{
    uint64_t gpus = 0;
    for (uint32_t i = 0; i < search->part.count; i++) {
        const struct gt_plan_unit *unit = &search->view->job->units.units[search->part.units[i]];
        bool chosen = i >= first && i < first + count;
        for (uint32_t at = unit->first; at < unit->first + unit->pods; at++)
            if (gt_member_is_open(&search->view->members[at]))
                search->attempt->pods[at] = (struct gt_plan_pod){.running = !chosen, .node = GT_NONE};
        gpus += chosen ? gt_part_gpus(search->view, search->part.units[i]) : 0;
    }
    return gpus;
}

static bool fits_units(struct part_search *search, uint32_t first, uint32_t count, bool limited)
{
    uint64_t max = search->spec ? search->spec->gpus_max : 0, gpus = choose_units(search, first, count);
    return (!limited || !max || gpus <= max) &&
           plan_attempt(search->cache, search->view, search->attempt, search->failure);
}

/* The most of the units from `first` on for which there is room, `least` or more. */
static bool find_most(struct part_search *search, uint32_t first, uint32_t least)
{
    uint32_t low = least, high = search->part.count - first; /* fits with low, not with high */
    if (least > high)
        return false;
    if (fits_units(search, first, high, high > least))
        return true;
    if (least == high || !fits_units(search, first, least, false))
        return false;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (fits_units(search, first, middle, true))
            low = middle;
        else
            high = middle;
    }
    return fits_units(search, first, low, low > least);
}

/* Where a unit that has begun finds no room, further ones may. */
static bool find_part(struct part_search *search)
{
    bool found = gt_waiting_units_make(search->view, &search->part, NULL) == 0 && search->part.count;
    if (found && !find_most(search, 0, search->part.least)) {
        uint32_t started = search->part.started;
        struct gt_plan_failure first = *search->failure;
        found = started && gt_part_suffices(search->view) && find_most(search, started, 1);
        if (!found)
            *search->failure = first;
    }
    gt_waiting_units_done(&search->part);
    return found;
}

/* All of it, else as much as may run without the rest. */
static bool find_places(struct gt_cache *cache, const struct gt_job_view *view,
                        const struct gt_decide_spec *spec, struct attempt *attempt,
                        struct gt_plan_failure *ret_failure)
{
    struct part_search search = {cache, view, attempt, spec, ret_failure, {0}};
    return gt_part_is_allowed(view) ? find_part(&search) : plan_attempt(cache, view, attempt, ret_failure);
}

/* Whether there is anything to say of where it lies. */
static bool lies_somewhere(const struct attempt *attempt, const struct gt_plan_unit *unit)
{
    for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
        if (attempt->pods[i].node != GT_NONE)
            return true;
    return false;
}

static uint32_t supernode_of(const struct gt_cluster *cluster, uint32_t node)
{
    struct gt_cluster_node info;
    return gt_cluster_get_node(cluster, node, &info) ? info.supernode : GT_NONE;
}

/* A pod that comes to a kept place gets it, where the others of its run are still in that supernode. */
static bool comes_home(struct gt_cache *cache, struct gt_job_view *view, struct gt_reservations *reservations,
                       uint32_t at)
{
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    struct gt_reservation *reservation = &reservations->reservations[at];
    struct gt_cache_pod *pod = view->members[at].pod;
    uint32_t first, end, node = gt_reservations_node(reservations, cluster, at);
    if (reservation->state != GT_RESERVATION_HELD || node == GT_NONE ||
        gt_bit_count(reservation->mask) != pod->gpus)
        return false;
    if (gt_cache_pod_is_constrained(cache, pod) && !gt_cache_pod_fits_node(cache, pod, node))
        return false;
    gt_job_view_run(view, at, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        uint32_t other = place_of(view, reservations, cluster, i);
        if (i != at && other != GT_NONE && supernode_of(cluster, other) != supernode_of(cluster, node))
            return false;
    }
    uint64_t mask = reservation->mask;
    gt_reservations_release(reservations, cluster, at);
    if (!gt_cache_room_for(cache, node, gt_cache_pod_request(pod), GT_CACHE_ROOM_NOW) ||
        gt_cache_plan_pod(cache, pod, node, mask, NULL) < 0)
        return false;
    gt_job_view_set_state(view, at, GT_MEMBER_PLANNED);
    return true;
}

static void take_home(struct gt_cache *cache, struct gt_job_view *view, struct gt_reservations *reservations)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].state == GT_MEMBER_TO_PLACE && !comes_home(cache, view, reservations, i))
            gt_reservations_release(reservations, gt_cache_cluster(cache), i);
}

static void undo(struct gt_cache *cache, struct gt_job_view *view, struct gt_reservations *reservations,
                 const struct gt_plan_pod *pods, uint32_t until)
{
    for (uint32_t i = 0; i < until; i++) {
        if (pods[i].running)
            continue;
        if (view->members[i].state == GT_MEMBER_TO_PLACE)
            gt_cache_unplan_pod(cache, view->members[i].pod);
        else if (view->members[i].state == GT_MEMBER_TO_RESERVE)
            gt_reservations_release(reservations, gt_cache_cluster(cache), i);
    }
}

/* Writes the plan into the cache and the reservations: all or none of it. */
static int commit(struct gt_cache *cache, struct gt_job_view *view, struct gt_reservations *reservations,
                  const struct gt_plan_pod *pods, uint64_t reserve_until, struct gt_err **err)
{
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    bool reserved = false;
    for (uint32_t i = 0; i < view->count; i++) {
        struct gt_job_view_member *member = &view->members[i];
        if (pods[i].running) {
            view->left_gpus += gt_member_is_open(member) ? view->job->units.units[member->unit].gpus : 0;
        } else if (member->state == GT_MEMBER_TO_RESERVE) {
            gt_reservations_reserve(reservations, cluster, i, pods[i].node, pods[i].mask, reserve_until);
            reserved = true;
        } else if (member->state == GT_MEMBER_TO_PLACE) {
            int r = gt_cache_plan_pod(cache, member->pod, pods[i].node, pods[i].mask, err);
            if (r < 0) {
                undo(cache, view, reservations, pods, i);
                return r;
            }
        }
    }
    if (reserved)
        gt_reservations_sync(reservations, cluster, 0);
    return 0;
}

/* What is reserved for somebody else is there all the same: the numbers are those of the whole cluster. */
static void explain_avoid(struct gt_cache *cache, const struct gt_job_view *view,
                          const struct gt_reservations *reservations, struct gt_plan_failure *failure)
{
    auto_attempt struct attempt attempt = {0};
    if (attempt_make(cache, view, reservations, NULL, NULL, GT_CACHE_ROOM_NOW, &attempt, NULL) < 0)
        return;
    if (find_places(cache, view, NULL, &attempt, failure))
        failure->reason = GT_PLAN_RESERVED;
}

/* Whether it is GPUs that it lacks: the numbers of a failure are about them alone. */
static void explain_limits(struct gt_cache *cache, const struct gt_job_view *view,
                           const struct gt_reservations *reservations, const struct gt_decide_spec *spec,
                           struct gt_plan_failure *failure)
{
    auto_attempt struct attempt attempt = {0};
    if ((failure->reason != GT_PLAN_TOO_FEW_GPUS && failure->reason != GT_PLAN_NO_SUPERNODE) ||
        attempt_make(cache, view, reservations, NULL, NULL, GT_CACHE_ROOM_NOW, &attempt, NULL) < 0)
        return;
    attempt.demands.count = attempt.demands.limit_count = 0;
    if (find_places(cache, view, spec, &attempt, failure))
        failure->reason = GT_PLAN_TOO_FEW_RESOURCES;
}

static enum gt_decision explain(struct gt_cache *cache, const struct gt_job_view *view,
                                const struct attempt *attempt, const struct gt_decide_spec *spec,
                                const struct gt_plan_failure *failure, struct gt_buf *text)
{
    gt_plan_failure_text(gt_cache_cluster(cache), failure, text);
    gt_demands_text(cache, &attempt->demands, &attempt->excluded, text);
    if (gt_part_is_allowed(view) && !gt_part_suffices(view))
        gt_buf_printf(text, "; %u of its %u pods are enough to begin", view->minimum, view->count);
    if (attempt->unsuitable)
        gt_buf_printf(text, "; its node selector, affinity or tolerations exclude %u node%s",
                      attempt->unsuitable, attempt->unsuitable == 1 ? "" : "s");
    if (attempt->refused)
        gt_buf_printf(text, "; its scheduler has refused %u node%s", attempt->refused,
                      attempt->refused == 1 ? "" : "s");
    if (attempt->spares)
        gt_buf_printf(text, "; %u node%s", attempt->spares,
                      attempt->spares == 1 ? " is a spare" : "s are spares");
    if (attempt->kept)
        gt_buf_printf(text, "; %u free GPU%s on %u node%s %s reserved by %s", attempt->kept_gpus,
                      attempt->kept_gpus == 1 ? "" : "s", attempt->kept, attempt->kept == 1 ? "" : "s",
                      attempt->kept_gpus == 1 ? "is" : "are",
                      spec->avoid_for ? spec->avoid_for : "another job");
    return GT_DECISION_WAITS;
}

static enum gt_decision try_without(struct gt_cache *cache, struct gt_job_view *view,
                                    struct gt_reservations *reservations, const struct gt_decide_spec *spec,
                                    const struct gt_node_set *leave, struct gt_plan_failure *ret_failure,
                                    struct gt_buf *text)
{
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    auto_attempt struct attempt attempt = {0};
    gt_auto_err struct gt_err *error = NULL;
    struct gt_job_units *units = &view->job->units;
    if (attempt_make(cache, view, reservations, spec->avoid, leave, GT_CACHE_ROOM_NOW, &attempt, &error) <
        0) {
        gt_buf_puts(text, gt_err_text(error));
        return GT_DECISION_FAILED;
    }
    if (!find_places(cache, view, spec, &attempt, ret_failure)) {
        if (leave)
            return GT_DECISION_WAITS; /* the attempt with all nodes says why */
        if (attempt.kept)
            explain_avoid(cache, view, reservations, ret_failure);
        if (attempt.demands.limit_count)
            explain_limits(cache, view, reservations, spec, ret_failure);
        return explain(cache, view, &attempt, spec, ret_failure, text);
    }
    for (uint32_t u = 0; u < units->count; u++) {
        if (!lies_somewhere(&attempt, &units->units[u]))
            continue;
        gt_plan_unit_text(cluster, &units->units[u], u, text);
        if (text->len && text->data[text->len - 1] != '\n')
            gt_buf_puts(text, "\n");
    }
    if (commit(cache, view, reservations, attempt.pods, spec->reserve_until, &error) < 0) {
        gt_buf_consume(text, text->len);
        gt_buf_puts(text, gt_err_text(error));
        return GT_DECISION_FAILED;
    }
    return GT_DECISION_PLACED;
}

static enum gt_decision try_once(struct gt_cache *cache, struct gt_job_view *view,
                                 struct gt_reservations *reservations, const struct gt_decide_spec *spec,
                                 struct gt_plan_failure *ret_failure, struct gt_buf *text)
{
    const struct gt_node_set *leave = spec->leave && spec->leave->nodes ? spec->leave : NULL;
    enum gt_decision decision =
        leave ? try_without(cache, view, reservations, spec, leave, ret_failure, text) : GT_DECISION_WAITS;
    return decision == GT_DECISION_WAITS
               ? try_without(cache, view, reservations, spec, NULL, ret_failure, text)
               : decision;
}

/* Whether what is promised to a member may be given up: not while its unit moves, for nothing else is kept of
 * that. */
static bool is_revocable(const struct gt_job_view *view, const struct gt_reservations *reservations,
                         uint32_t at)
{
    const struct gt_job_view_member *member = &view->members[at];
    return (member->state == GT_MEMBER_PLANNED || member->state == GT_MEMBER_RESERVED) &&
           !reservations->reservations[at].moves && !gt_job_view_unit_moves(view, member->unit);
}

/* Gives up what is only promised, of the members from `first` on, `count` of them: plans of gated pods, and
 * places of pods that are not made. */
static bool give_up(struct gt_cache *cache, struct gt_job_view *view, struct gt_reservations *reservations,
                    uint32_t first, uint32_t count)
{
    bool any = false;
    for (uint32_t i = first; i < first + count && i < view->count; i++) {
        struct gt_job_view_member *member = &view->members[i];
        enum gt_member_state to;
        if (!is_revocable(view, reservations, i))
            continue;
        if (member->state == GT_MEMBER_PLANNED) {
            gt_cache_unplan_pod(cache, member->pod);
            to = GT_MEMBER_TO_PLACE;
        } else {
            gt_reservations_release(reservations, gt_cache_cluster(cache), i);
            to = GT_MEMBER_TO_RESERVE;
        }
        gt_job_view_set_state(view, i, to);
        view->gave_up = any = true;
    }
    return any;
}

/* Where a part may run without the rest, units that have all their places keep them. */
static bool has_loose_promises(const struct gt_job_view *view, const struct gt_reservations *reservations)
{
    bool any = view->states[GT_MEMBER_PLANNED] || view->states[GT_MEMBER_RESERVED];
    bool whole = any && !gt_part_suffices(view);
    for (uint32_t i = 0; any && i < view->count; i++)
        if ((whole || view->open[view->members[i].unit]) && is_revocable(view, reservations, i))
            return true;
    return false;
}

static bool give_up_loose(struct gt_cache *cache, struct gt_job_view *view,
                          struct gt_reservations *reservations)
{
    bool whole = !gt_part_suffices(view), any = false;
    for (uint32_t u = 0; u < view->job->units.count; u++) {
        const struct gt_plan_unit *unit = &view->job->units.units[u];
        if (whole || view->open[u])
            any = give_up(cache, view, reservations, unit->first, unit->pods) || any;
    }
    return any;
}

void gt_decide_give_back(struct gt_cache *cache, struct gt_job_view *view,
                         struct gt_reservations *reservations)
{
    if (!gt_job_view_has_begun(view))
        give_up(cache, view, reservations, 0, view->count);
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].state == GT_MEMBER_RESERVED)
            gt_reservations_release(reservations, gt_cache_cluster(cache), i);
}

bool gt_decide_mend(struct gt_cache *cache, struct gt_job_view *view, struct gt_reservations *reservations,
                    bool keep)
{
    const struct gt_job_units *units = &view->job->units;
    bool begun = gt_job_view_has_begun(view), mended = false;
    for (uint32_t u = 0; u < units->count; u++) {
        const struct gt_plan_unit *unit = &units->units[u];
        uint32_t run = unit->atom ? unit->atom : unit->pods;
        for (uint32_t at = unit->first; at < unit->first + unit->pods; at += run) {
            if (!gt_job_view_is_torn(view, reservations, gt_cache_cluster(cache), at, at + run))
                continue;
            if (keep)
                return true;
            if (!begun)
                return give_up(cache, view, reservations, 0, view->count);
            mended = give_up(cache, view, reservations, at, run) || mended;
        }
    }
    return mended;
}

enum gt_decision gt_decide(struct gt_cache *cache, struct gt_job_view *view,
                           struct gt_reservations *reservations, const struct gt_decide_spec *spec,
                           struct gt_plan_failure *ret_failure, struct gt_buf *text)
{
    if (!view->grouped)
        return GT_DECISION_NOTHING;
    take_home(cache, view, reservations);
    if (!view->states[GT_MEMBER_TO_PLACE] && !view->states[GT_MEMBER_TO_RESERVE])
        return GT_DECISION_PLACED;
    enum gt_decision decision = try_once(cache, view, reservations, spec, ret_failure, text);
    if (decision == GT_DECISION_WAITS && spec->keep && has_loose_promises(view, reservations))
        return GT_DECISION_BOUND;
    if (decision == GT_DECISION_WAITS && give_up_loose(cache, view, reservations)) {
        gt_buf_consume(text, text->len);
        decision = try_once(cache, view, reservations, spec, ret_failure, text);
    }
    return decision;
}

/* ---- nodes for a job that waits ---- */

/* What it needs to begin, or to begin one more unit. */
static void choose_least(const struct gt_job_view *view, struct attempt *attempt)
{
    struct part_search search = {.view = view, .attempt = attempt};
    if (gt_waiting_units_make(view, &search.part, NULL) == 0)
        choose_units(&search, 0, search.part.least);
    gt_waiting_units_done(&search.part);
}

bool gt_decide_drain(struct gt_cache *cache, const struct gt_job_view *view,
                     const struct gt_reservations *reservations, struct gt_node_set *ret)
{
    auto_attempt struct attempt attempt = {0};
    struct gt_node_set set = {0};
    if (!view->grouped ||
        attempt_make(cache, view, reservations, NULL, NULL, GT_CACHE_ROOM_EMPTIED, &attempt, NULL) < 0)
        return false;
    if (gt_part_is_allowed(view))
        choose_least(view, &attempt);
    struct gt_plan_request request = request_of(view, &attempt);
    request.limits = attempt.demands.limits; /* nodes that would be short even then */
    request.limit_count = attempt.demands.limit_count;
    bool found = gt_drain_plan(gt_cache_cluster(cache), &request);
    for (uint32_t i = 0; found && i < view->count; i++)
        if (gt_member_is_open(&view->members[i]) && !attempt.pods[i].running)
            found = gt_node_set_add(&set, attempt.pods[i].node, NULL) == 0;
    if (!found) {
        gt_node_set_done(&set);
        return false;
    }
    gt_node_set_done(ret);
    *ret = set;
    return true;
}
