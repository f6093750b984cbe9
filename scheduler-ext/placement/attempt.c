/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/placement/reconcile.h"

/* Tries to place a waiting job, and reserves nodes for the job that has waited longest. */

enum {
    ROUND_S = 10,
    PLAN_TEXT_MAX = 256 << 10,
    PLAN_NOTE_MAX = 1024,
    NOTE_SUPERNODES_MAX = 4, /* named in a note */
    FITS_LOOK_MS = 20,       /* a look asks of no more jobs after that */
    FITS_AFTER_S = 60,       /* and only of those that have waited for so long: most are placed before */
};

const uint32_t gt_placement_bucket_us[GT_PLACEMENT_BUCKETS - 1] = {10,    30,    100,    300,    1000,   3000,
                                                                   10000, 30000, 100000, 300000, 1000000};

static void count_decision(struct gt_placement *placement, uint64_t ns)
{
    unsigned bucket = 0;
    while (bucket < GT_PLACEMENT_BUCKETS - 1 && ns > (uint64_t)gt_placement_bucket_us[bucket] * 1000)
        bucket++;
    placement->counters.decisions[bucket]++;
    placement->counters.decision_us += ns / 1000;
}

/* With --on-lost-plan=recreate, planned pods without a node are deleted where only they block their job. */
static void unblock(struct reconcile *reconcile, const struct gt_plan_failure *failure)
{
    if (failure->reason != GT_PLAN_UNIT_STUCK && failure->reason != GT_PLAN_UNIT_TORN)
        return;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        struct record *record = member->state == GT_MEMBER_LIFTED && member->unit == failure->unit
                                    ? gt_record_writable(reconcile->pjob, member->pod, reconcile->now)
                                    : NULL;
        if (record)
            gt_reconcile_recreate(reconcile, member->pod, record);
    }
}

static void remember_ranks(struct reconcile *reconcile)
{
    for (uint32_t i = 0; gt_job_kind_is_nameless(reconcile->view->job->kind) && i < reconcile->view->count;
         i++) {
        const struct gt_cache_pod *pod = reconcile->view->members[i].pod;
        if (pod)
            gt_ranks_set(&reconcile->placement->jobs.ranks, pod->meta.namespace_, pod->meta.name,
                         reconcile->view->job->members[i].rank);
    }
}

/* The node that a member has got just now; GT_NONE: none. */
static uint32_t placed_node(const struct gt_job_view *view, uint32_t at)
{
    const struct gt_job_view_member *member = &view->members[at];
    if (member->state == GT_MEMBER_TO_RESERVE)
        return gt_reservations_node(view->reservations, gt_cache_cluster(view->cache), at);
    bool is_planned = member->state == GT_MEMBER_TO_PLACE && member->pod->plan == GT_CACHE_PLAN_ASSUMED;
    return is_planned ? member->pod->planned.node : GT_NONE;
}

/* "2 units in rack-a, rack-b": what the page says of a plan. No Event: each pod's condition says its place.
 */
static void note_plan(const struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    const struct gt_cache_pod *first = reconcile->pjob->job->pods;
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set supernodes = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(PLAN_NOTE_MAX);
    uint32_t units = 0, last = GT_NONE, named = 0;
    if (!first || !reconcile->placement->spec.recorder)
        return;
    for (uint32_t i = 0; i < view->count; i++) {
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(cluster, placed_node(view, i), &node))
            continue;
        units += view->members[i].unit != last;
        last = view->members[i].unit;
        gt_node_set_add(&supernodes, node.supernode, NULL);
    }
    gt_buf_printf(&text, "%u unit%s", units, gt_plural(units));
    for (uint32_t s = gt_node_set_next(&supernodes, 0); s != GT_NONE && named < NOTE_SUPERNODES_MAX;
         s = gt_node_set_next(&supernodes, s + 1)) {
        struct gt_cluster_supernode supernode;
        if (gt_cluster_get_supernode(cluster, s, &supernode))
            gt_buf_printf(&text, "%s%s", named++ ? ", " : " in ", supernode.name);
    }
    if (gt_node_set_count(&supernodes) > named)
        gt_buf_printf(&text, " and %u more", gt_node_set_count(&supernodes) - named);
    const struct gt_pod_meta *pod = &first->meta;
    const struct gt_event_object event = {.kind = pod->owner_kind ? pod->owner_kind : "Pod",
                                          .namespace_ = pod->namespace_,
                                          .name = pod->owner_name ? pod->owner_name : pod->name,
                                          .reason = "Planned",
                                          .note = text.data ? text.data : ""};
    gt_kube_recorder_note(reconcile->placement->spec.recorder, &event);
}

