/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * Moves units that have lost nodes, for jobs with the annotation on-node-loss. First new places are reserved
 * for the pods that have to leave, and written to the job's GPUPlacement; then these pods are evicted; their
 * successors get the new places when the last leaving pod of the unit is gone. The object has the state for a
 * new leader: which pods have to leave follows from their nodes and creation times.
 */

enum { MOVE_TEXT_MAX = 64 << 10, SAID_MAX = GT_MOVES_TEXT_MAX };

#define ASKED_ANYWHERE (GT_NONE - 2)

uint64_t gt_node_loss_until(const struct reconcile *reconcile)
{
    const struct pjob *pjob = reconcile->pjob;
    const struct gt_cache_pod *pod = pjob->job->pods;
    while (pod && !pod->deleting)
        pod = pod->next;
    return pod || pjob->move.moving
               ? reconcile->now + 2 * reconcile->placement->spec.options.reserve.missing_ms
               : 0;
}

void gt_node_loss_adopt(struct pjob *pjob, const struct placement_known *known)
{
    int64_t before = gt_time_of_text(known->moving_before);
    if (before <= 0)
        return;
    pjob->move.moving = strcmp(known->moving, "Job") == 0    ? PLACEMENT_JOB_MOVES
                        : strcmp(known->moving, "Unit") == 0 ? PLACEMENT_UNIT_MOVES
                                                             : PLACEMENT_STAYS;
    pjob->move.leave_before_s = (uint64_t)before;
}

/* Moves begun by an earlier leader must be known first. */
static bool is_adopted(const struct reconcile *reconcile)
{
    struct placement_plan plan;
    return reconcile->pjob->lift.adopted ||
           !gt_placement_object_plan(&reconcile->placement->objects, reconcile->pjob->object, &plan);
}

/* ---- lost units ---- */

struct losses {
    bool *leaves; /* [member] */
    bool asked;   /* they are on no lost node: people want them elsewhere */
    struct gt_cache_moment now;
    uint32_t lost;  /* of the current run */
    uint32_t first; /* one of those */
    enum gt_cache_loss why;
    bool stuck; /* another run has had no room in its supernode for too long; `first` is that run */
};

/* The node that people want the pod to move to, or that makes room for a waiting job; GT_NONE: none, or it is
 * there. Where the cluster has no node of that name: a number that no node has, so that it waits and says so.
 */
static uint32_t asked_node(const struct reconcile *reconcile, const struct gt_cache_pod *pod)
{
    const char *name = gt_pod_annotation(&pod->meta, GT_KEY_MOVE_TO);
    name = name ? name : gt_rebalance_node(reconcile->placement, pod);
    if (name && strcmp(name, GT_MOVE_ANYWHERE) == 0)
        return ASKED_ANYWHERE;
    if (!name || !*name || (pod->node_name && strcmp(name, pod->node_name) == 0))
        return GT_NONE;
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(reconcile->placement->spec.cache), name);
    return node == GT_NONE ? GT_NONE - 1 : node;
}

/* Also where an earlier leader began it for a waiting job, and this one has not yet. */
static bool is_wanted_elsewhere(const struct reconcile *reconcile, const struct gt_cache_pod *pod)
{
    return asked_node(reconcile, pod) != GT_NONE || gt_rebalance_find(reconcile->placement, pod);
}

static bool asks_to_move(const struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    for (uint32_t i = 0; i < view->count; i++)
        if (gt_job_view_stays(&view->members[i]) && asked_node(reconcile, view->members[i].pod) != GT_NONE)
            return true;
    return false;
}

static bool is_stuck(struct reconcile *reconcile, const struct gt_job_view_member *member)
{
    const struct pjob *pjob = reconcile->pjob;
    uint64_t after = reconcile->placement->spec.options.node_loss_ms;
    if (member->state != GT_MEMBER_TO_PLACE || !pjob->wait.since_ms ||
        gt_backoff_job_until(&reconcile->placement->backoffs, pjob->job->key) > reconcile->now)
        return false;
    if (reconcile->now - pjob->wait.since_ms >= after)
        return true;
    gt_placement_due(reconcile->pjob, pjob->wait.since_ms + after);
    return false;
}

