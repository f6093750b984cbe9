/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "api/condition.h"
#include "api/identity.h"
#include "api/owner.h"
#include "api/pod.h"
#include "api/related.h"
#include "api/resource_claim.h"
#include "scheduler-ext/core/cluster.h"

/*
 * The cache: turns objects of the Kubernetes API into the cluster on which decisions are made. No I/O and no
 * clock: informers add objects, endpoints and the placement controller read. One thread.
 *
 * A node is in the cluster once its NodeGPUTopology is known; a node without one counts as unknown, never as
 * empty. It is eligible while this object is not older than `stale_ms` and was written for this Node, not for
 * an earlier one of the same name, and the Node is Ready and not cordoned. It keeps its id as long as its
 * NodeGPUTopology exists.
 *
 * What is free: the NodeGPUTopology (below: the CR) says which GPUs are used and by whom. While it does not
 * yet name a pod that has a node or a plan, GPUs are assumed for this pod: those of its plan, else those that
 * the node's agent would choose. The promise ends when the CR names the pod, or when the pod is deleted.
 * After a restart all promises are made again from the pods.
 */
enum {
    GT_CACHE_PODS_MAX = 1 << 18, /* pods that ask for GPUs; further ones are only counted */
    GT_CACHE_TAINTS_MAX = 32,    /* of a node */
    GT_CACHE_LABEL_KEY_SIZE = 320,
    GT_CACHE_REWIRED_MAX = 4, /* changes of a node's wiring within an hour; with one more it is `rewires` */
    GT_CACHE_REWIRED_MS = 3600 * 1000,
    GT_CACHE_PASSED_MS = 5000,
};

struct gt_cache;
struct gt_cache_pod;
struct gt_cache_job;
struct gt_node_object; /* api/node.h */

struct gt_cache_spec {
    uint64_t stale_ms;   /* 0: 15 minutes, which is three heartbeats of an agent */
    bool reports;        /* gt_cache_reports() will be called */
    bool gpu_attributes; /* reports have gpu_attributes, too */
    /* Keys of labels that name a node's supernode, separated by commas; the first one that a node has counts.
     * NULL: none. Borrowed. */
    const char *supernode_labels;
    const char
        *network_labels; /* keys of labels that name a node's place in the network, the lowest tier first */
    bool claims;         /* ResourceClaims are added, too */
    bool reports_only; /* only reports are needed: the cluster stays empty, and Nodes may be added as metadata
                          alone */
    /* All may be NULL. They are called after the change is made, and must not add objects. */
    void (*on_pod)(void *arg, struct gt_cache_pod *pod); /* new or changed */
    /* The last call for a pod, which is freed afterwards. It is no longer found by name or among the job's
     * pods: pod->job->pod_count counts the others, and where it is 0 the job is freed too. A pod whose labels
     * move it to another job counts as deleted and added. */
    void (*on_pod_deleted)(void *arg, struct gt_cache_pod *pod);
    /* A pod that asks for GPUs was refused; `why` is a string literal. What was known about it before stays.
     */
    void (*on_refused)(void *arg, const char *namespace_, const char *name, const char *why);
    /* GPUs became available somewhere, so waiting jobs may try again; or GPUs that a caller had assumed are
     * no longer available. */
    void (*on_capacity)(void *arg);
    /* A node's wiring has begun to change too often. */
    void (*on_rewires)(void *arg, const char *node);
    void (*on_report)(void *arg); /* the result of gt_cache_reports() or gt_cache_spares_of() has changed */
    void *arg;
};

int gt_cache_new(const struct gt_cache_spec *spec, struct gt_cache **ret, struct gt_err **err);
void gt_cache_free(struct gt_cache *cache);
GT_DEFINE_CLEANUP(struct gt_cache *, gt_cache_free)
#define gt_auto_cache GT_CLEANUP(gt_cache_free)

/* The cache's cluster. Callers may score and plan on it and make promises of their own. These are
 * forgotten when the node's hardware changes: after an object was added, end them by kind and owner, not by
 * id. */
struct gt_cluster *gt_cache_cluster(struct gt_cache *cache);

