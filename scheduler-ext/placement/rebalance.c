/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * With --rebalance=suggest: says which pods and units would have to move so that the first job fits that has
 * waited for --patience while enough GPUs are free. Only pods move that said so. Nothing is moved here: the
 * text has the commands.
 */

enum {
    REBALANCE_WORK = 250000, /* steps of a search: some 10 ms, since nothing else is done meanwhile */
    REBALANCE_TRIES = 4,     /* searches, if pods may not run where they would go */
    REBALANCE_MS = 30,       /* after that no further search begins */
    SAID_MOVES_BYTES = 2600, /* bytes, and one move more: the whole text of a condition may have 4,096 */
    SUGGESTION_MAX = 4096,
};

/* ---- what may move ---- */

static uint32_t restart_cost(const struct gt_cache_pod *pod)
{
    const char *text = gt_pod_annotation(&pod->meta, GT_KEY_COST);
    uint64_t cost;
    return text && gt_text_to_unsigned(text, GT_MOVE_COST_MAX, &cost) ? (uint32_t)cost : 1;
}

static bool is_movable(const struct gt_cache_pod *pod)
{
    const char *text = gt_pod_annotation(&pod->meta, GT_KEY_MOVABLE);
    return text && strcmp(text, "true") == 0 && !pod->deleting && pod->node != GT_NONE &&
           pod->meta.owner_controls && !gt_pod_annotation(&pod->meta, GT_KEY_MOVE_TO);
}

/* The GPUs of a unit; 0: the job has none; UINT32_MAX: it does not move. Its units move only where all its
 * pods run and may move: then each unit is complete. `*ret_never`: the job takes no slow GPUs, as one of its
 * templates says. */
static uint32_t unit_size(const struct gt_placement *placement, const struct gt_cache_job *job,
                          bool *ret_never)
{
    const struct pjob *pjob = job->user;
    struct gt_job_texts texts = gt_cache_job_texts(job);
    const struct gt_cache_pod *any = job->pods;
    texts.of[GT_KEY_JOB_TOPOLOGY] = gt_pod_annotation(&any->meta, GT_KEY_JOB_TOPOLOGY);
    gt_owners_add_texts(placement->spec.owners, &any->meta, &any->identity, any->owner_api_version, &texts);
    uint32_t gpus = gt_cache_job_gpus(job), size = gt_decide_unit_gpus(job, &texts);
    for (const struct gt_cache_pod *pod = job->pods; pod && !texts.of[GT_KEY_SLOW]; pod = pod->next)
        texts.of[GT_KEY_SLOW] = gt_pod_annotation(&pod->meta, GT_KEY_SLOW);
    *ret_never = gt_job_slow_use(texts.of[GT_KEY_SLOW]) == GT_SLOW_NEVER;
    if (!size)
        return 0;
    if (!pjob || pjob->move.moving || gpus % size != 0)
        return UINT32_MAX;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        if (!is_movable(pod) || !gt_pod_annotation(&pod->meta, GT_KEY_PLAN_UNIT))
            return UINT32_MAX;
    return size;
}

struct rebalance_pods {
    const struct gt_cache_pod **pods;
    struct gt_running_pod *running;
    bool *never; /* its job takes no slow GPUs */
    uint32_t count;
};

static void free_rebalance_pods(struct rebalance_pods *pods)
{
    free((void *)pods->pods);
    free(pods->running);
    free(pods->never);
}

static int collect_pods(const struct gt_placement *placement, struct rebalance_pods *to, struct gt_err **err)
{
    struct gt_cache *cache = placement->spec.cache;
    uint32_t count = 0;
    for (const struct gt_cache_pod *pod = gt_cache_next_pod(cache, NULL); pod;
         pod = gt_cache_next_pod(cache, pod))
        count += is_movable(pod);
    to->pods = calloc((size_t)count + 1, sizeof(const struct gt_cache_pod *));
    to->running = calloc((size_t)count + 1, sizeof(*to->running));
    to->never = calloc((size_t)count + 1, sizeof(*to->never));
    GT_NEED(to->pods && to->running && to->never, err, "moves");
    if (!count)
        return 0;
    for (const struct gt_cache_job *job = gt_cache_next_job(cache, NULL); job;
         job = gt_cache_next_job(cache, job)) {
        const struct gt_cache_pod *first = job->pods;
        while (first && !is_movable(first))
            first = first->next;
        bool never = false;
        uint32_t size = first ? unit_size(placement, job, &never) : UINT32_MAX;
        for (const struct gt_cache_pod *pod = first; pod && to->count < count; pod = pod->next) {
            const char *text = gt_pod_annotation(&pod->meta, GT_KEY_PLAN_UNIT);
            uint64_t unit = 0;
            if (!is_movable(pod) || size == UINT32_MAX ||
                (size > pod->gpus && !gt_text_to_unsigned(text, UINT32_MAX - 1, &unit)))
                continue;
            to->pods[to->count] = pod;
            to->never[to->count] = never;
            to->running[to->count++] =
                (struct gt_running_pod){.node = pod->node,
                                        .job = (uint32_t)job->number,
                                        .mask = gt_cache_pod_gpus(cache, pod),
                                        .unit = size > pod->gpus ? (uint32_t)unit : GT_NONE,
                                        .cost = restart_cost(pod),
                                        .movable = true};
        }
    }
    return 0;
}

/* ---- where to ---- */

