/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_FEED_INTERNAL_H
#define GPUTOPO_FEED_INTERNAL_H

#include "scheduler-ext/feed/feed.h"
#include "scheduler-ext/feed/feed_table.h"

/*
 * What the files of the feed share. Facts are kept as records, by name, and records may be named before
 * their object is there. What follows from facts about one node (is it in the cluster, what is free, assumed,
 * lost) is computed anew from all of them whenever one changes (gt_feed_settle), so that the order in which
 * objects come does not matter.
 */
enum {
    FEED_CLASSES_MAX = 1024, /* kept by the cache of classes */
    FEED_LABELS_MAX = 1024,  /* of a node */
    FEED_MEMBERS_MAX = 8192, /* of a supernode */
    FEED_PAIRS_MAX = 24,     /* labels, or annotations, of a pod that are kept */
    FEED_SEARCH_US = 500,    /* for a guess on a node of more than 16 GPUs */
};

/* ---- texts that many share ---- */

/* The same text gives the same pointer; NULL without memory, and for NULL. */
const char *gt_feed_text(struct gt_feed *feed, const char *text);
void gt_feed_text_drop(struct gt_feed *feed, const char *text);

/* ---- nodes ---- */

struct feed_owner { /* one pod that a CR names */
    const char *namespace_, *pod;
    uint64_t mask;
};

struct feed_taint {
    const char *key, *value, *effect;
    uint32_t refs, ready_nodes; /* nodes that have it; those of them where pods may be placed */
    uint32_t hash;
};

struct feed_label {
    const char *key, *value;
};

struct feed_node {
    const char *name;
    uint32_t hash;
    uint32_t refs; /* pods, plans and claims that name it */
    uint32_t id;   /* in the cluster, GT_NONE: it is not */
    bool has_topology, has_node, is_pulled;
    bool is_shared; /* callers have assumptions of their own on it */

    /* of the CR */
    struct gt_class *class;
    const char *product;
    char **device_ids; /* one block, class GPUs of them */
    uint32_t devices_version;
    uint64_t healthy, used, owned; /* healthy: not unhealthy; owned: of `used`, what a named pod has */
    uint64_t health_unknown;       /* of the healthy ones */
    struct feed_owner *owners;
    uint32_t owner_count;
    uint64_t owners_since_s; /* when the owners were last written, Unix time; 0 unknown */
    uint64_t heard_ms, resource_version;
    bool left_alone, links_down, stale;

    /* of the Node */
    struct feed_label *labels; /* by key */
    struct feed_taint **taints;
    uint32_t label_count, taint_count;
    bool ready, cordoned, has_gpus, taints_counted;

    struct feed_claim *claims;
    struct feed_supernode *supernode; /* where it is in the cluster */
    struct feed_pod *seats;           /* pods on it, and pods planned for it that are on none: by age */
    uint64_t freed;                   /* by seats that were left since it was settled */
    struct feed_node *next_pulled;
};

/* The record of that name, made if need be; NULL without memory. */
struct feed_node *gt_feed_node_record(struct gt_feed *feed, const char *name);
struct feed_node *gt_feed_find_node(const struct gt_feed *feed, const char *name);
/* One reference less, or a fact less: frees the record when nothing is left. */
void gt_feed_node_drop(struct gt_feed *feed, struct feed_node *node);
void gt_feed_node_forget(struct gt_feed *feed, struct feed_node *node);
struct feed_node *gt_feed_node_of(const struct gt_feed *feed, uint32_t id);
void gt_feed_forget_topology(struct gt_feed *feed, struct feed_node *node);
void gt_feed_forget_labels(struct gt_feed *feed, struct feed_node *node);
void gt_feed_count_taints(struct feed_node *node);

static inline bool gt_feed_is_open(const struct feed_node *node) /* new pods may come */
{
    return node->has_node && node->ready && !node->cordoned;
}

/* ---- supernodes ---- */

