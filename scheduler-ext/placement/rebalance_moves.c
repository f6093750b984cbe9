/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/lease.h"
#include "api/meta.h"
#include "api/movable.h"
#include "api/names.h"
#include "api/pod_patch.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * With --rebalance=evict: makes the moves that rebalance.c has found for the first waiting job. The moves and
 * the nodes that the job gets are one write of its GPUPlacement, so that a new leader goes on with them, and
 * these nodes are reserved for it. Then one unit after the other moves as if people had asked for it
 * (node_loss.c): its new place is reserved and written before its first pod is evicted. Where that leads to
 * no room, or nobody waits for it any more, what has not left stays.
 */

enum {
    MOVES_PODS_MAX = 64,
    MOVES_DAY_S = 86400,
    STUCK_ROUNDS = 3, /* tries for a unit's new place */
    CHECKPOINT_BODY_MAX = 4096,
};

/* ---- what moves ---- */

/* Takes the next word off; NULL: there is none. */
static char *take_word(char **rest, char separator)
{
    char *word = *rest, *end = word ? strchr(word, separator) : NULL;
    if (end)
        *end = '\0';
    *rest = end ? end + 1 : NULL;
    return word;
}

static bool add_room(const struct gt_placement *placement, char *names, struct gt_node_set *to)
{
    for (char *name; (name = take_word(&names, ','));) {
        uint32_t node = gt_cluster_find_node(gt_cache_cluster(placement->spec.cache), name);
        if (node == GT_NONE || gt_node_set_add(to, node, NULL) < 0)
            return false;
    }
    return true;
}

/* "NAMESPACE/NAME/UID=NODE" */
static bool read_move(char *word, struct placement_move *to)
{
    char *name = strchr(word, '/'), *uid = name ? strchr(name + 1, '/') : NULL;
    char *node = uid ? strchr(uid + 1, '=') : NULL;
    if (!node)
        return false;
    *name = *uid = *node = '\0';
    to->namespace_ = word;
    to->name = name + 1;
    to->uid = uid + 1;
    to->node = node + 1;
    return *word && *to->name && *to->uid && *to->node;
}

static struct gt_cache_pod *pod_of(const struct gt_placement *placement, const struct placement_move *move)
{
    struct gt_cache_pod *pod = gt_cache_find_pod(placement->spec.cache, move->namespace_, move->name);
    return pod && strcmp(pod->uid, move->uid) == 0 ? pod : NULL;
}

static bool read_moves(struct gt_placement *placement, const char *text, struct placement_moves *to)
{
    to->text = strdup(text);
    to->words = strdup(text);
    to->list = calloc(MOVES_PODS_MAX, sizeof(*to->list));
    if (!to->text || !to->words || !to->list || strncmp(text, "room=", 5) != 0)
        return false;
    char *units = strchr(to->words, ' ');
    if (!units)
        return false;
    *units++ = '\0';
    if (!add_room(placement, to->words + 5, &to->room))
        return false;
    for (char *unit; (unit = take_word(&units, ' ')); to->units++)
        for (char *word; (word = take_word(&unit, ','));) {
            struct placement_move move = {.unit = to->units};
            if (to->count == MOVES_PODS_MAX || !read_move(word, &move))
                return false;
            const struct gt_cache_pod *pod = pod_of(placement, &move);
            move.job = pod ? pod->job->number : 0;
            to->list[to->count++] = move;
        }
    return to->units;
}

static void moves_done(struct placement_moves *moves)
{
    free(moves->text);
    free(moves->words);
    free(moves->list);
    gt_node_set_done(&moves->room);
    moves->text = moves->words = NULL;
    moves->list = NULL;
    moves->count = moves->units = 0;
    moves->holds = moves->in_force = false;
    moves->waiting = NULL;
}

void gt_rebalance_done(struct gt_placement *placement)
{
    moves_done(&placement->moves);
    free(placement->moves.stopped);
}

