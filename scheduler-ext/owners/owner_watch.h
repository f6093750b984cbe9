/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/informer.h"
#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/owners/pod_groups.h"

/*
 * Updates the owners, the PodGroups, and Volcano's Queues, from the cluster: one informer for each kind. A
 * kind that the cluster does not have is tried again from time to time, since an operator may be installed
 * later; until then it counts as synced without objects. A kind that cannot be listed (no permission, a
 * broken definition) is logged and tried again, and does not delay other kinds. All on the loop's thread.
 */
struct gt_owner_watch;

struct gt_owner_watch_spec {
    struct gt_kube *kube;
    struct gt_owners *owners;
    struct gt_pod_groups *pod_groups;
    /* Called before an added or changed object is read; may change it. */
    void (*prepare)(void *arg, enum gt_job_kind kind, cJSON *object);
    void (*on_deleted)(void *arg, enum gt_job_kind kind, const char *namespace_, const char *name);
    /* An object was added, changed, or deleted. May be NULL, as the others. */
    void (*on_owner)(void *arg, enum gt_job_kind kind, const char *namespace_, const char *name);
    /* A PodGroup or a Queue has changed. `namespace_` NULL: a Queue, or all of them. */
    void (*on_pod_group)(void *arg, const char *namespace_);
    uint64_t without_ms; /* how long the sync waits for a kind that cannot be listed; 0: 30 s */
    void *arg;
};

int gt_owner_watch_new(const struct gt_owner_watch_spec *spec, struct gt_owner_watch **ret,
                       struct gt_err **err);
/* To be called before the client and the owners are freed. NULL is allowed. */
void gt_owner_watch_free(struct gt_owner_watch *watch);
GT_DEFINE_CLEANUP(struct gt_owner_watch *, gt_owner_watch_free)

/* Begins or ends to watch the Events in which controllers report that they cannot create a pod (because of a
 * quota, a webhook, a policy), and records them with the owners, which have no field for it. */
int gt_owner_watch_events(struct gt_owner_watch *watch, bool follow, struct gt_err **err);

/* Whether each kind is synced, or known not to exist, or could not be listed for `without_ms`. (The webhook
 * gates pods of such a kind in case they need it.) */
bool gt_owner_watch_is_synced(const struct gt_owner_watch *watch);
