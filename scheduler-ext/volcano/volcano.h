/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The plugins gpu-aware and gpu-podaffinity inside Volcano's scheduler: plain C for an adapter in another
 * language (vc-scheduler/), which passes objects of the API server and the tasks of a scheduling session, and
 * gets scores and places. They are computed with the same cache and planner as in gputopo-scheduler.
 *
 *     gt_volcano_new(), gt_volcano_put() and gt_volcano_remove() between sessions, then for each session
 *     gt_volcano_open(), the calls for its tasks, gt_volcano_close()
 *
 * One thread at a time. Arguments are copied; results are written to memory of the caller. A parameter
 * `error` must have GT_VOLCANO_TEXT_SIZE bytes; a function that returns a negative errno value has written
 * one sentence there. Numbers of nodes, groups and tasks are indexes in the arrays of gt_volcano_open().
 */
enum {
    GT_VOLCANO_TEXT_SIZE = 2048,
    GT_VOLCANO_ANNOTATIONS_SIZE = 20 << 10,
    GT_VOLCANO_OBJECT_MAX = 8 << 20,  /* bytes of one object */
    GT_VOLCANO_OBJECTS_MAX = 1 << 20, /* of a resource, for which a list shows that they were deleted */
    GT_VOLCANO_TASKS_MAX = 1 << 18,
    GT_VOLCANO_NODES_MAX = 1 << 17,
};
#define GT_VOLCANO_NO_NODE UINT32_MAX
#define GT_VOLCANO_GOES    (UINT32_MAX - 1)

struct gt_volcano;

/* `namespace_` is that of gputopo-scheduler; "": gputopo-system. Its Lease is believed only there: in others,
 * users may write Leases of any name. `kinds`: a file with further kinds of jobs, "" none; the first file
 * that is read counts in all of the process. */
int gt_volcano_new(struct gt_volcano **ret, const char *namespace_, const char *kinds, char *error);
void gt_volcano_free(struct gt_volcano *volcano);

/* The extended resource of GPUs; pods that ask for it are ours. */
const char *gt_volcano_gpu_resource(void);

/* ---- objects ---- */

/* The resources to be listed and watched, by number from 0. NULL: no more. */
struct gt_volcano_resource {
    const char *group, *version, *plural;
    const char *fields; /* a field selector, or "" */
    int needed;         /* 0: it is optional; `without` says what is missing then */
    const char *without;
};
const struct gt_volcano_resource *gt_volcano_resource(unsigned resource);

/* An object of that resource was added or changed; JSON of `len` bytes. -EINVAL: it is not a valid object;
 * the last state stays, or what is wrong in it counts as missing. -EBUSY: during a session. 1: a kubelet
 * refuses this pod, and `error` is to be told of its PodGroup. */
int gt_volcano_put(struct gt_volcano *volcano, unsigned resource, const char *json, size_t len, char *error);
void gt_volcano_remove(struct gt_volcano *volcano, unsigned resource, const char *namespace_,
                       const char *name);
/* The resource was listed, and all objects of the list were put since the last session: others count as
 * deleted. */
void gt_volcano_listed(struct gt_volcano *volcano, unsigned resource);

/* ---- a session ---- */

struct gt_volcano_group { /* a PodGroup, which Volcano calls a job */
    uint32_t name;        /* offset of its name in `texts` */
    uint32_t minimum;     /* at least so many of its pods must start together */
    bool waits;           /* its queue has not admitted it */
};

struct gt_volcano_task { /* a pod that asks for GPUs; those of a group follow each other */
    uint32_t names;      /* offset in `texts` of its namespace, name and UID, each followed by a NUL */
    uint32_t group;
    uint32_t node;   /* where it is, or is being bound to; GT_VOLCANO_NO_NODE: it waits */
    uint32_t leaves; /* not 0: it is leaving this node */
};

/*
 * Begins a session. `texts` are `texts_size` bytes, the last of them NUL; nodes[i] is the offset of the name
 * of node i. For a task that is being bound, GPUs are promised until its pod is bound; promises of earlier
 * sessions for waiting tasks are given up. -EINVAL where the arrays are inconsistent, -ENOMEM.
 */
int gt_volcano_open(struct gt_volcano *volcano, const char *texts, size_t texts_size, const uint32_t *nodes,
                    uint32_t node_count, const struct gt_volcano_group *groups, uint32_t group_count,
                    const struct gt_volcano_task *tasks, uint32_t task_count, char *error);
void gt_volcano_close(struct gt_volcano *volcano);

/* The queue of the task's group has admitted it. */
void gt_volcano_admitted(struct gt_volcano *volcano, uint32_t task);

/* ---- gpu-aware ---- */

/* The arguments of the plugin, as a JSON object of `len` bytes: weight, score.weight, loss.weight and
 * closeness.weight (core/score.h), as numbers or as texts such as "0.5". One that is missing or wrong has its
 * default. 1: some are wrong or unknown, and `error` names them; 0 where the last call has said the same. */
int gt_volcano_set_arguments(struct gt_volcano *volcano, const char *json, size_t len, char *error);

/* Writes ret[i], the score of nodes[i] for a task, which Volcano adds to the scores of its other plugins: 0
 * to 100 x weight; 0 where the node is unknown or has no room; 1,000,000 on the node of the task's plan. */
int gt_volcano_score_nodes(struct gt_volcano *volcano, uint32_t task, const uint32_t *nodes, uint32_t count,
                           double *ret, char *error);

/* ---- gpu-podaffinity ---- */

/* Checks the annotations of the task's job. 1: it has units; 0: it has none; -EINVAL: they are invalid.
 * *ret_rank orders the tasks of one job. */
int gt_volcano_check(struct gt_volcano *volcano, uint32_t task, uint32_t *ret_rank, char *error);