const struct placement_move *gt_rebalance_find(const struct gt_placement *placement,
                                               const struct gt_cache_pod *pod)
{
    const struct placement_moves *moves = &placement->moves;
    return GT_FIND(moves->list, moves->count, uid, pod->uid);
}

const char *gt_rebalance_node(const struct gt_placement *placement, const struct gt_cache_pod *pod)
{
    const struct placement_move *move = placement->moves.in_force ? gt_rebalance_find(placement, pod) : NULL;
    return move && move->begun ? move->node : NULL;
}

/* ---- how many ---- */

static uint32_t moves_of_the_day(struct placement_moves *moves)
{
    uint64_t now_s = gt_placement_now_s();
    uint32_t kept = 0;
    for (uint32_t i = 0; i < moves->made.count; i++)
        if (moves->made.times_s[i] + MOVES_DAY_S > now_s)
            moves->made.times_s[kept++] = moves->made.times_s[i];
    return moves->made.count = kept;
}

static bool count_move(struct placement_moves *moves)
{
    uint32_t count = moves_of_the_day(moves);
    if (count == GT_MOVES_A_DAY_MAX)
        return false;
    moves->made.times_s[moves->made.count++] = gt_placement_now_s();
    return true;
}

void gt_rebalance_read_note(struct gt_placement *placement, const char *note)
{
    struct placement_moved *made = &placement->moves.made;
    made->count = gt_lease_note_moved(note, made->times_s, GT_MOVES_A_DAY_MAX);
}

/* The nodes that the pods of unit `unit` leave, or of all: GT_NONE. */
static bool nodes_left(struct gt_placement *placement, const struct placement_moves *moves, uint32_t unit)
{
    struct gt_node_set *to = &placement->nodes.leaving;
    gt_node_set_clear(to);
    for (uint32_t i = 0; i < moves->count; i++) {
        const struct gt_cache_pod *pod = pod_of(placement, &moves->list[i]);
        if ((unit == GT_NONE || moves->list[i].unit == unit) && pod && pod->node != GT_NONE &&
            gt_node_set_add(to, pod->node, NULL) < 0)
            return false;
    }
    return true;
}

/* ---- begin and end ---- */

static bool may_begin(struct pjob *pjob, struct placement_moves *moves,
                      char why[static GT_REBALANCE_WHY_SIZE])
{
    struct gt_placement *placement = pjob->placement;
    char braked[GT_BRAKE_WHY_SIZE];
    uint64_t most = placement->spec.options.moves_a_day;
    uint32_t made = moves_of_the_day(&placement->moves);
    if (gt_clock_ms() < placement->moves.rest_ms)
        snprintf(why, GT_REBALANCE_WHY_SIZE, "the last moves made no room: %s",
                 placement->moves.stopped ? placement->moves.stopped : "");
    else if (made + moves->units > most)
        snprintf(why, GT_REBALANCE_WHY_SIZE, "%u move%s made in the last 24 hours, and --moves-a-day is %llu",
                 made, made == 1 ? " was" : "s were", (unsigned long long)most);
    else if (placement->nodes.holder && placement->nodes.holder != pjob)
        snprintf(why, GT_REBALANCE_WHY_SIZE, "nodes are reserved for %s", placement->nodes.holder->job->key);
    else if (!nodes_left(placement, moves, GT_NONE) ||
             gt_brake_is_on(&placement->nodes.brake, &placement->nodes.leaving, true, gt_clock_ms(), braked))
        snprintf(why, GT_REBALANCE_WHY_SIZE, "%s", braked);
    else
        return true;
    return false;
}

static void moves_adopt(struct pjob *pjob, struct placement_moves *moves)
{
    struct placement_moves *to = &pjob->placement->moves;
    moves->made = to->made;
    moves->rest_ms = to->rest_ms;
    moves->waiting = pjob;
    moves->began_ms = gt_clock_ms();
    free(to->stopped);
    *to = *moves;
    if (pjob->placement->preempt.job == pjob) /* in vain: it needs the nodes of the moves now */
        gt_preempt_end(pjob->placement);
    gt_placement_mark(pjob); /* the next round takes the first step */
}

