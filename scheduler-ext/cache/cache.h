/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CACHE_CACHE_H
#define GPUTOPO_CACHE_CACHE_H

#include <cjson/cJSON.h>

#include "api/claim_template.h"
#include "api/condition.h"
#include "api/pod.h"
#include "api/resource_claim.h"
#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/node_set.h"
#include "scheduler-ext/jobs/identity.h"

/*
 * The cache: from objects of the Kubernetes API to the cluster that decisions are made on. No I/O and no
 * clock: informers hand objects in, endpoints and the placement controller read. One thread.
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
    GT_CACHE_PODS_MAX = 1 << 18, /* pods that ask for GPUs; further ones are counted, not kept */
    GT_CACHE_TAINTS_MAX = 32,    /* of a node */
    GT_CACHE_LABEL_KEY_SIZE = 320,
};

struct gt_cache;
struct gt_cache_pod;
struct gt_cache_job;
struct gt_node_object; /* api/node.h */

struct gt_cache_spec {
    uint64_t stale_ms;   /* 0: 15 minutes, three heartbeats of an agent */
    bool reports;        /* gt_cache_reports() is asked for */
    bool gpu_attributes; /* that of a report, too */
    /* Keys of labels that name a node's supernode, with commas between them: the first that a node has
     * counts. NULL: none; borrowed. */
    const char *supernode_labels;
    bool claims;       /* ResourceClaims are handed in, too */
    bool reports_only; /* nobody decides on it: nothing is in the cluster, Nodes may come as metadata alone */
    /* All may be NULL. Called after the change is made; they must not hand objects in. */
    void (*on_pod)(void *arg, struct gt_cache_pod *pod); /* new or changed */
    /* Its last call: freed afterwards. It is not found any more, nor among the job's pods:
     * pod->job->pod_count is how many are left, and where it is 0 the job is freed too. A pod whose labels
     * make it another job's is gone and new. */
    void (*on_pod_deleted)(void *arg, struct gt_cache_pod *pod);
    /* A pod that asks for GPUs could not be taken: a sentence that lives for ever. What was known of it
     * before stays. */
    void (*on_refused)(void *arg, const char *namespace_, const char *name, const char *why);
    /* GPUs became available somewhere, so who waits may try again; or some that a caller had assumed are no
     * longer to be had. */
    void (*on_capacity)(void *arg);
    /* A Node that could be read, before it is taken. */
    void (*observe_node)(void *arg, const struct gt_node_object *node);
    void (*on_report)(void *arg); /* what gt_cache_reports() or gt_cache_spares_of() says is another now */
    void *arg;
};

int gt_cache_new(const struct gt_cache_spec *spec, struct gt_cache **ret, struct gt_err **err);
void gt_cache_free(struct gt_cache *cache);
GT_DEFINE_CLEANUP(struct gt_cache *, gt_cache_free)
#define gt_auto_cache GT_CLEANUP(gt_cache_free)

/* The cluster that it keeps. Callers may score and plan on it and make assumptions of their own. These are
 * forgotten when the node changes its hardware: after an object was handed in, end them by owner (a number
 * from 2^63 up, which no job has), not by id. */
struct gt_cluster *gt_cache_cluster(struct gt_cache *cache);

/* Objects, added or changed; the name of what is gone. An object that is invalid changes nothing but the
 * counter `refused`, and the last state stays. `now_ms` is a time of gt_clock_ms(). */
void gt_cache_topology(struct gt_cache *cache, const cJSON *object, uint64_t now_ms);
void gt_cache_topology_deleted(struct gt_cache *cache, const char *name);
void gt_cache_node(struct gt_cache *cache, const cJSON *object);
void gt_cache_node_deleted(struct gt_cache *cache, const char *name);
void gt_cache_supernode(struct gt_cache *cache, const cJSON *object);
void gt_cache_supernode_deleted(struct gt_cache *cache, const char *name);
void gt_cache_pod(struct gt_cache *cache, const struct gt_pod *pod);
void gt_cache_pod_deleted(struct gt_cache *cache, const char *namespace_, const char *name);

/* GPUs that a claim has are its pod's; or nobody's whom the cluster knows, and in use all the same. */
void gt_cache_claim(struct gt_cache *cache, const cJSON *object);
void gt_cache_claim_deleted(struct gt_cache *cache, const char *namespace_, const char *name);