/* Whether its node is in no supernode, and smaller than its run: the supernode that the run was placed in is
 * not known at the moment. */
static bool is_homeless(const struct reconcile *reconcile, const struct gt_job_view_member *member,
                        uint32_t pods)
{
    const struct gt_cluster *cluster = gt_cache_cluster(reconcile->placement->spec.cache);
    struct gt_cluster_node node;
    struct gt_cluster_supernode super;
    return gt_cluster_get_node(cluster, member->pod->node, &node) &&
           gt_cluster_get_supernode(cluster, node.supernode, &super) && super.is_node &&
           (uint64_t)pods * member->pod->gpus > gt_bit_count(node.all);
}

/* False: the run has lost nothing, or moves already. */
static bool find_losses(struct reconcile *reconcile, uint32_t first, uint32_t end, struct losses *losses)
{
    const struct gt_job_view *view = reconcile->view;
    bool stays = false, stuck = false, homeless = false, asked = false;
    bool waits = view->job->sizes.loss == GT_ON_NODE_LOSS_WAIT;
    losses->lost = 0;
    losses->why = GT_CACHE_LOSS_NONE;
    for (uint32_t i = first; i < end; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        uint64_t due = UINT64_MAX;
        if (member->state == GT_MEMBER_MOVING)
            return false;
        losses->leaves[i] = false;
        if (!waits && is_stuck(reconcile, member) && !stuck && !losses->lost) {
            stuck = true;
            losses->first = i;
        }
        if (!gt_job_view_stays(member))
            continue;
        stays = true;
        homeless = homeless || is_homeless(reconcile, member, end - first);
        enum gt_cache_loss why = gt_cache_pod_loss(
            member->pod, reconcile->placement->spec.options.node_loss_ms, &losses->now, &due);
        gt_placement_due(reconcile->pjob, due);
        why = waits ? GT_CACHE_LOSS_NONE : why;
        asked = asked || (!why && asked_node(reconcile, member->pod) != GT_NONE);
        losses->leaves[i] = why != GT_CACHE_LOSS_NONE;
        if (losses->leaves[i] && !losses->lost++) {
            losses->first = i;
            losses->why = why;
        }
    }
    losses->asked = asked && !losses->lost; /* what is lost goes first, wherever there is room */
    for (uint32_t i = first; losses->asked && i < end; i++) {
        losses->leaves[i] =
            gt_job_view_stays(&view->members[i]) && asked_node(reconcile, view->members[i].pod) != GT_NONE;
        if (losses->leaves[i] && !losses->lost++)
            losses->first = i;
    }
    losses->stuck = stuck && stays && !homeless && !losses->lost;
    return losses->lost || losses->stuck;
}

/* ---- new places ---- */

/* Marks the pods that have to leave: those of the run that `gt_decide_move()` has chosen; where the whole job
 * restarts, also all others, which get the same places again. */
static void note_move(struct reconcile *reconcile, uint32_t first, uint32_t end, bool all)
{
    struct pjob *pjob = reconcile->pjob;
    pjob->move.moving = all ? PLACEMENT_JOB_MOVES : PLACEMENT_UNIT_MOVES;
    pjob->move.last_leaves_ms = 0;
    if (all)
        gt_moves_count(&pjob->move.moves, reconcile->now);
    pjob->move.leave_before_s = gt_moves_begin(reconcile->view, first, end, all);
}

