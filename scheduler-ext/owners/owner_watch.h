/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_OWNERS_OWNER_WATCH_H
#define GPUTOPO_OWNERS_OWNER_WATCH_H

#include "kube/informer.h"
#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/owners/pod_groups.h"

/*
 * Keeps the owners, and Volcano's PodGroups and Queues, in line with the cluster: one informer a kind. A kind
 * that the cluster does not have is asked for again now and then, so that an operator may be installed later;
 * until it is there it counts as known to have no objects. One that cannot be listed (no permission, a broken
 * definition) is reported and asked for again, and stops nobody else. All on the loop's thread.
 */
struct gt_owner_watch;

struct gt_owner_watch_spec {
    struct gt_kube *kube;
    struct gt_owners *owners;
    struct gt_pod_groups *pod_groups;
    /* An object was added or has changed, and is read after this; it may be changed here. */
    void (*prepare)(void *arg, enum gt_owner_kind kind, cJSON *object);
    void (*on_deleted)(void *arg, enum gt_owner_kind kind, const char *namespace_, const char *name);
    /* An object was added, has changed, or is gone. May be NULL, as the others. */
    void (*on_owner)(void *arg, enum gt_owner_kind kind, const char *namespace_, const char *name);
    /* What is known of a PodGroup, or of a Queue, is another now. `namespace_` NULL: of a Queue,
     * or of all. */
    void (*on_pod_group)(void *arg, const char *namespace_);
    void (*on_synced)(void *arg); /* a kind is known, or known not to be there */
    /* Not: no such kind. `again`: this kind had one before. */
    void (*on_error)(void *arg, const char *kind, bool again, const struct gt_err *error);
    uint64_t without_ms; /* a kind that cannot be listed is gone on without after so long; 0: 30 s */
    void *arg;
};

int gt_owner_watch_new(const struct gt_owner_watch_spec *spec, struct gt_owner_watch **ret,
                       struct gt_err **err);
/* Before the client and the owners. NULL is allowed. */
void gt_owner_watch_free(struct gt_owner_watch *watch);
GT_DEFINE_CLEANUP(struct gt_owner_watch *, gt_owner_watch_free)
#define gt_auto_owner_watch GT_CLEANUP(gt_owner_watch_free)

/* Whether all kinds are known, or known not to be there, or cannot be listed for so long that it goes on
 * without them: pods of such a kind are gated in doubt. */
bool gt_owner_watch_is_synced(const struct gt_owner_watch *watch);

#endif