/* ResourceClaimTemplates, of users and of the companion. */
void gt_cache_claim_template(struct gt_cache *cache, const cJSON *object);
void gt_cache_claim_template_deleted(struct gt_cache *cache, const char *namespace_, const char *name);

/* GPUs that another scheduler of the cluster keeps for pods to come, in the words of api/lease_note.h ("":
 * none), until that time. What of them no pod has or is planned for is assumed. */
void gt_cache_set_foreign(struct gt_cache *cache, const char *note, uint64_t until_ms);
uint32_t gt_cache_foreign_gpus(const struct gt_cache *cache); /* that are assumed so */

/* Now and then: nodes that have fallen silent become ineligible, assumptions of callers expire (those of the
 * cache do not). */
void gt_cache_tick(struct gt_cache *cache, uint64_t now_ms);

/* One moment on two clocks. */
struct gt_cache_moment {
    uint64_t ms; /* of gt_clock_ms() */
    int64_t unix_s;
};

enum gt_cache_pod_state {
    GT_CACHE_GATED,   /* GT_GATE stands */
    GT_CACHE_WAITING, /* not gated by it, and on no node */
    GT_CACHE_BOUND,   /* on a node, whose CR does not name it yet */
    GT_CACHE_RUNNING, /* the CR names it */
};

enum gt_cache_plan {
    GT_CACHE_PLAN_NONE,
    GT_CACHE_PLAN_ASSUMED, /* its GPUs are assumed */
    GT_CACHE_PLAN_LOST, /* somebody else has one of them, or a GPU is unhealthy or gone, or the node is; for a
                          pod on no node also: the node is cordoned or not Ready, or it is `refused` */
    GT_CACHE_PLAN_RUNNING, /* it runs on them */
    GT_CACHE_PLAN_BROKEN,  /* it runs on others, or is on another node */
};

/* A namespace, while it has pods here. */
struct gt_cache_namespace {
    const char *name;
    uint64_t gpus;  /* of its pods that are on a node, or whose plan is held */
    uint64_t asked; /* by its pods, wherever they are, except for those that are about to go */
    uint32_t pod_count;
    void *user; /* as that of a job */
};

/* A pod that asks for GPUs and has not ended. Read only; texts live as long as the pod does. */
struct gt_cache_pod {
    struct gt_pod_meta meta; /* namespace, name, owner, GPUs a container; the labels and annotations that
                                jobs/ reads, the plan's unit and rank, and no others */
    const char *uid;
    const char *owner_api_version, *owner_uid;
    /* meta.containers of them: those that ask for GPUs, restartable init containers first. An ordinary init
     * container that needs more than all others together is the last, with what it needs beyond them. */
    const char *const *container_names;
    uint8_t sidecars; /* how many of them are restartable init containers */
    /* Behind those, here and in meta.gpus, all ordinary init containers, with what they ask for. They are
     * gone when the others start, who take over their GPUs. */
    uint8_t inits;
    enum gt_cache_pod_state state : 8;
    enum gt_cache_plan plan : 8;
    int32_t priority;
    const char *scheduler;      /* spec.schedulerName */
    const char *claim_template; /* of the claim that it has its GPUs by; NULL: by limits */
    const char *priority_class;
    uint64_t created_s; /* Unix time */
    bool deleting;
    bool has_deadline, best_effort; /* for scopes of quotas */
    bool other_gates;               /* besides GT_GATE */
    bool refused;  /* its condition says that its scheduler refuses the plan: nothing is held for it */
    unsigned gpus; /* of all containers */
    uint32_t node; /* where it is; GT_NONE: nowhere, or on an unknown node */
    const char *node_name;

    uint64_t plan_mask;  /* those of the plan's GPUs that its node has */
    uint32_t plan_node;  /* GT_NONE: unknown, or the pod is on another one */
    uint32_t assumption; /* GT_NONE: none; another one whenever an object was handed in */

    struct gt_pod_identity identity;
    const char *identity_error;            /* a sentence where jobs/ refused it; then it is a job of itself */
    struct gt_cache_namespace *namespace_; /* all pods of a job have the same one */
    struct gt_cache_job *job;
    struct gt_cache_pod *next; /* of the job, in no order */
};

