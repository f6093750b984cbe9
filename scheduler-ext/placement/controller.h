/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/event.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/decision_log.h"
#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/owners/pod_groups.h"
#include "scheduler-ext/placement/patch.h"

/*
 * The placement controller (docs/reference/placement-controller.md): plans the gated pods of jobs with
 * groups, writes the plans, and removes the gates. It is active between gt_placement_start() and
 * gt_placement_stop(), on one replica at a time. Everything that must survive a restart is in the jobs'
 * GPUPlacements and in the pods' annotations.
 *
 * All on the loop's thread. Each pod is passed first to the controller (gt_placement_observe_pod()), then to
 * the cache (gt_cache_pod()); the cache's callbacks call gt_placement_on_*().
 */
struct gt_placement;

enum gt_lost_plan {
    GT_LOST_REPORT,   /* only a condition and an event */
    GT_LOST_RECREATE, /* pods that are on no node yet are deleted; their owner creates them again, gated */
};

/* What becomes of pods that have GPUs by limits, when one of these is unhealthy. */
enum gt_unhealthy_gpu {
    GT_UNHEALTHY_KEEP,
    GT_UNHEALTHY_EVICT,
};

/* What is done for the first job that waits while enough GPUs are free in all. */
enum gt_rebalance {
    GT_REBALANCE_SUGGEST, /* it is said which pods would have to move */
    GT_REBALANCE_OFF,
    GT_REBALANCE_EVICT, /* and the companion moves them itself, where all have a plan */
};

enum { GT_MOVES_A_DAY_MAX = 100 };

/* Which pods' limits of GPUs the webhook turns into a claim. */
enum gt_claims {
    GT_CLAIMS_OFF,
    GT_CLAIMS_OF_GROUPS, /* of jobs with a group size */
    GT_CLAIMS_OF_ALL,
};

/* Settings of the operator (options of the companion). 0: the default. */
struct gt_placement_options {
    /* --on-lost-plan: RECREATE is for clusters where all jobs restart from a checkpoint; the default leaves
     * lost plans to a person. */
    enum gt_lost_plan lost_plan;
    /* --on-unhealthy-gpu: EVICT is for clusters where all jobs restart from a checkpoint, or serve. */
    enum gt_unhealthy_gpu unhealthy_gpu;
    enum gt_rebalance rebalance; /* --rebalance */
    bool preempt;                /* --preempt: pods of lower priority are evicted for jobs that wait */
    /* --moves-a-day: of units and single pods, by themselves; 10, and 2 at once. Higher where pods lose
     * little by a restart. */
    uint64_t moves_a_day, moves_at_once;
    /* --claims: to be set where agents allocate GPUs by claims. */
    enum gt_claims claims;
    /* --patience: after so long, nodes are reserved for a waiting job; 60 s. Lower where large jobs must
     * start soon, higher where GPUs must not stay idle for them. */
    uint64_t patience_ms;
    /* --unschedulable: after so long, a planned pod that the scheduler refuses has lost its plan; 60 s.
     * Higher where the scheduler is slow, or preempts. */
    uint64_t unschedulable_ms;
    /* --spare-nodes: free nodes of each supernode that only replacements may use; 0. An annotation of the
     * supernode takes precedence. */
    uint64_t spare_nodes;
    /* --node-loss-after: after so long, a node that is not Ready, or an unhealthy GPU, is lost for the pods
     * on it; 5 min. Higher where nodes take longer to restart. */
    uint64_t node_loss_ms;
    /* --brake: pods are evicted by themselves from at most so many percent of the nodes at once; 10. Lower in
     * a large cluster whose network is not trusted. */
    uint64_t brake_percent;
    enum gt_node_taints taints; /* --taint-unhealthy: a Node gets a taint if half of its GPUs are bad */
    struct {
        /* How long nodes are reserved for a waiting job; 10 min. Higher where pods run for
         * longer, so that the nodes become empty in that time. */
        uint64_t waiting_ms;
        /* The most of the cluster's GPUs that these nodes may have (one node is always allowed); 50. */
        uint64_t waiting_percent;
        /* --reserve: where pods are created one by one, how long places are reserved after the last new pod;
         * 30 min. Higher where it takes longer until a pod is ready and the next one is created. */
        uint64_t coming_ms;
        /* For other jobs, how long places for missing pods are reserved after the last new
         * pod; 60 s. Higher where owners create pods slowly, lower where tenants are not trusted. */
        uint64_t missing_ms;
        /* After so long without new pods, such places are given to complete jobs of other
         * namespaces that can start there; 5 s. Higher where owners create fewer than four pods a second. */
        uint64_t yield_ms;
        /* The same option: where pods are created one by one, the most GPUs of a job that are reserved for
         * units without any pod; 512. Lower where such sets are large and filled late. */
        uint64_t gpus;
        /* --reserve-gpus: the most GPUs that are reserved for missing pods of all jobs of a
         * namespace together, beyond as many as its pods run on; 512. With it a job of 64 nodes can be
         * planned with its first pod; a larger one waits for more of its pods. Lower where tenants are not
         * trusted. */
        uint64_t gpus_per_namespace;
    } reserve;
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
    uint32_t object_pods;                   /* for tests: most pods in one GPUPlacement; 0: as many as fit */
    /* A message for the log. May be NULL. */
    void (*on_note)(void *arg, bool warning, const char *job, const char *text);
    void *arg;
    bool (*may_write)(void *arg); /* called before each write; NULL: always true */
    void *may_write_arg;
};