static void say_too_many(const struct pjob *pjob, struct gt_buf *to)
{
    if (pjob->place.too_many_gpus)
        gt_buf_printf(to,
                      "; no nodes are reserved for it: they have %u GPUs, more than %llu%% of the cluster",
                      pjob->place.too_many_gpus,
                      (unsigned long long)pjob->placement->spec.options.reserve.waiting_percent);
}

/* Names the last to go of the pods that terminate where the job lacks room. The time is rounded up, so that
 * the text changes less often. */
static void say_terminating(const struct reconcile *reconcile, const struct gt_plan_failure *failure,
                            struct gt_buf *to)
{
    const struct gt_cache *cache = reconcile->placement->spec.cache;
    const struct gt_cluster *cluster = gt_cache_cluster(reconcile->placement->spec.cache);
    const struct gt_cache_pod *last = NULL;
    uint64_t now_s = gt_placement_now_s();
    uint32_t count = 0;
    if (!gt_cache_terminating(cache) || failure->reason == GT_PLAN_UNIT_TORN ||
        failure->reason == GT_PLAN_RESERVED)
        return;
    for (const struct gt_cache_pod *pod = NULL; (pod = gt_cache_next_pod(cache, pod));) {
        struct gt_cluster_node node;
        if (!pod->deleting || !gt_cluster_get_node(cluster, pod->node, &node) ||
            (failure->reason == GT_PLAN_UNIT_STUCK && node.supernode != failure->supernode))
            continue;
        count++;
        if (!last || pod->gone_by_s > last->gone_by_s ||
            (pod->gone_by_s == last->gone_by_s && strcmp(pod->meta.name, last->meta.name) < 0))
            last = pod;
    }
    if (!last)
        return;
    gt_buf_puts(to, "; it waits for ");
    if (count > 1)
        gt_buf_printf(to, "%u pods that terminate, the last is ", count);
    gt_buf_printf(to, "pod %s, which terminates on %s, ", last->meta.name, last->node_name);
    char by[GT_TIME_TEXT_SIZE];
    gt_time_text((int64_t)last->gone_by_s, by);
    if (last->gone_by_s > now_s)
        gt_buf_printf(to, "at most %" PRIu64 " s more",
                      (last->gone_by_s - now_s + ROUND_S - 1) / ROUND_S * ROUND_S);
    else
        gt_buf_printf(to, "and should be gone since %s: if that node is off, delete it by force", by);
}

static const char *reason_name(enum gt_plan_reason reason)
{
    static const char *const names[] = {
        [GT_PLAN_PLACED] = "Placed",
        [GT_PLAN_TOO_FEW_GPUS] = "TooFewGPUs",
        [GT_PLAN_NO_SUPERNODE] = "NoSupernode",
        [GT_PLAN_UNIT_TORN] = "UnitTorn",
        [GT_PLAN_UNIT_STUCK] = "UnitStuck",
        [GT_PLAN_RESERVED] = "Reserved",
        [GT_PLAN_TOO_FEW_RESOURCES] = "TooFewResources",
        [GT_PLAN_RULED] = "PodRules",
        [GT_PLAN_NO_DOMAIN] = "NoDomain",
        [GT_PLAN_NEVER_FITS] = GT_REASON_NEVER_FITS,
    };
    return reason < GT_COUNT(names) ? names[reason] : "";
}

/* Whether there is room in all, but not together. */
static bool is_scattered(const struct gt_plan_failure *failure)
{
    return failure->reason == GT_PLAN_NO_SUPERNODE ||
           (failure->reason == GT_PLAN_TOO_FEW_GPUS && failure->domains.bound) ||
           failure->reason == GT_PLAN_NO_DOMAIN;
}