struct gt_cache_job {
    const char *key; /* of gt_job_key(), see jobs/identity.h */
    uint64_t number; /* the owner number of its assumptions; never used again for another job */
    struct gt_cache_pod *pods;
    uint32_t pod_count;
    void *user; /* the placement controller's; it frees it when the last pod goes, and before the cache */
};

struct gt_cache_pod *gt_cache_find_pod(const struct gt_cache *cache, const char *namespace_,
                                       const char *name);
struct gt_cache_job *gt_cache_find_job(const struct gt_cache *cache, const char *key);
/* One after the other, in no order; NULL: begin, no more. Nothing may be handed in meanwhile. */
struct gt_cache_pod *gt_cache_next_pod(const struct gt_cache *cache, const struct gt_cache_pod *pod);
struct gt_cache_job *gt_cache_next_job(const struct gt_cache *cache, const struct gt_cache_job *job);

/* Plans a pod that is on no node: assumes these GPUs for it until its object says so, it is unplanned, or it
 * is gone. They take the place of an earlier plan's, and may be the same. -EBUSY where one is not available,
 * -EINVAL where they are not as many as the pod asks for; nothing has changed then. Nothing is called back
 * before the next object or tick. */
int gt_cache_plan_pod(struct gt_cache *cache, struct gt_cache_pod *pod, uint32_t node, uint64_t mask,
                      struct gt_err **err);
/* Gives the plan up, although the pod's object may still have it; a new one may follow, from
 * gt_cache_plan_pod() or as another text in the object. */
void gt_cache_unplan_pod(struct gt_cache *cache, struct gt_cache_pod *pod);

/* Whether the pod may run on the node at all, its GPUs apart: node selector, required node affinity, taints
 * (but those that only repeat what makes a node ineligible). False also for a node without a Node object. A
 * pod that is on a node suits that one alone. */
bool gt_cache_pod_fits_node(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node);
/* Adds the nodes where a pod that says this could not run, though pods may be placed there. -EINVAL where it
 * makes no sense. */
int gt_cache_exclude_unfit(struct gt_cache *cache, const struct gt_pod_where *where, struct gt_node_set *to,
                           struct gt_err **err);
/* The same for the pod that comes after one that has been planned, which is bound to its node. */
bool gt_cache_successor_fits_node(const struct gt_cache *cache, const struct gt_cache_pod *pod,
                                  uint32_t node);
/* False where gt_cache_pod_fits_node() is true for every node that is Ready: no need to ask one by one. */
bool gt_cache_pod_is_constrained(const struct gt_cache *cache, const struct gt_cache_pod *pod);

/* Whether the node that a pod is on, or is planned for, is lost for it. */
enum gt_cache_loss {
    GT_CACHE_LOSS_NONE,
    GT_CACHE_LOSS_GONE,      /* the Node was deleted */
    GT_CACHE_LOSS_TAINTED,   /* by a taint NoExecute that the pod does not tolerate */
    GT_CACHE_LOSS_NOT_READY, /* by its condition, for so long */
    GT_CACHE_LOSS_UNHEALTHY, /* one of the pod's GPUs is unhealthy or gone, for so long */
};
/* *ret_due_ms: where it is not, when it will be if nothing changes; UINT64_MAX: never. */
enum gt_cache_loss gt_cache_pod_loss(const struct gt_cache_pod *pod, uint64_t after_ms,
                                     const struct gt_cache_moment *now, uint64_t *ret_due_ms);

/* Nodes that only replacements may use: of each supernode as many wholly free ones as its annotation says,
 * else `standard`; none where it has fewer nodes. */
int gt_cache_spares(const struct gt_cache *cache, uint32_t standard, struct gt_node_set *ret,
                    struct gt_err **err);
bool gt_cache_has_spares(const struct gt_cache *cache); /* some supernode was given them */
/* How many it is to have, also where those are more than its nodes. */
uint64_t gt_cache_spares_of(const struct gt_cache *cache, const char *supernode, uint32_t standard);
/* A supernode that has fewer, of which this was not reported since; NULL: there is none. INT64_MAX: what its
 * annotation says is no number. */
const char *gt_cache_next_excess(struct gt_cache *cache, uint32_t standard, uint64_t *ret_spares,
                                 uint32_t *ret_nodes);

