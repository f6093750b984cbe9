/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/digest.h"
#include "base/table.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/jobs/rules.h"

/*
 * What the files of the cache share. Facts are kept in records, by name; a record may be referred to before
 * its object is known. The state of a node (is it in the cluster, what is free, assumed, lost) is computed
 * again from all facts whenever one changes (gt_cache_recompute), so the order of the objects does not
 * matter.
 *
 * Each of these calls only those before it: memory and strings; resources; peers; records, jobs,
 * constraints, notify; charges; recompute; one file for each kind of object; cache.c.
 */
enum {
    CACHE_CLASSES_MAX = 1024,  /* kept by the cache of classes */
    CACHE_SCHEDULERS_MAX = 32, /* their names may be anything: further ones are not stored */
    CACHE_COLUMNS_MAX = 32,    /* resources; further ones are ignored */
    CACHE_SEARCH_US = 500,     /* for the search which GPUs an agent with more than 16 GPUs would choose */
};

/* ---- texts that many share ---- */

/* The same text gives the same pointer; NULL without memory, and for NULL. */
const char *gt_cache_string(struct gt_cache *cache, const char *text);
void gt_cache_string_drop(struct gt_cache *cache, const char *text);

uint32_t gt_cache_hash(const struct gt_cache *cache, const char *text);
/*
 * Nodes, supernodes, jobs and namespaces: records whose first member is their name, a shared text. An added
 * one is zeroed but for that; NULL without memory. To be removed with the same hash.
 */
void *gt_cache_find_record(const struct gt_cache *cache, const struct gt_table *table, const char *name);
void *gt_cache_add_record(struct gt_cache *cache, struct gt_table *table, const char *name, size_t size,
                          uint32_t *ret_hash);
void gt_cache_remove_record(struct gt_cache *cache, struct gt_table *table, uint32_t hash, void *record);

/* ---- nodes ---- */

struct cache_owner { /* one pod that a CR names */
    const char *namespace_, *pod;
    uint64_t mask;
};

struct cache_facts { /* what a node has of its CR in memory of its own; all 0: it has none */
    struct gt_class *class;
    const char *product;
    const char *owner_uid; /* of the Node that it was written for; NULL: not known */
    char **device_ids;     /* one block, class GPUs of them */
    char **device_names;   /* as claims have them; NULL: there are no claims */
    uint8_t *zones;        /* link zones, for composites in claims; NULL likewise */
    struct cache_owner *owners;
    uint32_t owner_count;
};

struct cache_taint {
    const char *key, *value, *effect;
    uint32_t refs, ready_nodes; /* refs: nodes that have it; ready_nodes: those where pods may be placed */
    uint32_t hash;
};

struct cache_label {
    const char *key, *value;
};

struct cache_node_facts {       /* likewise of its Node */
    struct cache_label *labels; /* by key */
    struct cache_taint **taints;
    uint32_t label_count, taint_count;
    const char *uid;
};

struct cache_claim {
    struct gt_cache_claim pub; /* first; one block, with the texts behind it */
    const char **devices;      /* names of the allocated devices of our driver */
    unsigned device_count;
    uint32_t hash, pod_hash;
    struct cache_node *at; /* the node of its GPUs; NULL: it has none */
    struct cache_claim *node_next;
};
/* Mask of its devices that its node is known to have. */
uint64_t gt_cache_claimed_gpus(const struct cache_claim *claim);
void gt_cache_claims_done(struct gt_cache *cache);

struct cache_slice {
    struct cache_slice *node_next;
    struct cache_node *node;
    int64_t generation; /* of its pool: an older one does not count */
    int64_t of_pool;    /* so many slices are in the pool: nothing is given before all are there */
    uint32_t hash, count;
    uint64_t *devices; /* digests of their names */
    char name[];
};
void gt_cache_slices_done(struct gt_cache *cache);
/* The node's GPUs that its slices offer; all where claims do not give them, or slices are not known. */
uint64_t gt_cache_sliced_gpus(const struct gt_cache *cache, const struct cache_node *node);

struct cache_reserved { /* GT_ANNOTATION_RESERVED */
    const char *text;   /* a shared text; NULL: none */
    bool reported;      /* it was reported, if it is wrong */
};
void gt_cache_set_reserved(struct gt_cache *cache, struct cache_reserved *at, const char *text);