static enum gt_queue_result plan_waiting(struct reconcile *reconcile, bool restricted)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_placement *placement = reconcile->placement;
    gt_auto_buf struct gt_buf text = GT_BUF(PLAN_TEXT_MAX);
    struct gt_plan_failure failure = {0};
    char reserved[PLACEMENT_HOLDER_SIZE];
    struct gt_decide_spec spec = {
        .avoid = restricted && placement->nodes.reserved.nodes ? &placement->nodes.reserved : NULL,
        .avoid_for = reserved,
        .reserve_until = reconcile->now + gt_reserve_missing_ms(reconcile),
        .last_resort = &reconcile->pinned,
        .gpus_max = reconcile->gpus_max,
        .crowded = gt_queue_is_crowded(placement->queue, pjob),
        .log = placement->log,
        .name = pjob->job->key,
        .keep = true,
    };
    gt_auto_err struct gt_err *error = NULL;
    if (gt_placement_pinned(pjob, &reconcile->pinned, &error) < 0 ||
        gt_placement_spread(reconcile, &reconcile->pinned, &error) < 0) {
        gt_placement_fail(pjob, gt_err_text(error));
        return GT_QUEUE_FAILED;
    }
    gt_placement_say_holder(placement, reserved);
    gt_decision_log_set_time(placement->log, gt_clock_wall_ms());
    uint64_t began = gt_clock_ns();
    enum gt_decision decision = gt_decide(reconcile->view, &spec, &failure, &text);
    if (decision == GT_DECISION_BOUND) {
        if (!gt_placement_may_give_up(reconcile)) {
            if (pjob->lift.offers_end_ms > reconcile->now)
                gt_placement_report(pjob, reconcile->view, reconcile->owner, false);
            return GT_QUEUE_DONE; /* it is tried again when its fences are acknowledged */
        }
        gt_buf_consume(&text, text.len);
        spec.keep = false;
        decision = gt_decide(reconcile->view, &spec, &failure, &text);
    }
    count_decision(placement, gt_clock_ns() - began);
    pjob->wait.tries++;
    bool never = decision == GT_DECISION_WAITS && failure.reason == GT_PLAN_NEVER_FITS, preempts = false;
    gt_placement_count_kept(pjob);
    pjob->wait.scattered = decision == GT_DECISION_WAITS && is_scattered(&failure);
    if (decision == GT_DECISION_WAITS && !never) {
        say_terminating(reconcile, &failure, &text);
        gt_placement_say_kept(pjob, reconcile->now, &text);
        say_too_many(pjob, &text);
        if (pjob->move.braked)
            gt_buf_puts(&text,
                        "; its unit does not move: more nodes than --brake lets go at once are not Ready, "
                        "or have lost their pods of late");
        preempts = !restricted && gt_preempt_choose(reconcile, &failure, &text);
        if (!preempts)
            gt_rebalance_suggest(reconcile, &text);
    }
    const char *said = text.data ? text.data : "";
    switch (decision) {
    case GT_DECISION_PLACED:
        placement->counters.placed++;
        remember_ranks(reconcile);
        if (*said) { /* otherwise pods got places of the earlier plan */
            free(pjob->report.plan);
            pjob->report.plan = strdup(said);
            note_plan(reconcile);
        }
        gt_reconcile_enter_queue(reconcile);
        gt_wait_end(reconcile);
        pjob->wait.since_ms = 0;
        pjob->place.reserved_until_ms = 0;
        pjob->lift.late_ms = 0;
        pjob->lift.new_pod_ms = reconcile->now; /* the time for the next pod begins now */
        gt_placement_set_state(pjob, GT_PLACEMENT_WRITES, "Planned", "its plan is being written");
        gt_placement_mark(pjob);
        return GT_QUEUE_DONE;
    case GT_DECISION_NOTHING:
        gt_placement_mark(pjob);
        return GT_QUEUE_DONE;
    case GT_DECISION_WAITS:
        placement->counters.blocked[failure.reason]++;
        gt_placement_set_state(pjob, GT_PLACEMENT_WAITS, reason_name(failure.reason), said);
        gt_placement_report(pjob, reconcile->view, reconcile->owner, false);
        unblock(reconcile, &failure);
        if (!never)
            gt_yield_ask(reconcile);
        placement->round.more_room = placement->round.more_room || reconcile->view->gave_up;
        /* Rules that mean it say nothing of others, and other nodes would not be better. */
        return never                             ? GT_QUEUE_NEVER
               : failure.reason == GT_PLAN_RULED ? GT_QUEUE_FAILED
               : preempts                        ? GT_QUEUE_PREEMPTS
                                                 : GT_QUEUE_BLOCKED;
    case GT_DECISION_BOUND:
    case GT_DECISION_FAILED:
        break;
    }
    gt_placement_fail(pjob, said);
    return GT_QUEUE_FAILED;
}