struct gt_cache_claim_request {
    const char *name;
    unsigned count;
};
struct gt_cache_claim { /* until another object is handed in */
    const char *namespace_, *name, *uid, *resource_version;
    const char *pod, *pod_uid; /* the second is "" where it was not made for a pod */
    bool is_protected, allocated, deleting;
    bool is_reserved; /* for a pod: a scheduler has taken it */
    bool is_plain;    /* each request is one for a number of GPUs, and there is nothing else */
    const struct gt_cache_claim_request *requests;
    unsigned request_count;
};
/* What it says, as api/claim_template.h has it; NULL: it is not known. Until another object is handed in. */
const struct gt_claim_template *gt_cache_find_claim_template(const struct gt_cache *cache,
                                                             const char *namespace_, const char *name);
/* One that asks for GPUs, or has some, by its name; NULL: it is not known. */
const struct gt_cache_claim *gt_cache_find_claim(const struct gt_cache *cache, const char *namespace_,
                                                 const char *name);
/* NULL: it is not known. */
const struct gt_cache_claim *gt_cache_claim_of(const struct gt_cache *cache, const struct gt_cache_pod *pod);
/* Whether it has just these GPUs. */
bool gt_cache_claim_holds(const struct gt_cache_claim *claim, uint32_t node, uint64_t mask);
/* The names of the GPUs that it has. */
const char *const *gt_cache_claim_devices(const struct gt_cache_claim *claim, unsigned *ret_count);
/* Another one that has one of its GPUs, too: the pod that is first there gets it. NULL: there is none. */
const struct gt_cache_claim *gt_cache_claim_conflict(const struct gt_cache_claim *claim);
/* What a GPU is called in claims; NULL: not known. */
const char *gt_cache_device_name(const struct gt_cache *cache, uint32_t node, unsigned gpu);

/* The device ID that the kubelet knows a GPU by; NULL where there is no such GPU. */
const char *gt_cache_device_id(const struct gt_cache *cache, uint32_t node, unsigned gpu);
/* Who uses a GPU, or else for whom it is assumed: a pod of the cache, or NULL (nobody, or one that the API
 * does not know). */
const struct gt_cache_pod *gt_cache_gpu_user(const struct gt_cache *cache, uint32_t node, unsigned gpu);

struct gt_cache_node {
    bool has_node; /* the Node object is known */
    bool ready, cordoned, stale;
    bool links_down;  /* a direct link is not up */
    bool left_alone;  /* its GPUs are not whole cards: the vendor's plugin serves them, and it is not eligible
                       */
    uint64_t foreign; /* GPUs that are assumed by gt_cache_set_foreign() */
    uint64_t health_unknown; /* GPUs of which nobody says whether they are well; they may be given out */
    uint64_t observed_ms;    /* when the CR came last, in another version */
    const char *product;
};
bool gt_cache_get_node(const struct gt_cache *cache, uint32_t node, struct gt_cache_node *ret);

/* What supernodes are made from: also of nodes without GPUs, which are not in the cluster. */
struct gt_cache_report {
    const char *name;
    const char *label; /* that names its supernode; NULL: none */
    /* Of the NodeGPUTopology; not set while that is not filled. */
    bool is_filled;
    const char *server_uuid;    /* NULL: not known */
    const char *const *remotes; /* servers that it sees */
    uint32_t remote_count;
    int gpus, free; /* -1: not known */
    enum gt_condition_status links;
    const char *gpu_attributes; /* JSON: [{"attributes":{"index":"0",...}},...]; NULL: not kept */
};

/* Of the nodes that have a Node object, by name; the array is the caller's to free(), what it points to is
 * good until an object is handed in. NULL without memory. */
const struct gt_cache_report **gt_cache_reports(const struct gt_cache *cache, uint32_t *ret_count);

struct gt_cache_counters {
    uint32_t nodes;                  /* in the cluster */
    uint32_t nodes_without_topology; /* Nodes that offer GPUs, without a CR */
    uint32_t nodes_stale, supernodes, jobs;
    uint32_t pods[GT_CACHE_RUNNING + 1];
    uint64_t refused, pods_beyond;
};
void gt_cache_counters(const struct gt_cache *cache, struct gt_cache_counters *ret);
size_t gt_cache_bytes(const struct gt_cache *cache);

#endif
