/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/decide.h"

#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/cache/peers.h"

static bool plan_attempt(const struct gt_job_view *view, struct gt_attempt *attempt,
                         struct gt_plan_failure *ret_failure)
{
    const struct gt_plan_request request = gt_attempt_request(view, attempt);
    bool placed = gt_demands_plan(view->cache, &attempt->demands, &request, ret_failure);
    if (!placed)
        attempt->last = *ret_failure;
    return placed;
}

static void log_attempt(struct gt_cluster *cluster, const struct gt_job_view *view,
                        const struct gt_decide_spec *spec, const struct gt_attempt *attempt, bool placed)
{
    struct gt_plan_request request = gt_attempt_request(view, attempt);
    request.limits = attempt->demands.limits;
    request.limit_count = attempt->demands.limit_count;
    gt_decision_log_add(spec->log, cluster,
                        &(struct gt_decided){spec->name, &request, placed, &attempt->last});
}

/* ---- a part of the waiting units ---- */

struct part_search {
    const struct gt_job_view *view;
    struct gt_attempt *attempt;
    const struct gt_decide_spec *spec; /* NULL: no limit */
    struct gt_plan_failure *failure;   /* of the last failed attempt */
    struct gt_waiting_units part;
};

static bool fits_units(struct part_search *search, uint32_t first, uint32_t count, bool limited)
{
    uint64_t max = search->spec ? search->spec->gpus_max : 0,
             gpus = gt_attempt_choose(search->attempt, search->view, &search->part, first, count);
    return (!limited || !max || gpus <= max) && plan_attempt(search->view, search->attempt, search->failure);
}

/* Finds the most units from `first` on for which there is room, `least` or more. */
static bool decide_find_most(struct part_search *search, uint32_t first, uint32_t least)
{
    uint32_t low = least, high = search->part.count - first; /* it fits with `low`, not with `high` */
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

/* Where a started unit has no room, further ones may. */
static int find_part(struct part_search *search, struct gt_err **err)
{
    GT_TRY(gt_waiting_units_make(search->view, &search->part, err));
    bool found = search->part.count;
    if (found && !decide_find_most(search, 0, search->part.least)) {
        uint32_t started = search->part.started;
        struct gt_plan_failure first = *search->failure;
        found = started && gt_part_suffices(search->view) && decide_find_most(search, started, 1);
        if (!found)
            *search->failure = first;
    }
    gt_waiting_units_done(&search->part);
    return found;
}

/* Plans the whole job, else as much as may run without the rest. 0: there is no room; below: an error. */
static int decide_find_places(const struct gt_job_view *view, const struct gt_decide_spec *spec,
                              struct gt_attempt *attempt, struct gt_plan_failure *ret_failure,
                              struct gt_err **err)
{
    struct part_search search = {view, attempt, spec, ret_failure, {0}};
    return gt_part_is_allowed(view) ? find_part(&search, err) : plan_attempt(view, attempt, ret_failure);
}

/* Whether its place is to be reported. */
static bool lies_somewhere(const struct gt_attempt *attempt, const struct gt_plan_unit *unit)
{
    for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
        if (attempt->pods[i].place.node != GT_NONE)
            return true;
    return false;
}

static uint32_t decide_supernode_of(const struct gt_cluster *cluster, uint32_t node)
{
    struct gt_cluster_node info;
    return gt_cluster_get_node(cluster, node, &info) ? info.supernode : GT_NONE;
}

/* A new pod gets the place that is reserved for it, if the others of its run are still in that supernode. */
static bool comes_home(struct gt_job_view *view, uint32_t at)
{
    struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    struct gt_reservation *reservation = &view->reservations->reservations[at];
    struct gt_cache_pod *pod = view->members[at].pod;
    uint32_t first, end, node = gt_reservations_node(view->reservations, cluster, at);
    if (reservation->state != GT_RESERVATION_HELD || node == GT_NONE ||
        gt_node_set_has(view->refused, node) || gt_bit_count(reservation->promise.place.mask) != pod->gpus)
        return false;
    if ((gt_cache_pod_is_constrained(view->cache, pod) && !gt_cache_pod_fits_node(view->cache, pod, node)) ||
        gt_cache_peers_bar(view->cache, pod, node))
        return false;
    gt_job_view_run(view, at, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        uint32_t other = gt_job_view_place(view, i, NULL);
        if (i != at && other != GT_NONE &&
            decide_supernode_of(cluster, other) != decide_supernode_of(cluster, node))
            return false;
    }
    uint64_t mask = reservation->promise.place.mask;
    gt_reservations_release(view->reservations, cluster, at);
    if (!gt_cache_room_for(view->cache, node, gt_cache_pod_request(pod), GT_CACHE_ROOM_NOW) ||
        gt_cache_plan_pod(view->cache, pod, node, mask, NULL) < 0)
        return false;
    gt_job_view_set_state(view, at, GT_MEMBER_PLANNED);
    return true;
}

static void decide_release_others(struct gt_job_view *view)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].state == GT_MEMBER_TO_PLACE && !comes_home(view, i))
            gt_reservations_release(view->reservations, gt_cache_cluster(view->cache), i);
}