/* Objects that were added or changed, and the names of deleted ones. The objects are borrowed. An invalid
 * object only increases the counter `refused`; the last state stays. `now_ms` is a time of gt_clock_ms(). */
void gt_cache_topology(struct gt_cache *cache, const cJSON *object, uint64_t now_ms);
void gt_cache_topology_deleted(struct gt_cache *cache, const char *name);
void gt_cache_node(struct gt_cache *cache, const cJSON *object);
void gt_cache_node_deleted(struct gt_cache *cache, const char *name);
void gt_cache_supernode(struct gt_cache *cache, const cJSON *object);
void gt_cache_supernode_deleted(struct gt_cache *cache, const char *name);
void gt_cache_pod(struct gt_cache *cache, const struct gt_pod *pod);
void gt_cache_pod_deleted(struct gt_cache *cache, const char *namespace_, const char *name);

/* The GPUs of an allocated claim belong to its pod; without a known pod they count as in use, too. */
void gt_cache_claim(struct gt_cache *cache, const cJSON *object);
void gt_cache_claim_deleted(struct gt_cache *cache, const char *namespace_, const char *name);

/* ResourceSlices of our driver. Once all are known, no GPU that is given by claims and is in no slice is
 * free. */
void gt_cache_slice(struct gt_cache *cache, const cJSON *object);
void gt_cache_slice_deleted(struct gt_cache *cache, const char *name);
void gt_cache_slices_synced(struct gt_cache *cache);

/* Objects that pods refer to. Volumes, or devices, are read once a pod with GPUs uses a claim of them,
 * Namespaces once some pod's rules ask for their labels, or where nodes are scored. */
enum gt_cache_reading {
    GT_NOT_READ,   /* volumes restrict nothing, and Namespaces have no labels */
    GT_BEING_READ, /* pods that refer to some get no place yet */
    GT_IS_READ
};
void gt_cache_related(struct gt_cache *cache, enum gt_related_kind kind, const cJSON *object);
void gt_cache_related_deleted(struct gt_cache *cache, enum gt_related_kind kind, const char *namespace_,
                              const char *name);
/* Of volumes; `kind` GT_RELATED_NAMESPACE, GT_RELATED_DEVICE_CLAIM: of Namespaces, of devices. */
void gt_cache_set_related(struct gt_cache *cache, enum gt_related_kind kind, enum gt_cache_reading known);
/* Whether they must be read, and are not: for this pod; for any. */
bool gt_cache_wants_volumes(const struct gt_cache *cache, const struct gt_pod *pod);
/* Likewise, whether ResourceClaims and what goes with them should be read. */
bool gt_cache_wants_devices(const struct gt_cache *cache, const struct gt_pod *pod);
bool gt_cache_wants_namespaces(const struct gt_cache *cache);
/* What that Namespace says of its jobs (gt_namespace_closeness()), as far as it is known. */
enum gt_closeness gt_cache_namespace_closeness(const struct gt_cache *cache, const char *name);

/* A scheduler was told that it may bind the pod to any of `nodes`, and asks for the next pod before the API
 * server tells where this one went: for GT_CACHE_PASSED_MS the kubelet of each of them may get it
 * (numa_room.h). Replaces what was told before; no nodes: nothing. Takes over the nodes. */
void gt_cache_pass(struct gt_cache *cache, const char *namespace_, const char *name, struct gt_numa_pod pod,
                   struct gt_node_set *nodes, uint64_t now_ms);

/* GPUs that another scheduler of the cluster reserves for future pods until `until_ms`; `note` has the format
 * of api/lease.h ("": none). Those that no pod uses or is planned for are assumed. */
void gt_cache_set_foreign(struct gt_cache *cache, const char *note, uint64_t until_ms);
uint32_t gt_cache_foreign_gpus(const struct gt_cache *cache); /* that are assumed so */

/* To be called regularly: nodes whose reports are stale become ineligible. */
void gt_cache_tick(struct gt_cache *cache, uint64_t now_ms);

/* One moment on two clocks. */
struct gt_cache_moment {
    uint64_t ms; /* of gt_clock_ms() */
    int64_t unix_s;
};

