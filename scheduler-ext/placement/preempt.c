/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

/*
 * With --preempt: a waiting job gets room from pods of lower priority. These are chosen as in Volcano's
 * process (core/victims.h), and all pods of a unit leave together. The nodes of the plan are held for the job
 * before the first eviction, so that nobody else gets what becomes free. Budgets are respected: dry runs ask
 * first whether all of them may go. A pod whose eviction is refused stays, and others are chosen without it.
 * One job at a time; nothing is evicted while the brake is on, and the nodes that pods leave count for it.
 *
 * A new leader finds the same state: what terminates counts as free, so it chooses only what is missing.
 */
enum {
    PREEMPT_REST = 20,         /* pause after a search: so many times its duration */
    PREEMPT_BARRED_MS = 60000, /* for so long a pod is not chosen whose eviction was refused */
    PREEMPT_OVERDUE_S = 30,    /* a pod that should be gone for so long frees nothing */
    PREEMPT_TEXT_MAX = 600,
};

/* ---- the list ---- */

/* Forgets victims; also those that are barred, once their time has come. */
static void preempt_forget(struct placement_preempt *preempt, uint64_t now)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < preempt->count; i++)
        if (preempt->victims[i].barred_until_ms > now)
            preempt->victims[kept++] = preempt->victims[i];
        else
            free(preempt->victims[i].pod.names);
    preempt->count = kept;
}

static int preempt_add(struct placement_preempt *preempt, const struct gt_cache_pod *pod)
{
    struct gt_cache_pod_name name;
    if (!GT_GROW(preempt->victims, preempt->count, preempt->capacity, 16) || !gt_cache_name_pod(pod, &name))
        return -1;
    preempt->victims[preempt->count++] = (struct preempt_victim){.pod = name};
    return 0;
}

/* Whether its eviction was refused of late. */
static bool preempt_is_barred(const struct placement_preempt *preempt, const struct gt_cache_pod *pod,
                              uint64_t now)
{
    for (uint32_t i = 0; i < preempt->count; i++)
        if (preempt->victims[i].barred_until_ms > now &&
            preempt->victims[i].pod.uid == gt_digest_keyed(pod->uid))
            return true;
    return false;
}

void gt_preempt_end(struct gt_placement *placement)
{
    if (placement->preempt.job && placement->nodes.holder == placement->preempt.job)
        placement->nodes.reserved_digest = 0; /* it may need others now */
    placement->preempt.job = NULL;
    free(gt_steal(placement->preempt.places));
    preempt_forget(&placement->preempt, gt_clock_ms());
}

void gt_preempt_done(struct gt_placement *placement)
{
    preempt_forget(&placement->preempt, UINT64_MAX);
    free(placement->preempt.victims);
    free(placement->preempt.places);
    gt_node_set_done(&placement->preempt.nodes);
}

/* ---- candidates ---- */

struct preempt_candidates {
    const struct gt_cache_pod **pods;
    struct gt_running_pod *running;
    uint64_t *freed; /* [node] GPUs of pods that terminate, and may soon be gone */
    uint32_t count;
};

static void free_candidates(struct preempt_candidates *candidates)
{
    free((void *)candidates->pods);
    free(candidates->running);
    free(candidates->freed);
}

/* A pod of a file on a node comes back at once. */
static bool preempt_may_leave(const struct reconcile *reconcile, const struct gt_cache_pod *pod,
                              int32_t priority)
{
    return pod->priority < priority && pod->job != reconcile->pjob->job &&
           strcmp(pod->meta.owner_kind, "Node") != 0 &&
           !preempt_is_barred(&reconcile->placement->preempt, pod, reconcile->now);
}

/* Also pods that stay: nobody of their units leaves then. */
static bool collect_candidates(const struct reconcile *reconcile, int32_t priority,
                               struct preempt_candidates *to)
{
    struct gt_cache *cache = reconcile->placement->spec.cache;
    uint32_t nodes = gt_cluster_nodes(gt_cache_cluster(cache)), pods = 0;
    for (const struct gt_cache_pod *pod = NULL; (pod = gt_cache_next_pod(cache, pod));)
        pods += pod->node != GT_NONE;
    to->pods = calloc((size_t)pods + 1, sizeof(const struct gt_cache_pod *));
    to->running = calloc((size_t)pods + 1, sizeof(*to->running));
    to->freed = calloc((size_t)nodes + 1, sizeof(*to->freed));
    if (!to->pods || !to->running || !to->freed)
        return false;
    for (const struct gt_cache_pod *pod = NULL; (pod = gt_cache_next_pod(cache, pod));) {
        uint64_t mask = pod->node < nodes ? gt_cache_pod_gpus(cache, pod) : 0;
        bool may_leave = preempt_may_leave(reconcile, pod, priority);
        uint32_t unit = gt_cache_pod_number(pod, GT_KEY_PLAN_UNIT);
        if (pod->deleting && pod->gone_by_s + PREEMPT_OVERDUE_S > gt_placement_now_s() && mask)
            to->freed[pod->node] |= mask;
        else if (mask && !pod->deleting && to->count < pods && (may_leave || unit != GT_NONE)) {
            to->pods[to->count] = pod;
            to->running[to->count++] = (struct gt_running_pod){.place.node = pod->node,
                                                               .job = (uint32_t)pod->job->number,
                                                               .place.mask = mask,
                                                               .priority = pod->priority,
                                                               .unit = unit,
                                                               .movable = may_leave};
        }
    }
    return true;
}

