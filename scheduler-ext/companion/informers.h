/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_INFORMERS_H
#define GPUTOPO_COMPANION_INFORMERS_H

#include "kube/client.h"
#include "scheduler-ext/cache/cache.h"

/*
 * One cache for all parts that decide: informers on NodeGPUTopologies, Supernodes, Nodes and pods that have
 * not ended hand their objects to it.
 */
struct gt_informers;

enum { GT_INFORMERS_HANDLERS_MAX = 4 };

/* What is NULL is not called. The cache's callbacks are handed on. */
struct gt_cache_handlers {
    void (*saw_pod)(void *arg, const cJSON *object);  /* before the cache gets it */
    void (*made_pod)(void *arg, const cJSON *object); /* one that was not there when all was listed */
    void (*saw_pod_gone)(void *arg, const char *namespace_, const char *name);
    void (*on_pod)(void *arg, struct gt_cache_pod *pod);
    void (*on_pod_gone)(void *arg, struct gt_cache_pod *pod);
    void (*on_refused)(void *arg, const char *namespace_, const char *name, const char *why);
    void (*on_capacity)(void *arg);
    void (*on_synced)(void *arg); /* once: every informer has listed what there is */
    void *arg;
};

/* Nothing is read before gt_informers_start(). */
int gt_informers_new(struct gt_loop *loop, struct gt_kube *kube, struct gt_informers **ret,
                     struct gt_err **err);
int gt_informers_start(struct gt_informers *informers, struct gt_err **err);
void gt_informers_free(struct gt_informers *informers);
GT_DEFINE_CLEANUP(struct gt_informers *, gt_informers_free)
#define gt_auto_informers GT_CLEANUP(gt_informers_free)

/* False: there are GT_INFORMERS_HANDLERS_MAX. `handler` is copied. */
bool gt_informers_add_handlers(struct gt_informers *informers, const struct gt_cache_handlers *handler);
void gt_informers_remove_handlers(struct gt_informers *informers, const void *arg);

struct gt_cache *gt_informers_cache(struct gt_informers *informers);

/* Otherwise what is waited for is appended, one line. */
bool gt_informers_is_synced(const struct gt_informers *informers, struct gt_buf *why);

void gt_informers_metrics(const struct gt_informers *informers, struct gt_buf *to);

#endif