bool gt_rebalance_begin(struct pjob *pjob, const char *words, char why[static GT_REBALANCE_WHY_SIZE])
{
    struct placement_moves moves = {0};
    if (!read_moves(pjob->placement, words, &moves))
        snprintf(why, GT_REBALANCE_WHY_SIZE, "they are more than %d pods", MOVES_PODS_MAX);
    else if (may_begin(pjob, &moves, why)) {
        moves_adopt(pjob, &moves);
        return true;
    }
    moves_done(&moves);
    return false;
}

void gt_rebalance_adopt(struct pjob *pjob)
{
    struct placement_moves moves = {0};
    const struct placement_known *content = pjob->object ? pjob->object->content : NULL;
    if (!content || !*content->moves || pjob->placement->moves.waiting ||
        pjob->placement->spec.options.rebalance != GT_REBALANCE_EVICT)
        return;
    if (read_moves(pjob->placement, content->moves, &moves))
        moves_adopt(pjob, &moves);
    else
        moves_done(&moves);
}

void gt_rebalance_end(struct gt_placement *placement, const char *why)
{
    struct placement_moves *moves = &placement->moves;
    struct pjob *pjob = moves->waiting;
    if (!pjob)
        return;
    for (uint32_t i = 0; placement->round.started && i < moves->count; i++) {
        const struct gt_cache_pod *pod = pod_of(placement, &moves->list[i]);
        if (pod && pod->job->user)
            gt_placement_mark(pod->job->user); /* gives back what was reserved for it */
    }
    moves_done(moves);
    if (placement->nodes.holder == pjob)
        placement->nodes.reserved_digest = 0; /* others may be better */
    free(moves->stopped);
    moves->stopped = why ? strdup(why) : NULL;
    if (!why)
        return;
    moves->rest_ms = gt_clock_ms() + placement->spec.options.reserve.waiting_ms;
    placement->rebalance.next_ms = 0;
    gt_placement_event(pjob, pjob->job->pods, true, "MovesStopped", "Place", why);
}

static uint32_t units_begun(const struct placement_moves *moves)
{
    uint32_t begun = 0;
    for (uint32_t i = 0; i < moves->count; i++) /* the pods of a unit follow one another */
        begun += moves->list[i].begun && (!i || moves->list[i].unit != moves->list[i - 1].unit);
    return begun;
}

/* Whether a pod of a unit that has begun is gone, or told to go. */
static bool anybody_leaves(const struct gt_placement *placement)
{
    const struct placement_moves *moves = &placement->moves;
    for (uint32_t i = 0; i < moves->count; i++) {
        const struct gt_cache_pod *pod = pod_of(placement, &moves->list[i]);
        if (moves->list[i].begun && (!pod || pod->deleting || gt_evict_has_begun(pod->job->user, pod)))
            return true;
    }
    return false;
}

void gt_rebalance_refused(struct gt_placement *placement, const struct gt_cache_pod *pod, const char *refusal)
{
    struct placement_moves *moves = &placement->moves;
    struct pjob *owner = pod->job->user;
    char why[GT_REBALANCE_WHY_SIZE];
    uint32_t begun = units_begun(moves);
    if (!gt_rebalance_node(placement, pod) || anybody_leaves(placement))
        return;
    snprintf(why, sizeof(why), "pod %.63s/%.200s may not leave, so its unit stays: %.200s",
             pod->meta.namespace_, pod->meta.name, refusal);
    gt_rebalance_end(placement, why);
    owner->move.stays_until_ms = gt_clock_ms() + placement->spec.options.reserve.waiting_ms;
    moves->made.count -= begun < moves->made.count ? begun : moves->made.count; /* none has moved */
    moves->rest_ms = 0;                                                         /* others may */
}

