/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/owner.h"
#include "base/buf.h"
#include "kube/index.h"
#include "scheduler-ext/core/score.h"
#include "scheduler-ext/core/victims.h"
#include "scheduler-ext/decide/backoff.h"
#include "scheduler-ext/decide/moves.h"
#include "scheduler-ext/decide/ranks.h"
#include "scheduler-ext/decide/view.h"
#include "scheduler-ext/volcano/volcano.h"

/* The library's internal state and functions. */

enum { VOLCANO_MOVING_MS = 120000 }; /* how long a place waits for the successor of a pod that leaves */

enum volcano_resource {
    VOLCANO_TOPOLOGIES,
    VOLCANO_SUPERNODES,
    VOLCANO_NODES,
    VOLCANO_PODS,
    VOLCANO_LEASES,
    VOLCANO_NAMESPACES,
    VOLCANO_OWNERS, /* the first of the kinds of owners */
    VOLCANO_RESOURCES = VOLCANO_OWNERS + GT_JOB_KINDS,
};

struct volcano_place {         /* of a task */
    uint64_t uid;              /* digest of its pod's UID */
    uint64_t node_digest;      /* of the node's name, since ids are reused */
    struct gt_promise promise; /* of all its GPUs, also of those that are not available yet */
};

struct volcano_room { /* see room.c */
    struct volcano_job *job;
    struct volcano_place *places;
    struct gt_cache_pod_name *evicted_pods;
    uint32_t place_count, evicted_pod_count;
    uint64_t made_in;  /* session */
    uint64_t until_ms; /* its promises are made again in every session */
    bool lasts;        /* made by the current action; outlives the session if its evictions are carried out */
    struct volcano_room *next;
};

/* The state of a job of the cache (its `user`), from the first session with a call about it until its last
 * pod is deleted. */
struct volcano_job {
    struct gt_cache_job *job;
    struct gt_reservations reservations;
    uint64_t new_pod_ms; /* when the last new pod was seen */
    uint32_t pod_count;
    struct volcano_room *room; /* the room that is being made for it; NULL: none */
    uint64_t room_after_ms;    /* no room is searched before */

    struct {
        uint64_t leave_before_s; /* only pods created until then have to leave; 0: none has to */
        uint64_t moves_ms;       /* when they were told to */
        uint64_t looked;         /* number of the session that looked for lost nodes */
        uint64_t told;           /* digest of what was told about them */
        struct gt_moves moves;
    } loss; /* of nodes */

    uint64_t session; /* number of the session that the rest belongs to */
    int verdict;      /* of gt_volcano_check() */
    char *sentence;   /* why it is refused or does not fit; NULL: none */
    struct gt_job_view *view;
    struct gt_node_set suitable, refused; /* as the predicates of Volcano's other plugins say */
    struct gt_node_set kubelets_refuse;   /* nodes of which kubelets refused pods, also in `refused` */
    uint64_t asked;                       /* number of the last question about its group; see job.c */
    uint32_t allocated;                   /* members that the session has allocated */
    bool planned;                         /* the session planned it */
    uint64_t tried;                       /* given_back of the session when it did not fit; 0: not tried */
    struct volcano_job *next;
};

struct volcano_task {
    struct gt_cache_pod *pod; /* NULL: not seen yet */
    uint32_t group, at;       /* at: index in its job's view; GT_NONE: none */
    bool waits, allocated;
    bool leaves;  /* it is leaving its node */
    bool evicted; /* the session evicted it */
};

struct volcano_session {
    bool open;
    char *texts;
    const char **node_names;
    uint32_t *node_of; /* [id in the cluster] number in the session; GT_VOLCANO_NO_NODE */
    uint32_t node_count, ids;
    struct gt_volcano_group *groups;
    uint32_t group_count;
    struct volcano_task *tasks;
    uint32_t task_count;
    uint32_t *by_pod;         /* numbers of tasks with pods, in the order of the pods' addresses */
    uint32_t pods;            /* of them */
    uint32_t leaving;         /* tasks that leave */
    uint64_t *freed;          /* [id in the cluster] GPUs of leaving tasks; NULL: not computed */
    struct volcano_job *jobs; /* used in this session */
    uint64_t given_back;      /* from 1 up, incremented when a plan is given up */
    const char **asked_names; /* scratch of scores */
    uint32_t *asked_ids;
};

struct gt_volcano {
    struct gt_cache *cache;
    struct gt_owners *owners;
    struct gt_ranks ranks;
    struct gt_index own;                      /* pods with plans of a session, which are in no object */
    struct gt_index known[VOLCANO_RESOURCES]; /* known objects; mark: session after the last put */
    struct gt_aware_weights weights;
    struct gt_brake brake;
    struct backoffs backoffs;         /* of pods that kubelets refused */
    struct gt_node_set leaving_nodes; /* scratch */
    uint64_t told;                    /* digest of what was told about the arguments; 0: nothing */
    char trusted[64];                 /* the only namespace in which gputopo-scheduler's Lease is believed */
    bool has_companion;               /* whether that Lease is there */
    char *note;                       /* the last note that was written; NULL: none */
    struct gt_buf body;               /* of that write */
    uint64_t published_ms;
    struct volcano_session session;
    uint64_t session_number, questions;
    struct volcano_room *rooms;
};