/* Where its pods are, or are to be, before and after this move. */
static void say_where(const struct reconcile *reconcile, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(reconcile->placement->spec.cache);
    const struct gt_reservations *reservations = &reconcile->pjob->place.reservations;
    const struct gt_job_view *view = reconcile->view;
    gt_auto_free uint32_t *nodes = calloc((size_t)view->count + 1, 2 * sizeof(*nodes));
    for (uint32_t i = 0; nodes && i < view->count; i++) {
        const struct gt_cache_pod *pod = view->members[i].pod;
        uint32_t place = gt_reservations_node(reservations, cluster, i);
        nodes[i] = pod ? pod->node : place;
        nodes[view->count + i] = reservations->reservations[i].moves ? place : nodes[i];
    }
    if (nodes)
        gt_rebalance_say_farther(reconcile->placement, reconcile->pjob->job->key, nodes, nodes + view->count,
                                 view->count, to);
}

static void report_begun(struct reconcile *reconcile, uint32_t at, const char *why)
{
    const struct gt_cluster *cluster = gt_cache_cluster(reconcile->placement->spec.cache);
    uint32_t to = gt_reservations_node(&reconcile->pjob->place.reservations, cluster, at);
    struct gt_cluster_node node;
    struct gt_cluster_supernode super;
    bool known = reconcile->pjob->place.reservations.reservations[at].moves &&
                 gt_cluster_get_node(cluster, to, &node) &&
                 gt_cluster_get_supernode(cluster, node.supernode, &super);
    gt_auto_buf struct gt_buf text = GT_BUF(2 * SAID_MAX);
    gt_buf_printf(&text, "%s; another place is reserved%s%s", why, known ? " in supernode " : "",
                  known ? super.name : "");
    say_where(reconcile, &text);
    gt_placement_event(reconcile->pjob, reconcile->view->members[at].pod, false, "UnitMoves", "Move",
                       text.data ? text.data : why);
}

/* `because`: why no pod is evicted now. */
static void report_waits(struct reconcile *reconcile, const char *why, const char *because,
                         const struct gt_buf *failure)
{
    struct pjob *pjob = reconcile->pjob;
    char text[3 * SAID_MAX];
    bool reported = strcmp(pjob->report.reason, "NodeLost") == 0;
    pjob->move.wanted = true;
    if (reconcile->view->states[GT_MEMBER_TO_PLACE] || reconcile->view->states[GT_MEMBER_TO_RESERVE])
        return; /* its state says what it waits for */
    reconcile->lost++;
    snprintf(text, sizeof(text), "%s; %s%.1024s", why, because, failure->data ? failure->data : "");
    gt_placement_set_state(pjob, GT_PLACEMENT_PLACED, "NodeLost", text);
    if (!reported)
        gt_placement_event(pjob, pjob->job->pods, true, "NodeLost", "Move", text);
}

/* Nodes for other jobs: those to which pods are pinned, and those reserved for the holder of the queue. They
 * are avoided where other nodes are enough; the reserved ones must not be used where the holder comes before
 * a partly running job in the order of waiting jobs. */
static int node_loss_avoid_others(struct reconcile *reconcile, struct gt_decide_spec *spec,
                                  struct gt_err **err)
{
    struct gt_placement *placement = reconcile->placement;
    struct pjob *pjob = reconcile->pjob;
    const struct gt_node_set *reserved_nodes = &placement->nodes.reserved;
    struct gt_queue_entry entry = {
        .job = pjob, .share = &pjob->tenant->share, .number = pjob->job->number, .partial = true};
    gt_node_set_clear(&reconcile->pinned);
    int r = gt_placement_pinned(pjob, &reconcile->pinned, err);
    spec->last_resort = &reconcile->pinned;
    if (!reserved_nodes->nodes || placement->nodes.holder == pjob)
        return r;
    gt_placement_precedence(pjob->job, &entry.priority, &entry.created_s);
    if (gt_queue_is_behind_holder(placement->queue, &entry))
        spec->avoid = reserved_nodes;
    for (uint32_t n = gt_node_set_next(reserved_nodes, 0); r >= 0 && n != GT_NONE;
         n = gt_node_set_next(reserved_nodes, n + 1))
        r = gt_node_set_add(&reconcile->pinned, n, err);
    return r;
}