static void undo(struct gt_job_view *view, const struct gt_plan_pod *pods, uint32_t until)
{
    for (uint32_t i = 0; i < until; i++) {
        if (pods[i].running)
            continue;
        if (view->members[i].state == GT_MEMBER_TO_PLACE)
            gt_cache_unplan_pod(view->cache, view->members[i].pod);
        else if (view->members[i].state == GT_MEMBER_TO_RESERVE)
            gt_reservations_release(view->reservations, gt_cache_cluster(view->cache), i);
    }
}

/* Writes the plan into the cache and the reservations: all or none of it. */
static int decide_commit(struct gt_job_view *view, const struct gt_plan_pod *pods, uint64_t reserve_until,
                         struct gt_err **err)
{
    struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    bool reserved = false;
    for (uint32_t i = 0; i < view->count; i++) {
        struct gt_job_view_member *member = &view->members[i];
        if (pods[i].running) {
            view->left_gpus += gt_member_is_open(member) ? view->job->units.units[member->unit].gpus : 0;
        } else if (member->state == GT_MEMBER_TO_RESERVE) {
            const struct gt_promise promise = {.place = pods[i].place, .requests = pods[i].requests};
            gt_reservations_reserve(view->reservations, cluster, i, &promise, reserve_until);
            reserved = true;
        } else if (member->state == GT_MEMBER_TO_PLACE) {
            int r = gt_cache_plan_pod(view->cache, member->pod, pods[i].place.node, pods[i].place.mask, err);
            if (r < 0) {
                undo(view, pods, i);
                return r;
            }
        }
    }
    if (reserved)
        gt_reservations_sync(view->reservations, cluster, 0);
    return 0;
}

/* The numbers are those of the whole cluster, so they include what is reserved for other jobs. */
static void explain_avoid(const struct gt_job_view *view, struct gt_plan_failure *failure)
{
    gt_auto_attempt struct gt_attempt attempt = {0};
    if (gt_attempt_make(view, NULL, NULL, GT_CACHE_ROOM_NOW, &attempt, NULL) < 0)
        return;
    if (decide_find_places(view, NULL, &attempt, failure, NULL) > 0)
        failure->reason = GT_PLAN_RESERVED;
}

/* Whether it lacks GPUs: the numbers of a failure are only about GPUs. */
static void explain_limits(const struct gt_job_view *view, const struct gt_decide_spec *spec,
                           struct gt_plan_failure *failure)
{
    gt_auto_attempt struct gt_attempt attempt = {0};
    if ((failure->reason != GT_PLAN_TOO_FEW_GPUS && failure->reason != GT_PLAN_NO_SUPERNODE &&
         failure->reason != GT_PLAN_NO_DOMAIN) ||
        gt_attempt_make(view, NULL, NULL, GT_CACHE_ROOM_NOW, &attempt, NULL) < 0)
        return;
    attempt.demands.count = attempt.demands.limit_count = 0;
    if (decide_find_places(view, spec, &attempt, failure, NULL) > 0)
        failure->reason = GT_PLAN_TOO_FEW_RESOURCES;
}