/*
 * The place of a task. 1: only *ret_node. 0: any node that gt_volcano_may_use() allows. -EAGAIN with the
 * reason: none for now. The whole job is planned with the first call for one of its tasks; its GPUs are
 * assumed until the session ends. A plan of which no task was allocated is given up with the first call for
 * another job.
 */
int gt_volcano_place(struct gt_volcano *volcano, uint32_t task, uint32_t *ret_node, char *error);

enum { GT_VOLCANO_TEMPLATES_MAX = 64, GT_VOLCANO_ASKED = 1, GT_VOLCANO_REFUSED = 2 };

/*
 * After gt_volcano_place(): whether the predicates of other plugins have to be asked about the plan of the
 * task's job. *ret_tasks (GT_VOLCANO_TEMPLATES_MAX) are tasks of it, one a template, and ret[node] is
 * GT_VOLCANO_ASKED for nodes of the plan that were not asked about in this session; `all`: for all that have
 * room. Returns the number of tasks; 0: nothing is to be asked.
 *
 * In gt_volcano_answer(), nodes[node] is GT_VOLCANO_REFUSED instead where one of the tasks may not be. Where
 * there are such nodes, the plan is given up, and the next gt_volcano_place() makes one without them.
 */
int gt_volcano_ask(struct gt_volcano *volcano, uint32_t task, bool all, uint8_t *ret, uint32_t *ret_tasks);
void gt_volcano_answer(struct gt_volcano *volcano, uint32_t task, const uint8_t *nodes);

/* For a task without a place: ret[node] is 0 where the free GPUs are reserved for others, else 1. */
void gt_volcano_may_use(struct gt_volcano *volcano, uint32_t task, uint8_t *ret, uint32_t node_count);

/* The session allocated the task on the node, or undid it. For a running task: it was evicted, or that was
 * undone. */
void gt_volcano_allocated(struct gt_volcano *volcano, uint32_t task, uint32_t node);
void gt_volcano_deallocated(struct gt_volcano *volcano, uint32_t task);

/* Whether the allocated tasks of the group are whole units, so that they may be bound. `task` is any task of
 * the group. */
int gt_volcano_is_whole(struct gt_volcano *volcano, uint32_t task);

/* The same, and none of their GPUs is still used by a leaving pod; otherwise the tasks wait together and are
 * bound later. */
int gt_volcano_is_ready(struct gt_volcano *volcano, uint32_t task);

/* ---- nodes that are lost ---- */

/* The argument `brake` of gpu-podaffinity: pods leave at most so many percent of the nodes at once
 * (decide/brake.h); other numbers than 1 to 100 mean 10. */
void gt_volcano_set_brake(struct gt_volcano *volcano, int64_t percent);

/*
 * For each task once a session, before tasks are placed: moves the unit of a job with the annotation
 * on-node-loss that has lost a node (docs/reference/placement-controller.md). Returns the number of tasks in
 * *ret, of this job, to be evicted as disruption budgets allow; `ret` has room for all tasks. Later sessions
 * name them until they leave; then gt_volcano_place() gives their successors the reserved places. `text`
 * (GT_VOLCANO_TEXT_SIZE) is what is new to tell, or "".
 */
uint32_t gt_volcano_move(struct gt_volcano *volcano, uint32_t task, uint32_t *ret, char *text);

/* ---- preempt and reclaim ---- */

/* Whether gt_volcano_make_room() may be called for the task's job: the job has units and waits, no pods are
 * leaving for it, and the last search without success was a while ago. To be called after gt_volcano_place().
 * A job with a plan may need room, too: when its queue is full. */
int gt_volcano_wants_room(struct gt_volcano *volcano, uint32_t task);

struct gt_volcano_step {
    uint32_t task;
    uint32_t node; /* its new node; GT_VOLCANO_GOES: it is to be evicted */
};

/*
 * Chooses running tasks to evict so that the task's job can begin with whole units (core/victims.h), among
 * those that Volcano allows: may_go[task]. may_use[node] is 0 for nodes that must not be used. `lacks`: the
 * number of its pods for which the queue has no room; victims have at least the GPUs of these pods. A
 * unit goes as a whole, or stays. CPU and memory are up to the caller. Returns the number of steps, in the
 * order in which they are to be done; `ret` must have room for as many as there are tasks. -EAGAIN: the job
 * would not fit then either.
 *
 * Then the places are reserved for the job until the GPUs are free: gt_volcano_place() returns them, and
 * gt_volcano_wants_room() is 0. They are given up where not all of these tasks were evicted by the end of the
 * session, or where one of the GPUs does not become free.
 */
int gt_volcano_make_room(struct gt_volcano *volcano, uint32_t task, const uint8_t *may_go,
                         const uint8_t *may_use, uint32_t lacks, struct gt_volcano_step *ret, char *error);
/* Gives these places up: no task was evicted. */
void gt_volcano_give_up_room(struct gt_volcano *volcano, uint32_t task);

/* The annotations that bind the task's pod to its GPUs: key, NUL, value, NUL, key... Pods of jobs without
 * units have them, too, since the kubelet may admit several pods in any order. Returns the number of bytes;
 * 0: none. `to` has GT_VOLCANO_ANNOTATIONS_SIZE bytes. */
size_t gt_volcano_annotations(struct gt_volcano *volcano, uint32_t task, char *to);

/* ---- between two sessions ---- */

/* The Lease that tells gputopo-scheduler which places are reserved for future pods: JSON of an object to be
 * applied, and its namespace; valid until the next call. NULL where nothing has changed, or there is no Lease
 * to write. The caller need not report success: valid reservations are written again later. */
const char *gt_volcano_publish(struct gt_volcano *volcano, const char **ret_namespace);
