/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_FEED_FEED_H
#define GPUTOPO_FEED_FEED_H

#include <cjson/cJSON.h>

#include "api/names.h"
#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/jobs/identity.h"

/*
 * The feed: from objects of the Kubernetes API to the cluster that decisions are made on. No I/O and no
 * clock: informers hand objects in, doors and the placement controller read. One thread.
 *
 * A node is in the cluster once its NodeGPUTopology is known; a node without one is unknown, never empty.
 * It is eligible while its object is not older than `stale_ms`, and the Node is Ready and not cordoned. Its
 * id stays while its NodeGPUTopology is there.
 *
 * What is free: the CR says which GPUs are used and by whom. Until it names a pod that has a node or a plan,
 * the pod's GPUs are an assumption: those of its plan, else those that the node's agent would choose. So an
 * assumption ends when the CR names the pod, or when the pod is gone; after a restart all of them come back
 * from the pods.
 */
enum {
    GT_FEED_PODS_MAX = 1 << 18, /* pods that ask for GPUs; further ones are counted, not kept */
    GT_FEED_TAINTS_MAX = 32,    /* of a node */
};

struct gt_feed;
struct gt_feed_pod;
struct gt_feed_job;

struct gt_feed_spec {
    const char *resource; /* NULL: "metax-tech.com/gpu" */
    uint64_t stale_ms;    /* 0: 15 minutes, three heartbeats of an agent */
    /* All may be NULL. Called after the change is made; they must not hand objects in. */
    void (*on_pod)(void *arg, struct gt_feed_pod *pod); /* new or changed */
    /* Its last call: freed afterwards. It is not found any more, nor among the job's pods:
     * pod->job->pod_count is how many are left, and where it is 0 the job is freed too. A pod whose labels
     * make it another job's is gone and new. */
    void (*on_pod_gone)(void *arg, struct gt_feed_pod *pod);
    /* A pod that asks for GPUs could not be taken: a sentence that lives for ever. What was known of it
     * before stays. */
    void (*on_refused)(void *arg, const char *namespace_, const char *name, const char *why);
    /* GPUs became available somewhere, so who waits may try again; or some that a caller had assumed are no
     * longer to be had. */
    void (*on_room)(void *arg);
    void *arg;
};

int gt_feed_new(const struct gt_feed_spec *spec, struct gt_feed **ret, struct gt_err **err);
void gt_feed_free(struct gt_feed *feed);
GT_DEFINE_CLEANUP(struct gt_feed *, gt_feed_free)
#define gt_auto_feed GT_CLEANUP(gt_feed_free)

/* The cluster that it keeps. Callers may score and plan on it and make assumptions of their own. These are
 * forgotten when the node moves to another supernode or changes its hardware: after an object was handed in,
 * end them by owner (a number from 2^63 up, which no job has), not by id. */
struct gt_cluster *gt_feed_cluster(struct gt_feed *feed);

/* Objects, added or changed; the name of what is gone. An object that makes no sense changes nothing but the
 * counter `refused`, and the last state stays. `now_ms` is a time of gt_clock_ms(). */
void gt_feed_topology(struct gt_feed *feed, const cJSON *object, uint64_t now_ms);
void gt_feed_topology_gone(struct gt_feed *feed, const char *name);
void gt_feed_node(struct gt_feed *feed, const cJSON *object);
void gt_feed_node_gone(struct gt_feed *feed, const char *name);
void gt_feed_supernode(struct gt_feed *feed, const cJSON *object);
void gt_feed_supernode_gone(struct gt_feed *feed, const char *name);
void gt_feed_pod(struct gt_feed *feed, const cJSON *object);
void gt_feed_pod_gone(struct gt_feed *feed, const char *namespace_, const char *name);

/* Now and then: nodes that have fallen silent become ineligible, assumptions of callers expire (those of the
 * feed do not). */
void gt_feed_tick(struct gt_feed *feed, uint64_t now_ms);

enum gt_feed_pod_state {
    GT_FEED_GATED,   /* GT_GATE stands */
    GT_FEED_WAITING, /* not gated by it, and on no node */
    GT_FEED_BOUND,   /* on a node, whose CR does not name it yet */
    GT_FEED_RUNNING, /* the CR names it */
};

enum gt_feed_plan {
    GT_FEED_PLAN_NONE,
    GT_FEED_PLAN_HELD,   /* its GPUs are assumed */
    GT_FEED_PLAN_LOST,   /* somebody else has one of them, or a GPU is ill or gone, or the node is; for a pod
                            on no node also: the node is cordoned or not Ready, or it is `refused` */
    GT_FEED_PLAN_KEPT,   /* it runs on them */
    GT_FEED_PLAN_BROKEN, /* it runs on others, or is on another node */
};