enum gt_cache_pod_state {
    GT_CACHE_GATED,   /* it has GT_GATE */
    GT_CACHE_WAITING, /* without that gate, and on no node */
    GT_CACHE_BOUND,   /* on a node; its CR does not name the pod yet */
    GT_CACHE_RUNNING, /* the CR names the pod */
};

enum gt_cache_plan {
    GT_CACHE_PLAN_NONE,
    GT_CACHE_PLAN_ASSUMED, /* its GPUs are assumed */
    GT_CACHE_PLAN_LOST,    /* another pod has one of them, a GPU is unhealthy or missing, or the node is gone;
                              for a pod on no node also: the node is cordoned or not Ready, or the pod is
                              `refused` or `deleting` */
    GT_CACHE_PLAN_RUNNING, /* it runs on them */
    GT_CACHE_PLAN_BROKEN,  /* it runs on other GPUs, or is on another node */
};

/* A namespace, while it has pods here. */
struct gt_cache_namespace {
    const char *name;
    uint64_t gpus;  /* of its pods that are on a node, or whose plan is assumed */
    uint64_t bound; /* of its pods that are on a node */
    uint64_t asked; /* by all its pods, except for those that are being deleted */
    uint32_t pod_count;
    void *user; /* as in struct gt_cache_job */
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
    /* After those, here and in meta.gpus, come all ordinary init containers, with what they ask for. They
     * have ended when the others start, which take over their GPUs. */
    uint8_t inits;
    enum gt_cache_pod_state state : 8;
    enum gt_cache_plan plan : 8;
    int32_t priority;
    const char *scheduler;      /* spec.schedulerName */
    const char *claim_template; /* of the claim that asks for its GPUs; NULL: limits do */
    const char *priority_class;
    uint64_t created_s; /* Unix time */
    uint64_t gone_by_s; /* if `deleting`: when it should be gone (Unix time) */
    bool deleting;
    bool has_deadline, best_effort; /* for scopes of quotas */
    bool preempts_never;
    bool other_gates; /* besides GT_GATE */
    bool started;     /* a container of it has run */
    bool refused;     /* its condition says that its scheduler refuses the plan: nothing is assumed for it */
    unsigned gpus;    /* of all containers */
    uint32_t node;    /* where it is; GT_NONE: nowhere, or on an unknown node */
    const char *node_name;

    /* The plan's GPUs that exist on its node. GT_NONE: the node is unknown, or the pod is on another one. */
    struct gt_place planned;
    struct gt_promise_id promise; /* its entry in the ledger. It may change whenever an object is added */

    struct gt_pod_identity identity;
    const char *identity_error; /* a sentence where jobs/ refused it; then the pod is a job by itself */
    struct gt_cache_namespace *namespace_; /* all pods of a job have the same one */
    struct gt_cache_job *job;
    struct gt_cache_pod *next; /* of the job, in no order */
};

struct gt_cache_job {
    const char *key; /* of gt_job_key(), see api/identity.h */
    uint64_t number; /* the owner number of its promises; never used again for another job */
    struct gt_cache_pod *pods;
    uint32_t pod_count;
    void *user; /* the placement controller's, which frees it with the last pod, and before the cache */
};

/* Whether a pod is known to have been bound by this scheduler (NULL: the default one), since the start; true
 * also where there are too many to know. */
bool gt_cache_knows_scheduler(const struct gt_cache *cache, const char *name);

struct gt_cache_pod *gt_cache_find_pod(const struct gt_cache *cache, const char *namespace_,
                                       const char *name);

/* A pod, for someone who outlives it. */
struct gt_cache_pod_name {
    char *names;  /* namespace and name, each followed by a NUL */
    uint64_t uid; /* gt_digest_keyed() */
};
bool gt_cache_name_pod(const struct gt_cache_pod *pod, struct gt_cache_pod_name *ret); /* false: no memory */
/* NULL: it is gone. */
const struct gt_cache_pod *gt_cache_named_pod(const struct gt_cache *cache,
                                              const struct gt_cache_pod_name *name);

