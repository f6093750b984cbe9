/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_FOLLOW_H
#define GPUTOPO_COMPANION_FOLLOW_H

#include "kube/client.h"
#include "scheduler-ext/feed/feed.h"

/*
 * One feed for all parts that decide: informers on NodeGPUTopologies, Supernodes, Nodes and pods that have
 * not ended hand their objects to it.
 */
struct gt_follow;

enum { GT_FOLLOW_LISTENERS_MAX = 4 };

/* What is NULL is not called. The feed's callbacks are handed on. */
struct gt_follow_listener {
    void (*saw_pod)(void *arg, const cJSON *object);  /* before the feed gets it */
    void (*made_pod)(void *arg, const cJSON *object); /* one that was not there when all was listed */
    void (*saw_pod_gone)(void *arg, const char *namespace_, const char *name);
    void (*on_pod)(void *arg, struct gt_feed_pod *pod);
    void (*on_pod_gone)(void *arg, struct gt_feed_pod *pod);
    void (*on_refused)(void *arg, const char *namespace_, const char *name, const char *why);
    void (*on_room)(void *arg);
    void (*on_synced)(void *arg); /* once: every informer has listed what there is */
    void *arg;
};

/* Nothing is read before gt_follow_start(). */
int gt_follow_new(struct gt_loop *loop, struct gt_kube *kube, struct gt_follow **ret, struct gt_err **err);
int gt_follow_start(struct gt_follow *follow, struct gt_err **err);
void gt_follow_free(struct gt_follow *follow);
GT_DEFINE_CLEANUP(struct gt_follow *, gt_follow_free)
#define gt_auto_follow GT_CLEANUP(gt_follow_free)

/* False: there are GT_FOLLOW_LISTENERS_MAX. `listener` is copied. */
bool gt_follow_listen(struct gt_follow *follow, const struct gt_follow_listener *listener);
void gt_follow_forget(struct gt_follow *follow, const void *arg);

struct gt_feed *gt_follow_feed(struct gt_follow *follow);

/* Otherwise what is waited for is appended, one line. */
bool gt_follow_is_synced(const struct gt_follow *follow, struct gt_buf *why);

void gt_follow_metrics(const struct gt_follow *follow, struct gt_buf *to);

#endif
