/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "api/pod_group.h"
#include "base/clock.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/decide/plan_texts.h"
#include "scheduler-ext/volcano/engine.h"

/* Jobs with units: the check of their annotations, and their plans. */

enum {
    RETURN_MS = 30000,  /* how long the place of a pod that left a running job is reserved */
    MISSING_MS = 60000, /* how long places of missing pods are reserved after the last new pod */
    AHEAD_GPUS = 512,   /* for units without any pod; as --reserve-gpus of gputopo-scheduler */
    SENTENCE_MAX = GT_VOLCANO_TEXT_SIZE - 1,
};

/* ---- the job of this session ---- */

static void forget_view(struct volcano_job *job)
{
    if (job->view)
        gt_job_view_free(job->view);
    job->view = NULL;
}

static void set_sentence(struct volcano_job *job, const char *text)
{
    free(job->sentence);
    job->sentence = text ? strdup(text) : NULL;
}

void gt_volcano_job_free(struct gt_volcano *volcano, struct volcano_job *job)
{
    gt_volcano_room_drop(volcano, job);
    forget_view(job);
    gt_node_set_done(&job->suitable);
    gt_node_set_done(&job->refused);
    gt_node_set_done(&job->kubelets_refuse);
    free(job->sentence);
    gt_reservations_done(&job->reservations, gt_cache_cluster(volcano->cache));
    free(job);
}

void gt_volcano_on_pod_gone(void *arg, struct gt_cache_pod *pod)
{
    if (pod->job->pod_count || !pod->job->user)
        return;
    gt_volcano_job_free(arg, pod->job->user);
    pod->job->user = NULL;
}

/* The minimum for all pods of the job, from its only PodGroup; 0: not given. */
static uint32_t minimum_of(struct volcano_session *session, const struct gt_cache_job *job)
{
    uint32_t group = GT_NONE;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        const struct volcano_task *task = gt_volcano_task_of(session, pod);
        if (!task)
            continue;
        if (group != GT_NONE && group != task->group)
            return 0;
        group = task->group;
    }
    if (group == GT_NONE || gt_pod_group_is_made_for_pods(session->texts + session->groups[group].name))
        return 0;
    return session->groups[group].minimum;
}

static const struct gt_owner *volcano_job_find_owner(const struct gt_volcano *volcano,
                                                     const struct gt_cache_job *job)
{
    const struct gt_cache_pod *pod = job->pods;
    const char *name;
    if (!pod)
        return NULL;
    enum gt_job_kind kind = gt_owner_of_pod(&pod->meta, &pod->identity, pod->owner_api_version, &name);
    return gt_owners_find(volcano->owners, kind, pod->meta.namespace_, name, pod->identity.role);
}

static int make_view(struct gt_volcano *volcano, struct volcano_job *job, struct gt_err **err)
{
    const uint64_t now = gt_clock_ms();
    const struct gt_owner *owner = volcano_job_find_owner(volcano, job->job);
    const struct gt_job_view_spec spec = {.owner = owner,
                                          .ranks = &volcano->ranks,
                                          .refused = &job->refused,
                                          .leave_before_s = job->loss.leave_before_s,
                                          .moving_until =
                                              job->loss.leave_before_s ? now + VOLCANO_MOVING_MS : 0,
                                          .now = now,
                                          .wanted_until = now + RETURN_MS,
                                          .minimum = minimum_of(&volcano->session, job->job),
                                          .none_come = owner && owner->stopped,
                                          .ungated = true,
                                          .missing_until = job->new_pod_ms + MISSING_MS,
                                          .ahead_gpus = AHEAD_GPUS,
                                          .missing_gpus = AHEAD_GPUS};
    forget_view(job);
    int r = gt_job_view_make(volcano->cache, job->job, &spec, &job->reservations, &job->view, err);
    for (uint32_t i = 0; r >= 0 && i < job->view->count; i++) {
        struct volcano_task *task = job->view->members[i].pod
                                        ? gt_volcano_task_of(&volcano->session, job->view->members[i].pod)
                                        : NULL;
        if (task)
            task->at = i;
    }
    return r;
}