/* For a job that has no pods yet. */
uint64_t gt_cache_new_job_number(struct gt_cache *cache);
struct gt_cache_job *gt_cache_find_job(const struct gt_cache *cache, const char *key);
/* Iterate in no order: NULL begins, and is returned at the end. No object may be added meanwhile. */
struct gt_cache_pod *gt_cache_next_pod(const struct gt_cache *cache, const struct gt_cache_pod *pod);
struct gt_cache_job *gt_cache_next_job(const struct gt_cache *cache, const struct gt_cache_job *job);
/* How many pods that are being deleted are on nodes still. */
uint32_t gt_cache_terminating(const struct gt_cache *cache);
/* The GPUs of all its pods. */
uint32_t gt_cache_job_gpus(const struct gt_cache_job *job);
/* Its sizes, as far as its pods have them. */
struct gt_job_texts gt_cache_job_texts(const struct gt_cache_job *job);

/* Plans a pod that is on no node: assumes these GPUs for it until its object has this plan, the plan is given
 * up, or the pod is deleted. They replace those of an earlier plan, and may be the same. -EBUSY where a GPU
 * is not available, -EINVAL where they are not as many as the pod asks for; then nothing has changed.
 * Callbacks come with the next object or tick. */
int gt_cache_plan_pod(struct gt_cache *cache, struct gt_cache_pod *pod, uint32_t node, uint64_t mask,
                      struct gt_err **err);
/* Gives up the plan, although the pod's object may still have it. A new plan may follow, from
 * gt_cache_plan_pod() or as another annotation of the object. */
void gt_cache_unplan_pod(struct gt_cache *cache, struct gt_cache_pod *pod);

/* Whether the pod may run on the node, GPUs aside: node selector, required node affinity, taints (except
 * those that only repeat what makes a node ineligible). False for a node without a Node object. A pod that is
 * on a node fits only this node. */
bool gt_cache_pod_fits_node(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node);
/* Whether gt_cache_pod_fits_node() says the same of both while neither is on a node. */
bool gt_cache_pods_fit_alike(const struct gt_cache_pod *a, const struct gt_cache_pod *b);
/* Adds the nodes where pods may be placed, but not a pod with these constraints; `closed`: also such nodes
 * where none may be placed now. -EINVAL where `where` is invalid. */
int gt_cache_exclude_unfit(struct gt_cache *cache, const struct gt_pod_where *where, bool closed,
                           struct gt_node_set *to, struct gt_err **err);
/* gt_cache_pod_fits_node() for the pod that replaces a planned one; the plan's own node affinity is left out.
 */
bool gt_cache_successor_fits_node(const struct gt_cache *cache, const struct gt_cache_pod *pod,
                                  uint32_t node);
/* False where gt_cache_pod_fits_node() is true for every Ready node, so that no call for each is needed. */
bool gt_cache_pod_is_constrained(const struct gt_cache *cache, const struct gt_cache_pod *pod);

/* Whether the pod has lost the node that it is on or planned for. */
enum gt_cache_loss {
    GT_CACHE_LOSS_NONE,
    GT_CACHE_LOSS_GONE,      /* the Node was deleted */
    GT_CACHE_LOSS_TAINTED,   /* by a taint NoExecute that the pod does not tolerate */
    GT_CACHE_LOSS_NOT_READY, /* by its condition, for `after_ms` */
    GT_CACHE_LOSS_UNHEALTHY, /* one of the pod's GPUs is unhealthy or missing, for `after_ms` */
};
/* *ret_due_ms: for GT_CACHE_LOSS_NONE, when it will be lost if nothing changes; UINT64_MAX: never. */
enum gt_cache_loss gt_cache_pod_loss(const struct gt_cache_pod *pod, uint64_t after_ms,
                                     const struct gt_cache_moment *moment, uint64_t *ret_due_ms);

/* Whether one of the GPUs that the pod has on its node was unhealthy or missing for `after_ms`, by a report
 * that is not stale. *ret_due_ms: when to ask again; UINT64_MAX: after a change. */
bool gt_cache_pod_lost_gpu(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint64_t after_ms,
                           uint64_t now_ms, uint64_t *ret_due_ms);

