/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_CONTROLLER_H
#define GPUTOPO_PLACEMENT_CONTROLLER_H

#include "api/gpu_placement.h"
#include "api/resource_quota.h"
#include "kube/event.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/owners/pod_groups.h"
#include "scheduler-ext/placement/patch.h"

/*
 * The placement controller (docs/reference/placement-controller.md): plans the gated pods of jobs with
 * groups, writes the plans, and lifts the gates. It acts between gt_placement_start() and
 * gt_placement_stop(), on one replica at a time. Everything that must outlive it is in the
 * jobs' GPUPlacements and in the pods' annotations.
 *
 * All on the loop's thread. Each pod is given to the controller first (gt_placement_observe_pod()), then to
 * the cache (gt_cache_pod()); the cache's callbacks call gt_placement_on_*().
 */
struct gt_placement;

enum gt_lost_plan {
    GT_LOST_REPORT,   /* a condition and an event, nothing more */
    GT_LOST_RECREATE, /* pods that are on no node yet are deleted; their owner makes them again, gated */
};

/* Whose limits of GPUs the webhook turns into a claim. */
enum gt_claims {
    GT_CLAIMS_OFF,
    GT_CLAIMS_OF_GROUPS, /* of jobs with a group size */
    GT_CLAIMS_OF_ALL,
};

/* What an operator may set, as options of the companion. 0: the default. */
struct gt_placement_options {
    /* --on-lost-plan: who runs only jobs whose owners start again from a checkpoint has their pods made
     * again; the default leaves it to a person. */
    enum gt_lost_plan lost_plan;
    /* --claims: on where agents give GPUs by claims. */
    enum gt_claims claims;
    /* --patience: a job that waits for so long has nodes reserved for it; 60 s. Less where large jobs must
     * start soon, more where no GPU may stay idle for one. */
    uint64_t patience_ms;
    /* --reserve-waiting: so long at a time nodes are reserved for a job that waits; 10 min. More where pods
     * run for longer, so that its nodes do run empty. */
    uint64_t reserve_waiting_ms;
    /* --reserve-waiting-percent: of the cluster's GPUs, at most so much is on these nodes, or one node; 50.
     * More where a job of most of the cluster must start beside smaller ones. */
    uint64_t reserve_waiting_percent;
    /* --unschedulable: a planned pod that the scheduler refuses for so long has lost its plan; 60 s. More
     * where the scheduler is slow, or preempts. */
    uint64_t unschedulable_ms;
    /* --spare-nodes: of each supernode so many free nodes are left to replacements; 0. The supernode's
     * annotation goes before. */
    uint64_t spare_nodes;
    /* --node-loss-after: a node that is not Ready, or a GPU that is unhealthy, for so long is lost for the
     * pods on it; 5 min. More where nodes take longer to restart. */
    uint64_t node_loss_ms;
    /* --reserve: where pods come one by one, places are reserved for so long after the last one; 30 min. More
     * where a pod takes long until it is ready and the next one is made. */
    uint64_t reserve_ms;
    /* --reserve-missing: other jobs' places for pods that do not exist are reserved for so long after the
     * last pod came; 60 s. More where owners make their pods slowly, less where tenants are not trusted. */
    uint64_t reserve_missing_ms;
    /* --reserve-gpus: then, of units of which no pod is there, at most so many GPUs of a job; 512. Less where
     * such sets are made large and filled late. */
    uint64_t reserve_gpus;
    /* --reserve-gpus-per-namespace: so many GPUs at most are reserved for pods that do not exist, of all jobs
     * of a namespace together; 512. Any job of 64 nodes is so planned with its first pod, a larger one when
     * the rest of its pods has come. Less where tenants are not trusted. */
    uint64_t reserve_gpus_per_namespace;
};

struct gt_placement_times; /* times.h */