static bool is_damped(struct reconcile *reconcile, const struct losses *losses, struct gt_buf *text)
{
    struct gt_moves *moves = &reconcile->pjob->move.moves;
    uint64_t until = gt_moves_damped_until(moves, losses->why,
                                           reconcile->placement->spec.options.node_loss_ms, reconcile->now);
    char when[GT_TIME_TEXT_SIZE];
    if (!until || reconcile->view->job->sizes.loss != GT_ON_NODE_LOSS_JOB)
        return false;
    gt_placement_time_text(until, when);
    gt_buf_printf(text, "%u time%s of late, and moves again at %s at the earliest", moves->count,
                  gt_plural(moves->count), when);
    gt_placement_due(reconcile->pjob, until);
    return true;
}

/* Those whom people want just elsewhere do not go to a node that one of them leaves. */
static int not_here(const struct reconcile *reconcile, uint32_t first, uint32_t end,
                    const struct losses *losses, struct gt_decide_spec *spec, struct gt_node_set *there)
{
    for (uint32_t n = gt_node_set_next(spec->avoid, 0); n != GT_NONE;
         n = gt_node_set_next(spec->avoid, n + 1))
        GT_TRY(gt_node_set_add(there, n, NULL));
    for (uint32_t i = first; i < end; i++)
        if (losses->leaves[i] && reconcile->view->members[i].pod->node != GT_NONE)
            GT_TRY(gt_node_set_add(there, reconcile->view->members[i].pod->node, NULL));
    spec->avoid = there;
    return 0;
}

/* Those whom people want elsewhere go to no other node than these. */
static int only_there(const struct reconcile *reconcile, uint32_t first, uint32_t end,
                      const struct losses *losses, struct gt_decide_spec *spec, struct gt_node_set *there)
{
    const struct gt_cluster *cluster = gt_cache_cluster(reconcile->placement->spec.cache);
    if (asked_node(reconcile, reconcile->view->members[losses->first].pod) == ASKED_ANYWHERE)
        return not_here(reconcile, first, end, losses, spec, there);
    for (uint32_t node = 0; node < gt_cluster_nodes(cluster); node++) {
        bool named = false;
        for (uint32_t i = first; i < end && !named; i++)
            named = reconcile->view->members[i].pod &&
                    asked_node(reconcile, reconcile->view->members[i].pod) == node;
        if ((!named || gt_node_set_has(spec->avoid, node)) && gt_node_set_add(there, node, NULL) < 0)
            return -ENOMEM;
    }
    spec->avoid = there;
    spec->avoid_for = "nobody: these are not the nodes that people ask for";
    return 0;
}

/* Whether the brake keeps those that are to leave. What people ask for counts as well, but is held by failed
 * nodes alone: who empties nodes on purpose need not wait. */
static bool move_is_braked(struct reconcile *reconcile, uint32_t first, uint32_t end,
                           const struct losses *losses, char why[static GT_BRAKE_WHY_SIZE])
{
    struct placement_nodes *nodes = &reconcile->placement->nodes;
    snprintf(why, GT_BRAKE_WHY_SIZE, "there is no memory");
    if (!gt_moves_leaving(reconcile->view, first, end, losses->leaves, &nodes->leaving))
        return true;
    return losses->asked ? gt_brake_is_on(&nodes->brake, &nodes->leaving, false, reconcile->now, why)
                         : !gt_brake_lets(&nodes->brake, &nodes->leaving, reconcile->now, why);
}