/* The spare nodes, which only replacements may use: of each supernode as many completely free nodes as its
 * annotation says, else `standard`; none of a supernode that has fewer nodes. */
int gt_cache_spares(const struct gt_cache *cache, uint32_t standard, struct gt_node_set *ret,
                    struct gt_err **err);
/* What people reserve (GT_ANNOTATION_RESERVED): whether they ever did; whether the pod may use the node now,
 * NULL: any pod; the nodes that are reserved now; and until when a node is, and for whom: nothing where it is
 * not. */
bool gt_cache_has_reserved(const struct gt_cache *cache);
bool gt_cache_may_use(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node);
/* The same for the pods of a job: its key, or its namespace where no more is known. */
bool gt_cache_job_may_use(const struct gt_cache *cache, const char *job, uint32_t node);
int gt_cache_reserved_nodes(const struct gt_cache *cache, struct gt_node_set *ret, struct gt_err **err);
void gt_cache_say_reserved(const struct gt_cache *cache, uint32_t node, struct gt_buf *to);
/* The next Node, or Supernode, whose annotation cannot be read and was not returned yet; NULL: none. */
const char *gt_cache_next_wrong_reserved(struct gt_cache *cache, bool *ret_is_node);

bool gt_cache_has_spares(const struct gt_cache *cache); /* some annotation asks for spares */
/* How many spare nodes the supernode is to have; may be more than its nodes. */
uint64_t gt_cache_spares_of(const struct gt_cache *cache, const char *supernode, uint32_t standard);
/* A supernode that is to have more spare nodes than it has nodes and was not yet returned for this; NULL:
 * none. *ret_spares is INT64_MAX where its annotation is not a number. */
const char *gt_cache_next_excess(struct gt_cache *cache, uint32_t standard, uint64_t *ret_spares,
                                 uint32_t *ret_nodes);

struct gt_cache_claim_request {
    const char *name;
    unsigned count;
};
struct gt_cache_claim { /* valid until another object is added */
    const char *namespace_, *name, *uid, *resource_version;
    const char *pod, *pod_uid; /* pod_uid is "" where it was not made for a pod */
    bool is_protected, allocated, deleting;
    bool is_reserved; /* status.reservedFor names a pod: a scheduler has allocated it */
    bool is_plain;    /* it has only requests for a number of GPUs */
    const struct gt_cache_claim_request *requests;
    unsigned request_count;
};
/* The ResourceClaimTemplate of this name; false: not known. It has no `request`; valid until another object
 * is added. */
bool gt_cache_find_claim_template(const struct gt_cache *cache, const char *namespace_, const char *name,
                                  struct gt_claim_template *ret);
/* The claim of this name that asks for GPUs, or has some; NULL: not known. */
const struct gt_cache_claim *gt_cache_find_claim(const struct gt_cache *cache, const char *namespace_,
                                                 const char *name);
/* The claim of a pod; NULL: not known. */
const struct gt_cache_claim *gt_cache_claim_of(const struct gt_cache *cache, const struct gt_cache_pod *pod);
/* Whether it has exactly these GPUs. */
bool gt_cache_claim_has_gpus(const struct gt_cache_claim *claim, uint32_t node, uint64_t mask);
/* The names of the GPUs that it has. */
const char *const *gt_cache_claim_devices(const struct gt_cache_claim *claim, unsigned *ret_count);
/* Another claim that has one of its GPUs, too; the pod that starts first gets this GPU. NULL: none. */
const struct gt_cache_claim *gt_cache_claim_conflict(const struct gt_cache_claim *claim);
/* The device name of a GPU in claims; NULL: not known. */
const char *gt_cache_device_name(const struct gt_cache *cache, uint32_t node, unsigned gpu);

