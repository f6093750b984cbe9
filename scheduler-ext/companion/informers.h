/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "kube/client.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/cluster.h"

/*
 * One cache for all parts: for each kind one informer passes its objects to the cache and to the handlers.
 */
struct gt_informers;

enum gt_informer_kind {
    GT_INFORMER_TOPOLOGIES, /* NodeGPUTopologies */
    GT_INFORMER_SUPERNODES,
    GT_INFORMER_NODES,      /* only their metadata, where pods are not watched */
    GT_INFORMER_PODS,       /* that have not ended */
    GT_INFORMER_LEASES,     /* only vc-scheduler's; the cluster may have none */
    GT_INFORMER_PLACEMENTS, /* GPUPlacements; not for the cache */
    GT_INFORMER_QUOTAS, /* ResourceQuotas; likewise, and the sync does not wait for them where they cannot be
                           listed */
    GT_INFORMER_CLAIMS, /* ResourceClaims, where the webhook turns limits into claims */
    GT_INFORMER_CLAIM_TEMPLATES, /* likewise */
    GT_INFORMER_SLICES,          /* ResourceSlices of our driver, likewise */
    GT_INFORMER_VOLUME_CLAIMS,   /* in the order of enum gt_related_kind, these four once a pod that is
                                    placed uses a claim; nothing waits for them but such pods */
    GT_INFORMER_VOLUMES,
    GT_INFORMER_CLASSES,
    GT_INFORMER_CSI_NODES,
    GT_INFORMER_NAMESPACES, /* likewise, once rules of a pod ask for their labels; with the extender always */
    GT_INFORMER_DEVICE_CLAIMS, /* of any driver, once a pod that is placed has some; likewise */
    GT_INFORMER_DEVICE_TEMPLATES,
    GT_INFORMER_DEVICE_CLASSES,
    GT_INFORMER_DEVICE_SLICES,
    GT_INFORMER_KINDS,
};
enum {
    GT_INFORMER_CLUSTER = (1 << GT_INFORMER_PLACEMENTS) - 1
}; /* a bit for each kind that the cache takes */

struct gt_informers_spec {
    unsigned kinds; /* a bit for each that is needed */
    bool reports, gpu_attributes;
    const char *lease_namespace;                   /* where that Lease would be */
    const char *supernode_labels, *network_labels; /* as in gt_cache_spec, as reports and gpu_attributes */
};

enum { GT_INFORMERS_HANDLERS_MAX = 4 };

/* Members may be NULL. The cache's callbacks are passed on. */
struct gt_cache_handlers {
    void (*observe_pod)(void *arg, const struct gt_pod *pod); /* before the cache has it */
    void (*made_pod)(void *arg, const struct gt_pod *pod);    /* a pod created after the first list */
    /* An object of another kind, which the cache has; and a deleted one of any kind, before it is removed. */
    void (*observe)(void *arg, enum gt_informer_kind kind, const cJSON *object);
    void (*observe_deleted)(void *arg, enum gt_informer_kind kind, const char *namespace_, const char *name);
    void (*on_pod)(void *arg, struct gt_cache_pod *pod);
    void (*on_pod_deleted)(void *arg, struct gt_cache_pod *pod);
    void (*on_refused)(void *arg, const char *namespace_, const char *name, const char *why);
    void (*on_capacity)(void *arg);
    void (*on_report)(void *arg);
    void (*on_relist)(void *arg, enum gt_informer_kind kind); /* listed again, maybe older versions */
    void (*on_listed)(void *arg, enum gt_informer_kind kind); /* whenever all of a kind was listed */
    void (*on_synced)(void *arg); /* once: every informer has listed what there is */
    void *arg;
};

/* Makes the informers; gt_informers_start() starts them. */
int gt_informers_new(struct gt_loop *loop, struct gt_kube *kube, const struct gt_informers_spec *spec,
                     struct gt_informers **ret, struct gt_err **err);
int gt_informers_start(struct gt_informers *informers, struct gt_err **err);
void gt_informers_free(struct gt_informers *informers);
GT_DEFINE_CLEANUP(struct gt_informers *, gt_informers_free)

/* False: there are GT_INFORMERS_HANDLERS_MAX already. `handler` is copied. */
bool gt_informers_add_handlers(struct gt_informers *informers, const struct gt_cache_handlers *handler);
void gt_informers_remove_handlers(struct gt_informers *informers, const void *arg);

struct gt_cache *gt_informers_cache(struct gt_informers *informers);

/* Whether all objects of a kind were listed once; otherwise *ret_error says why not, "" if that is not known.
 * `ret_error` may be NULL. */
bool gt_informers_has_listed(const struct gt_informers *informers, enum gt_informer_kind kind,
                             const char **ret_error);

/* Whether all needed kinds were listed; otherwise appends one line that says what is missing. */
bool gt_informers_is_synced(const struct gt_informers *informers, struct gt_buf *why);

void gt_informers_metrics(const struct gt_informers *informers, struct gt_buf *to);

/* How much room there is for units, for /metrics. It is counted when asked for. */
void gt_room_metrics(const struct gt_cluster *cluster, struct gt_buf *to);