/* ---- choosing ---- */

static bool preempts_never(const struct gt_cache_job *job)
{
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        if (pod->preempts_never)
            return true;
    return false;
}

static bool lacks_room_of_others(const struct gt_plan_failure *failure)
{
    return failure->reason == GT_PLAN_TOO_FEW_GPUS || failure->reason == GT_PLAN_NO_SUPERNODE ||
           failure->reason == GT_PLAN_UNIT_STUCK || failure->reason == GT_PLAN_NO_DOMAIN ||
           failure->reason == GT_PLAN_TOO_FEW_RESOURCES;
}

/* How many of the victims are there still, also those that terminate. */
static uint32_t preempt_left(const struct gt_placement *placement)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < placement->preempt.count; i++)
        left += !placement->preempt.victims[i].barred_until_ms &&
                gt_cache_named_pod(placement->spec.cache, &placement->preempt.victims[i].pod);
    return left;
}

static void say_left(const struct gt_placement *placement, struct gt_buf *to)
{
    uint32_t left = preempt_left(placement);
    if (left)
        gt_buf_printf(to, "; %u pod%s of lower priority leave%s for it", left, gt_plural(left),
                      left == 1 ? "s" : "");
}

/* Whether a pod of lower priority leaves a node of these, or is to: otherwise the job just waits. */
static bool preempt_any_leaves(const struct reconcile *reconcile, const struct preempt_candidates *candidates,
                               const struct gt_plan_pod *places, int32_t priority)
{
    struct gt_cache *cache = reconcile->placement->spec.cache;
    for (uint32_t i = 0; i < candidates->count; i++)
        if (candidates->running[i].chosen)
            return true;
    for (const struct gt_cache_pod *pod = NULL; (pod = gt_cache_next_pod(cache, pod));)
        for (uint32_t i = 0; pod->deleting && pod->priority < priority && i < reconcile->view->count; i++)
            if (pod->node != GT_NONE && places[i].place.node == pod->node &&
                places[i].place.mask & gt_cache_pod_gpus(cache, pod))
                return true;
    return false;
}

/* Keeps the result of the search; false: no memory, nothing is kept. */
static bool preempt_keep(struct reconcile *reconcile, const struct preempt_candidates *candidates,
                         const struct gt_plan_pod *places)
{
    struct placement_preempt *preempt = &reconcile->placement->preempt;
    int r = 0;
    gt_preempt_end(reconcile->placement);
    gt_node_set_clear(&preempt->nodes);
    preempt->place_count = reconcile->view->count;
    preempt->places = calloc((size_t)preempt->place_count + 1, sizeof(*preempt->places));
    r = preempt->places ? 0 : -1;
    for (uint32_t i = 0; i < preempt->place_count && r >= 0; i++) {
        preempt->places[i] = places[i].place.node;
        if (places[i].place.node != GT_NONE)
            r = gt_node_set_add(&preempt->nodes, places[i].place.node, NULL);
    }
    for (uint32_t i = 0; i < candidates->count && r >= 0; i++)
        if (candidates->running[i].chosen)
            r = preempt_add(preempt, candidates->pods[i]);
    if (r < 0) {
        gt_preempt_end(reconcile->placement);
        return false;
    }
    preempt->job = reconcile->pjob;
    preempt->until_ms = reconcile->now + reconcile->placement->times.eviction_ms;
    reconcile->placement->nodes.reserved_digest = 0; /* the nodes are chosen again */
    return true;
}

static bool preempt_search(struct reconcile *reconcile, int32_t priority)
{
    struct gt_placement *placement = reconcile->placement;
    __attribute__((cleanup(free_candidates))) struct preempt_candidates candidates = {0};
    gt_auto_free struct gt_plan_pod *places = NULL;
    uint64_t began = gt_clock_ms();
    bool found = collect_candidates(reconcile, priority, &candidates);
    const struct gt_decide_victims spec = {
        .freed = candidates.freed, .victims = candidates.running, .count = candidates.count};
    found = found && gt_decide_victims(reconcile->view, &spec, &places);
    uint64_t now = gt_clock_ms();
    placement->preempt.next_ms = now + PREEMPT_REST * (now - began);
    if (!found || !preempt_any_leaves(reconcile, &candidates, places, priority))
        return false;
    return preempt_keep(reconcile, &candidates, places);
}

