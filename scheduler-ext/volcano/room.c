/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/err.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/decide/node_values.h"
#include "scheduler-ext/volcano/engine.h"

/*
 * Room that is made for a job: places on GPUs that pods are leaving. From the session that evicts these pods
 * on, only the job's tasks are placed there, until the GPUs are free and the job is planned like any other.
 * Places on GPUs of pods that leave anyway are reserved for one session only.
 */
enum {
    EVICTED_MS = 60000, /* how long places are reserved after the last of those pods was seen */
};

static bool was_evicted(const struct volcano_room *room, const struct gt_cache_pod *pod)
{
    uint64_t uid = gt_digest_keyed(pod->uid);
    for (uint32_t i = 0; i < room->evicted_pod_count; i++)
        if (room->evicted_pods[i].uid == uid)
            return true;
    return false;
}

bool gt_volcano_is_leaving(struct volcano_session *session, const struct gt_cache_pod *pod)
{
    const struct volcano_task *task = gt_volcano_task_of(session, pod);
    return pod->deleting || (task && (task->leaves || task->evicted));
}

/* ---- reserved places ---- */

static void let_go(struct gt_volcano *volcano, const struct volcano_room *room)
{
    gt_cluster_end_promises(gt_cache_cluster(volcano->cache), GT_PROMISE_VACATED, room->job->job->number);
}

/* Assumes the GPUs of the room that are available already. */
static void volcano_room_assume(struct gt_volcano *volcano, const struct volcano_room *room)
{
    struct gt_promise_id id;
    for (uint32_t i = 0; i < room->place_count; i++) {
        room->places[i].promise.until_ms = room->until_ms;
        gt_cluster_promise(gt_cache_cluster(volcano->cache), &room->places[i].promise, &id, NULL);
    }
}

static void free_room(struct volcano_room *room)
{
    for (uint32_t i = 0; i < room->evicted_pod_count; i++)
        free(room->evicted_pods[i].names);
    free(room->evicted_pods);
    free(room->places);
    free(room);
}

void gt_volcano_room_drop(struct gt_volcano *volcano, struct volcano_job *job)
{
    struct volcano_room *room = job->room, **link = &volcano->rooms;
    if (!room)
        return;
    let_go(volcano, room);
    while (*link != room)
        link = &(*link)->next;
    *link = room->next;
    job->room = NULL;
    free_room(room);
}

void gt_volcano_room_pause(struct gt_volcano *volcano, const struct volcano_job *job, bool pause)
{
    if (job->room && pause)
        let_go(volcano, job->room);
    else if (job->room)
        volcano_room_assume(volcano, job->room);
}

/* Whether the GPUs of a place are available, or used by leaving or deleted pods. */
static bool comes_free(struct gt_volcano *volcano, const struct volcano_room *room,
                       const struct volcano_place *place)
{
    struct gt_cluster *cluster = gt_cache_cluster(volcano->cache);
    struct gt_cluster_node node;
    if (!gt_cluster_get_node(cluster, place->promise.place.node, &node) || !node.eligible ||
        place->node_digest != gt_digest_keyed(node.name) || (place->promise.place.mask & ~node.healthy))
        return false;
    for (unsigned gpu = 0; gpu < gt_class_gpus(node.class); gpu++) {
        if (!((place->promise.place.mask & ~node.available) >> gpu & 1))
            continue;
        const struct gt_cache_pod *user = gt_cache_gpu_user(volcano->cache, place->promise.place.node, gpu);
        /* Used by no known pod: its pod was deleted, and the agent has not reported it yet. */
        if (user ? !was_evicted(room, user) && !gt_volcano_is_leaving(&volcano->session, user)
                 : node.assumed >> gpu & 1)
            return false;
    }
    return true;
}

static bool volcano_room_is_sound(struct gt_volcano *volcano, struct volcano_room *room, uint64_t now)
{
    for (uint32_t i = 0; i < room->evicted_pod_count; i++) {
        const struct gt_cache_pod *pod = gt_cache_named_pod(volcano->cache, &room->evicted_pods[i]);
        if (pod && !gt_volcano_is_leaving(&volcano->session, pod))
            return false; /* its eviction has failed */
        if (pod)
            room->until_ms = now + EVICTED_MS;
    }
    if (now >= room->until_ms)
        return false;
    for (uint32_t i = 0; i < room->place_count; i++)
        if (!comes_free(volcano, room, &room->places[i]))
            return false;
    return true;
}