struct feed_claim { /* a supernode says that a node is its member */
    struct feed_supernode *supernode;
    struct feed_node *node;
    struct feed_claim *next; /* of the node */
};

struct feed_supernode {
    const char *name;
    uint32_t hash;
    uint32_t id; /* in the cluster */
    bool known;  /* its object is there; else only its children name it */
    uint8_t tier;
    struct feed_supernode *parent;     /* that it names */
    struct feed_supernode *above;      /* that it lies below in the cluster */
    struct feed_supernode *children;   /* that name it */
    struct feed_supernode *next_child; /* of its parent */
    struct feed_claim *claims;
    uint32_t claim_count;
};

/* The supernode that a node is to be in; NULL: none. */
struct feed_supernode *gt_feed_supernode_of(const struct feed_node *node);
void gt_feed_supernodes_done(struct gt_feed *feed);

/* ---- pods ---- */

struct feed_plan {
    struct feed_node *node;
    unsigned count; /* GPUs */
    char ids[];     /* one behind the other */
};

struct feed_suit; /* where a pod may run, shared by pods that say the same */

struct feed_pod {
    struct gt_feed_pod pub; /* first */
    uint64_t digest;        /* of all that is read of its object */
    struct feed_body *body; /* what pub points to and nobody shares */
    char *error;            /* pub.identity_error */
    struct feed_suit *suit;
    struct feed_node *at;   /* spec.nodeName */
    struct feed_plan *plan; /* that counts: of its object, or of gt_feed_plan_pod() */
    uint64_t told;          /* digest of the object's plan, 0: none */
    uint64_t overridden;    /* where `overrides`: the object's plan that does not count any more */
    uint64_t resolved;      /* the plan's GPUs */
    uint64_t hold;          /* the mask of pub.assumption */
    uint64_t owned;         /* in the making: what the CR names it for */
    uint64_t next_hold;     /* in the making: the next hold */
    struct feed_node *seat;
    struct feed_pod *seat_next, *seat_previous;
    struct feed_pod *job_previous;
    struct feed_pod *next_changed;
    uint32_t hash;
    uint32_t resolved_version; /* of node->devices_version that `resolved` is for */
    unsigned need;             /* in the making: GPUs to be guessed */
    bool whole;                /* all GPUs of the plan are there */
    bool overrides;
    bool gated; /* spec: GT_GATE stands */
    bool changed;
};

struct feed_job {
    struct gt_feed_job pub; /* first */
    uint32_t hash;
};

/* What is read of a pod's object; texts are borrowed from it. */
struct feed_draft {
    const char *namespace_, *name, *uid;
    const char *owner_kind, *owner_name, *owner_uid, *owner_api_version;
    const char *scheduler, *priority_class, *node_name;
    struct gt_pair labels[FEED_PAIRS_MAX], annotations[FEED_PAIRS_MAX];
    unsigned label_count, annotation_count, containers;
    const char *container_names[GT_POD_CONTAINERS_MAX];
    unsigned gpus[GT_POD_CONTAINERS_MAX];
    unsigned gpu_sum, sidecars, inits;
    const char *init_names[GT_POD_CONTAINERS_MAX];
    unsigned init_gpus[GT_POD_CONTAINERS_MAX];
    int32_t priority;
    uint64_t created_s;
    bool owner_controls, deleting, ended, gated, other_gates, refused;
    const char *plan_gpus, *plan_node; /* annotations */
    bool bad_plan;
    const cJSON *spec;
    uint64_t digest;
};

/* False where it makes no sense. */
bool gt_feed_read_pod(const struct gt_feed *feed, const cJSON *object, struct feed_draft *ret);
struct feed_pod *gt_feed_pod_named(const struct gt_feed *feed, const char *namespace_, const char *name);
void gt_feed_free_pod(struct gt_feed *feed, struct feed_pod *pod);