/* The device ID that the kubelet knows a GPU by; NULL where there is no such GPU. */
const char *gt_cache_device_id(const struct gt_cache *cache, uint32_t node, unsigned gpu);
/* The pod that uses a GPU, or for which it is assumed; NULL: none, or a user that the API does not know. */
const struct gt_cache_pod *gt_cache_gpu_user(const struct gt_cache *cache, uint32_t node, unsigned gpu);
/* The GPUs of its node that a pod uses, or that are assumed for it there. */
uint64_t gt_cache_pod_gpus(const struct gt_cache *cache, const struct gt_cache_pod *pod);
/* The number in an annotation of its plan (unit or rank); GT_NONE: none. */
uint32_t gt_cache_pod_number(const struct gt_cache_pod *pod, enum gt_pod_key key);
/* Whether it is on a node and its object has no plan, so that nobody has placed it. */
bool gt_cache_pod_is_unplaced(const struct gt_cache_pod *pod);

enum gt_node_taints { GT_NODE_TAINT_NONE, GT_NODE_TAINT_HARD, GT_NODE_TAINT_SOFT };

struct gt_cache_node {
    bool has_node; /* the Node object is known */
    bool ready, cordoned, stale;
    bool links_down; /* a direct link is not up */
    bool left_alone; /* its GPUs are not whole cards: the vendor's plugin serves them, and the node is not
                        eligible */
    enum gt_node_taints taint; /* of GT_TAINT_KEY_GPUS */
    bool outlived;             /* its CR was written for an earlier Node of this name, and is not believed */
    int64_t offered;  /* GPUs that its Node has allocatable, where a device plugin offers them; else -1 */
    uint64_t sliced;  /* its GPUs that claims can get, by its ResourceSlices; all where others give them */
    uint64_t foreign; /* GPUs that are assumed by gt_cache_set_foreign() */
    uint64_t health_unknown; /* GPUs whose health is not reported; they may be allocated */
    uint64_t isolated;       /* unhealthy GPUs that have no fault: somebody keeps them out of use */
    uint64_t observed_ms;    /* when the CR last changed */
    const char *product;
};
bool gt_cache_get_node(const struct gt_cache *cache, uint32_t node, struct gt_cache_node *ret);
uint32_t gt_cache_outlived_nodes(const struct gt_cache *cache);

/* What supernodes are built from. Nodes without GPUs, which are not in the cluster, have a report, too. */
struct gt_cache_report {
    const char *name;
    const char *label; /* the label's value, which names its supernode; NULL: none */
    const char *tiers; /* the values of network_labels, separated by commas; NULL: it has none of them */
    /* From the NodeGPUTopology; the members below are not set while it is not filled. */
    bool is_filled;
    const char *server_uuid;    /* NULL: not known */
    const char *const *remotes; /* servers that it sees */
    uint32_t remote_count;
    /* Its ports whose switch is known: "port\nswitch\nport of the switch\n", one after the other; NULL: none.
     */
    const char *ports;
    int gpus, free;  /* -1: not known */
    unsigned usable; /* of the GPUs: not unhealthy or isolated */
    enum gt_condition_status links;
    const char *gpu_attributes; /* JSON: [{"attributes":{"index":"0",...}},...]; NULL: not kept */
};

/* The reports of the nodes that have a Node object, sorted by name. The caller frees the array with free();
 * the reports are valid until an object is added. NULL without memory. */
const struct gt_cache_report **gt_cache_reports(const struct gt_cache *cache, uint32_t *ret_count);

/* Nodes that have no NodeGPUTopology and should have one: members of Supernodes, and Nodes that advertise
 * GPUs. Returns how many there are; `names` has the first of them by name, at most `max`. */
uint32_t gt_cache_absent_nodes(const struct gt_cache *cache, const char *names[], uint32_t max);

struct gt_cache_counters {
    uint32_t nodes;                  /* in the cluster */
    uint32_t nodes_without_topology; /* Nodes that advertise GPUs and have no CR */
    uint32_t nodes_stale, supernodes, jobs;
    uint32_t nodes_outlived, nodes_offering_less; /* less: than they have healthy GPUs */
    uint32_t nodes_rewired;                       /* too often, in the last hour */
    uint32_t pods[GT_CACHE_RUNNING + 1];
    uint64_t refused, pods_beyond;
};
void gt_cache_counters(const struct gt_cache *cache, struct gt_cache_counters *ret);