void gt_volcano_rooms_open(struct gt_volcano *volcano)
{
    uint64_t now = gt_clock_ms();
    for (struct volcano_room *room = volcano->rooms; room; room = room->next)
        let_go(volcano, room);
    for (struct volcano_room *room = volcano->rooms, *next; room; room = next) {
        next = room->next;
        if (volcano_room_is_sound(volcano, room, now))
            volcano_room_assume(volcano, room);
        else
            gt_volcano_room_drop(volcano, room->job);
    }
}

/* Its tasks are allocated there, perhaps only after others have left. */
static bool is_carried_out(struct gt_volcano *volcano, const struct volcano_room *room)
{
    for (uint32_t i = 0; i < room->evicted_pod_count; i++) {
        const struct gt_cache_pod *pod = gt_cache_named_pod(volcano->cache, &room->evicted_pods[i]);
        if (!pod || !gt_volcano_is_leaving(&volcano->session, pod))
            return false;
    }
    return room->lasts && room->job->allocated;
}

void gt_volcano_rooms_close(struct gt_volcano *volcano)
{
    for (struct volcano_room *room = volcano->rooms, *next; room; room = next) {
        next = room->next;
        if (room->made_in == volcano->session_number && !is_carried_out(volcano, room))
            gt_volcano_room_drop(volcano, room->job);
    }
}

/* ---- places in it ---- */

static const struct volcano_place *volcano_room_find_place(const struct volcano_job *job,
                                                           const struct gt_cache_pod *pod)
{
    uint64_t uid = gt_digest_keyed(pod->uid);
    for (uint32_t i = 0; job->room && i < job->room->place_count; i++)
        if (job->room->places[i].uid == uid)
            return &job->room->places[i];
    return NULL;
}

bool gt_volcano_room_place(const struct gt_volcano *volcano, const struct volcano_job *job,
                           const struct gt_cache_pod *pod, uint32_t *ret_node)
{
    const struct volcano_place *place = volcano_room_find_place(job, pod);
    if (!place || place->promise.place.node >= volcano->session.ids)
        return false;
    *ret_node = volcano->session.node_of[place->promise.place.node];
    return *ret_node != GT_VOLCANO_NO_NODE;
}

bool gt_volcano_room_is_used(struct gt_volcano *volcano, const struct volcano_job *job)
{
    for (uint32_t i = 0; job->room && job->view && i < job->view->count; i++) {
        const struct gt_cache_pod *pod = job->view->members[i].pod;
        const struct volcano_task *task = pod ? gt_volcano_task_of(&volcano->session, pod) : NULL;
        if (task && task->allocated && pod->plan != GT_CACHE_PLAN_ASSUMED)
            return true;
    }
    return false;
}

/* ---- making room ---- */

/* Makes the room of a plan: its places, and the pods that are evicted from them or leave anyway. */
static int fill_room(struct gt_volcano *volcano, struct volcano_room *room, const struct gt_plan_pod *plan,
                     const struct volcano_victims *victims)
{
    uint32_t count = victims ? victims->count : 0;
    const struct gt_job_view *view = room->job->view;
    const struct gt_cluster *cluster = gt_cache_cluster(volcano->cache);
    room->places = calloc((size_t)view->count + 1, sizeof(*room->places));
    room->evicted_pods = calloc((size_t)count + 1, sizeof(*room->evicted_pods));
    if (!room->places || !room->evicted_pods)
        return -ENOMEM;
    for (uint32_t i = 0; i < view->count; i++)
        if (plan[i].place.node != GT_NONE && view->members[i].pod)
            room->places[room->place_count++] =
                (struct volcano_place){gt_digest_keyed(view->members[i].pod->uid),
                                       gt_reservations_node_digest(cluster, plan[i].place.node),
                                       {.kind = GT_PROMISE_VACATED,
                                        .place = plan[i].place,
                                        .owner = room->job->job->number,
                                        .since_ms = gt_clock_ms()}};
    for (uint32_t i = 0; i < count; i++)
        if (victims->pods[i].chosen && !gt_cache_name_pod(volcano->session.tasks[victims->tasks[i]].pod,
                                                          &room->evicted_pods[room->evicted_pod_count++]))
            return -ENOMEM;
    room->lasts = victims;
    return room->place_count ? 0 : -EAGAIN;
}

