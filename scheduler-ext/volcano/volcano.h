/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_VOLCANO_VOLCANO_H
#define GPUTOPO_VOLCANO_VOLCANO_H

#include <stddef.h>
#include <stdint.h>

/*
 * The plugins gpu-aware and gpu-podaffinity inside Volcano's scheduler: plain C for an adapter in another
 * language (vc-scheduler/), which hands in objects of the API server and what a scheduling session has, and
 * asks for scores and places. What they are comes from the same cache and plans as in gputopo-scheduler.
 *
 *     gt_volcano_new(), gt_volcano_put() and gt_volcano_remove() between sessions, then for each session
 *     gt_volcano_open(), the questions, gt_volcano_close()
 *
 * One thread at a time. Nothing that is handed in is kept; answers go to memory of the caller. Where `error`
 * is a parameter it has GT_VOLCANO_TEXT_SIZE bytes; a function that returns a negative errno value has put
 * one sentence there. Numbers of nodes, groups and tasks are places in the arrays of gt_volcano_open().
 */
enum {
    GT_VOLCANO_TEXT_SIZE = 2048,
    GT_VOLCANO_ANNOTATIONS_SIZE = 20 << 10,
    GT_VOLCANO_OBJECT_MAX = 8 << 20,  /* bytes of one object */
    GT_VOLCANO_OBJECTS_MAX = 1 << 20, /* of a resource, that are known to be gone when a list lacks them */
    GT_VOLCANO_TASKS_MAX = 1 << 18,
    GT_VOLCANO_NODES_MAX = 1 << 17,
};
#define GT_VOLCANO_NO_NODE UINT32_MAX
#define GT_VOLCANO_GOES    (UINT32_MAX - 1)

struct gt_volcano;

int gt_volcano_new(struct gt_volcano **ret, char *error);
void gt_volcano_free(struct gt_volcano *volcano);

/* The namespace of gputopo-scheduler; "gputopo-system" without it. Its Lease is believed there alone: in
 * others users may write Leases of any name. */
void gt_volcano_set_namespace(struct gt_volcano *volcano, const char *namespace_);

/* The extended resource that makes a pod one for us. */
const char *gt_volcano_gpu_resource(void);

/* ---- objects ---- */

/* What is to be listed and watched, by number from 0. NULL: no more. */
struct gt_volcano_resource {
    const char *group, *version, *plural;
    const char *fields; /* a field selector, or "" */
    int needed;         /* 0: all works without it, except for what `without` says */
    const char *without;
};
const struct gt_volcano_resource *gt_volcano_resource(unsigned resource);

/* An object of that resource, added or changed, as JSON of `len` bytes. -EINVAL: it is no object; the last
 * state stays. -EBUSY during a session. */
int gt_volcano_put(struct gt_volcano *volcano, unsigned resource, const char *json, size_t len, char *error);
void gt_volcano_remove(struct gt_volcano *volcano, unsigned resource, const char *namespace_,
                       const char *name);
/* The resource was listed, and all of the list was put since the last session: what was not is gone. */
void gt_volcano_listed(struct gt_volcano *volcano, unsigned resource);

/* ---- a session ---- */

struct gt_volcano_group { /* a PodGroup, which Volcano calls a job */
    uint32_t name;        /* where in `texts` its name is */
    uint32_t minimum;     /* so many of its pods start together */
};

struct gt_volcano_task { /* a pod that asks for GPUs */
    uint32_t names;      /* where in `texts` its namespace, name and UID are, each with a NUL behind */
    uint32_t group;
    uint32_t node;   /* where it is, or is being bound to; GT_VOLCANO_NO_NODE: it waits */
    uint32_t leaves; /* not 0: it is to go from there */
};

/*
 * Begins a session. `texts` are `texts_size` bytes, the last of them NUL; `nodes` says where in it the name
 * of each node is. A task that is being bound has its GPUs assumed until its pod says so; what an earlier
 * session assumed for tasks that wait is given up. -EINVAL where the arrays make no sense, -ENOMEM.
 */
int gt_volcano_open(struct gt_volcano *volcano, const char *texts, size_t texts_size, const uint32_t *nodes,
                    uint32_t node_count, const struct gt_volcano_group *groups, uint32_t group_count,
                    const struct gt_volcano_task *tasks, uint32_t task_count, char *error);
void gt_volcano_close(struct gt_volcano *volcano);

/* ---- gpu-aware ---- */

/* The arguments of the plugin, as a JSON object of `len` bytes: weight, score.weight and loss.weight
 * (core/score.h). One that is missing has its default. -EINVAL names one that is negative or no number: then
 * the last ones stay. */
int gt_volcano_set_arguments(struct gt_volcano *volcano, const char *json, size_t len, char *error);