struct cache_node {
    const char *name;
    uint32_t hash;
    uint32_t refs; /* from pods, plans, claims and charges */
    uint32_t id;   /* in the cluster, GT_NONE: it is not */
    uint32_t row;  /* of its resources */
    bool has_topology, has_node;
    bool is_shared; /* callers have promises of their own on it */

    /* of the CR */
    struct cache_facts cr;
    uint64_t rewired_ms[GT_CACHE_REWIRED_MAX]; /* when its class last changed, a ring buffer */
    uint32_t rewired;                          /* how often it has changed */
    bool rewires;                              /* it is rewired too often */
    uint32_t devices_version;
    uint64_t healthy, used, owned; /* healthy: not unhealthy; owned: used by named pods */
    enum gt_node_taints gpu_taint;
    uint64_t health_unknown; /* of the healthy ones */
    uint64_t slow;           /* of them: slow or suspect */
    uint64_t isolated;       /* unhealthy ones whose pods stay: no fault, somebody keeps them out of use */
    uint64_t owners_since_s; /* when the owners were last written, Unix time; 0 unknown */
    uint64_t observed_ms, resource_version;
    bool left_alone, links_down, stale;
    bool by_claims;    /* its agent gives GPUs by claims, not by a device plugin */
    bool by_plugin;    /* its agent's device plugin gives them */
    bool outlived;     /* it was written for an earlier Node of this name */
    int64_t written_s; /* by the API server's clock; 0 not known */

    /* of the Node */
    struct cache_node_facts object;
    int64_t created_s;   /* 0 not known */
    int64_t allocatable; /* GPUs; -1: it does not say */
    bool ready, cordoned, has_gpus, taints_counted;
    struct cache_reserved reserved;
    bool is_gone;        /* it was deleted */
    uint64_t unready_ms; /* since when it is not Ready, by the cache's time */
    int64_t unready_s;   /* the time that the Node reports, where it was not Ready when first seen; 0: it was
                            Ready */
    uint64_t unhealthy_ms; /* when a GPU was last found unhealthy or missing */

    /* of both */
    struct gt_cache_report report;
    int64_t offered; /* GPUs that pods may ask for by limits; -1: nothing limits them */

    struct cache_membership *claims;
    struct cache_claim *allocated;     /* ResourceClaims with GPUs of it */
    struct cache_slice *slices;        /* ResourceSlices of our driver */
    struct cache_supernode *supernode; /* in which it is in the cluster */
    struct cache_pod *pods; /* pods on it, and pods without a node that are planned for it; oldest first */
    uint64_t freed;         /* GPUs of pods that left since it was last recomputed */
    uint64_t foreign, foreign_next;       /* reserved by the other scheduler; while its note is read */
    struct gt_promise_id foreign_promise; /* of those that no pod has */
};

/* The record of that name, made if need be; NULL without memory. */
struct cache_node *gt_cache_node_record(struct gt_cache *cache, const char *name);
struct cache_node *gt_cache_find_node(const struct gt_cache *cache, const char *name);
/* Drops a reference, or forgets a fact: frees the record when neither is left. */
void gt_cache_node_drop(struct gt_cache *cache, struct cache_node *node);
void gt_cache_node_forget(struct gt_cache *cache, struct cache_node *node);
struct cache_node *gt_cache_node_of(const struct gt_cache *cache, uint32_t id);
/* The GPUs that are promised to a pod. */
uint64_t gt_cache_promised(const struct gt_cache *cache, const struct cache_pod *pod);
void gt_cache_forget_topology(struct gt_cache *cache, struct cache_node *node);
/* Ends `rewires` where the last changes are long ago. */
void gt_cache_calm_wiring(const struct gt_cache *cache, struct cache_node *node);
void gt_cache_forget_labels(struct gt_cache *cache, struct cache_node *node);

/* cache_report.c. False without memory; what was known stays. */
struct gt_node_gpu_topology;
bool gt_cache_set_report(struct gt_cache *cache, struct cache_node *node,
                         const struct gt_node_gpu_topology *topology);
void gt_cache_forget_report_labels(struct gt_cache *cache, struct cache_node *node);
bool gt_cache_set_supernode_label(struct gt_cache *cache, struct cache_node *node,
                                  const struct gt_node_object *object);
void gt_cache_forget_report(struct gt_cache *cache, struct cache_node *node);