/* The job of a key, made if need be; the pod is put into it. */
int gt_feed_join_job(struct gt_feed *feed, struct feed_pod *pod, const char *key);
void gt_feed_leave_job(struct feed_pod *pod);
/* Frees a job without pods. */
void gt_feed_drop_job(struct gt_feed *feed, struct gt_feed_job *job);

/* From the annotations; NULL and 0 where there is none, NULL and -EINVAL where it makes no sense. */
int gt_feed_read_plan(struct gt_feed *feed, const char *node, const char *gpus, unsigned count,
                      struct feed_plan **ret);
void gt_feed_free_plan(struct gt_feed *feed, struct feed_plan *plan);
/* Resolves the plan's IDs on its node. */
void gt_feed_resolve(struct feed_pod *pod);

/* Puts a pod among the seats of the node that it belongs to now; the one it left is to be settled too. */
void gt_feed_seat(struct feed_pod *pod);
void gt_feed_unseat(struct gt_feed *feed, struct feed_pod *pod);
/* Whether the CR may mean this pod by its name. Its predecessor of the same name had the GPUs where the CR
 * was written before the pod was made. */
bool gt_feed_may_be_named(const struct feed_node *node, const struct feed_pod *pod);
/* State and plan of a pod that has no seat. */
void gt_feed_settle_unseated(struct gt_feed *feed, struct feed_pod *pod);

/* Selectors, affinity, tolerations of a spec: *ret is NULL where it says nothing. -EINVAL where it makes no
 * sense. */
int gt_feed_suit_of(struct gt_feed *feed, const cJSON *spec, struct feed_suit **ret);
void gt_feed_suit_drop(struct gt_feed *feed, struct feed_suit *suit);
struct feed_taint *gt_feed_taint(struct gt_feed *feed, const char *key, const char *value,
                                 const char *effect);
void gt_feed_taint_drop(struct gt_feed *feed, struct feed_taint *taint);

/* ---- together ---- */

struct gt_feed {
    struct gt_feed_spec spec;
    char *resource;
    struct gt_cluster *cluster;
    struct gt_class_cache *classes;
    size_t bytes;
    uint64_t seed, now_ms, next_job;
    struct feed_table texts, nodes, supernodes, pods, jobs, suits, taints;
    struct feed_node **by_id; /* [id of the cluster] */
    uint32_t by_id_size;
    struct feed_node *pulled; /* out of the cluster for a moment */
    struct feed_pod *first_changed, *last_changed;
    struct feed_pod *silent; /* whom the caller changes and need not be told of */
    bool room, delivering;
    uint32_t pods_in[GT_FEED_RUNNING + 1];
    uint64_t refused, pods_beyond;
};

/* Brings the cluster and the pods of a node in line with what is known of it. */
void gt_feed_settle(struct gt_feed *feed, struct feed_node *node);
/* Takes a node out of the cluster; it comes back when settled. */
void gt_feed_pull(struct gt_feed *feed, struct feed_node *node);
void gt_feed_settle_pulled(struct gt_feed *feed);

/* A change to be told, and the telling at the end of a call. */
void gt_feed_changed(struct gt_feed *feed, struct feed_pod *pod);
void gt_feed_deliver(struct gt_feed *feed);

/* ---- reading JSON ---- */

const cJSON *gt_feed_get(const cJSON *object, const char *key); /* NULL: missing or null */
/* The text; NULL: missing, or none of 1 to max bytes; *ret_bad then tells the latter. */
const char *gt_feed_get_text(const cJSON *object, const char *key, size_t max, bool *ret_bad);
/* metadata.name, a valid length; NULL: none */
const char *gt_feed_name_of(const cJSON *object);
/* "2026-01-31T12:00:00Z" as Unix time; 0 for anything else */
uint64_t gt_feed_time(const char *text);
/* A whole number of things, as a number or a text; false for anything else. */
bool gt_feed_quantity(const cJSON *json, unsigned max, unsigned *ret);

#endif