void gt_rebalance_gone(struct pjob *pjob, const struct gt_cache_pod *last)
{
    const struct placement_moves *moves = &pjob->placement->moves;
    char why[GT_REBALANCE_WHY_SIZE];
    if (moves->waiting != pjob)
        return;
    snprintf(why, sizeof(why), "the waiting job is gone: %u of %u unit%s had begun to move, the others stay",
             units_begun(moves), moves->units, gt_plural(moves->units));
    bool waited = pjob->state == GT_PLACEMENT_WAITS || pjob->state == GT_PLACEMENT_GATHERS;
    gt_rebalance_end(pjob->placement, NULL);
    if (waited)
        gt_placement_event(pjob, last, true, "MovesStopped", "Place", why);
}

/* ---- checkpoints ---- */

/* What was asked counts no longer than moves last. */
static bool checkpoint_is_asked(const struct gt_placement *placement, const char *asked)
{
    int64_t when = asked ? gt_time_of_text(asked) : 0;
    return when > 0 &&
           (uint64_t)when + placement->spec.options.reserve.waiting_ms / 1000 + 1 >= gt_placement_now_s();
}

/* Once; without memory it is asked later. */
static void ask_for_checkpoint(struct gt_placement *placement, const struct gt_cache_pod *pod)
{
    gt_auto_buf struct gt_buf body = GT_BUF(CHECKPOINT_BODY_MAX);
    char now[GT_TIME_TEXT_SIZE];
    if (gt_write_find(&placement->lines[PLACEMENT_CHECKPOINTS], pod->meta.namespace_, pod->meta.name))
        return;
    gt_time_text((int64_t)gt_placement_now_s(), now);
    const struct gt_pod_patch patch = {.uid = pod->uid,
                                       .annotations = &(struct gt_pair){GT_ANNOTATION_CHECKPOINT_ASKED, now},
                                       .annotation_count = 1};
    gt_pod_patch_write(&patch, &body);
    const struct gt_kube_request request = {.verb = GT_KUBE_MERGE_PATCH,
                                            .resource = &gt_kube_pods,
                                            .namespace_ = pod->meta.namespace_,
                                            .name = pod->meta.name,
                                            .body = body.data,
                                            .field_manager = GT_MANAGER_COMPANION,
                                            .metadata_only = true};
    if (!body.failed)
        gt_write_post(&placement->lines[PLACEMENT_CHECKPOINTS], &request, NULL);
}

/* Whether any pod of its job has told that what was asked of this one is done. */
static bool has_checkpoint(const struct gt_cache_pod *pod, const char *asked)
{
    for (const struct gt_cache_pod *other = pod->job->pods; other; other = other->next) {
        const char *done = gt_pod_annotation(&other->meta, GT_KEY_CHECKPOINT_DONE);
        if (done && strcmp(done, asked) == 0)
            return true;
    }
    return false;
}

/* Asks those pods of the unit that want to write a checkpoint first; true: one of them has not yet. */
static bool awaits_checkpoint(struct gt_placement *placement, uint32_t unit)
{
    const struct placement_moves *moves = &placement->moves;
    bool awaits = false;
    for (uint32_t i = 0; i < moves->count; i++) {
        const struct gt_cache_pod *pod =
            moves->list[i].unit == unit ? pod_of(placement, &moves->list[i]) : NULL;
        const char *text = pod ? gt_pod_annotation(&pod->meta, GT_KEY_MOVABLE) : NULL;
        struct gt_movable movable;
        if (!text || !gt_movable_read(text, &movable) || !movable.after_checkpoint)
            continue;
        const char *asked = gt_pod_annotation(&pod->meta, GT_KEY_CHECKPOINT_ASKED);
        bool is_new = checkpoint_is_asked(placement, asked);
        if (!is_new)
            ask_for_checkpoint(placement, pod);
        awaits = awaits || !is_new || !has_checkpoint(pod, asked);
    }
    return awaits;
}

/* What failed is asked again. */
static bool on_checkpoint_asked(struct gt_write_key *key, enum gt_write_outcome outcome,
                                struct gt_kube_answer *answer)
{
    (void)key;
    (void)outcome;
    (void)answer;
    return false;
}