bool gt_cache_is_open(const struct cache_node *node); /* new pods may be placed there */
/* Queues notices about the pods that are on the node or planned for it. */
void gt_cache_node_changed(struct gt_cache *cache, const struct cache_node *node);

/* ---- resources, with the number of GPUs that limits may ask for ---- */

struct cache_column {
    const char *name;                      /* NULL: not in use */
    uint32_t refs;                         /* rows that have it, and requests */
    int64_t *allocatable, *left, *emptied; /* [row] */
};

uint32_t gt_cache_take_row(struct gt_cache *cache);           /* GT_NONE without memory */
void gt_cache_give_row(struct gt_cache *cache, uint32_t row); /* it must have no amounts */
/* NULL: nothing is known of it. */
void gt_cache_set_allocatable(struct gt_cache *cache, uint32_t row, const struct gt_resources *resources);
/* The GPUs that pods may ask for by limits, which the former leaves alone; below 0: nothing limits them. */
void gt_cache_set_offered(struct gt_cache *cache, uint32_t row, int64_t gpus);
void gt_cache_resources_done(struct gt_cache *cache);

/* Writes what the request (NULL: nothing) asks for of the resources that scores look at. */
void gt_cache_request_amounts(const struct gt_cache *cache, const struct gt_cache_request *request,
                              struct gt_mix_amounts *ret);
/* Whether no resource that the request asks for is overdrawn in the row. */
bool gt_cache_is_covered(const struct gt_cache *cache, uint32_t row, const struct gt_cache_request *request);
/* Takes the request from a row (sign 1), or gives it back (-1). */
void gt_cache_charge(struct gt_cache *cache, uint32_t row, const struct gt_cache_request *request, int sign);

/* ---- what pods ask of the pods around them, and how others find them ---- */

struct gt_pod_peers;
struct gt_peer_term;
struct cache_peers {
    struct gt_pod_peers *rules; /* shared; NULL: none */
    const char *labels;         /* gt_peer_labels_text(), shared */
    const char *uses;           /* gt_pod_claims_text(), shared; NULL: no volumes */
};
/* -EINVAL where its rules are invalid or too many: then it has none. -ENOMEM. */
int gt_cache_peers_of(struct gt_cache *cache, const struct gt_pod *pod, struct cache_peers *ret);
bool gt_cache_peers_are(const struct cache_peers *a, const struct cache_peers *b);
void gt_cache_peers_drop(struct gt_cache *cache, struct cache_peers *peers);
/* A pod with these came to a node or left it: jobs whose rules were asked for may wait for that. */
void gt_cache_peers_moved(struct gt_cache *cache, const struct cache_peers *peers);
/* After the pod was charged, or is not any more. */
void gt_cache_count_ordered(struct gt_cache *cache, struct cache_pod *pod);

/* cache_charges.c: pods of all kinds that are on nodes. */
struct cache_bound {
    uint64_t digest; /* of the pod's name; 0: an empty place */
    struct cache_node *node;
    struct gt_cache_request *request;
    struct cache_peers peers;
};

struct cache_bound_table { /* open addressing */
    struct cache_bound *list;
    uint32_t size, count;
};
/* Rules about ports and volumes only look at pods that have some, which are few. */
enum gt_cache_bound_kind { CACHE_BOUND_PLAIN, CACHE_BOUND_RULED, CACHE_BOUND_KINDS };

void gt_cache_charge_bound(struct gt_cache *cache, const struct gt_pod *pod);
void gt_cache_discharge_bound(struct gt_cache *cache, const char *namespace_, const char *name);
/* Charges the pod's request to the node where its plan is assumed; without a plan to none. */
struct cache_pod;
void gt_cache_charge_plan(struct gt_cache *cache, struct cache_pod *pod);
void gt_cache_discharge_plan(struct gt_cache *cache, struct cache_pod *pod);
void gt_cache_charges_done(struct gt_cache *cache);

/* ---- objects that pods refer to, cache_related.c ---- */

struct cache_related { /* as struct gt_related; texts are shared */
    enum gt_related_kind kind;
    uint32_t hash;
    const char *namespace_, *name, *of, *driver, *handle;
    bool is_bound, is_late, is_many;
    enum gt_closeness closeness;
    uint32_t count;             /* a template: GPUs that it asks for */
    const char *unfit;          /* a template: as in struct gt_claim_template; static */
    struct gt_pod_rules *nodes; /* NULL: all */
};
struct cache_related *gt_cache_find_related(const struct gt_cache *cache, enum gt_related_kind kind,
                                            const char *namespace_, const char *name);