static void judge(struct gt_volcano *volcano, struct volcano_job *job)
{
    gt_auto_err struct gt_err *err = NULL;
    const struct gt_cache_pod *pod = job->job->pods;
    const char *broken = gt_pod_annotation(&pod->meta, GT_KEY_GROUP) ? pod->identity_error : NULL;
    job->verdict = 0;
    set_sentence(job, NULL);
    int r = broken ? gt_fail(&err, EINVAL, "%s", broken) : make_view(volcano, job, &err);
    if (r < 0) {
        job->verdict = r;
        set_sentence(job, gt_err_text(err));
    } else
        job->verdict = job->view->grouped;
}

/* Those of which kubelets have refused pods of the job. */
static void set_refusing_nodes(const struct gt_volcano *volcano, const struct volcano_job *job,
                               struct gt_node_set *to)
{
    gt_node_set_clear(to);
    gt_backoff_nodes(&volcano->backoffs, gt_cache_cluster(volcano->cache), job->job->key, gt_clock_ms(), to);
}

struct volcano_job *gt_volcano_job_of(struct gt_volcano *volcano, const struct volcano_task *task)
{
    struct gt_cache_job *of = task->pod->job;
    struct volcano_job *job = of->user;
    if (!job) {
        job = of->user = calloc(1, sizeof(*job));
        if (!job)
            return NULL;
        job->job = of;
    }
    if (of->pod_count > job->pod_count)
        job->new_pod_ms = gt_clock_ms();
    job->pod_count = of->pod_count;
    if (job->session != volcano->session_number) {
        job->session = volcano->session_number;
        job->allocated = 0;
        job->planned = false;
        job->tried = 0;
        gt_node_set_clear(&job->suitable);
        set_refusing_nodes(volcano, job, &job->refused);
        set_refusing_nodes(volcano, job, &job->kubelets_refuse);
        job->next = volcano->session.jobs;
        volcano->session.jobs = job;
        judge(volcano, job);
    }
    return job;
}

struct volcano_job *gt_volcano_asking_job(struct gt_volcano *volcano, uint32_t number)
{
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    struct volcano_job *job = task && task->pod ? task->pod->job->user : NULL;
    return job && job->session == volcano->session_number && job->verdict == 1 && job->view ? job : NULL;
}

int gt_volcano_job_look(struct gt_volcano *volcano, struct volcano_job *job)
{
    int r = make_view(volcano, job, NULL);
    if (r < 0)
        job->verdict = -ENOMEM;
    return r;
}

int gt_volcano_check(struct gt_volcano *volcano, uint32_t number, uint32_t *ret_rank, char *error)
{
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    if (!task)
        return gt_volcano_say(error, -EINVAL, "there is no such task");
    const struct volcano_job *job = task->pod ? gt_volcano_job_of(volcano, task) : NULL;
    *ret_rank = 0;
    if (!job)
        return 0;
    if (job->verdict < 0)
        return gt_volcano_say(error, job->verdict, job->sentence ? job->sentence : strerror(ENOMEM));
    if (task->at == GT_NONE && job->view && job->view->job->rest)
        return gt_volcano_say(error, -EINVAL, job->view->job->rest_text);
    *ret_rank = task->at == GT_NONE ? 0 : task->at;
    return job->verdict;
}

/* ---- the job's plan ---- */

void gt_volcano_give_back(struct gt_volcano *volcano, struct volcano_job *job)
{
    struct gt_cluster *cluster = gt_cache_cluster(volcano->cache);
    for (uint32_t i = 0; job->view && i < job->view->count; i++) {
        struct gt_cache_pod *pod = job->view->members[i].pod;
        if (pod && pod->state == GT_CACHE_WAITING &&
            gt_index_find(&volcano->own, pod->meta.namespace_, pod->meta.name)) {
            gt_cache_unplan_pod(volcano->cache, pod);
            gt_volcano_disown(volcano, pod);
        } else if (!pod && job->view->members[i].state == GT_MEMBER_RESERVED)
            gt_reservations_release(&job->reservations, cluster, i);
    }
    job->planned = false;
    volcano->session.given_back++;
    gt_volcano_job_look(volcano, job);
}

