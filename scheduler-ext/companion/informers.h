/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_INFORMERS_H
#define GPUTOPO_COMPANION_INFORMERS_H

#include "api/gpu_placement.h"
#include "api/resource_quota.h"
#include "kube/client.h"
#include "scheduler-ext/cache/cache.h"

/*
 * One cache for all parts: one informer a kind hands its objects to it, and to those who listen.
 */
struct gt_informers;

enum gt_informer_kind {
    GT_INFORMER_TOPOLOGIES, /* NodeGPUTopologies */
    GT_INFORMER_SUPERNODES,
    GT_INFORMER_NODES,      /* their metadata alone, where no pods are followed */
    GT_INFORMER_PODS,       /* that have not ended */
    GT_INFORMER_LEASES,     /* vc-scheduler's alone: the cluster may have none */
    GT_INFORMER_PLACEMENTS, /* GPUPlacements; the cache does without them */
    GT_INFORMER_QUOTAS,     /* ResourceQuotas; likewise. Nothing waits for them where they cannot be listed */
    GT_INFORMER_CLAIMS,     /* ResourceClaims, where limits become claims */
    GT_INFORMER_CLAIM_TEMPLATES, /* likewise */
    GT_INFORMER_KINDS,
};
enum {
    GT_INFORMER_CLUSTER = (1 << GT_INFORMER_PLACEMENTS) - 1
}; /* a bit for each kind that the cache takes */

struct gt_informers_spec {
    unsigned kinds; /* a bit for each that is needed */
    bool reports, gpu_attributes;
    const char *lease_namespace;  /* where that Lease would be */
    const char *supernode_labels; /* these three as in gt_cache_spec */
};

enum { GT_INFORMERS_HANDLERS_MAX = 4 };

/* What is NULL is not called. The cache's callbacks are handed on. */
struct gt_cache_handlers {
    /* Before the cache has it, as the next three. */
    void (*observe_node)(void *arg, const struct gt_node_object *node);
    void (*observe_supernode)(void *arg, const cJSON *object); /* whole, for apply_set.h */
    void (*observe_supernode_deleted)(void *arg, const char *name);
    void (*observe_pod)(void *arg, const struct gt_pod *pod);
    void (*made_pod)(void *arg, const struct gt_pod *pod); /* one that was not there when all was listed */
    void (*observe_pod_deleted)(void *arg, const char *namespace_, const char *name);
    /* One handler has these two, and they are its own. */
    void (*observe_placement)(void *arg, struct gt_gpu_placement *placement);
    void (*observe_quota)(void *arg, struct gt_resource_quota *quota); /* that limits GPUs */
    void (*observe_placement_deleted)(void *arg, const char *namespace_, const char *name);
    void (*observe_quota_deleted)(void *arg, const char *namespace_, const char *name);
    void (*on_unreadable)(void *arg, const char *name, const char *why); /* of these two kinds */
    void (*observe_claim_template)(void *arg, const cJSON *object);      /* the cache has it */
    void (*observe_claim_template_deleted)(void *arg, const char *namespace_, const char *name);
    void (*on_pod)(void *arg, struct gt_cache_pod *pod);
    void (*on_pod_deleted)(void *arg, struct gt_cache_pod *pod);
    void (*on_refused)(void *arg, const char *namespace_, const char *name, const char *why);
    void (*on_capacity)(void *arg);
    void (*on_report)(void *arg);
    void (*on_relist)(void *arg, enum gt_informer_kind kind); /* what was known may be of a later version */
    void (*on_listed)(void *arg, enum gt_informer_kind kind); /* whenever all of a kind was listed */
    void (*on_synced)(void *arg); /* once: every informer has listed what there is */
    void *arg;
};

/* Nothing is read before gt_informers_start(). */
int gt_informers_new(struct gt_loop *loop, struct gt_kube *kube, const struct gt_informers_spec *spec,
                     struct gt_informers **ret, struct gt_err **err);
int gt_informers_start(struct gt_informers *informers, struct gt_err **err);
void gt_informers_free(struct gt_informers *informers);
GT_DEFINE_CLEANUP(struct gt_informers *, gt_informers_free)
#define gt_auto_informers GT_CLEANUP(gt_informers_free)

/* False: there are GT_INFORMERS_HANDLERS_MAX. `handler` is copied. */
bool gt_informers_add_handlers(struct gt_informers *informers, const struct gt_cache_handlers *handler);
void gt_informers_remove_handlers(struct gt_informers *informers, const void *arg);

struct gt_cache *gt_informers_cache(struct gt_informers *informers);

/* Whether all of a kind was listed once; otherwise *ret_error, which may be NULL, is why not, "" if it is not
 * known. */
bool gt_informers_has_listed(const struct gt_informers *informers, enum gt_informer_kind kind,
                             const char **ret_error);

/* Whether all kinds that are needed were; otherwise what is waited for is appended, one line. */
bool gt_informers_is_synced(const struct gt_informers *informers, struct gt_buf *why);

void gt_informers_metrics(const struct gt_informers *informers, struct gt_buf *to);

#endif