struct gt_volume_rules { /* the nodes where the volumes and allocated devices of a pod can be used */
    bool unread;         /* none: they are not known yet */
    bool unbound;        /* none: a scheduler waits until a claim is there, and bound */
    unsigned count;
    const struct gt_pod_rules *of[64]; /* the labels of a node must fit all */
};
/* `own`: with the claims of this pod alone. */
void gt_cache_volume_rules(const struct gt_cache *cache, const struct gt_pod_peers *peers, bool own,
                           struct gt_volume_rules *to);
bool gt_cache_volumes_fit(const struct gt_volume_rules *rules, const struct cache_node *node);
/* The driver and volume of a claim, or where it has none yet the driver that will make it; both are known by
 * their pointers. False: not known. */
bool gt_cache_attached(const struct gt_cache *cache, const char *namespace_, const char *name,
                       const char **ret_driver, const void **ret_volume);
/* How many volumes of the driver the node can have attached; INT32_MAX: there is no limit. */
uint32_t gt_cache_attach_limit(const struct gt_cache *cache, const struct cache_node *node,
                               const char *driver);
void gt_cache_related_done(struct gt_cache *cache);

/* ---- supernodes ---- */

struct cache_membership { /* a supernode says that a node is its member */
    struct cache_supernode *supernode;
    struct cache_node *node;
    struct cache_membership *next; /* of the node */
};

struct cache_supernode {
    const char *name;
    uint32_t hash;
    uint32_t id; /* in the cluster */
    bool known;  /* its object exists; otherwise only its children name it */
    uint8_t tier;
    struct cache_supernode *parent;     /* the one that its object names */
    struct cache_supernode *above;      /* its parent in the cluster */
    struct cache_supernode *children;   /* those that name it as their parent */
    struct cache_supernode *next_child; /* of its parent */
    struct cache_membership *claims;
    uint32_t claim_count;
    int64_t spare_nodes; /* -1: not given */
    struct cache_reserved reserved;
    double gbps;          /* as in gt_supernode_object */
    bool spares_reported; /* it was reported that they are more than its nodes */
};

void gt_cache_supernodes_done(struct gt_cache *cache);

/* ---- pods ---- */

struct cache_plan {
    struct cache_node *node;
    uint8_t count; /* GPUs */
    char ids[];    /* one behind the other */
};

struct gt_pod_rules; /* where a pod may run, shared by pods that say the same */

struct cache_pod {
    struct gt_cache_pod pub; /* first; its own (not shared) data is one block from meta.labels on */
    uint64_t digest;         /* of everything that is read from its object */
    struct gt_pod_rules *constraints;
    struct cache_peers peers;
    struct gt_cache_request *request;
    struct cache_node *charged; /* for its plan, until it is bound; NULL: none */
    struct gt_cache_request *charged_request;
    struct cache_pod *charged_next, *charged_previous; /* among all that are */
    struct cache_node *at;                             /* spec.nodeName */
    struct cache_plan *plan; /* the plan in force: from its object, or from gt_cache_plan_pod() */
    uint64_t reported;       /* digest of the object's plan, 0: none */
    uint64_t overridden;     /* with `overrides`: digest of the object's plan that is no longer in force */
    uint64_t resolved;       /* the plan's GPUs */
    uint64_t owned;          /* during recompute: GPUs for which the CR names the pod */
    uint64_t next_promised;  /* during recompute: the next mask of pub.promise */
    struct cache_node *node;
    struct cache_pod *node_next, *node_previous;
    struct cache_pod *job_previous;
    struct cache_pod *next_changed;
    uint32_t hash;
    uint32_t resolved_version; /* of node->devices_version that `resolved` is for */
    uint16_t counted, bound;   /* GPUs, in its namespace; all five up to GT_POD_GPUS_MAX */
    uint16_t asked;
    uint16_t sized; /* GPUs, in its job */
    uint16_t need;  /* during recompute: GPUs to be guessed */
    bool whole;     /* all GPUs of the plan exist */
    bool overrides;
    bool gated;   /* its spec has GT_GATE */
    bool ordered; /* it is charged, and has rules for which the order counts in which pods are bound */
    bool changed;
};
_Static_assert(GT_POD_GPUS_MAX <= UINT16_MAX, "GPUs of a pod fit");