/* `of_late`: also by nodes that have lost their pods; `why` as in brake.h. */
static bool preempt_is_braked(const struct reconcile *reconcile, bool of_late,
                              char why[static GT_BRAKE_WHY_SIZE])
{
    return gt_brake_is_on(&reconcile->placement->nodes.brake, NULL, of_late, reconcile->now, why);
}

/* Whether it is a job's turn: another one goes on unless this one comes before it. */
static bool preempt_is_due(const struct reconcile *reconcile)
{
    const struct gt_placement *placement = reconcile->placement;
    const struct placement_preempt *preempt = &placement->preempt;
    const struct pjob *pjob = reconcile->pjob;
    uint64_t waits_ms = pjob->wait.since.ms ? reconcile->now - pjob->wait.since.ms : 0;
    if (waits_ms < placement->times.preempt_ms) {
        gt_placement_due(reconcile->pjob, reconcile->now + placement->times.preempt_ms - waits_ms);
        return false;
    }
    return reconcile->now >= preempt->next_ms && reconcile->now >= pjob->wait.preempt_after_ms &&
           (!preempt->job || preempt->job == pjob ||
            gt_queue_place(placement->queue, pjob) < gt_queue_place(placement->queue, preempt->job));
}

/* Before it has waited for --patience it holds no nodes any more, as others do; nor those that an earlier
 * leader's preemption held. */
static void preempt_in_vain(const struct reconcile *reconcile)
{
    struct gt_placement *placement = reconcile->placement;
    struct pjob *pjob = reconcile->pjob;
    if (placement->preempt.job == pjob)
        gt_preempt_end(placement);
    if (!pjob->place.reserved_until.ms ||
        reconcile->now - pjob->wait.since.ms >= placement->spec.options.patience_ms)
        return;
    pjob->place.reserved_until.ms = 0;
    gt_queue_end_hold(placement->queue, pjob);
}

bool gt_preempt_choose(struct reconcile *reconcile, const struct gt_plan_failure *failure,
                       struct gt_buf *text)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_placement *placement = reconcile->placement;
    struct placement_preempt *preempt = &placement->preempt;
    char braked[GT_BRAKE_WHY_SIZE];
    int32_t priority;
    uint64_t created_s;
    if (!placement->spec.options.preempt || !lacks_room_of_others(failure) || preempts_never(pjob->job) ||
        placement->moves.waiting == pjob) /* others move for it already */
        return false;
    if (preempt->job == pjob && preempt_left(placement))
        preempt->until_ms = reconcile->now + placement->times.eviction_ms;
    if (preempt->job == pjob && reconcile->now < preempt->until_ms) {
        say_left(placement, text);
        gt_placement_due(pjob, preempt->until_ms);
        return true;
    }
    gt_placement_precedence(pjob->job, &priority, &created_s);
    if (!preempt_is_due(reconcile))
        return false;
    if (preempt_is_braked(reconcile, true, braked)) {
        gt_buf_printf(text, "; no pod of lower priority leaves for it: %s", braked);
        return false;
    }
    if (!preempt_search(reconcile, priority)) {
        preempt_in_vain(reconcile);
        pjob->wait.preempt_after_ms = reconcile->now + placement->times.retry_ms;
        return false;
    }
    say_left(placement, text);
    return true;
}

/* ---- evicting ---- */

static void say_preempted(struct pjob *pjob, const struct gt_cache_pod *pod)
{
    char text[PREEMPT_TEXT_MAX];
    int32_t priority;
    uint64_t created_s;
    gt_placement_precedence(pjob->job, &priority, &created_s);
    snprintf(text, sizeof(text),
             "pod %.253s is evicted, with priority %d: its GPUs are for %.200s, with priority %d",
             pod->meta.name, pod->priority, pjob->job->key, priority);
    gt_placement_event(pjob, pod, false, "Preempted", "Preempt", text);
}

