/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/movable.h"
#include "api/names.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/core/crossing.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * Says which pods and units would have to move so that the first job fits that has waited for --patience
 * while enough GPUs are free. Only pods move that said so. With --rebalance=suggest the text has the
 * commands; with evict rebalance_moves.c makes the moves.
 */

enum {
    REBALANCE_TRIES = 4,     /* searches, if pods have no place where they would go */
    REBALANCE_MS = 30,       /* after that no further search begins */
    SAID_MOVES_BYTES = 2600, /* bytes, and one move more: the whole text of a condition may have 4,096 */
    SUGGESTION_MAX = 4096,
    SAID_FARTHER_MAX = 256,
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
    struct gt_movable movable;
    return text && gt_movable_read(text, &movable) &&
           gt_movable_is_due(&movable, pod->created_s, gt_placement_now_s()) && !pod->deleting &&
           pod->node != GT_NONE && pod->meta.owner_controls && !gt_pod_annotation(&pod->meta, GT_KEY_MOVE_TO);
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

void gt_movable_pods_done(struct gt_movable_pods *pods)
{
    free((void *)pods->pods);
    free(pods->running);
    free(pods->never);
}

int gt_placement_movable_pods(const struct gt_placement *placement, bool planned, struct gt_movable_pods *to,
                              struct gt_err **err)
{
    struct gt_cache *cache = to->cache = placement->spec.cache;
    uint32_t count = 0;
    for (const struct gt_cache_pod *pod = NULL; (pod = gt_cache_next_pod(cache, pod));)
        count += is_movable(pod);
    to->pods = calloc((size_t)count + 1, sizeof(const struct gt_cache_pod *));
    to->running = calloc((size_t)count + 1, sizeof(*to->running));
    to->never = calloc((size_t)count + 1, sizeof(*to->never));
    GT_NEED(to->pods && to->running && to->never, err, "moves");
    if (!count)
        return 0;
    for (const struct gt_cache_job *job = NULL; (job = gt_cache_next_job(cache, job));) {
        const struct gt_cache_pod *first = job->pods;
        while (first && !is_movable(first))
            first = first->next;
        bool never = false;
        const struct pjob *pjob = job->user;
        bool stays = !first || (pjob && gt_clock_ms() < pjob->move.stays_until_ms);
        uint32_t size = stays ? UINT32_MAX : unit_size(placement, job, &never);
        for (const struct gt_cache_pod *pod = first; pod && to->count < count; pod = pod->next) {
            const char *text = gt_pod_annotation(&pod->meta, GT_KEY_PLAN_UNIT);
            uint64_t unit = 0;
            if (!is_movable(pod) || size == UINT32_MAX || (planned && !text) ||
                (size > pod->gpus && !gt_text_to_unsigned(text, UINT32_MAX - 1, &unit)))
                continue;
            to->pods[to->count] = pod;
            to->never[to->count] = never;
            to->running[to->count++] =
                (struct gt_running_pod){.place.node = pod->node,
                                        .job = (uint32_t)job->number,
                                        .place.mask = gt_cache_pod_gpus(cache, pod),
                                        .unit = size > pod->gpus ? (uint32_t)unit : GT_NONE,
                                        .cost = restart_cost(pod),
                                        .movable = true};
        }
    }
    return 0;
}

/* ---- where to ---- */

bool gt_movable_pods_may_go(const void *arg, uint32_t pod, uint32_t node)
{
    const struct gt_movable_pods *pods = arg;
    const struct gt_cache_pod *moved = pods->pods[pod];
    const struct gt_cache_request *request = gt_cache_pod_request(moved);
    return node != moved->node && gt_cache_successor_fits_node(pods->cache, moved, node) &&
           (!request || gt_cache_room_for(pods->cache, node, request, GT_CACHE_ROOM_NOW));
}

/* Whether it also has room beside those that move there before it in the list, on GPUs that its job takes. */
static bool has_place(const struct gt_movable_pods *pods, const struct gt_relocation *relocation, uint32_t at)
{
    const struct gt_relocate_move *move = &relocation->moves[at];
    const struct gt_cache_request *request = gt_cache_pod_request(pods->pods[move->pod]);
    struct gt_cluster_node info;
    uint32_t beside = 0;
    for (uint32_t i = 0; i < at; i++)
        beside += relocation->moves[i].node == move->node;
    return gt_cluster_get_node(gt_cache_cluster(pods->cache), move->node, &info) &&
           !(pods->never[move->pod] && move->mask & info.slow) &&
           (!request || gt_cache_room_for(pods->cache, move->node, request, GT_CACHE_ROOM_NOW) > beside);
}

/* Searches, again without those that have no place where they would go. False: there is no way. */
static bool find_moves(struct reconcile *reconcile, struct gt_movable_pods *pods, struct gt_node_set *room,
                       struct gt_relocation *ret)
{
    struct gt_placement *placement = reconcile->placement;
    struct gt_cache *cache = placement->spec.cache;
    bool restricted = placement->nodes.holder && placement->nodes.holder != reconcile->pjob;
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set moves_avoid = {0}, by_people = {0};
    const struct gt_node_set *kept[] = {&placement->nodes.spares,
                                        restricted ? &placement->nodes.reserved : NULL, &by_people};
    if (gt_cache_reserved_nodes(cache, &by_people, NULL) < 0)
        return false;
    for (unsigned i = 0; i < GT_COUNT(kept); i++)
        for (uint32_t n = gt_node_set_next(kept[i], 0); n != GT_NONE; n = gt_node_set_next(kept[i], n + 1))
            if (gt_node_set_add(&moves_avoid, n, NULL) < 0)
                return false;
    const struct gt_decide_moves spec = {.avoid = kept[1],
                                         .moves_avoid = &moves_avoid,
                                         .pods = pods->running,
                                         .count = pods->count,
                                         .work = GT_RELOCATE_WORK_BRIEF,
                                         .may_go = gt_movable_pods_may_go,
                                         .arg = pods,
                                         .room = room};
    uint64_t end_ms = gt_clock_ms() + REBALANCE_MS;
    for (unsigned tries = 0; pods->count && tries < REBALANCE_TRIES; tries++) {
        if (tries && gt_clock_ms() >= end_ms)
            return false;
        bool fit = true;
        gt_node_set_clear(room);
        if (gt_decide_moves(reconcile->view, &spec, ret, NULL) < 0)
            return false;
        for (uint32_t i = 0; i < ret->count; i++)
            if (!has_place(pods, ret, i))
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

static void say_how_many(const struct gt_relocation *relocation, struct gt_buf *to)
{
    gt_buf_printf(to, "; it fits when %u pod%s of %u job%s with %u GPU%s move%s%s:", relocation->count,
                  gt_plural(relocation->count), relocation->jobs, gt_plural(relocation->jobs),
                  relocation->gpus, gt_plural(relocation->gpus), relocation->count == 1 ? "s" : "",
                  relocation->exact ? "" : " (something may cost less)");
}

static void say_moves(const struct gt_placement *placement, const struct gt_movable_pods *pods,
                      const struct gt_relocation *relocation, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    uint32_t said = 0;
    say_how_many(relocation, to);
    for (uint32_t i = 0; i < relocation->count && to->len < SAID_MOVES_BYTES; i++, said++) {
        const struct gt_cache_pod *pod = pods->pods[relocation->moves[i].pod];
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(cluster, relocation->moves[i].node, &node))
            continue;
        if (gt_pod_annotation(&pod->meta, GT_KEY_PLAN_UNIT))
            gt_buf_printf(to, "%s kubectl annotate pod -n %s %s %s=%s", i ? ";" : "", pod->meta.namespace_,
                          pod->meta.name, GT_ANNOTATION_MOVE_TO, node.name);
        else
            gt_buf_printf(to, "%s kubectl delete pod -n %s %s", i ? ";" : "", pod->meta.namespace_,
                          pod->meta.name);
    }
    if (said < relocation->count)
        gt_buf_printf(to, "; and %u more", relocation->count - said);
}

/* Whether a job before it in the queue waits for room that moves could make. */
static bool is_behind(const struct pjob *pjob)
{
    const struct pjob *before = pjob;
    while ((before = gt_queue_before(pjob->placement->queue, before)))
        if (before->wait.scattered)
            return true;
    return false;
}

static bool are_of_one_unit(const struct gt_movable_pods *pods, const struct gt_relocation *relocation,
                            uint32_t a, uint32_t b)
{
    const struct gt_running_pod *x = &pods->running[relocation->moves[a].pod];
    const struct gt_running_pod *y = &pods->running[relocation->moves[b].pod];
    return x->unit != GT_NONE && x->unit == y->unit && x->job == y->job;
}

void gt_rebalance_say_farther(const struct gt_placement *placement, const char *job, const uint32_t *before,
                              const uint32_t *after, uint32_t count, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    gt_auto_buf struct gt_buf where = GT_BUF(SAID_FARTHER_MAX);
    struct gt_crossing was, is;
    if (!gt_crossing_find(cluster, before, count, &was) || !gt_crossing_find(cluster, after, count, &is))
        return;
    gt_crossing_text_farther(&was, &is, &where);
    if (where.len)
        gt_buf_printf(to, "; %s then lies %s", job, where.data);
}

/* Names the jobs that lie less close together afterwards. */
static void say_farther(const struct gt_placement *placement, const struct gt_movable_pods *pods,
                        const struct gt_relocation *relocation, struct gt_buf *to)
{
    const struct gt_cache_job *last = NULL;
    for (uint32_t i = 0; i < relocation->count && to->len < SAID_MOVES_BYTES; i++) {
        const struct gt_cache_job *job = pods->pods[relocation->moves[i].pod]->job;
        if (job == last || gt_job_kind_is_nameless(job->pods->identity.kind))
            continue;
        last = job;
        gt_auto_free uint32_t *nodes = calloc((size_t)job->pod_count + 1, 2 * sizeof(*nodes));
        uint32_t count = 0, *after = nodes ? nodes + job->pod_count : NULL;
        for (const struct gt_cache_pod *pod = job->pods; nodes && pod; pod = pod->next, count++) {
            nodes[count] = after[count] = pod->node;
            for (uint32_t m = 0; m < relocation->count; m++)
                if (pods->pods[relocation->moves[m].pod] == pod)
                    after[count] = relocation->moves[m].node;
        }
        gt_rebalance_say_farther(placement, job->key, nodes, after, count, to);
    }
}

/* In the words of the waiting job's object. */
static void write_moves(const struct gt_placement *placement, const struct gt_movable_pods *pods,
                        const struct gt_relocation *relocation, const struct gt_node_set *room,
                        struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    struct gt_cluster_node node;
    const char *separator = "room=";
    for (uint32_t n = gt_node_set_next(room, 0); n != GT_NONE; n = gt_node_set_next(room, n + 1)) {
        gt_buf_printf(to, "%s%s", separator, gt_cluster_get_node(cluster, n, &node) ? node.name : "");
        separator = ",";
    }
    for (uint32_t first = 0; first < relocation->count; first++) {
        bool repeated = false;
        for (uint32_t i = 0; i < first && !repeated; i++)
            repeated = are_of_one_unit(pods, relocation, i, first);
        for (uint32_t i = first; !repeated && i < relocation->count; i++) {
            const struct gt_cache_pod *pod = pods->pods[relocation->moves[i].pod];
            if ((i == first || are_of_one_unit(pods, relocation, first, i)) &&
                gt_cluster_get_node(cluster, relocation->moves[i].node, &node))
                gt_buf_printf(to, "%s%s/%s/%s=%s", i == first ? " " : ",", pod->meta.namespace_,
                              pod->meta.name, pod->uid, node.name);
        }
    }
}

/* Begins the moves, and says that, or why they are left to people. */
static void begin_moves(struct reconcile *reconcile, const struct gt_movable_pods *pods,
                        const struct gt_relocation *relocation, const struct gt_node_set *room,
                        struct gt_buf *said)
{
    gt_auto_buf struct gt_buf words = GT_BUF(GT_GPU_PLACEMENT_MOVES_MAX);
    char why[GT_REBALANCE_WHY_SIZE] = "they are too many for one object";
    write_moves(reconcile->placement, pods, relocation, room, &words);
    if (words.failed || !gt_rebalance_begin(reconcile->pjob, words.data, why)) {
        say_moves(reconcile->placement, pods, relocation, said);
        gt_buf_printf(said, "; they are left to people now, since %s", why);
        return;
    }
    say_how_many(relocation, said);
    gt_buf_puts(said, " they are on their way");
    for (uint32_t i = 0; i < relocation->count && said->len < SAID_MOVES_BYTES; i++) {
        const struct gt_cache_pod *pod = pods->pods[relocation->moves[i].pod];
        struct gt_cluster_node node;
        if (gt_cluster_get_node(gt_cache_cluster(reconcile->placement->spec.cache), relocation->moves[i].node,
                                &node))
            gt_buf_printf(said, "%s %s/%s to %s", i ? "," : ":", pod->meta.namespace_, pod->meta.name,
                          node.name);
    }
}

/* True: there is a way. With evict first one that the companion can go by itself. */
static bool search_moves(struct reconcile *reconcile, struct gt_buf *said)
{
    struct gt_placement *placement = reconcile->placement;
    for (unsigned planned = placement->spec.options.rebalance == GT_REBALANCE_EVICT;; planned--) {
        gt_auto_movable_pods struct gt_movable_pods pods = {0};
        __attribute__((cleanup(gt_node_set_done))) struct gt_node_set room = {0};
        struct gt_relocation moves = {0};
        bool found = gt_placement_movable_pods(placement, planned, &pods, NULL) == 0 &&
                     find_moves(reconcile, &pods, &room, &moves);
        if (found && planned)
            begin_moves(reconcile, &pods, &moves, &room, said);
        else if (found)
            say_moves(placement, &pods, &moves, said);
        if (found)
            say_farther(placement, &pods, &moves, said);
        free(moves.moves);
        if (found || !planned)
            return found;
    }
}

void gt_rebalance_suggest(struct reconcile *reconcile, struct gt_buf *text)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_placement *placement = pjob->placement;
    struct placement_rebalance *last = &placement->rebalance;
    const struct pjob *waiting = placement->moves.waiting;
    if (placement->spec.options.rebalance == GT_REBALANCE_OFF || !pjob->wait.scattered ||
        !pjob->wait.since_ms || reconcile->now - pjob->wait.since_ms < placement->spec.options.patience_ms ||
        (waiting ? waiting != pjob : is_behind(pjob)))
        return;
    if (reconcile->now >= last->next_ms &&
        !waiting) { /* one search after the other, whichever job is first */
        gt_auto_buf struct gt_buf said = GT_BUF(SUGGESTION_MAX);
        bool found = search_moves(reconcile, &said);
        free(last->text);
        last->text = found && said.data ? strdup(said.data) : NULL;
        last->job = pjob->job->number;
        last->next_ms = reconcile->now + 2 * placement->times.retry_ms;
        pjob->wait.moves_told = pjob->wait.moves_told && !placement->moves.waiting;
    }
    if (!last->text || last->job != pjob->job->number)
        return;
    gt_buf_puts(text, last->text);
    if (!pjob->wait.moves_told)
        gt_placement_event(pjob, pjob->job->pods, false,
                           placement->moves.waiting ? "MovesBegun" : "MovesSuggested", "Place",
                           last->text + 2);
    pjob->wait.moves_told = true;
}