struct gt_placement_spec {
    struct gt_loop *loop;
    struct gt_kube *kube;
    struct gt_kube_recorder *recorder; /* NULL: no events */
    struct gt_cache *cache;
    const struct gt_owners *owners;
    const struct gt_pod_groups *pod_groups; /* NULL: there are none */
    struct gt_placement_options options;
    /* The weight of a namespace in the order of waiting jobs, from 1 up. NULL: all are equal. */
    uint32_t (*weight)(void *arg, const char *namespace_);
    const struct gt_placement_times *times; /* for tests; NULL: the product's */
    uint32_t object_pods; /* for tests; 0: a GPUPlacement has as many as it holds, and other parts the rest */
    /* Something that an operator may want to read in the log. May be NULL. */
    void (*on_note)(void *arg, bool warning, const char *job, const char *text);
    void *arg;
    bool (*may_write)(void *arg); /* asked before each write; NULL: always */
    void *may_write_arg;
};

int gt_placement_new(const struct gt_placement_spec *spec, struct gt_placement **ret, struct gt_err **err);
/* Before the cache, the client and the recorder. NULL is allowed. */
void gt_placement_free(struct gt_placement *placement);
GT_DEFINE_CLEANUP(struct gt_placement *, gt_placement_free)
#define gt_auto_placement GT_CLEANUP(gt_placement_free)

/* To be called when the cache has seen all there is: nodes, topologies, pods. */
void gt_placement_start(struct gt_placement *placement);
/* Nothing is on its way afterwards; what was planned and not written is forgotten. */
void gt_placement_stop(struct gt_placement *placement);

void gt_placement_observe_pod(struct gt_placement *placement, const struct gt_pod *pod);
void gt_placement_observe_pod_deleted(struct gt_placement *placement, const char *namespace_,
                                      const char *name);
/* Of the informer of GPUPlacements, also while it does not act. Takes it over, as the next one. */
void gt_placement_observe_object(struct gt_placement *placement, struct gt_gpu_placement *content);
void gt_placement_observe_object_deleted(struct gt_placement *placement, const char *namespace_,
                                         const char *name);
/* Of the informer of ResourceQuotas, likewise; without one no quota counts. */
void gt_placement_observe_quota(struct gt_placement *placement, struct gt_resource_quota *quota);
void gt_placement_observe_quota_deleted(struct gt_placement *placement, const char *namespace_,
                                        const char *name);
void gt_placement_on_pod(struct gt_placement *placement, struct gt_cache_pod *pod);
void gt_placement_on_pod_deleted(struct gt_placement *placement, struct gt_cache_pod *pod);
void gt_placement_on_refused(struct gt_placement *placement, const char *namespace_, const char *name,
                             const char *why);
void gt_placement_on_capacity(struct gt_placement *placement);
/* A watch of pods or of GPUPlacements cannot be resumed, and all are listed again: perhaps since the API
 * server was restored from a backup, and versions have gone back. */
void gt_placement_on_relist(struct gt_placement *placement);
void gt_placement_on_owner(struct gt_placement *placement, enum gt_owner_kind kind, const char *namespace_,
                           const char *name);
/* `namespace_` NULL: a Queue has changed. */
void gt_placement_on_pod_group(struct gt_placement *placement, const char *namespace_);

/* ---- for the webhook ---- */

/* The place that is reserved for a pod which is about to be made. */
struct gt_placement_offer {
    struct gt_plan_texts texts;  /* gt_plan_texts_done() them */
    bool taken;                  /* for another one, a moment ago */
    uint64_t *reserved_until_ms; /* for gt_placement_reserve_offer(), until the controller runs again; as the
                                    next */
    uint64_t *offered_ms;
};
/* False where it has none: the controller does not act here, the job has no plan yet, or it is not known that
 * the pod would suit the place. */
bool gt_placement_offer(struct gt_placement *placement, const struct gt_pod_meta *meta,
                        const struct gt_pod_identity *identity, const char *api_version,
                        struct gt_placement_offer *ret);