int gt_placement_new(const struct gt_placement_spec *spec, struct gt_placement **ret, struct gt_err **err);
/* To be called before the cache, the client and the recorder are freed. NULL is allowed. */
void gt_placement_free(struct gt_placement *placement);
GT_DEFINE_CLEANUP(struct gt_placement *, gt_placement_free)
#define gt_auto_placement GT_CLEANUP(gt_placement_free)

/* To be called when the cache is synced: nodes, topologies, pods. */
void gt_placement_start(struct gt_placement *placement);
/* Afterwards no request is in flight; plans that were not written are forgotten. */
void gt_placement_stop(struct gt_placement *placement);

/* `placement` NULL: NULL. */
const struct gt_owners *gt_placement_owners(const struct gt_placement *placement);
/* Its last decisions. */
const struct gt_decision_log *gt_placement_decisions(const struct gt_placement *placement);

void gt_placement_observe_pod(struct gt_placement *placement, const struct gt_pod *pod);
void gt_placement_observe_pod_deleted(struct gt_placement *placement, const char *namespace_,
                                      const char *name);
/* From the informer of GPUPlacements, also while the controller is not active. Of an invalid object on_note()
 * is told, and the last valid one stays; likewise below. */
void gt_placement_observe_object(struct gt_placement *placement, const cJSON *object);
void gt_placement_observe_object_deleted(struct gt_placement *placement, const char *namespace_,
                                         const char *name);
/* From the informer of ResourceQuotas, likewise; without that informer no quota counts. */
void gt_placement_observe_quota(struct gt_placement *placement, const cJSON *object);
void gt_placement_observe_quota_deleted(struct gt_placement *placement, const char *namespace_,
                                        const char *name);
void gt_placement_on_pod(struct gt_placement *placement, struct gt_cache_pod *pod);
void gt_placement_on_pod_deleted(struct gt_placement *placement, struct gt_cache_pod *pod);
void gt_placement_on_refused(struct gt_placement *placement, const char *namespace_, const char *name,
                             const char *why);
void gt_placement_on_capacity(struct gt_placement *placement);
/* A watch of pods or of GPUPlacements cannot be resumed, and all are listed again. The reason may be that the
 * API server was restored from a backup, so their resourceVersions may be lower than before. */
void gt_placement_on_relist(struct gt_placement *placement);
void gt_placement_on_owner(struct gt_placement *placement, enum gt_job_kind kind, const char *namespace_,
                           const char *name);