void gt_volcano_job_close(struct gt_volcano *volcano, struct volcano_job *job)
{
    if (job->planned && !job->allocated)
        gt_volcano_give_back(volcano, job);
    forget_view(job);
    set_sentence(job, NULL);
    job->next = NULL;
}

/* The plans that are new in the cache are this session's. */
static void own_plans(struct gt_volcano *volcano, const struct gt_job_view *before)
{
    for (uint32_t i = 0; i < before->count; i++) {
        const struct gt_job_view_member *member = &before->members[i];
        bool was_open =
            member->state == GT_MEMBER_TO_PLACE || member->state == GT_MEMBER_PLANNED; /* came home */
        if (was_open && member->pod->plan == GT_CACHE_PLAN_ASSUMED)
            gt_volcano_own(volcano, member->pod);
    }
}

const struct gt_cache_pod *gt_volcano_not_admitted(struct gt_volcano *volcano, const struct volcano_job *job)
{
    struct volcano_session *session = &volcano->session;
    bool may_come = gt_clock_ms() < job->new_pod_ms + MISSING_MS;
    const struct gt_cache_pod *first = NULL;
    uint32_t others = job->view->count;
    for (uint32_t i = 0; i < job->view->count; i++) {
        const struct gt_job_view_member *member = &job->view->members[i];
        if (member->state != GT_MEMBER_TO_PLACE)
            continue;
        const struct volcano_task *task = gt_volcano_task_of(session, member->pod);
        if (!(task ? session->groups[task->group].waits : may_come))
            continue;
        first = first ? first : member->pod;
        others--;
    }
    return others < job->view->minimum ? first : NULL;
}

void gt_volcano_admitted(struct gt_volcano *volcano, uint32_t number)
{
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    if (task)
        volcano->session.groups[task->group].waits = false;
}

static int say_not_admitted(struct volcano_job *job, const struct gt_cache_pod *pod, char *error)
{
    snprintf(error, GT_VOLCANO_TEXT_SIZE,
             "the PodGroup of pod %s of the same job is not there yet, or its queue has not admitted it",
             pod->meta.name);
    set_sentence(job, error);
    return -EAGAIN;
}

int64_t gt_volcano_refused_until(const struct gt_volcano *volcano, const struct volcano_job *job)
{
    uint64_t now = gt_clock_ms(), until = gt_backoff_refused_until(&volcano->backoffs, job->job->key, now);
    return until ? (int64_t)((gt_clock_wall_ms() + until - now + 500) / 1000) : 0;
}

static int say_refused(struct volcano_job *job, int64_t until_s, char *error)
{
    char text[BACKOFF_TEXT_SIZE];
    gt_backoff_refused_text(until_s, text);
    set_sentence(job, text);
    return gt_volcano_say(error, -EAGAIN, text);
}

static int volcano_job_plan(struct gt_volcano *volcano, struct volcano_job *job, char *error)
{
    gt_auto_buf struct gt_buf text = GT_BUF(SENTENCE_MAX);
    struct gt_plan_failure failure;
    const struct gt_decide_spec spec = {.reserve_until = gt_clock_ms() + MISSING_MS};
    if (gt_volcano_has_gates(job->view))
        return gt_volcano_say(error, -EAGAIN,
                              "gputopo-scheduler places this job: some of its pods have the gate " GT_GATE);
    int64_t refused_until = gt_volcano_refused_until(volcano, job);
    if (refused_until)
        return say_refused(job, refused_until, error);
    const struct gt_cache_pod *late = gt_volcano_not_admitted(volcano, job);
    if (late)
        return say_not_admitted(job, late, error);
    if (job->tried == volcano->session.given_back)
        return gt_volcano_say(error, -EAGAIN, job->sentence ? job->sentence : "it does not fit");
    gt_volcano_room_pause(volcano, job, true);
    enum gt_decision decision = gt_decide(job->view, &spec, &failure, &text);
    if (decision == GT_DECISION_PLACED || decision == GT_DECISION_NOTHING) {
        gt_volcano_room_drop(volcano, job);
        own_plans(volcano, job->view);
        job->planned = true;
        return make_view(volcano, job, NULL) < 0 ? gt_volcano_say(error, -ENOMEM, strerror(ENOMEM)) : 0;
    }
    gt_volcano_room_pause(volcano, job, false);
    job->tried = volcano->session.given_back;
    set_sentence(job, text.data ? text.data : "it could not be planned");
    if (make_view(volcano, job, NULL) >= 0) /* it is invalid after gt_decide() */
        gt_volcano_room_comes(volcano, job);
    return gt_volcano_say(error, -EAGAIN, job->sentence ? job->sentence : strerror(ENOMEM));
}