/* True: places are reserved, and the job is to be reconciled again. */
static bool move_run(struct reconcile *reconcile, uint32_t first, uint32_t end, const struct losses *losses)
{
    struct gt_placement *placement = reconcile->placement;
    struct pjob *pjob = reconcile->pjob;
    enum gt_on_node_loss policy = reconcile->view->job->sizes.loss;
    gt_auto_buf struct gt_buf text = GT_BUF(MOVE_TEXT_MAX);
    struct gt_plan_failure failure = {0};
    char why[SAID_MAX], holder[PLACEMENT_HOLDER_SIZE], braked[GT_BRAKE_WHY_SIZE];
    struct gt_decide_spec spec = {.reserve_until =
                                      reconcile->now + placement->spec.options.reserve.missing_ms,
                                  .avoid_for = holder,
                                  .log = placement->log,
                                  .name = pjob->job->key};
    const char *no_place = "no pod is evicted while there is no other place for the unit: ";
    bool whole = !losses->lost;
    enum gt_decision decision = GT_DECISION_WAITS;
    gt_auto_err struct gt_err *error = NULL;
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set there = {0};
    const struct gt_cache_pod *lost = reconcile->view->members[losses->first].pod;
    bool makes_room = losses->asked && !gt_pod_annotation(&lost->meta, GT_KEY_MOVE_TO) &&
                      gt_rebalance_node(placement, lost); /* what people ask for comes first */
    gt_moves_text(reconcile->view, losses->first, losses->stuck ? GT_CACHE_LOSS_NONE : losses->why,
                  makes_room      ? "it makes room for a waiting job (--rebalance=evict)"
                  : losses->asked ? "people ask for it (" GT_ANNOTATION_MOVE_TO ")"
                                  : NULL,
                  why);
    gt_placement_say_holder(placement, holder);
    gt_decision_log_set_time(placement->log, gt_clock_wall_ms());
    if (node_loss_avoid_others(reconcile, &spec, &error) < 0) {
        gt_buf_puts(&text, gt_err_text(error));
        report_waits(reconcile, why, no_place, &text);
        return false;
    }
    if (makes_room)
        spec.avoid = NULL; /* the job that the nodes are reserved for fits beside it */
    if (losses->asked && only_there(reconcile, first, end, losses, &spec, &there) < 0)
        return false;
    /* moves that make room have asked the brake together (rebalance_moves.c) */
    if (!makes_room && move_is_braked(reconcile, first, end, losses, braked)) {
        gt_buf_puts(&text, braked);
        pjob->move.braked = true;
        report_waits(reconcile, why, "no pod is evicted: ", &text);
        gt_placement_due(pjob, reconcile->now + placement->times.retry_ms);
        return false;
    }
    if (losses->lost)
        decision = gt_decide_move(reconcile->view, first, end, losses->leaves, &spec, &failure, &text);
    if (decision != GT_DECISION_PLACED && !losses->asked) {
        whole = true;
        gt_buf_consume(&text, text.len);
        if (is_damped(reconcile, losses, &text)) {
            report_waits(reconcile, why, "its job has moved ", &text);
            return false;
        }
        decision = gt_decide_move(reconcile->view, first, end, NULL, &spec, &failure, &text);
    }
    if (decision != GT_DECISION_PLACED) {
        report_waits(reconcile, why, no_place, &text);
        return false;
    }
    if (!makes_room)
        gt_placement_brake_take(reconcile);
    note_move(reconcile, first, end, whole && policy == GT_ON_NODE_LOSS_JOB);
    report_begun(reconcile, losses->first, why);
    return true;
}

/* Among pods created in the same second it could not be decided later which ones have to leave. */
static bool is_quiet(struct reconcile *reconcile)
{
    uint64_t when = reconcile->pjob->lift.new_pod_ms + reconcile->placement->times.settle_ms;
    if (reconcile->now >= when)
        return true;
    gt_placement_due(reconcile->pjob, when);
    return false;
}

/* True: a move was started. */
static bool node_loss_begin(struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    const struct pjob *pjob = reconcile->pjob;
    gt_auto_free bool *leaves = calloc((size_t)view->count + 1, sizeof(*leaves));
    struct losses losses = {.leaves = leaves,
                            .now = {.ms = reconcile->now, .unix_s = (int64_t)gt_placement_now_s()}};
    bool may = pjob->move.moving == PLACEMENT_STAYS ||
               (pjob->move.moving == PLACEMENT_UNIT_MOVES && view->job->sizes.loss == GT_ON_NODE_LOSS_UNIT);
    if (!leaves || !may)
        return false;
    for (uint32_t at = 0, first, end; at < view->count; at = end) {
        gt_job_view_run(view, at, &first, &end);
        if (find_losses(reconcile, first, end, &losses) && is_quiet(reconcile) &&
            move_run(reconcile, first, end, &losses))
            return true;
    }
    return false;
}