static enum gt_decision explain(const struct gt_job_view *view, const struct gt_attempt *attempt,
                                const struct gt_decide_spec *spec, const struct gt_plan_failure *failure,
                                struct gt_buf *text)
{
    gt_plan_failure_text(gt_cache_cluster(view->cache), failure, text);
    gt_demands_text(view->cache, &attempt->demands, &attempt->excluded, text);
    if (gt_part_is_allowed(view) && !gt_part_suffices(view))
        gt_buf_printf(text, "; %u of its %u pods are enough to begin", view->minimum, view->count);
    if (attempt->unsuitable)
        gt_buf_printf(text, "; its node selector, affinity or tolerations exclude %u node%s",
                      attempt->unsuitable, gt_plural(attempt->unsuitable));
    if (attempt->by_people)
        gt_buf_printf(text, "; people have reserved %u node%s", attempt->by_people,
                      gt_plural(attempt->by_people));
    if (attempt->partly)
        gt_buf_printf(text, "; %u node%s not for all of its pods", attempt->partly,
                      attempt->partly == 1 ? " is" : "s are");
    if (attempt->said.data)
        gt_buf_puts(text, attempt->said.data);
    if (attempt->refused)
        gt_buf_printf(text, "; its scheduler or kubelets have refused %u node%s", attempt->refused,
                      gt_plural(attempt->refused));
    if (attempt->spares)
        gt_buf_printf(text, "; %u node%s", attempt->spares,
                      attempt->spares == 1 ? " is a spare" : "s are spares");
    if (attempt->reserved_nodes)
        gt_buf_printf(text, "; %u free GPU%s on %u node%s %s reserved by %s", attempt->reserved_gpus,
                      gt_plural(attempt->reserved_gpus), attempt->reserved_nodes,
                      gt_plural(attempt->reserved_nodes), attempt->reserved_gpus == 1 ? "is" : "are",
                      spec->avoid_for ? spec->avoid_for : "another job");
    uint32_t outlived = gt_cache_outlived_nodes(view->cache);
    if (outlived)
        gt_buf_printf(text, "; the report%s of %u node%s %s not believed: written for %s of the same name",
                      gt_plural(outlived), outlived, gt_plural(outlived), outlived == 1 ? "is" : "are",
                      outlived == 1 ? "an earlier Node" : "earlier Nodes");
    if (gt_cache_foreign_gpus(view->cache))
        gt_buf_printf(text, "; the other scheduler has reserved %u for pods to come",
                      gt_cache_foreign_gpus(view->cache));
    return GT_DECISION_WAITS;
}

/* Whether a failed plan has shown that the job would fit into the empty cluster, which is cheaper to know. */
static bool could_fit(const struct gt_job_view *view, const struct gt_attempt *attempt,
                      const struct gt_plan_failure *failure)
{
    const struct gt_plan_unit *units = view->job->units.units;
    for (uint32_t u = 1; u < view->job->units.count; u++)
        if (units[u].gpus != units[0].gpus || units[u].pods != units[0].pods)
            return false;
    return failure->could_fit && !attempt->demands.limit_count;
}

/* Whether a job without any place would not fit even into the empty cluster: the text says why. */
static bool never_fits(const struct gt_job_view *view, const struct gt_attempt *attempt, struct gt_buf *text)
{
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set unfit = {0};
    const struct gt_never_spec spec = {.units = &view->job->units,
                                       .pods = attempt->pods,
                                       .excluded = &unfit,
                                       .demands = attempt->demands.list,
                                       .demand_count = attempt->demands.count};
    return view->whole && gt_attempt_unfit(view, &unfit, NULL) >= 0 &&
           gt_never_fits(view->cache, &spec, text);
}