void gt_rebalance_open(struct gt_placement *placement)
{
    placement->lines[PLACEMENT_CHECKPOINTS] =
        (struct gt_write_line){.name = "checkpoints",
                               .running_max = 2,
                               .body_max = CHECKPOINT_BODY_MAX,
                               .retry_ms = placement->times.retry_ms,
                               .retry_max_ms = placement->times.retry_ms,
                               .answered = on_checkpoint_asked};
}

/* ---- steps ---- */

enum unit_state {
    UNIT_STAYS,  /* it has not begun */
    UNIT_LEAVES, /* some of its pods are still there, or their successors have no node yet */
    UNIT_STUCK,  /* there is no room for it any more where it is to go */
    UNIT_HAS_MOVED,
};

static const struct pjob *job_of(const struct gt_placement *placement, uint64_t number)
{
    const struct pjob *pjob = placement->jobs.first;
    while (pjob && pjob->place.reservations.owner != number)
        pjob = pjob->next;
    if (pjob)
        return pjob;
    for (pjob = placement->jobs.parked; pjob && pjob->place.reservations.owner != number;)
        pjob = pjob->next;
    return pjob;
}

/* Whether places are kept for successors of its pods. */
static bool awaits_successors(const struct pjob *pjob)
{
    const struct gt_reservations *reservations = &pjob->place.reservations;
    for (uint32_t i = 0; i < reservations->count; i++)
        if (reservations->reservations[i].moves)
            return true;
    return pjob->move.moving != PLACEMENT_STAYS;
}

static enum unit_state unit_state_of(const struct gt_placement *placement, uint32_t unit, uint64_t now)
{
    const struct placement_moves *moves = &placement->moves;
    const struct pjob *owner = NULL;
    uint32_t pods = 0, left = 0;
    for (uint32_t i = 0; i < moves->count; i++) {
        const struct placement_move *move = &moves->list[i];
        if (move->unit != unit)
            continue;
        if (!move->begun)
            return UNIT_STAYS;
        const struct gt_cache_pod *pod = pod_of(placement, move);
        pods++;
        left += pod && !pod->deleting;
        owner = owner ? owner : pod ? pod->job->user : job_of(placement, move->job);
    }
    if (!left)
        return owner && awaits_successors(owner) ? UNIT_LEAVES : UNIT_HAS_MOVED;
    bool waits = left == pods && (!owner || (owner->move.wanted && owner->move.moving == PLACEMENT_STAYS));
    return waits && now - moves->unit_ms >= STUCK_ROUNDS * placement->times.retry_ms ? UNIT_STUCK
                                                                                     : UNIT_LEAVES;
}

static void begin_unit(struct gt_placement *placement, uint32_t unit, uint64_t now)
{
    struct placement_moves *moves = &placement->moves;
    char braked[GT_BRAKE_WHY_SIZE];
    if (awaits_checkpoint(placement, unit) || !nodes_left(placement, moves, unit) ||
        gt_brake_is_on(&placement->nodes.brake, &placement->nodes.leaving, false, now, braked) ||
        !count_move(moves))
        return; /* later */
    gt_brake_take(&placement->nodes.brake, &placement->nodes.leaving, false, now);
    for (uint32_t i = 0; i < moves->count; i++) {
        struct placement_move *move = &moves->list[i];
        const struct gt_cache_pod *pod = move->unit == unit ? pod_of(placement, move) : NULL;
        move->begun = move->begun || move->unit == unit;
        if (pod && pod->job->user)
            gt_placement_mark(pod->job->user);
    }
    moves->unit_ms = now;
}

static void advance(struct gt_placement *placement, uint64_t now)
{
    struct placement_moves *moves = &placement->moves;
    uint64_t leaving = 0;
    for (uint32_t unit = 0; unit < moves->units; unit++) {
        enum unit_state state = unit_state_of(placement, unit, now);
        leaving += state == UNIT_LEAVES;
        if (state == UNIT_STUCK) {
            gt_rebalance_end(placement, "a unit that was to move has no room any more where it was to go");
            return;
        }
    }
    for (uint32_t unit = 0; unit < moves->units && leaving < placement->spec.options.moves_at_once; unit++)
        if (unit_state_of(placement, unit, now) == UNIT_STAYS) {
            begin_unit(placement, unit, now);
            leaving++;
        }
}

