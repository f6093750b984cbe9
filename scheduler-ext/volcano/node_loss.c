/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/volcano/engine.h"

/*
 * Moves units that have lost nodes, for jobs with the annotation on-node-loss, as gputopo-scheduler does
 * (placement/node_loss.c). The new places are only in this process: after a restart, what is still lost is
 * found and moved again.
 */

enum { LOST_MS = 300000 }; /* as --node-loss-after of gputopo-scheduler */

struct volcano_losses {
    bool *leaves; /* [member] */
    struct gt_cache_moment now;
    uint32_t first; /* one of those of the current run */
    enum gt_cache_loss why;
};

void gt_volcano_set_brake(struct gt_volcano *volcano, int64_t percent)
{
    volcano->brake.percent = percent > 0 && percent <= 100 ? (uint64_t)percent : GT_BRAKE_PERCENT;
}

/* False: the run has lost nothing, or moves already. */
static bool run_has_lost(const struct gt_job_view *view, uint32_t first, uint32_t end,
                         struct volcano_losses *losses)
{
    uint64_t due;
    losses->why = GT_CACHE_LOSS_NONE;
    for (uint32_t i = first; i < end; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        enum gt_cache_loss why = gt_job_view_stays(member)
                                     ? gt_cache_pod_loss(member->pod, LOST_MS, &losses->now, &due)
                                     : GT_CACHE_LOSS_NONE;
        if (member->state == GT_MEMBER_MOVING)
            return false;
        losses->leaves[i] = why != GT_CACHE_LOSS_NONE;
        if (why == GT_CACHE_LOSS_NONE || losses->why != GT_CACHE_LOSS_NONE)
            continue;
        losses->why = why;
        losses->first = i;
    }
    return losses->why != GT_CACHE_LOSS_NONE;
}

/* Pods created in the second in which others are told to leave could be taken for those. */
static bool has_new_pod(const struct gt_cache_job *job, int64_t unix_s)
{
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        if ((int64_t)pod->created_s >= unix_s)
            return true;
    return false;
}

/* True: places are reserved, and `to` says why. The view has to be made again in any case. */
static bool volcano_move_away(struct gt_volcano *volcano, struct volcano_job *job, uint32_t first,
                              uint32_t end, const struct volcano_losses *losses, struct gt_buf *to)
{
    struct gt_buf *text = to;
    struct gt_plan_failure failure = {0};
    const struct gt_decide_spec spec = {.reserve_until = losses->now.ms + VOLCANO_MOVING_MS};
    bool all = job->view->job->sizes.loss == GT_ON_NODE_LOSS_JOB, whole = false;
    char why[GT_MOVES_TEXT_MAX], braked[GT_BRAKE_WHY_SIZE] = "there is no memory";
    gt_moves_text(job->view, losses->first, losses->why, NULL, why);
    if (!gt_moves_leaving(job->view, first, end, losses->leaves, &volcano->leaving_nodes) ||
        !gt_brake_lets(&volcano->brake, &volcano->leaving_nodes, losses->now.ms, braked)) {
        gt_buf_consume(text, text->len);
        gt_buf_printf(text, "%s; no pod is evicted: %s", why, braked);
        return false;
    }
    enum gt_decision decision = gt_decide_move(job->view, first, end, losses->leaves, &spec, &failure, text);
    if (decision != GT_DECISION_PLACED) {
        whole = true;
        gt_buf_consume(text, text->len);
        if (all && gt_moves_damped_until(&job->loss.moves, losses->why, LOST_MS, losses->now.ms))
            gt_buf_puts(text, "its job has moved of late");
        else
            decision = gt_decide_move(job->view, first, end, NULL, &spec, &failure, text);
    }
    bool moves = decision == GT_DECISION_PLACED;
    all = all && whole;
    if (moves && all)
        gt_moves_count(&job->loss.moves, losses->now.ms);
    if (moves) {
        gt_brake_take(&volcano->brake, &volcano->leaving_nodes, false, losses->now.ms);
        job->loss.moves_ms = losses->now.ms;
        job->loss.leave_before_s = gt_moves_begin(job->view, first, end, all);
        gt_buf_consume(text, text->len);
    }
    char said[GT_VOLCANO_TEXT_SIZE];
    snprintf(said, sizeof(said), "%s; %s%.900s", why,
             moves ? "another place is reserved"
                   : "no pod is evicted while there is no other place for the unit: ",
             text->data && !moves ? text->data : "");
    gt_buf_consume(text, text->len);
    gt_buf_puts(text, said);
    return moves;
}