/* ---- moves in progress ---- */

/* Whether what the pods have lost is back before any of them goes or has gone, which a successor shows. */
static bool is_needless(const struct reconcile *reconcile, uint32_t first, uint32_t end)
{
    const struct gt_job_view *view = reconcile->view;
    const struct gt_cache_moment now = {.ms = reconcile->now, .unix_s = (int64_t)gt_placement_now_s()};
    bool moves = false;
    for (uint32_t i = first; i < end; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        uint64_t due = UINT64_MAX; /* another value: it begins to be lost */
        if ((member->state != GT_MEMBER_MOVING && !gt_job_view_stays(member)) ||
            member->pod->created_s > reconcile->pjob->move.leave_before_s ||
            gt_evict_is_sent(reconcile->pjob, member->pod) || is_wanted_elsewhere(reconcile, member->pod) ||
            gt_cache_pod_loss(member->pod, reconcile->placement->spec.options.node_loss_ms, &now, &due) ||
            due != UINT64_MAX)
            return false;
        moves = moves || member->state == GT_MEMBER_MOVING;
    }
    return moves;
}

/* Where a new place was lost during the move, the move of its unit starts again. Where it is not needed any
 * more, the pods stay, and the new places are given back. */
static bool give_up_broken(struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    struct gt_reservations *reservations = &reconcile->pjob->place.reservations;
    struct gt_cluster *cluster = gt_cache_cluster(reconcile->placement->spec.cache);
    bool any = false;
    for (uint32_t at = 0, first, end; view->states[GT_MEMBER_MOVING] && at < view->count; at = end) {
        gt_job_view_run(view, at, &first, &end);
        bool all = reconcile->pjob->move.moving == PLACEMENT_JOB_MOVES;
        bool needless = is_needless(reconcile, all ? 0 : first, all ? view->count : end);
        if (!needless && !gt_job_view_is_torn(view, first, end))
            continue;
        if (needless && !any)
            gt_placement_event(
                reconcile->pjob, view->members[first].pod, false, "UnitMoves", "Move",
                "what its pods had lost is back, or nobody asks for the move any more, before any of "
                "them has gone: they stay");
        for (uint32_t i = first; i < end; i++)
            if (view->members[i].state == GT_MEMBER_MOVING) {
                gt_reservations_release(reservations, cluster, i);
                any = true;
            }
    }
    return any;
}

/* While a pod of the job exists, its object and the reservations stay: so the last leaving pod is evicted
 * after a successor was created. */
static bool may_leave_last(struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    struct pjob *pjob = reconcile->pjob;
    if (view->count - view->missing > view->states[GT_MEMBER_MOVING] || view->count == 1)
        return true;
    if (!pjob->move.last_leaves_ms)
        pjob->move.last_leaves_ms = reconcile->now + reconcile->placement->spec.options.reserve.missing_ms;
    gt_placement_due(pjob, pjob->move.last_leaves_ms);
    return reconcile->now >= pjob->move.last_leaves_ms;
}

/* Whether people, or a waiting job, want the run elsewhere, and nobody of it has left yet: a pod that stays
 * then would tear it. */
static bool is_whole(const struct reconcile *reconcile, uint32_t first, uint32_t end)
{
    const struct pjob *pjob = reconcile->pjob;
    bool asked = false;
    for (uint32_t i = first; i < end; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        bool moves = member->state == GT_MEMBER_MOVING;
        if (moves ? gt_evict_has_begun(pjob, member->pod) : pjob->place.reservations.reservations[i].moves)
            return false;
        asked = asked || (moves && is_wanted_elsewhere(reconcile, member->pod));
    }
    return asked;
}