/* A pod that asks for GPUs and has not ended. Read only; texts live as long as the pod does. */
struct gt_feed_pod {
    struct gt_pod_meta meta; /* namespace, name, owner, GPUs a container; the labels and annotations that
                                jobs/ reads, the plan's unit and rank, and no others */
    const char *uid;
    const char *owner_api_version, *owner_uid;
    /* meta.containers of them: those that ask for GPUs, restartable init containers first. An ordinary init
     * container that needs more than all others together is the last, with what it needs beyond them. */
    const char *const *container_names;
    unsigned sidecars; /* how many of them are restartable init containers */
    /* Behind those, here and in meta.gpus, all ordinary init containers, with what they ask for. They are
     * gone when the others start, who take over their GPUs. */
    unsigned inits;
    const char *scheduler; /* spec.schedulerName */
    const char *priority_class;
    int32_t priority;
    uint64_t created_s; /* Unix time */
    bool deleting;
    bool other_gates; /* besides GT_GATE */
    bool refused;     /* its condition says that its scheduler refuses the plan: nothing is held for it */
    unsigned gpus;    /* of all containers */
    enum gt_feed_pod_state state;
    uint32_t node; /* where it is; GT_NONE: nowhere, or on an unknown node */
    const char *node_name;

    enum gt_feed_plan plan;
    uint32_t plan_node;  /* GT_NONE: unknown, or the pod is on another one */
    uint64_t plan_mask;  /* those of its GPUs that the node has */
    uint32_t assumption; /* GT_NONE: none; another one whenever an object was handed in */

    struct gt_pod_identity identity;
    const char *identity_error; /* a sentence where jobs/ refused it; then it is a job of itself */
    struct gt_feed_job *job;
    struct gt_feed_pod *next; /* of the job, in no order */
};

struct gt_feed_job {
    const char *key; /* of gt_job_key(), see jobs/identity.h */
    uint64_t number; /* the owner number of its assumptions; never used again for another job */
    struct gt_feed_pod *pods;
    uint32_t pod_count;
    void *user; /* the placement controller's; it frees it when the last pod goes, and before the feed */
};

struct gt_feed_pod *gt_feed_find_pod(const struct gt_feed *feed, const char *namespace_, const char *name);
struct gt_feed_job *gt_feed_find_job(const struct gt_feed *feed, const char *key);
/* One after the other, in no order; NULL: begin, no more. Nothing may be handed in meanwhile. */
struct gt_feed_pod *gt_feed_next_pod(const struct gt_feed *feed, const struct gt_feed_pod *pod);
struct gt_feed_job *gt_feed_next_job(const struct gt_feed *feed, const struct gt_feed_job *job);

/* Plans a pod that is on no node: assumes these GPUs for it until its object says so, it is unplanned, or it
 * is gone. They take the place of an earlier plan's, and may be the same. -EBUSY where one is not available,
 * -EINVAL where they are not as many as the pod asks for; nothing has changed then. Nothing is called back
 * before the next object or tick. */
int gt_feed_plan_pod(struct gt_feed *feed, struct gt_feed_pod *pod, uint32_t node, uint64_t mask,
                     struct gt_err **err);
/* Gives the plan up, although the pod's object may still tell of it; a new one may follow, from
 * gt_feed_plan_pod() or as another text in the object. */
void gt_feed_unplan_pod(struct gt_feed *feed, struct gt_feed_pod *pod);

/* Whether the pod may run on the node at all, its GPUs apart: node selector, required node affinity, taints
 * (but those that only repeat what makes a node ineligible). False also for a node without a Node object. A
 * pod that is on a node suits that one alone. */
bool gt_feed_pod_suits(const struct gt_feed *feed, const struct gt_feed_pod *pod, uint32_t node);
/* False where gt_feed_pod_suits() is true for every node that is Ready: no need to ask one by one. */
bool gt_feed_pod_is_choosy(const struct gt_feed *feed, const struct gt_feed_pod *pod);

/* The device ID that the kubelet knows a GPU by; NULL where there is no such GPU. */
const char *gt_feed_device_id(const struct gt_feed *feed, uint32_t node, unsigned gpu);
/* Who uses a GPU, or else for whom it is assumed: a pod of the feed, or NULL (nobody, or one that the API
 * does not know). */
const struct gt_feed_pod *gt_feed_gpu_user(const struct gt_feed *feed, uint32_t node, unsigned gpu);

struct gt_feed_node {
    bool has_node; /* the Node object is known */
    bool ready, cordoned, stale;
    bool links_down; /* a direct link is not up */
    bool left_alone; /* its GPUs are not whole cards: the vendor's plugin serves them, and it is not eligible
                      */
    uint64_t health_unknown; /* GPUs of which nobody says whether they are well; they may be given out */
    uint64_t heard_ms;       /* when the CR came last, in another version */
    const char *product;
};
bool gt_feed_get_node(const struct gt_feed *feed, uint32_t node, struct gt_feed_node *ret);

struct gt_feed_counters {
    uint32_t nodes;                  /* in the cluster */
    uint32_t nodes_without_topology; /* Nodes that offer GPUs, without a CR */
    uint32_t nodes_stale, supernodes, jobs;
    uint32_t pods[GT_FEED_RUNNING + 1];
    uint64_t refused, pods_beyond;
};
void gt_feed_counters(const struct gt_feed *feed, struct gt_feed_counters *ret);
size_t gt_feed_bytes(const struct gt_feed *feed);

#endif