/* Nobody else is offered the place in the next ten seconds. Then, or as soon as a pod with this plan is
 * seen, it is as if nothing had been reserved: a pod that is not made in the end leaves its place to the next
 * one of its rank. */
void gt_placement_reserve_offer(struct gt_placement_offer *offer);

/* ---- for others to read ---- */

enum gt_placement_state {
    GT_PLACEMENT_NONE,    /* the controller has nothing to do with it */
    GT_PLACEMENT_GATHERS, /* its object or its pods are waited for */
    GT_PLACEMENT_WAITS,   /* for room */
    GT_PLACEMENT_REFUSED, /* it breaks a rule */
    GT_PLACEMENT_WRITES,  /* it is planned; the plan is being written and the gates lifted */
    GT_PLACEMENT_PLACED,  /* no gate is left */
    GT_PLACEMENT_LOST,    /* a plan was lost before its pod was bound */
    GT_PLACEMENT_STATES,
};
const char *gt_placement_state_name(enum gt_placement_state state);

struct gt_placement_job { /* texts live until the controller runs again; "" where there is nothing to say */
    enum gt_placement_state state;
    uint64_t since_ms;       /* it is in that state, a time of gt_clock_ms() */
    const char *reason;      /* one word */
    const char *text;        /* a sentence: why it waits */
    const char *plan;        /* one line a unit, of the last plan made here */
    uint32_t place;          /* in the order of those that wait, from 0; GT_NONE: it does not wait */
    uint64_t holds_until_ms; /* nodes are reserved for it, a time of gt_clock_ms(); 0: none are */
    uint32_t reserved_gpus;  /* reserved for pods that are not there */
    uint64_t tries;
};
void gt_placement_job(const struct gt_placement *placement, const struct gt_cache_job *job,
                      struct gt_placement_job *ret);

/* Whether a node waits for replacements of pods of its supernode, as of a moment ago. */
bool gt_placement_is_spare(const struct gt_placement *placement, uint32_t node);
/* Whether a node is reserved for a job that waits or is a spare, and this pod should leave it alone. */
bool gt_placement_is_reserved(const struct gt_placement *placement, const struct gt_cache_pod *pod,
                              uint32_t node);

/*
 * What only the leader knows: places that are reserved for pods which are not there, and nodes that are
 * reserved for a job that waits. It writes them into its Lease (api/lease_note.h), and the other replicas
 * read them.
 */
void gt_placement_write_note(const struct gt_placement *placement, struct gt_buf *to);
/* Replaces what the leader noted before; a word that is invalid is passed over. */
void gt_placement_read_note(struct gt_placement *placement, const char *note);
/* GPUs of a node that are kept by the leader's note, and so are not assumed in the cache. */
uint64_t gt_placement_remote_gpus(const struct gt_placement *placement, uint32_t node);

enum { GT_PLACEMENT_BUCKETS = 12 };
/* Upper limits of the buckets, in microseconds; the last one has none. */
extern const uint32_t gt_placement_bucket_us[GT_PLACEMENT_BUCKETS - 1];

struct gt_placement_counters {
    bool leads;
    uint64_t placed, pods_planned, pods_lifted, failed;
    uint64_t pods_admitted;            /* of pods_planned, those that were made with their plan */
    uint64_t blocked[GT_PLAN_REASONS]; /* by reason, one for each try */
    uint64_t refused;                  /* by a rule */
    uint64_t lost, recreated, evicted; /* pods */
    uint64_t writes, conflicts, write_failures;
    uint64_t objects_written;                              /* GPUPlacements */
    uint64_t reconciles;                                   /* at a job, for whatever reason */
    uint64_t decisions[GT_PLACEMENT_BUCKETS], decision_us; /* each try, and the sum */
    uint32_t jobs[GT_PLACEMENT_STATES];
    uint32_t reserved_gpus, reserved_node_count, writes_waiting;
};
void gt_placement_counters(const struct gt_placement *placement, struct gt_placement_counters *ret);

#endif