struct cache_namespace {
    struct gt_cache_namespace pub; /* first */
    uint32_t hash;
};

struct cache_job {
    struct gt_cache_job pub; /* first */
    uint32_t hash;
    uint64_t audited;          /* the round of audit.c that has looked at it */
    uint64_t gpus;             /* of its pods */
    uint64_t reported;         /* the part of them that the chain has been given */
    struct gt_job_sizes sizes; /* as far as they are known */
};

/* cache_jobs.c: the object of a pod was read; the job is about to be freed. */
void gt_cache_see_sizes(struct gt_cache *cache, struct cache_pod *pod);

uint32_t gt_cache_pod_hash(const struct gt_cache *cache, const char *namespace_, const char *name);
struct cache_pod *gt_cache_pod_named(const struct gt_cache *cache, const char *namespace_, const char *name);
void gt_cache_free_pod(struct gt_cache *cache, struct cache_pod *pod);
/* cache_recompute.c: the pod of that name (NULL: none) is where it is, or will never be: gt_cache_pass(). */
void gt_cache_end_passed(struct gt_cache *cache, const char *namespace_, const char *name);

/* The namespace of that name, made if need be; the pod is put into it. */
int gt_cache_join_namespace(struct gt_cache *cache, struct cache_pod *pod, const char *name);
void gt_cache_remove_from_namespace(struct gt_cache *cache, struct cache_pod *pod);
/* Updates the namespace's counts with what the pod has now. */
void gt_cache_count_gpus(struct cache_pod *pod);
/* gt_peer_term_matches() with what is known of Namespaces. */
bool gt_cache_term_matches(const struct gt_cache *cache, const struct gt_pod_peers *peers,
                           const struct gt_peer_term *term, const char *labels);

/* The job of a key, made if need be; the pod is put into it. */
int gt_cache_join_job(struct gt_cache *cache, struct cache_pod *pod, const char *key);
void gt_cache_remove_from_job(struct cache_pod *pod);
/* Frees a job without pods. */
void gt_cache_drop_job(struct gt_cache *cache, struct gt_cache_job *job);

/* From the annotations; NULL and 0 where there is none, NULL and -EINVAL where it is invalid. */
int gt_cache_read_plan(struct gt_cache *cache, const char *node, const char *gpus, unsigned count,
                       struct cache_plan **ret);
void gt_cache_free_plan(struct gt_cache *cache, struct cache_plan *plan);

/* Adds a pod to the list of the node that it belongs to now; the node that it left must be recomputed, too.
 */
void gt_cache_attach_pod(struct cache_pod *pod);
void gt_cache_detach_pod(struct gt_cache *cache, struct cache_pod *pod);
/* Whether the CR can mean this pod by its name. Where the CR was written before the pod was created, it means
 * an earlier pod of the same name. */
bool gt_cache_may_be_named(const struct cache_node *node, const struct cache_pod *pod);
/* State and plan of a pod that is on no node. */
void gt_cache_recompute_detached(struct gt_cache *cache, struct cache_pod *pod);

/* Selectors, affinity, tolerations of a pod: *ret is NULL where it has none. -EINVAL where they are invalid.
 */
int gt_cache_constraints_of(struct gt_cache *cache, const struct gt_pod_where *where,
                            struct gt_pod_rules **ret);
void gt_cache_constraints_drop(struct gt_cache *cache, struct gt_pod_rules *constraints);
struct cache_taint *gt_cache_taint(struct gt_cache *cache, const char *key, const char *value,
                                   const char *effect);
void gt_cache_taint_drop(struct gt_cache *cache, struct cache_taint *taint);
/* Whether a pod may be on the node by its labels (`named`: as for a successor), and by its taints. */
bool gt_cache_labels_fit(const struct gt_pod_rules *constraints, const struct cache_node *node,
                         const char *named);
bool gt_cache_taints_fit(const struct gt_pod_rules *constraints, const struct cache_node *node);
bool gt_cache_tolerates(const struct gt_pod_rules *constraints, const struct cache_taint *taint);
/* The value of a label, shared; NULL: it has none. */
const char *gt_cache_node_label(const struct cache_node *node, const char *key);
/* Updates the counts of the node's taints after the node may have opened or closed for new pods. */
void gt_cache_count_taints(struct cache_node *node);

/* ---- together ---- */

/* Copies a text into a block with room for it, and goes on behind it. */
char *gt_cache_put_text(char **to, const char *text);