static int by_losses(struct gt_volcano *volcano, struct volcano_job *job,
                     const struct gt_cache_moment *moment, struct gt_buf *text)
{
    gt_auto_free bool *leaves = calloc((size_t)job->view->count + 1, sizeof(*leaves));
    struct volcano_losses losses = {.leaves = leaves, .now = *moment};
    if (!leaves || has_new_pod(job->job, moment->unix_s))
        return 0;
    bool moves = false;
    for (uint32_t at = 0, first, end; !moves && at < job->view->count; at = end) {
        gt_job_view_run(job->view, at, &first, &end);
        if (!run_has_lost(job->view, first, end, &losses))
            continue;
        moves = volcano_move_away(volcano, job, first, end, &losses, text);
        if (gt_volcano_job_look(volcano, job) < 0)
            return -1;
    }
    return 0;
}

/* The last pod leaves when a successor is there, or long after the others: with it, the places are forgotten.
 */
static uint32_t list_moving(struct gt_volcano *volcano, const struct volcano_job *job, uint64_t now_ms,
                            uint32_t *ret)
{
    const struct gt_job_view *view = job->view;
    uint32_t left = view->states[GT_MEMBER_MOVING], count = 0;
    left -= left && view->count > 1 && view->count - view->missing == left &&
            now_ms < job->loss.moves_ms + VOLCANO_MOVING_MS;
    for (uint32_t i = 0; left && i < view->count; i++) {
        const struct volcano_task *task = view->members[i].state == GT_MEMBER_MOVING
                                              ? gt_volcano_task_of(&volcano->session, view->members[i].pod)
                                              : NULL;
        if (!task)
            continue;
        ret[count++] = (uint32_t)(task - volcano->session.tasks);
        left--;
    }
    return count;
}

uint32_t gt_volcano_move(struct gt_volcano *volcano, uint32_t number, uint32_t *ret, char *text)
{
    struct gt_cache_moment now = {.ms = gt_clock_ms(), .unix_s = (int64_t)(gt_clock_wall_ms() / 1000)};
    gt_auto_buf struct gt_buf said = GT_BUF(GT_VOLCANO_TEXT_SIZE - 1);
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    const struct volcano_job *known = task && task->pod ? task->pod->job->user : NULL;
    uint64_t due;
    *text = '\0';
    if (!task || !task->pod || task->leaves ||
        (!(known && known->loss.leave_before_s) && !gt_cache_pod_loss(task->pod, LOST_MS, &now, &due)))
        return 0;
    struct volcano_job *job = gt_volcano_job_of(volcano, task);
    if (!job || job->verdict != 1 || job->loss.looked == volcano->session_number ||
        gt_volcano_has_gates(job->view) || job->view->job->sizes.loss == GT_ON_NODE_LOSS_WAIT)
        return 0;
    job->loss.looked = volcano->session_number;
    if (!job->view->states[GT_MEMBER_MOVING])
        job->loss.leave_before_s = 0;
    if ((!job->loss.leave_before_s || job->view->job->sizes.loss == GT_ON_NODE_LOSS_UNIT) &&
        by_losses(volcano, job, &now, &said) < 0)
        return 0;
    uint64_t digest = said.len ? gt_digest_keyed(said.data) : 0;
    if (digest && digest != job->loss.told)
        gt_volcano_say(text, 0, said.data);
    job->loss.told = digest ? digest : job->loss.told;
    return list_moving(volcano, job, now.ms, ret);
}