/* Whether the object of the waiting job has the moves; otherwise they are written when it is tried next. */
static bool moves_are_written(const struct pjob *pjob)
{
    const struct placement_object *object = pjob->object;
    bool written = object && object->content && !object->write && !object->is_unknown &&
                   strcmp(object->content->moves, pjob->placement->moves.text) == 0;
    if (!written)
        gt_queue_wake(pjob->placement->queue);
    return written;
}

/* Whether a successor of the pod has its new place. */
static bool moves_are_back(const struct gt_placement *placement, const struct placement_move *move)
{
    const struct pjob *owner = job_of(placement, move->job);
    const struct gt_cache_pod *pod = owner && owner->job ? owner->job->pods : NULL;
    while (pod && !(gt_job_view_counts(pod) && pod->node_name && strcmp(pod->node_name, move->node) == 0))
        pod = pod->next;
    return pod;
}

/* What the moves wait for. */
static void say_so_long(struct gt_placement *placement, char why[static GT_REBALANCE_WHY_SIZE])
{
    const struct placement_moves *moves = &placement->moves;
    size_t len = (size_t)snprintf(why, GT_REBALANCE_WHY_SIZE, "%s",
                                  "they took longer than nodes are reserved for a job");
    for (uint32_t i = 0; moves->in_force && i < moves->count; i++) {
        const struct placement_move *move = &moves->list[i];
        const struct gt_cache_pod *pod = pod_of(placement, move);
        enum unit_state state = unit_state_of(placement, move->unit, gt_clock_ms());
        if (state == UNIT_STAYS && awaits_checkpoint(placement, move->unit)) {
            snprintf(
                why, GT_REBALANCE_WHY_SIZE, "%s",
                "a job has not told in time that its checkpoint is written (" GT_ANNOTATION_CHECKPOINT_DONE
                ")");
            return;
        }
        if (state == UNIT_LEAVES && (pod || !moves_are_back(placement, move))) {
            const char *refusal = pod && pod->job->user ? gt_evict_refusal(pod->job->user, NULL) : NULL;
            snprintf(why + len, GT_REBALANCE_WHY_SIZE - len, ": pod %.63s/%.200s %s%s%.120s",
                     move->namespace_, move->name,
                     !pod            ? "has left, and none has come in its place"
                     : pod->deleting ? "has not ended yet"
                                     : "has not left",
                     refusal ? ", " : "", refusal ? refusal : "");
            return;
        }
    }
}

void gt_rebalance_step(struct gt_placement *placement)
{
    struct placement_moves *moves = &placement->moves;
    struct pjob *pjob = moves->waiting;
    uint64_t now = gt_clock_ms();
    if (!pjob)
        return;
    if (pjob->state != GT_PLACEMENT_WAITS && pjob->state != GT_PLACEMENT_GATHERS &&
        pjob->state != GT_PLACEMENT_NONE) {
        gt_rebalance_end(placement, pjob->state == GT_PLACEMENT_REFUSED
                                        ? "the waiting job cannot be placed as it is"
                                        : NULL); /* it has its places */
        return;
    }
    if (now - moves->began_ms >= placement->spec.options.reserve.waiting_ms) {
        char why[GT_REBALANCE_WHY_SIZE];
        say_so_long(placement, why);
        gt_rebalance_end(placement, why);
        return;
    }
    if (pjob->state != GT_PLACEMENT_WAITS || !pjob->wait.queued)
        return; /* a new leader has not tried it yet */
    if (moves->holds ? placement->nodes.holder != pjob : !gt_queue_begin_hold(placement->queue, pjob)) {
        gt_rebalance_end(placement, "the nodes that it needs cannot be reserved for it");
        return;
    }
    moves->holds = true;
    moves->in_force = moves->in_force || moves_are_written(pjob);
    if (moves->in_force)
        advance(placement, now);
}