enum gt_queue_result gt_placement_try(struct pjob *pjob, bool restricted)
{
    auto_reconcile struct reconcile reconcile = {
        .pjob = pjob, .placement = pjob->placement, .now = gt_clock_ms()};
    gt_auto_err struct gt_err *error = NULL;
    enum gt_queue_result result = GT_QUEUE_DONE;
    const struct placement_moves *moves = &pjob->placement->moves;
    int r = gt_reconcile_make(&reconcile, &error);
    if (r == -ENOMEM) {
        gt_placement_fail(pjob, gt_err_text(error));
        return GT_QUEUE_FAILED;
    }
    if (r == 0 && reconcile.view->grouped &&
        (reconcile.view->states[GT_MEMBER_TO_PLACE] || reconcile.view->states[GT_MEMBER_TO_RESERVE]) &&
        gt_reconcile_is_ready(&reconcile))
        /* Where pods have moved for another job, its nodes are for no other one, whatever the order. */
        result = plan_waiting(&reconcile, restricted || (moves->in_force && moves->waiting != pjob));
    else
        gt_placement_mark(pjob); /* it has changed since it was queued */
    if (result == GT_QUEUE_DONE)
        pjob->wait.queued = false;
    return result;
}

/* ---- jobs that wait for something else than room ---- */

static bool fits_now(struct pjob *pjob)
{
    struct gt_placement *placement = pjob->placement;
    auto_reconcile struct reconcile reconcile = {.pjob = pjob, .placement = placement, .now = gt_clock_ms()};
    gt_auto_free struct gt_plan_pod *places = NULL;
    bool restricted = placement->nodes.holder && placement->nodes.holder != pjob;
    if (pjob->state == GT_PLACEMENT_WRITES) /* it has places just now */
        return true;
    return gt_reconcile_make(&reconcile, NULL) == 0 &&
           gt_decide_fits(reconcile.view, restricted ? &placement->nodes.reserved : NULL, &places);
}

/* The others are tried so often anyway, or have a plan. */
void gt_placement_look(struct gt_placement *placement)
{
    uint64_t end_ms = gt_clock_ms() + FITS_LOOK_MS;
    for (struct pjob *pjob = placement->jobs.first; pjob; pjob = pjob->next) {
        enum gt_fits_reason reason = gt_waits_for(pjob);
        bool asks = reason != GT_FITS_REASONS && reason != GT_FITS_RESERVED && reason != GT_FITS_PLANNED &&
                    gt_wait_age_s(pjob) >= FITS_AFTER_S && gt_clock_ms() < end_ms;
        pjob->wait.fits = asks && fits_now(pjob);
    }
}

/* ---- nodes reserved for the job that has waited longest ---- */

static uint64_t digest_of_kept(const struct gt_placement *placement)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    uint64_t digest = GT_DIGEST_EMPTY;
    for (uint32_t n = gt_node_set_next(&placement->nodes.reserved, 0); n != GT_NONE;
         n = gt_node_set_next(&placement->nodes.reserved, n + 1)) {
        struct gt_cluster_node node;
        bool there = gt_cluster_get_node(cluster, n, &node);
        digest = gt_digest_number(digest, there ? gt_digest_keyed(node.name) : 0);
        digest = gt_digest_number(digest, there && node.eligible ? node.healthy : 0);
        /* an entry ends when its node leaves the cluster, also only to come back with other links */
        digest = gt_digest_number(digest, gt_cluster_promised(cluster, n, GT_PROMISE_NODE));
    }
    return digest;
}