/* ---- tasks.c ---- */

/* Writes a sentence into an `error` of the interface; returns `code`. */
int gt_volcano_say(char *error, int code, const char *text);

/* NULL where there is no such task in an open session. */
struct volcano_task *gt_volcano_task_at(struct gt_volcano *volcano, uint32_t task);
/* The task of a pod; NULL: it is in no group of the session. */
struct volcano_task *gt_volcano_task_of(struct volcano_session *session, const struct gt_cache_pod *pod);
/* Assumes the GPUs that the agent would choose, as far as available. */
void gt_volcano_assume(struct gt_volcano *volcano, struct gt_cache_pod *pod, uint32_t node);
/* Records that the plan of a pod was made by a session. */
void gt_volcano_own(struct gt_volcano *volcano, const struct gt_cache_pod *pod);
void gt_volcano_disown(struct gt_volcano *volcano, const struct gt_cache_pod *pod);

/* Whether gputopo-scheduler places the job. */
bool gt_volcano_has_gates(const struct gt_job_view *view);

/* The job of a task's pod as it is in this session; NULL without memory. */
struct volcano_job *gt_volcano_job_of(struct gt_volcano *volcano, const struct volcano_task *task);
/* Makes its view again. */
int gt_volcano_job_look(struct gt_volcano *volcano, struct volcano_job *job);
/* The job of a task that the session has looked at; NULL where it has no units. */
struct volcano_job *gt_volcano_asking_job(struct gt_volcano *volcano, uint32_t task);

/* ---- room.c ---- */

/* At the beginning and at the end of a session: drops rooms that are no longer valid. */
void gt_volcano_rooms_open(struct gt_volcano *volcano);
void gt_volcano_rooms_close(struct gt_volcano *volcano);
void gt_volcano_room_drop(struct gt_volcano *volcano, struct volcano_job *job);
/* Makes the places of the job's room available while the job itself is planned. */
void gt_volcano_room_pause(struct gt_volcano *volcano, const struct volcano_job *job, bool pause);
/* Whether the job has room that is becoming free, or may wait for pods that are leaving anyway. */
bool gt_volcano_room_comes(struct gt_volcano *volcano, struct volcano_job *job);
/* Whether a pod has a place in its job's room. */
bool gt_volcano_room_place(const struct gt_volcano *volcano, const struct volcano_job *job,
                           const struct gt_cache_pod *pod, uint32_t *ret_node);
/* Whether a task was allocated in the room, with GPUs that are not free yet. */
bool gt_volcano_room_is_used(struct gt_volcano *volcano, const struct volcano_job *job);
/* A running task was evicted, or its eviction was undone. */
void gt_volcano_evicted(struct gt_volcano *volcano, struct volcano_task *task, bool is);
/* Running pods that may leave, and their tasks. */
struct volcano_victims {
    struct gt_running_pod *pods;
    uint32_t *tasks;
    uint32_t count;
};
/* Searches room for the job on GPUs that are free or becoming free, and on those of victims, which get
 * `chosen`; the victims have at least `gpus` GPUs. NULL: there are none. -EAGAIN: there is no room. */
int gt_volcano_room_search(struct gt_volcano *volcano, struct volcano_job *job, const uint8_t *may_use,
                           const struct volcano_victims *victims, uint32_t gpus);
bool gt_volcano_is_leaving(struct volcano_session *session, const struct gt_cache_pod *pod);

/* ---- lease.c ---- */

void gt_volcano_put_lease(struct gt_volcano *volcano, const cJSON *object);
void gt_volcano_remove_lease(struct gt_volcano *volcano, const char *namespace_);

/* ---- job.c ---- */

/* The first waiting pod whose PodGroup is not there yet or waits for its queue, where the other pods are too
 * few to begin: the job is not planned then. NULL: none. */
const struct gt_cache_pod *gt_volcano_not_admitted(struct gt_volcano *volcano, const struct volcano_job *job);

/* Until when (Unix time) the job is not planned, since kubelets refused its pods; 0: it may be planned. */
int64_t gt_volcano_refused_until(const struct gt_volcano *volcano, const struct volcano_job *job);

/* Gives up what the session planned for the job. */
void gt_volcano_give_back(struct gt_volcano *volcano, struct volcano_job *job);

void gt_volcano_job_close(struct gt_volcano *volcano, struct volcano_job *job);
void gt_volcano_job_free(struct gt_volcano *volcano, struct volcano_job *job);
void gt_volcano_on_pod_gone(void *arg, struct gt_cache_pod *pod);