/* Whether the pod may run there, beside those that move there before it in the list. */
static bool may_go(struct gt_cache *cache, const struct rebalance_pods *pods,
                   const struct gt_relocation *moves, uint32_t at)
{
    const struct gt_cache_pod *pod = pods->pods[moves->moves[at].pod];
    const struct gt_cache_request *request = gt_cache_pod_request(pod);
    uint32_t node = moves->moves[at].node, beside = 0;
    struct gt_cluster_node info;
    for (uint32_t i = 0; i < at; i++)
        beside += moves->moves[i].node == node;
    if (!gt_cluster_get_node(gt_cache_cluster(cache), node, &info) ||
        (pods->never[moves->moves[at].pod] && moves->moves[at].mask & info.slow))
        return false;
    return node != pod->node && gt_cache_successor_fits_node(cache, pod, node) &&
           (!request || gt_cache_room_for(cache, node, request, GT_CACHE_ROOM_NOW) > beside);
}

/* Searches, again without those that may not run where they would go. False: there is no way. */
static bool find_moves(struct reconcile *reconcile, struct rebalance_pods *pods, struct gt_relocation *ret)
{
    struct gt_placement *placement = reconcile->placement;
    struct gt_cache *cache = placement->spec.cache;
    bool restricted = placement->nodes.holder && placement->nodes.holder != reconcile->pjob;
    const struct gt_node_set *kept[] = {&placement->nodes.spares,
                                        restricted ? &placement->nodes.reserved : NULL};
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set moves_avoid = {0};
    for (unsigned i = 0; i < GT_COUNT(kept); i++)
        for (uint32_t n = gt_node_set_next(kept[i], 0); n != GT_NONE; n = gt_node_set_next(kept[i], n + 1))
            if (gt_node_set_add(&moves_avoid, n, NULL) < 0)
                return false;
    const struct gt_decide_moves spec = {.avoid = kept[1],
                                         .moves_avoid = &moves_avoid,
                                         .pods = pods->running,
                                         .count = pods->count,
                                         .work = REBALANCE_WORK};
    uint64_t end_ms = gt_clock_ms() + REBALANCE_MS;
    for (unsigned tries = 0; pods->count && tries < REBALANCE_TRIES; tries++) {
        if (tries && gt_clock_ms() >= end_ms)
            return false;
        bool fit = true;
        if (gt_decide_moves(cache, reconcile->view, &reconcile->pjob->place.reservations, &spec, ret, NULL) <
            0)
            return false;
        for (uint32_t i = 0; i < ret->count; i++)
            if (!may_go(cache, pods, ret, i))
                fit = pods->running[ret->moves[i].pod].movable = false;
        if (fit && ret->possible && ret->count)
            return true;
        free(ret->moves);
        ret->moves = NULL;
        if (fit)
            return false;
    }
    return false;
}

/* ---- what is said ---- */

static void say_moves(const struct gt_placement *placement, const struct rebalance_pods *pods,
                      const struct gt_relocation *moves, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    gt_buf_printf(to, "; it fits when %u pod%s of %u job%s with %u GPU%s move%s%s:", moves->count,
                  gt_plural(moves->count), moves->jobs, gt_plural(moves->jobs), moves->gpus,
                  gt_plural(moves->gpus), moves->count == 1 ? "s" : "",
                  moves->exact ? "" : " (something may cost less)");
    uint32_t said = 0;
    for (uint32_t i = 0; i < moves->count && to->len < SAID_MOVES_BYTES; i++, said++) {
        const struct gt_cache_pod *pod = pods->pods[moves->moves[i].pod];
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(cluster, moves->moves[i].node, &node))
            continue;
        if (gt_pod_annotation(&pod->meta, GT_KEY_PLAN_UNIT))
            gt_buf_printf(to, "%s kubectl annotate pod -n %s %s %s=%s", i ? ";" : "", pod->meta.namespace_,
                          pod->meta.name, GT_ANNOTATION_MOVE_TO, node.name);
        else
            gt_buf_printf(to, "%s kubectl delete pod -n %s %s", i ? ";" : "", pod->meta.namespace_,
                          pod->meta.name);
    }
    if (said < moves->count)
        gt_buf_printf(to, "; and %u more", moves->count - said);
}

/* Whether a job before it in the queue waits for room that moves could make. */
static bool is_behind(const struct pjob *pjob)
{
    const struct pjob *before = pjob;
    while ((before = gt_queue_before(pjob->placement->queue, before)))
        if (strcmp(before->report.reason, "NoSupernode") == 0)
            return true;
    return false;
}

void gt_rebalance_suggest(struct reconcile *reconcile, const struct gt_plan_failure *failure,
                          struct gt_buf *text)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_placement *placement = pjob->placement;
    struct placement_rebalance *last = &placement->rebalance;
    if (placement->spec.options.rebalance == GT_REBALANCE_OFF || failure->reason != GT_PLAN_NO_SUPERNODE ||
        !pjob->wait.since_ms || reconcile->now - pjob->wait.since_ms < placement->spec.options.patience_ms ||
        is_behind(pjob))
        return;
    if (reconcile->now >= last->next_ms) { /* one search after the other, whichever job is the first */
        __attribute__((cleanup(free_rebalance_pods))) struct rebalance_pods pods = {0};
        gt_auto_buf struct gt_buf said = GT_BUF(SUGGESTION_MAX);
        struct gt_relocation moves = {0};
        if (collect_pods(placement, &pods, NULL) == 0 && find_moves(reconcile, &pods, &moves))
            say_moves(placement, &pods, &moves, &said);
        free(moves.moves);
        free(last->text);
        last->text = said.data ? strdup(said.data) : NULL;
        last->job = pjob->job->number;
        last->next_ms = reconcile->now + 2 * placement->times.retry_ms;
    }
    if (!last->text || last->job != pjob->job->number)
        return;
    gt_buf_puts(text, last->text);
    if (!pjob->wait.moves_told)
        gt_placement_event(pjob, pjob->job->pods, false, "MovesSuggested", "Place", last->text + 2);
    pjob->wait.moves_told = true;
}