/* Takes an item out of the list that begins at `head`. */
#define CACHE_UNLINK(head, item, next)                                                                       \
    do {                                                                                                     \
        __typeof__(head) at_ = (head);                                                                       \
        while (*at_ != (item))                                                                               \
            at_ = &(*at_)->next;                                                                             \
        *at_ = (item)->next;                                                                                 \
    } while (0)

/* Grows the array to `new` entries, the new ones zeroed; false without memory, then the old one stays valid.
 */
#define CACHE_GROW(array, old, new)                                                                          \
    ((new_ = gt_cache_grown(array, sizeof(*(array)), old, new)) ? ((array) = new_, true) : false)
void *gt_cache_grown(void *array, size_t size, uint32_t old, uint32_t new);

struct gt_cache {
    struct gt_cache_spec spec;
    struct gt_cluster *cluster;
    struct gt_mix *mix; /* of all pods added so far */
    struct gt_class_cache *classes;
    uint64_t seed, now_ms, next_job;
    struct gt_table texts, nodes, supernodes, pods, jobs, namespaces, constraints, taints, requests, peers;
    struct gt_table claims, claims_of_pods; /* ResourceClaims, by name and by pod */
    struct gt_table slices, related;
    enum gt_cache_reading volumes_known, namespaces_known, devices_known;
    bool namespaces_wanted;    /* some pod has rules about their labels */
    uint32_t attach_limits;    /* CSINodes that have some */
    bool slices_known;         /* else NodeGPUTopologies alone say what claims can get */
    struct cache_node **by_id; /* [id of the cluster] */
    uint32_t *row_of;          /* likewise: node->row */
    uint32_t by_id_size;
    struct cache_pod *first_changed, *last_changed;
    struct cache_pod *silent; /* the pod that the caller changes; it gets no notice */
    struct cache_column columns[CACHE_COLUMNS_MAX];
    uint8_t mix_column[GT_MIX_RESOURCES];         /* of CPU and memory, + 1; 0: there is none */
    const char *schedulers[CACHE_SCHEDULERS_MAX]; /* that have bound a pod */
    unsigned scheduler_count;
    uint32_t row_count, row_capacity, row_free; /* row_free: a row + 1, 0: none */
    uint32_t *row_next;                         /* [row] the next free one + 1 */
    bool *row_short;                            /* [row] a plan lacked resources there */
    struct cache_bound_table bound[CACHE_BOUND_KINDS];
    struct cache_pod *charged;               /* pods that are planned and not bound */
    uint64_t foreign_note, foreign_until_ms; /* a digest of the other scheduler's note, 0: none; its end */
    uint32_t foreign_gpus;                   /* that are assumed for it */
    uint32_t peers_apart;                    /* of `peers`: those with anti-affinity */
    uint32_t ordered_plans;                  /* pods with `ordered` */
    bool peers_asked;     /* a job's rules were asked for since the last notice about that */
    bool peers_by_labels; /* likewise, rules by which any pod may matter */
    uint32_t by_plugin;   /* nodes with a topology whose `by_claims` is false */
    uint32_t outlived;    /* nodes whose CR is */
    bool has_spares;      /* some supernode was given them */
    bool has_reserved;    /* people have reserved something */
    bool more_room, reports_changed;
    uint32_t pods_in[GT_CACHE_RUNNING + 1];
    uint32_t terminating; /* pods on nodes that are being deleted */
    uint64_t refused, pods_beyond;
};

/* The record after this one; NULL: the first one. */
struct cache_node *gt_cache_next_node(const struct gt_cache *cache, const struct cache_node *node);
struct cache_supernode *gt_cache_next_supernode(const struct gt_cache *cache,
                                                const struct cache_supernode *supernode);

/* Updates the cluster and the pods of a node from what is known about it. */
void gt_cache_recompute(struct gt_cache *cache, struct cache_node *node);
/* Moves a node of the cluster into the supernode that it now belongs to. Its pods need no update. */
void gt_cache_follow_supernode(struct gt_cache *cache, struct cache_node *node);

/* Queues a notice about a changed pod; gt_cache_notify() sends the queued ones at the end of a call. */
void gt_cache_changed(struct gt_cache *cache, struct cache_pod *pod);
void gt_cache_unchanged(struct gt_cache *cache, const struct cache_pod *pod); /* drops a queued notice */
void gt_cache_notify(struct gt_cache *cache);