/* `namespace_` NULL: a Queue has changed. */
void gt_placement_on_pod_group(struct gt_placement *placement, const char *namespace_);

/* ---- for the webhook ---- */

/* The place that is reserved for a pod that is being created. */
struct gt_placement_offer {
    struct gt_plan_texts texts; /* gt_plan_texts_done() them */
    bool taken;                 /* it was offered to another pod a moment ago */
    /* For gt_placement_reserve_offer(), until the controller runs again. */
    struct gt_reservation *reservation;
    uint64_t *offered_ms;
};
/* False where there is none: the controller is not active here, the job has no plan yet, or it is not known
 * whether the pod fits the place. */
bool gt_placement_offer(struct gt_placement *placement, const struct gt_pod_meta *meta,
                        const struct gt_pod_identity *identity, const char *api_version,
                        struct gt_placement_offer *ret);
/* For the next ten seconds the place is not offered to another pod. This ends earlier when a pod with this
 * plan is seen. So if the pod is not created after all, the next pod of its rank gets the place. */
void gt_placement_reserve_offer(struct gt_placement_offer *offer);

/* ---- for others to read ---- */

enum gt_placement_state {
    GT_PLACEMENT_NONE,    /* not a job for the controller */
    GT_PLACEMENT_GATHERS, /* it waits for its owner object or its pods */
    GT_PLACEMENT_WAITS,   /* it waits for room */
    GT_PLACEMENT_REFUSED, /* it breaks a rule, or its kind is not supported */
    GT_PLACEMENT_WRITES,  /* it is planned; the plan is being written and the gates removed */
    GT_PLACEMENT_PLACED,  /* no gate is left */
    GT_PLACEMENT_LOST,    /* a plan was lost before its pod was bound, or no scheduler binds its pods */
    GT_PLACEMENT_STATES,
};
const char *gt_placement_state_name(enum gt_placement_state state);

/* The reason of a job that waits and would not fit even into the empty cluster. */
#define GT_REASON_NEVER_FITS        "NeverFits"
/* That of a planned job whose scheduler no pod was ever bound by. */
#define GT_REASON_SCHEDULER_UNKNOWN "SchedulerUnknown"

struct gt_placement_job { /* texts are valid until the controller runs again; "" for none */
    enum gt_placement_state state;
    int64_t since_s;    /* when it entered the state, as its objects say it (Unix time); 0: none */
    const char *reason; /* one word */
    const char *text;   /* a sentence: why it waits */
    const char *plan;   /* one line for each unit of the last plan made here */
    uint32_t place;     /* its position among waiting jobs, from 0; GT_NONE: it does not wait */
    const struct gt_cache_job *behind; /* the job before it; NULL: none */
    uint64_t holds_until_ms; /* until when nodes are reserved for it, a time of gt_clock_ms(); 0: none are */
    uint32_t reserved_gpus;  /* reserved for pods that do not exist */
    uint64_t tries;
};
void gt_placement_job(const struct gt_placement *placement, const struct gt_cache_job *job,
                      struct gt_placement_job *ret);

/* The running pods that may move, as their annotations say, with their units, for gt_relocate(). */
struct gt_movable_pods {
    struct gt_cache *cache;
    const struct gt_cache_pod **pods;
    struct gt_running_pod *running;
    bool *never; /* its job takes no slow GPUs */
    uint32_t count;
};
/* `planned`: only those whose new place can be promised to their successors. The caller ends *to with
 * gt_movable_pods_done(), also after a failure. */
int gt_placement_movable_pods(const struct gt_placement *placement, bool planned, struct gt_movable_pods *to,
                              struct gt_err **err);
void gt_movable_pods_done(struct gt_movable_pods *pods);
#define gt_auto_movable_pods __attribute__((cleanup(gt_movable_pods_done)))
/* Whether the pod may run there, if it moves alone; `arg` is the struct gt_movable_pods. */
bool gt_movable_pods_may_go(const void *arg, uint32_t pod, uint32_t node);