/* Those whose eviction was refused stay, and others are chosen without them. False: there are none. */
static bool preempt_sees_refusals(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    struct placement_preempt *preempt = &reconcile->placement->preempt;
    char text[PREEMPT_TEXT_MAX];
    bool any = false;
    for (uint32_t i = 0; i < preempt->count; i++) {
        struct preempt_victim *victim = &preempt->victims[i];
        const struct gt_cache_pod *pod = gt_cache_named_pod(reconcile->placement->spec.cache, &victim->pod);
        const char *refusal = pod && !pod->deleting ? gt_evict_refusal(pjob, pod) : NULL;
        if (!refusal)
            continue;
        any = true;
        victim->barred_until_ms = reconcile->now + PREEMPT_BARRED_MS;
        snprintf(text, sizeof(text),
                 "pod %.253s of lower priority stays, since its eviction is refused: %.250s", pod->meta.name,
                 refusal);
        gt_placement_event(pjob, pjob->job->pods, true, "PreemptionRefused", "Preempt", text);
    }
    return any;
}

/* Nominates the waiting pods for their places, which keeps pods of no higher priority off these in
 * kube-scheduler, also while the pods have gates; `nominate` false: ends that. False while it is not written.
 */
static bool preempt_nominate(struct reconcile *reconcile, bool nominate)
{
    const struct placement_preempt *preempt = &reconcile->placement->preempt;
    struct pjob *pjob = reconcile->pjob;
    const struct gt_condition_text condition = {.reason = pjob->report.reason,
                                                .message = pjob->report.text ? pjob->report.text : ""};
    const struct gt_cluster *cluster = gt_cache_cluster(reconcile->placement->spec.cache);
    bool done = true;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_cache_pod *pod = reconcile->view->members[i].pod;
        struct record *record = pod && reconcile->view->members[i].state == GT_MEMBER_TO_PLACE
                                    ? gt_record_of(reconcile->placement, pod)
                                    : NULL;
        uint32_t place = nominate && i < preempt->place_count ? preempt->places[i] : GT_NONE;
        struct gt_cluster_node node;
        const char *name = gt_cluster_get_node(cluster, place, &node) ? node.name : "";
        if (!record || record->object.nominated == (*name ? gt_digest_keyed(name) : 0))
            continue;
        done = false;
        if (!*condition.reason) /* under a new leader */
            gt_placement_due(pjob, reconcile->now + reconcile->placement->times.retry_ms);
        else if (gt_record_writable(pjob, pod, reconcile->now))
            gt_write_condition(reconcile->placement, pjob, record, &condition, false, name);
    }
    return done;
}

/* Asks for those who have not been told to go. A unit goes as a whole, and nobody goes for a job that does
 * not start: so nobody goes before all may. */
static enum gt_evict_answer preempt_ask(struct reconcile *reconcile)
{
    const struct placement_preempt *preempt = &reconcile->placement->preempt;
    enum gt_evict_answer all = GT_EVICT_ALLOWED;
    for (uint32_t i = 0; i < preempt->count; i++) {
        const struct preempt_victim *victim = &preempt->victims[i];
        const struct gt_cache_pod *pod =
            victim->barred_until_ms ? NULL
                                    : gt_cache_named_pod(reconcile->placement->spec.cache, &victim->pod);
        if (!pod || pod->deleting || gt_evict_has_begun(reconcile->pjob, pod))
            continue;
        enum gt_evict_answer answer = gt_evict_try(reconcile, pod);
        all = answer > all ? answer : all;
    }
    return all;
}

void gt_preempt_evict(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_placement *placement = reconcile->placement;
    struct placement_preempt *preempt = &placement->preempt;
    char braked[GT_BRAKE_WHY_SIZE];
    if (preempt->job != pjob || placement->nodes.holder != pjob) {
        preempt_nominate(reconcile, false);
        return;
    }
    if (preempt_is_braked(reconcile, false, braked)) { /* its own first evictions do not stop the others */
        gt_placement_due(pjob, reconcile->now + placement->times.retry_ms);
        return;
    }
    if (!preempt_nominate(reconcile, true))
        return; /* the last answer brings it here again */
    enum gt_evict_answer answer = preempt_ask(reconcile);
    if (answer == GT_EVICT_ASKED)
        return; /* likewise */
    if (preempt_sees_refusals(reconcile)) {
        gt_preempt_end(placement);
        gt_queue_wake(placement->queue);
        return;
    }
    if (answer != GT_EVICT_ALLOWED)
        return;
    for (uint32_t i = 0; i < preempt->count; i++) {
        const struct preempt_victim *victim = &preempt->victims[i];
        const struct gt_cache_pod *pod =
            victim->barred_until_ms ? NULL : gt_cache_named_pod(placement->spec.cache, &victim->pod);
        if (!pod || pod->deleting)
            continue;
        if (!gt_evict_has_begun(pjob, pod)) {
            say_preempted(pjob, pod);
            placement->counters.pods.preempted++;
            /* Its job is planned after this one, and nothing is reserved for its successor. */
            gt_backoff_job(&placement->backoffs, pod->job->key,
                           reconcile->now + placement->times.eviction_ms);
        }
        gt_evict_pod(reconcile, pod);
    }
}
