/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_VOLCANO_ENGINE_H
#define GPUTOPO_VOLCANO_ENGINE_H

#include "api/owner.h"
#include "base/buf.h"
#include "kube/index.h"
#include "scheduler-ext/core/score.h"
#include "scheduler-ext/decide/ranks.h"
#include "scheduler-ext/decide/view.h"
#include "scheduler-ext/volcano/volcano.h"

/* The inside of the library. */

enum volcano_resource {
    VOLCANO_TOPOLOGIES,
    VOLCANO_SUPERNODES,
    VOLCANO_NODES,
    VOLCANO_PODS,
    VOLCANO_OWNERS, /* from here on one for each kind of owner */
    VOLCANO_RESOURCES = VOLCANO_OWNERS + GT_OWNER_KINDS,
};

/* What is known of a job of the cache, as its `user`: from the first session that asks about it until its
 * last pod is gone. */
struct volcano_job {
    struct gt_cache_job *job;
    struct gt_reservations reservations;
    uint64_t new_pod_ms; /* a pod more was seen then */
    uint32_t pod_count;

    uint64_t session; /* the rest is of this session */
    int verdict;      /* of gt_volcano_check() */
    char *sentence;   /* why it is refused or does not fit; NULL: there is nothing to say */
    struct gt_job_view *view;
    uint32_t allocated; /* members that the session has given a node */
    bool planned;       /* the session planned it */
    uint64_t tried;     /* state of the session when it did not fit; 0: it was not tried */
    struct volcano_job *next;
};

struct volcano_task {
    struct gt_cache_pod *pod; /* NULL: not seen yet */
    uint32_t group, at;       /* at: member of its job's view; GT_NONE */
    bool waits, allocated;
};

struct volcano_session {
    bool open;
    char *texts;
    const char **node_names;
    uint32_t *node_of; /* [id in the cluster] number of the session; GT_VOLCANO_NO_NODE */
    uint32_t node_count, ids;
    struct gt_volcano_group *groups;
    uint32_t group_count;
    struct volcano_task *tasks;
    uint32_t task_count;
    uint32_t *by_pod;         /* numbers of tasks with pods, in the order of the pods' addresses */
    uint32_t pods;            /* of them */
    struct volcano_job *jobs; /* that were asked about */
    uint64_t given_back;      /* counts up from 1 whenever a plan is given up */
    const char **asked_names; /* scratch of scores */
    uint32_t *asked_ids;
};

struct gt_volcano {
    struct gt_cache *cache;
    struct gt_owners *owners;
    struct gt_ranks ranks;
    struct gt_index own; /* pods whose plans are of a session: no object tells of them */
    struct gt_aware_weights weights;
    struct volcano_session session;
    uint64_t session_number;
};

/* ---- tasks.c ---- */

/* Puts a sentence into an `error` of the interface. */
int gt_volcano_say(char *error, int code, const char *text);

/* NULL where there is no such task in an open session. */
struct volcano_task *gt_volcano_task_at(struct gt_volcano *volcano, uint32_t task);
/* The task of a pod; NULL: it is in no group of the session. */
struct volcano_task *gt_volcano_task_of(struct volcano_session *session, const struct gt_cache_pod *pod);
/* Assumes the GPUs that the agent would choose; what cannot be had is not assumed. */
void gt_volcano_assume(struct gt_volcano *volcano, struct gt_cache_pod *pod, uint32_t node);
/* Remembers that the plan of a pod is ours. */
void gt_volcano_own(struct gt_volcano *volcano, const struct gt_cache_pod *pod);
void gt_volcano_disown(struct gt_volcano *volcano, const struct gt_cache_pod *pod);

/* ---- job.c ---- */

void gt_volcano_job_close(struct gt_volcano *volcano, struct volcano_job *job);
void gt_volcano_job_free(struct gt_volcano *volcano, struct volcano_job *job);
void gt_volcano_on_pod_gone(void *arg, struct gt_cache_pod *pod);

#endif