/* The scores of nodes for a task, which Volcano adds to those of its other plugins: 0 to 100 x weight, or 0
 * where the node is unknown or has no room; 1,000,000 on the node of the task's plan. */
int gt_volcano_score_nodes(struct gt_volcano *volcano, uint32_t task, const uint32_t *nodes, uint32_t count,
                           double *ret, char *error);

/* ---- gpu-podaffinity ---- */

/* Whether the annotations of the task's job make sense. 1: it has units; 0: it has none; -EINVAL with the
 * sentence. *ret_rank orders the tasks of one job. */
int gt_volcano_check(struct gt_volcano *volcano, uint32_t task, uint32_t *ret_rank, char *error);

/*
 * Where the task is to go. 1: to *ret_node and nowhere else. 0: anywhere that gt_volcano_may_use() allows.
 * -EAGAIN with the reason: nowhere for now. The whole job is planned when it is first asked about one of its
 * tasks; its GPUs are assumed until the session ends. Where no task of the plan was allocated, it is given up
 * when another job is asked about.
 */
int gt_volcano_place(struct gt_volcano *volcano, uint32_t task, uint32_t *ret_node, char *error);

/* For a task without a place: ret[i] is 0 for each node where what is free is reserved for others, else 1. */
void gt_volcano_may_use(struct gt_volcano *volcano, uint32_t task, uint8_t *ret, uint32_t node_count);

/* The session gave the task that node, or took it back. Of a task that runs: it is evicted, or is not after
 * all. */
void gt_volcano_allocated(struct gt_volcano *volcano, uint32_t task, uint32_t node);
void gt_volcano_deallocated(struct gt_volcano *volcano, uint32_t task);

/* Whether the tasks of the group that were allocated make whole units, so that they may be bound. `task` is
 * any of the group. */
int gt_volcano_is_whole(struct gt_volcano *volcano, uint32_t task);

/* Likewise, and no GPU is still used by a pod that leaves: without it they may wait together, and be bound
 * later. */
int gt_volcano_is_ready(struct gt_volcano *volcano, uint32_t task);

/* ---- preempt and reclaim ---- */

/* Whether it may be asked for room for the task's job: the job has units and waits, no pods leave for it, and
 * no room was found a while ago. Asked after gt_volcano_place(). Also a job that has a plan may want it: its
 * queue is full. */
int gt_volcano_wants_room(struct gt_volcano *volcano, uint32_t task);

struct gt_volcano_step {
    uint32_t task;
    uint32_t node; /* where it is to go; GT_VOLCANO_GOES: it has to go from where it is */
};

/*
 * Chooses the running tasks that have to go so that the task's job can begin, its units whole
 * (core/victims.h), of those that Volcano lets go: may_go[task]. may_use[node] is 0 for nodes that do not
 * serve. `lacks`: for so many of its pods the queue has no room; as many GPUs are given up at least, of the
 * lowest priority, job by job. CPU and memory are left to the caller. Returns how many steps there are, in
 * the order in which they are to be done; `ret` has room for as many as there are tasks. -EAGAIN: it would
 * not fit then either.
 *
 * The places are then reserved for the job: gt_volcano_place() names them, they are nobody else's, and
 * gt_volcano_wants_room() is 0, until the GPUs are free. They are given up where not all of those tasks were
 * evicted when the session ends, or where one of the GPUs will not be free after all.
 */
int gt_volcano_make_room(struct gt_volcano *volcano, uint32_t task, const uint8_t *may_go,
                         const uint8_t *may_use, uint32_t lacks, struct gt_volcano_step *ret, char *error);
/* The places are not wanted: nobody was evicted. */
void gt_volcano_give_up_room(struct gt_volcano *volcano, uint32_t task);

/* The annotations that bind the task's pod to its GPUs, also that of a job without units, since which of
 * several pods the kubelet admits first is chance: key, NUL, value, NUL, key... Returns their bytes; 0: there
 * are none. `to` has GT_VOLCANO_ANNOTATIONS_SIZE bytes. */
size_t gt_volcano_annotations(struct gt_volcano *volcano, uint32_t task, char *to);

/* ---- between two sessions ---- */

/* The Lease that shows gputopo-scheduler which places are reserved for pods to come: an object to be applied,
 * and its namespace; good until the next call. NULL where there is nothing new to say, or no Lease to write.
 * The caller need not say whether it was written: what still holds is written again. */
const char *gt_volcano_publish(struct gt_volcano *volcano, const char **ret_namespace);

/* ---- for metrics and tests ---- */

/* Bytes that are held, tables of hardware classes not counted. */
size_t gt_volcano_bytes(const struct gt_volcano *volcano);

#endif