static int planned_node(const struct gt_volcano *volcano, const struct gt_cache_pod *pod, uint32_t *ret_node,
                        char *error)
{
    const struct volcano_session *session = &volcano->session;
    uint32_t node =
        pod->planned.node < session->ids ? session->node_of[pod->planned.node] : GT_VOLCANO_NO_NODE;
    if (node == GT_VOLCANO_NO_NODE)
        return gt_volcano_say(error, -EAGAIN, "the planned node is not in Volcano's session");
    *ret_node = node;
    return 1;
}

int gt_volcano_place(struct gt_volcano *volcano, uint32_t number, uint32_t *ret_node, char *error)
{
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    if (!task)
        return gt_volcano_say(error, -EINVAL, "there is no such task");
    if (!task->pod)
        return gt_volcano_say(error, -EAGAIN, "gputopo has not seen this pod yet");
    struct volcano_job *job = gt_volcano_job_of(volcano, task);
    if (!job)
        return gt_volcano_say(error, -ENOMEM, strerror(ENOMEM));
    if (job->verdict < 0)
        return gt_volcano_say(error, job->verdict, job->sentence ? job->sentence : strerror(ENOMEM));
    if (job->verdict == 1 && task->at < job->view->count &&
        gt_job_view_unit_moves(job->view, job->view->members[task->at].unit))
        return gt_volcano_say(error, -EAGAIN, "pods of its unit have still to leave for other places");
    if (task->pod->plan == GT_CACHE_PLAN_ASSUMED)
        return planned_node(volcano, task->pod, ret_node, error);
    if (!job->verdict)
        return 0;
    if (task->pod->plan == GT_CACHE_PLAN_LOST)
        return gt_volcano_say(error, -EAGAIN, "the place that it was planned for is lost");
    /* Plans of which the session could not allocate any task are given up. */
    for (struct volcano_job *other = volcano->session.jobs; other; other = other->next)
        if (other != job && other->planned && !other->allocated)
            gt_volcano_give_back(volcano, other);
    int r = volcano_job_plan(volcano, job, error);
    if (r < 0)
        return gt_volcano_room_place(volcano, job, task->pod, ret_node) ? 1 : r;
    if (task->pod->plan != GT_CACHE_PLAN_ASSUMED)
        return gt_volcano_say(error, -EAGAIN,
                              "other units of its job were placed; there is no room for this one");
    return planned_node(volcano, task->pod, ret_node, error);
}

/* ---- allocations of the session ---- */

void gt_volcano_allocated(struct gt_volcano *volcano, uint32_t number, uint32_t node)
{
    struct volcano_task *task = gt_volcano_task_at(volcano, number);
    if (task && !task->waits)
        gt_volcano_evicted(volcano, task, false);
    if (!task || !task->pod || !task->waits || task->allocated)
        return;
    struct volcano_job *job = gt_volcano_job_of(volcano, task);
    uint32_t coming;
    task->allocated = true;
    if (job)
        job->allocated++;
    if (task->pod->plan != GT_CACHE_PLAN_ASSUMED &&
        !(job && gt_volcano_room_place(volcano, job, task->pod, &coming)))
        gt_volcano_assume(volcano, task->pod, node);
}

void gt_volcano_deallocated(struct gt_volcano *volcano, uint32_t number)
{
    struct volcano_task *task = gt_volcano_task_at(volcano, number);
    if (task && !task->waits)
        gt_volcano_evicted(volcano, task, true);
    if (!task || !task->allocated)
        return;
    struct volcano_job *job = gt_volcano_job_of(volcano, task);
    task->allocated = false;
    if (job)
        job->allocated--;
    if (job && job->planned)
        return; /* the whole plan is given up */
    if (gt_index_find(&volcano->own, task->pod->meta.namespace_, task->pod->meta.name)) {
        gt_cache_unplan_pod(volcano->cache, task->pod);
        gt_volcano_disown(volcano, task->pod);
    }
}