/* Fills in what the owner of a pod says of the job, where `texts` has it not yet. */
void gt_placement_add_texts(const struct gt_placement *placement, const struct gt_cache_pod *pod,
                            struct gt_job_texts *texts);

/* gt_cluster_kept_from() for the job of this pod, NULL: for any; with spares that are up to date. */
const struct gt_promise *gt_placement_kept_from(const struct gt_placement *placement,
                                                const struct gt_cache_pod *pod, uint32_t node);

/*
 * The note about what only the leader knows: places reserved for pods that do not exist, and nodes reserved
 * for a waiting job. The leader writes it into its Lease (api/lease.h), and the other replicas read it.
 */
void gt_placement_write_note(const struct gt_placement *placement, struct gt_buf *to);
/* At the end of a term: how long ago the last place was offered, for the next leader. */
void gt_placement_write_last_note(const struct gt_placement *placement, struct gt_buf *to);
/* Replaces the last note of the leader; invalid words are skipped. */
void gt_placement_read_note(struct gt_placement *placement, const char *note);

enum { GT_PLACEMENT_BUCKETS = 12 };
/* Upper limits of the buckets in microseconds; the last bucket has none. */
extern const uint32_t gt_placement_bucket_us[GT_PLACEMENT_BUCKETS - 1];

/* Waits for a place, by the GPUs of the whole job. Upper limits in seconds; the last bucket has none. */
enum { GT_WAIT_BUCKETS = 12, GT_WAIT_SIZES = 5 };
extern const uint32_t gt_wait_bucket_s[GT_WAIT_BUCKETS - 1];
extern const char *const gt_wait_size_names[GT_WAIT_SIZES];

struct gt_placement_counters {
    bool leads;
    uint64_t placed, failed;
    uint64_t blocked[GT_PLAN_REASONS]; /* tries by reason */
    uint64_t refused;                  /* by a rule */
    struct {
        uint64_t planned, lifted;
        uint64_t admitted; /* the part of `planned` that were created with their plan */
        uint64_t lost, recreated, evicted;
        uint64_t preempted;       /* those of `evicted` that made room for jobs of higher priority */
        uint64_t kubelet_refused; /* by their kubelets */
    } pods;
    uint64_t braked; /* how often the brake has kept pods from being evicted */
    struct {
        uint64_t done, conflicts, failures;
        uint32_t waiting;
    } writes;
    uint64_t reconciles;                                   /* of one job, for any reason */
    uint64_t decisions[GT_PLACEMENT_BUCKETS], decision_us; /* duration of tries: histogram and sum */
    uint64_t waits[GT_WAIT_SIZES][GT_WAIT_BUCKETS];        /* of jobs whose plan is in force: histograms */
    double waited_s[GT_WAIT_SIZES];                        /* their sums */
    uint32_t jobs[GT_PLACEMENT_STATES];
    uint32_t reserved_gpus, reserved_node_count;
};
void gt_placement_counters(const struct gt_placement *placement, struct gt_placement_counters *ret);

/* Why a job waits that would fit now. */
enum gt_fits_reason {
    GT_FITS_RESERVED, /* on nodes that are reserved for another job */
    GT_FITS_NOT_TRIED,
    GT_FITS_FAILED,
    GT_FITS_WRITE_REFUSED,
    GT_FITS_PLANNED, /* its plan is not written yet */
    GT_FITS_REASONS,
};
extern const char *const gt_fits_reason_names[GT_FITS_REASONS];

enum { GT_WAIT_NAMESPACES = 20 };
struct gt_placement_waits {
    struct gt_oldest_wait {
        const char *namespace_;
        uint64_t age_s;
    } oldest[GT_WAIT_NAMESPACES + 1]; /* from the oldest on; the last one stands for all others */
    unsigned count;
    uint64_t fitting_s[GT_FITS_REASONS]; /* the longest wait of a job that fits; 0: there is none */
};
/* How long the jobs have waited that wait now, as their objects say: also under earlier leaders. */
void gt_placement_waits(const struct gt_placement *placement, struct gt_placement_waits *ret);