static uint32_t healthy_gpus(const struct gt_cluster *cluster, uint32_t id)
{
    struct gt_cluster_node node;
    return gt_cluster_get_node(cluster, id, &node) && node.eligible ? gt_bit_count(node.healthy) : 0;
}

/* The GPUs of the nodes, where they are more than may be reserved for one job; else 0. */
static uint32_t beyond_limit(const struct gt_placement *placement, const struct gt_node_set *nodes)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    uint64_t all = 0;
    uint32_t gpus = 0;
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++) {
        all += healthy_gpus(cluster, n);
        gpus += gt_node_set_has(nodes, n) ? healthy_gpus(cluster, n) : 0;
    }
    bool fits = gpus * UINT64_C(100) <= all * placement->spec.options.reserve.waiting_percent;
    return fits || gt_node_set_count(nodes) <= 1 ? 0 : gpus;
}

static bool attempt_copy_nodes(const struct gt_node_set *from, struct gt_node_set *to)
{
    int r = 0;
    for (uint32_t n = gt_node_set_next(from, 0); r >= 0 && n != GT_NONE; n = gt_node_set_next(from, n + 1))
        r = gt_node_set_add(to, n, NULL);
    return r >= 0;
}

/* The chosen nodes stay reserved as long as they are suitable: if others were chosen again and again, none
 * would ever become empty. */
bool gt_placement_hold(struct gt_placement *placement, struct pjob *pjob, uint64_t reserved_until_ms)
{
    auto_reconcile struct reconcile reconcile = {.pjob = pjob, .placement = placement, .now = gt_clock_ms()};
    bool makes_room = pjob && placement->moves.waiting == pjob && !placement->moves.holds;
    if (pjob && placement->nodes.holder == pjob && !makes_room &&
        placement->nodes.reserved_digest == digest_of_kept(placement))
        return true;
    struct gt_node_set chosen = {0};
    bool found = false;
    bool preempts = pjob && placement->preempt.job == pjob;
    const struct gt_node_set *known = preempts                           ? &placement->preempt.nodes
                                      : placement->moves.waiting == pjob ? &placement->moves.room
                                                                         : NULL;
    if (pjob && gt_reconcile_make(&reconcile, NULL) == 0)
        found = known ? attempt_copy_nodes(known, &chosen) : gt_decide_drain(reconcile.view, &chosen);
    if (pjob)
        pjob->place.too_many_gpus = found && !preempts ? beyond_limit(placement, &chosen) : 0;
    found = found && !pjob->place.too_many_gpus;
    if (!found)
        gt_node_set_done(&chosen);
    if (pjob && !found && placement->nodes.holder != pjob) {
        if (preempts)
            gt_preempt_end(placement);
        return false; /* the current holder goes on */
    }
    struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    if (placement->nodes.holder)
        gt_cluster_end_promises(cluster, GT_PROMISE_NODE, placement->nodes.holder->job->number);
    if (found)
        gt_cluster_promise_nodes(cluster, GT_PROMISE_NODE, pjob->job->number, &chosen);
    gt_node_set_done(&placement->nodes.reserved);
    placement->nodes.reserved = chosen;
    placement->nodes.holder = found ? pjob : NULL;
    placement->nodes.reserved_digest = digest_of_kept(placement);
    placement->counters.reserved_node_count = gt_node_set_count(&placement->nodes.reserved);
    if (placement->preempt.job && placement->preempt.job != placement->nodes.holder)
        gt_preempt_end(placement);
    if (found) {
        if (preempts)
            gt_placement_mark(pjob); /* which evicts */
        if (pjob->place.reserved_until_ms != reserved_until_ms)
            pjob->place.reserved_until_s = gt_placement_unix_s(reserved_until_ms);
        pjob->place.reserved_until_ms = reserved_until_ms;
        gt_placement_publish(pjob, reconcile.view, reconcile.owner);
    }
    return found;
}