static enum gt_decision decide_try_without(struct gt_job_view *view, const struct gt_decide_spec *spec,
                                           const struct gt_node_set *last_resort,
                                           struct gt_plan_failure *ret_failure, struct gt_buf *text)
{
    struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    gt_auto_attempt struct gt_attempt attempt = {0};
    gt_auto_err struct gt_err *error = NULL;
    struct gt_job_units *units = &view->job->units;
    int found = gt_attempt_make(view, spec->avoid, last_resort, GT_CACHE_ROOM_NOW, &attempt, &error);
    if (found >= 0)
        found = decide_find_places(view, spec, &attempt, ret_failure, &error);
    if (found < 0) {
        gt_buf_puts(text, gt_err_text(error));
        return GT_DECISION_FAILED;
    }
    if (spec->log && (found || (!last_resort && attempt.last.reason)))
        log_attempt(cluster, view, spec, &attempt, found);
    if (!found) {
        if (last_resort)
            return GT_DECISION_WAITS; /* the attempt with all nodes says why */
        if (!could_fit(view, &attempt, ret_failure) && never_fits(view, &attempt, text)) {
            ret_failure->reason = GT_PLAN_NEVER_FITS;
            return GT_DECISION_WAITS;
        }
        if (attempt.reserved_nodes)
            explain_avoid(view, ret_failure);
        if (attempt.demands.limit_count)
            explain_limits(view, spec, ret_failure);
        return explain(view, &attempt, spec, ret_failure, text);
    }
    for (uint32_t u = 0; u < units->count; u++) {
        if (!lies_somewhere(&attempt, &units->units[u]))
            continue;
        gt_plan_unit_text(cluster, &units->units[u], u, text);
        if (text->len && text->data[text->len - 1] != '\n')
            gt_buf_puts(text, "\n");
    }
    if (decide_commit(view, attempt.pods, spec->reserve_until, &error) < 0) {
        gt_buf_consume(text, text->len);
        gt_buf_puts(text, gt_err_text(error));
        return GT_DECISION_FAILED;
    }
    return GT_DECISION_PLACED;
}

static enum gt_decision try_once(struct gt_job_view *view, const struct gt_decide_spec *spec,
                                 struct gt_plan_failure *ret_failure, struct gt_buf *text)
{
    const struct gt_node_set *last_resort =
        spec->last_resort && spec->last_resort->nodes ? spec->last_resort : NULL;
    enum gt_decision decision =
        last_resort ? decide_try_without(view, spec, last_resort, ret_failure, text) : GT_DECISION_WAITS;
    return decision == GT_DECISION_WAITS ? decide_try_without(view, spec, NULL, ret_failure, text) : decision;
}

/* Whether a member's reservation may be given up: not while its unit moves, since that has only this
 * reservation. */
static bool is_revocable(const struct gt_job_view *view, uint32_t at)
{
    const struct gt_job_view_member *member = &view->members[at];
    return (member->state == GT_MEMBER_PLANNED || member->state == GT_MEMBER_RESERVED) &&
           !view->reservations->reservations[at].moves && !gt_job_view_unit_moves(view, member->unit);
}

/* Gives up places of `count` members from `first` on that are only reserved: plans of gated pods, and
 * reservations for missing pods. */
static bool decide_give_up(struct gt_job_view *view, uint32_t first, uint32_t count)
{
    bool any = false;
    for (uint32_t i = first; i < first + count && i < view->count; i++) {
        struct gt_job_view_member *member = &view->members[i];
        enum gt_member_state to;
        if (!is_revocable(view, i))
            continue;
        if (member->state == GT_MEMBER_PLANNED) {
            gt_cache_unplan_pod(view->cache, member->pod);
            to = GT_MEMBER_TO_PLACE;
        } else {
            gt_reservations_release(view->reservations, gt_cache_cluster(view->cache), i);
            to = GT_MEMBER_TO_RESERVE;
        }
        gt_job_view_set_state(view, i, to);
        view->gave_up = any = true;
    }
    return any;
}

/* Where a part may run without the rest, complete units keep their places. */
static bool has_loose_reservations(const struct gt_job_view *view)
{
    bool any = view->states[GT_MEMBER_PLANNED] || view->states[GT_MEMBER_RESERVED];
    bool whole = any && !gt_part_suffices(view);
    for (uint32_t i = 0; any && i < view->count; i++)
        if ((whole || view->open[view->members[i].unit]) && is_revocable(view, i))
            return true;
    return false;
}

static bool give_up_loose(struct gt_job_view *view)
{
    bool whole = !gt_part_suffices(view), any = false;
    for (uint32_t u = 0; u < view->job->units.count; u++) {
        const struct gt_plan_unit *unit = &view->job->units.units[u];
        if (whole || view->open[u])
            any = decide_give_up(view, unit->first, unit->pods) || any;
    }
    return any;
}

void gt_decide_give_back(struct gt_job_view *view)
{
    if (!gt_job_view_has_begun(view))
        decide_give_up(view, 0, view->count);
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].state == GT_MEMBER_RESERVED)
            gt_reservations_release(view->reservations, gt_cache_cluster(view->cache), i);
}