static int volcano_room_add(struct gt_volcano *volcano, struct volcano_job *job,
                            const struct gt_plan_pod *plan, const struct volcano_victims *victims)
{
    struct volcano_room *room = calloc(1, sizeof(*room));
    if (!room)
        return -ENOMEM;
    room->job = job;
    room->made_in = volcano->session_number;
    room->until_ms = gt_clock_ms() + EVICTED_MS;
    int r = fill_room(volcano, room, plan, victims);
    if (r < 0) {
        free_room(room);
        return r;
    }
    room->next = volcano->rooms;
    volcano->rooms = room;
    job->room = room;
    volcano_room_assume(volcano, room);
    return 0;
}

void gt_volcano_evicted(struct gt_volcano *volcano, struct volcano_task *task, bool is)
{
    task->evicted = is;
    free(volcano->session.freed);
    volcano->session.freed = NULL;
}

static bool count_leaving(struct gt_volcano *volcano)
{
    struct volcano_session *session = &volcano->session;
    if (!session->freed)
        session->freed = calloc((size_t)session->ids + 1, sizeof(*session->freed));
    else
        return true;
    for (uint32_t i = 0; session->freed && i < session->task_count; i++) {
        const struct gt_cache_pod *pod = session->tasks[i].pod;
        if (pod && pod->node < session->ids && gt_volcano_is_leaving(session, pod))
            session->freed[pod->node] |= gt_cache_pod_gpus(volcano->cache, pod);
    }
    return session->freed;
}

/* [node] the GPUs of leaving pods, except for those that are reserved for others; NULL without memory. */
static uint64_t *gpus_that_leave(struct gt_volcano *volcano)
{
    const struct volcano_session *session = &volcano->session;
    uint64_t *freed = count_leaving(volcano) ? malloc(((size_t)session->ids + 1) * sizeof(*freed)) : NULL;
    if (!freed)
        return NULL;
    memcpy(freed, session->freed, session->ids * sizeof(*freed));
    for (uint32_t id = 0; volcano->rooms && id < session->ids; id++)
        freed[id] &= ~gt_cluster_promised(gt_cache_cluster(volcano->cache), id, GT_PROMISE_VACATED);
    return freed;
}

/* Adds nodes that are not in the session, or that Volcano does not allow. */
static int nodes_to_avoid(const struct volcano_session *session, const uint8_t *may_use,
                          struct gt_node_set *to)
{
    for (uint32_t id = 0; id < session->ids; id++) {
        uint32_t at = session->node_of[id];
        if (at == GT_VOLCANO_NO_NODE || (may_use && !may_use[at]))
            GT_TRY(gt_node_set_add(to, id, NULL));
    }
    return 0;
}

int gt_volcano_room_search(struct gt_volcano *volcano, struct volcano_job *job, const uint8_t *may_use,
                           const struct volcano_victims *victims, uint32_t gpus)
{
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set avoid = {0};
    gt_auto_free uint64_t *freed = gpus_that_leave(volcano);
    gt_auto_free struct gt_plan_pod *plan = NULL;
    if (!freed || nodes_to_avoid(&volcano->session, may_use, &avoid) < 0)
        return -ENOMEM;
    const struct gt_decide_victims spec = {
        &avoid, freed, victims ? victims->pods : NULL, victims ? victims->count : 0, true, gpus};
    if (!gt_decide_victims(job->view, &spec, &plan))
        return -EAGAIN;
    return volcano_room_add(volcano, job, plan, victims);
}

bool gt_volcano_room_comes(struct gt_volcano *volcano, struct volcano_job *job)
{
    const struct volcano_session *session = &volcano->session;
    if (job->room || !job->view || !session->leaving)
        return job->room;
    return gt_volcano_room_search(volcano, job, NULL, NULL, 0) == 0;
}