/* Whether some of a unit's members in the group were allocated and others wait. */
static bool is_torn_off(struct volcano_session *session, const struct gt_job_view *view,
                        const struct gt_plan_unit *unit, uint32_t group)
{
    bool some = false, waits = false;
    for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
        const struct gt_cache_pod *pod = view->members[i].pod;
        const struct volcano_task *task = pod ? gt_volcano_task_of(session, pod) : NULL;
        if (!task || task->group != group)
            continue;
        some = some || task->allocated;
        waits = waits || (task->waits && !task->allocated);
    }
    return some && waits;
}

static bool is_whole_in(struct volcano_session *session, const struct volcano_job *job, uint32_t group)
{
    if (job->verdict != 1 || !job->view || !job->allocated)
        return true;
    for (uint32_t u = 0; u < job->view->job->units.count; u++)
        if (is_torn_off(session, job->view, &job->view->job->units.units[u], group))
            return false;
    return true;
}

/* Asks about all jobs with tasks in the group; several have one PodGroup where one owner has made their
 * pods. */
static bool is_group_whole(struct gt_volcano *volcano, uint32_t number, bool ready)
{
    struct volcano_session *session = &volcano->session;
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    volcano->questions++;
    while (task && number && session->tasks[number - 1].group == task->group)
        number--;
    for (; task && number < session->task_count && session->tasks[number].group == task->group; number++) {
        const struct volcano_task *other = &session->tasks[number];
        struct volcano_job *job = other->pod ? gt_volcano_job_of(volcano, other) : NULL;
        if (!job || job->asked == volcano->questions)
            continue;
        job->asked = volcano->questions;
        if (!is_whole_in(session, job, task->group) || (ready && gt_volcano_room_is_used(volcano, job)))
            return false;
    }
    return true;
}

int gt_volcano_is_whole(struct gt_volcano *volcano, uint32_t number)
{
    return is_group_whole(volcano, number, false);
}

int gt_volcano_is_ready(struct gt_volcano *volcano, uint32_t number)
{
    return is_group_whole(volcano, number, true);
}

/* ---- annotations of the pod ---- */

static size_t add_pair(char *to, size_t at, const struct gt_pair *pair)
{
    size_t key = strlen(pair->key) + 1, value = strlen(pair->value) + 1;
    if (at + key + value > GT_VOLCANO_ANNOTATIONS_SIZE)
        return 0;
    memcpy(to + at, pair->key, key);
    memcpy(to + at + key, pair->value, value);
    return at + key + value;
}

size_t gt_volcano_annotations(struct gt_volcano *volcano, uint32_t number, char *to)
{
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    const struct gt_cache_pod *pod = task ? task->pod : NULL;
    const struct volcano_job *job = pod ? gt_volcano_job_of(volcano, task) : NULL;
    struct gt_plan_texts texts;
    struct gt_pair pairs[GT_PLAN_PAIRS];
    bool grouped = job && job->verdict == 1 && job->view && task->at < job->view->count;
    if (!job || pod->plan != GT_CACHE_PLAN_ASSUMED ||
        !gt_index_find(&volcano->own, pod->meta.namespace_, pod->meta.name))
        return 0;
    struct gt_planned_place place = {.place = pod->planned};
    if (grouped) {
        place.unit = job->view->members[task->at].unit;
        place.unit_rank = task->at - job->view->job->units.units[place.unit].first;
        place.rank = job->view->job->members[task->at].rank;
        place.tier = gt_job_view_tier(job->view, place.unit);
    }
    if (gt_plan_texts_make(volcano->cache, pod, &place, &texts, NULL) < 0)
        return 0;
    gt_plan_pairs(&texts, pairs);
    size_t at = 0;
    for (unsigned i = 0; i < (grouped ? GT_PLAN_PAIRS : 2) && (!i || at); i++)
        at = add_pair(to, at, &pairs[i]);
    gt_plan_texts_done(&texts);
    return at;
}