/* Refusals end moves for a waiting job. */
static void tell_refusals(const struct reconcile *reconcile, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        const char *refusal =
            member->state == GT_MEMBER_MOVING ? gt_evict_refusal(reconcile->pjob, member->pod) : NULL;
        if (refusal)
            gt_rebalance_refused(reconcile->placement, member->pod, refusal);
    }
}

/* `braked`: why the brake keeps some that could stay. */
static void node_loss_evict(struct reconcile *reconcile, char braked[static GT_BRAKE_WHY_SIZE])
{
    const struct gt_job_view *view = reconcile->view;
    const struct gt_cache_pod *last = NULL;
    bool waits = false; /* a run stays as yet */
    for (uint32_t at = 0, first, end; at < view->count; at = end) {
        gt_job_view_run(view, at, &first, &end);
        if (is_whole(reconcile, first, end) && !gt_evict_may_all(reconcile, first, end, braked)) {
            tell_refusals(reconcile, first, end);
            waits = true;
            continue;
        }
        for (uint32_t i = first; i < end; i++) {
            if (view->members[i].state != GT_MEMBER_MOVING)
                continue;
            if (last)
                gt_evict_pod(reconcile, last);
            last = view->members[i].pod;
        }
    }
    if (last && (waits || may_leave_last(reconcile)))
        gt_evict_pod(reconcile, last);
}

static void report_moves(struct reconcile *reconcile, const char *braked)
{
    struct pjob *pjob = reconcile->pjob;
    const char *refusal = *braked ? braked : gt_evict_refusal(pjob, NULL);
    char text[2 * SAID_MAX];
    snprintf(text, sizeof(text), "%u of its pods have still to leave for other places%s%.1024s",
             reconcile->view->states[GT_MEMBER_MOVING], refusal ? ": " : "", refusal ? refusal : "");
    reconcile->lost++;
    gt_placement_set_state(pjob, GT_PLACEMENT_PLACED, "UnitMoves", text);
}

/* A pod on an unreachable node stays, and some owners create no other pod meanwhile. */
static void report_terminating(struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    const struct gt_cache_pod *pod = reconcile->pjob->job->pods;
    const struct gt_cache_moment now = {.ms = reconcile->now, .unix_s = (int64_t)gt_placement_now_s()};
    bool awaited = false;
    char text[SAID_MAX];
    uint64_t due;
    for (uint32_t i = 0; view->states[GT_MEMBER_RESERVED] && i < view->count && !awaited; i++)
        awaited = view->members[i].state == GT_MEMBER_RESERVED &&
                  reconcile->pjob->place.reservations.reservations[i].moves;
    while (awaited && pod && (!pod->deleting || !gt_cache_pod_loss(pod, 0, &now, &due)))
        pod = pod->next;
    if (!awaited || !pod)
        return;
    snprintf(text, sizeof(text),
             "pod %s is still Terminating on node %s: if its owner makes no other before it is gone, delete "
             "it by force when the node is off",
             pod->meta.name, pod->node_name ? pod->node_name : "");
    reconcile->lost++;
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_PLACED, "NodeLost", text);
}

bool gt_node_loss_handle(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_job_view *view = reconcile->view;
    char braked[GT_BRAKE_WHY_SIZE] = "";
    pjob->move.wanted = false;
    pjob->move.braked = false;
    if (!is_adopted(reconcile))
        return true;
    if (!view->states[GT_MEMBER_MOVING])
        pjob->move.moving = PLACEMENT_STAYS;
    bool begins = view->job->sizes.loss != GT_ON_NODE_LOSS_WAIT || asks_to_move(reconcile);
    if (!begins && !pjob->move.moving)
        return true;
    if (give_up_broken(reconcile) || (begins && node_loss_begin(reconcile))) {
        gt_placement_mark(pjob);
        return false;
    }
    if (!view->states[GT_MEMBER_MOVING]) {
        report_terminating(reconcile);
        return true;
    }
    if (!gt_placement_acknowledge(reconcile))
        return false;
    node_loss_evict(reconcile, braked);
    report_moves(reconcile, braked);
    return true;
}
