/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/volcano/engine.h"

/* Which pods to evict so that a job can begin, and the order of the steps. */

enum { ROOM_RETRY_MS = 5000 }; /* pause after a search that found no victims */

int gt_volcano_wants_room(struct gt_volcano *volcano, uint32_t number)
{
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    const struct volcano_job *job = gt_volcano_asking_job(volcano, number);
    return job && !job->room && !gt_volcano_has_gates(job->view) && !gt_volcano_not_admitted(volcano, job) &&
           task->waits && !task->allocated && !job->view->states[GT_MEMBER_MOVING] &&
           (task->pod->plan == GT_CACHE_PLAN_NONE || (job->planned && !job->allocated)) &&
           gt_clock_ms() >= job->room_after_ms && !gt_volcano_refused_until(volcano, job);
}

/* Collects the tasks that use known GPUs: those that may be evicted, and what may belong to their units. */
static void collect_victims(struct gt_volcano *volcano, const uint8_t *may_go, struct volcano_victims *ret)
{
    struct volcano_session *session = &volcano->session;
    for (uint32_t i = 0; i < session->task_count; i++) {
        const struct volcano_task *task = &session->tasks[i];
        const struct gt_cache_pod *pod = task->pod;
        if (!pod || pod->node >= session->ids || gt_volcano_is_leaving(session, pod))
            continue;
        uint32_t unit = gt_cache_pod_number(pod, GT_KEY_PLAN_UNIT);
        if (!may_go[i] && unit == GT_NONE)
            continue;
        ret->pods[ret->count] =
            (struct gt_running_pod){.place = {pod->node, gt_cache_pod_gpus(volcano->cache, pod)},
                                    .priority = pod->priority,
                                    .job = task->group,
                                    .unit = unit,
                                    .movable = may_go[i]};
        ret->tasks[ret->count] = i;
        ret->count += ret->pods[ret->count].place.mask != 0;
    }
}

/* Adds the evictions from a node of the session; GT_VOLCANO_NO_NODE: from all others. */
static uint32_t add_victims(const struct volcano_session *session, const struct volcano_victims *victims,
                            uint32_t node, struct gt_volcano_step *ret)
{
    uint32_t steps = 0;
    for (uint32_t i = 0; i < victims->count; i++) {
        struct gt_running_pod *pod = &victims->pods[i];
        if (!pod->chosen || (node != GT_VOLCANO_NO_NODE && session->node_of[pod->place.node] != node))
            continue;
        pod->chosen = false;
        ret[steps++] = (struct gt_volcano_step){victims->tasks[i], GT_VOLCANO_GOES};
    }
    return steps;
}

/* Tasks for which pods are evicted come first: until then the queue may lack their GPUs. */
static int list_steps(const struct gt_volcano *volcano, const struct volcano_job *job,
                      const struct volcano_victims *victims, bool all_first, struct gt_volcano_step *ret)
{
    const struct volcano_session *session = &volcano->session;
    gt_auto_free bool *done = calloc((size_t)session->task_count + 1, sizeof(*done));
    uint32_t steps = 0, node;
    if (!done)
        return -ENOMEM;
    if (all_first)
        steps = add_victims(session, victims, GT_VOLCANO_NO_NODE, ret);
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < session->task_count; i++) {
            const struct gt_cache_pod *pod = session->tasks[i].pod;
            if (done[i] || !pod || pod->job != job->job || !gt_volcano_room_place(volcano, job, pod, &node))
                continue;
            uint32_t added = add_victims(session, victims, node, ret + steps);
            steps += added;
            done[i] = added || pass;
            if (done[i])
                ret[steps++] = (struct gt_volcano_step){i, node};
        }
    steps += add_victims(session, victims, GT_VOLCANO_NO_NODE, ret + steps); /* the rest of their units */
    return (int)steps;
}

int gt_volcano_make_room(struct gt_volcano *volcano, uint32_t number, const uint8_t *may_go,
                         const uint8_t *may_use, uint32_t lacks, struct gt_volcano_step *ret, char *error)
{
    const struct volcano_session *session = &volcano->session;
    struct volcano_job *job = gt_volcano_asking_job(volcano, number);
    if (!job)
        return gt_volcano_say(error, -EINVAL, "there is no such task of a job with units");
    gt_volcano_room_drop(volcano, job);
    bool had_plan = job->planned;
    if (had_plan)
        gt_volcano_give_back(volcano, job);
    /* Who goes may be why a predicate refuses a node: the caller asks again. A kubelet would refuse it again.
     */
    job->view->refused = &job->kubelets_refuse;
    gt_auto_free struct gt_running_pod *pods = calloc((size_t)session->task_count + 1, sizeof(*pods));
    gt_auto_free uint32_t *tasks = calloc((size_t)session->task_count + 1, sizeof(*tasks));
    if (!pods || !tasks)
        return gt_volcano_say(error, -ENOMEM, strerror(ENOMEM));
    struct volcano_victims victims = {pods, tasks, 0};
    collect_victims(volcano, may_go, &victims);
    uint32_t gpus = lacks * session->tasks[number].pod->gpus;
    int r = job->verdict < 0 ? job->verdict : gt_volcano_room_search(volcano, job, may_use, &victims, gpus);
    if (r >= 0 && had_plan && !job->room->evicted_pod_count)
        job->room->lasts = false; /* no GPU becomes free */
    if (r >= 0)
        r = list_steps(volcano, job, &victims, gpus, ret);
    if (r >= 0)
        return r;
    gt_volcano_give_up_room(volcano, number);
    return gt_volcano_say(
        error, r, r == -EAGAIN ? "it would not fit without the pods that may go either" : strerror(-r));
}

void gt_volcano_give_up_room(struct gt_volcano *volcano, uint32_t number)
{
    struct volcano_job *job = gt_volcano_asking_job(volcano, number);
    if (!job)
        return;
    gt_volcano_room_drop(volcano, job);
    job->room_after_ms = gt_clock_ms() + ROOM_RETRY_MS;
}