bool gt_decide_repair(struct gt_job_view *view, bool keep)
{
    const struct gt_job_units *units = &view->job->units;
    bool begun = gt_job_view_has_begun(view), repaired = false;
    for (uint32_t u = 0; u < units->count; u++) {
        const struct gt_plan_unit *unit = &units->units[u];
        uint32_t run = unit->atom ? unit->atom : unit->pods;
        for (uint32_t at = unit->first; at < unit->first + unit->pods; at += run) {
            if (!gt_job_view_is_torn(view, at, at + run))
                continue;
            if (keep)
                return true;
            if (!begun)
                return decide_give_up(view, 0, view->count);
            repaired = decide_give_up(view, at, run) || repaired;
        }
    }
    return repaired;
}

static enum gt_decision decide_job(struct gt_job_view *view, const struct gt_decide_spec *spec,
                                   struct gt_plan_failure *ret_failure, struct gt_buf *text)
{
    decide_release_others(view);
    if (!view->states[GT_MEMBER_TO_PLACE] && !view->states[GT_MEMBER_TO_RESERVE])
        return GT_DECISION_PLACED;
    enum gt_decision decision = try_once(view, spec, ret_failure, text);
    if (decision == GT_DECISION_WAITS && spec->keep && has_loose_reservations(view))
        return GT_DECISION_BOUND;
    if (decision == GT_DECISION_WAITS && give_up_loose(view)) {
        gt_buf_consume(text, text->len);
        decision = try_once(view, spec, ret_failure, text);
    }
    return decision;
}

enum gt_decision gt_decide(struct gt_job_view *view, const struct gt_decide_spec *spec,
                           struct gt_plan_failure *ret_failure, struct gt_buf *text)
{
    if (!view->grouped)
        return GT_DECISION_NOTHING;
    gt_cluster_set_crowded(gt_cache_cluster(view->cache), spec->crowded);
    enum gt_decision decision = decide_job(view, spec, ret_failure, text);
    gt_cluster_set_crowded(gt_cache_cluster(view->cache), false);
    return decision;
}

/* Reserves new places for members that have to leave theirs. */

static bool has_reservation(const struct gt_job_view *view, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (view->members[i].state == GT_MEMBER_PLANNED || view->members[i].state == GT_MEMBER_RESERVED)
            return true;
    return false;
}

/* Treats leaving members as gone. Waiting members of other runs must not block this run. */
static void pretend(struct gt_job_view *view, uint32_t first, uint32_t end, const bool *leaves)
{
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        bool in_run = i >= first && i < end, leaving = in_run && (!leaves || leaves[i]);
        bool waits = member->state == GT_MEMBER_TO_PLACE || member->state == GT_MEMBER_TO_RESERVE;
        if (!in_run && waits)
            gt_job_view_set_state(view, i, GT_MEMBER_ABSENT);
        else if (leaving && (gt_job_view_stays(member) || (!leaves && member->state == GT_MEMBER_ABSENT)))
            gt_job_view_set_state(view, i, GT_MEMBER_TO_RESERVE);
    }
}

enum gt_decision gt_decide_move(struct gt_job_view *view, uint32_t first, uint32_t end, const bool *leaves,
                                const struct gt_decide_spec *given, struct gt_plan_failure *ret_failure,
                                struct gt_buf *text)
{
    gt_auto_free enum gt_member_state *states = calloc((size_t)view->count + 1, sizeof(*states));
    struct gt_decide_spec spec = *given;
    spec.keep = true;
    if (!states) {
        gt_buf_puts(text, "out of memory");
        return GT_DECISION_FAILED;
    }
    if (!leaves && has_reservation(view, first, end)) {
        gt_buf_puts(text, "pods of the unit are being placed");
        return GT_DECISION_WAITS;
    }
    for (uint32_t i = 0; i < view->count; i++)
        states[i] = view->members[i].state;
    pretend(view, first, end, leaves);
    enum gt_decision decision = gt_decide(view, &spec, ret_failure, text);
    for (uint32_t i = 0; i < view->count; i++) {
        bool leaving = decision == GT_DECISION_PLACED && i >= first && i < end &&
                       view->members[i].state == GT_MEMBER_TO_RESERVE;
        if (leaving)
            gt_reservations_set_moving(view->reservations, i);
        else
            gt_job_view_set_state(view, i, states[i]);
    }
    return decision == GT_DECISION_BOUND ? GT_DECISION_WAITS : decision;
}
