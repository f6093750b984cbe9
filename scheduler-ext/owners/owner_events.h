/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/informer.h"
#include "scheduler-ext/owners/owners.h"

/*
 * Watches the Events in which controllers report that they cannot create a pod (because of a quota, a
 * webhook, a policy), and records them with the owners, which have no field for it. All on the loop's thread.
 */
struct gt_owner_events;

struct gt_owner_events_spec {
    struct gt_kube *kube;
    struct gt_owners *owners;
    /* An owner failed again. May be NULL. */
    void (*on_owner)(void *arg, enum gt_job_kind kind, const char *namespace_, const char *name);
    void *arg;
};

int gt_owner_events_new(const struct gt_owner_events_spec *spec, struct gt_owner_events **ret,
                        struct gt_err **err);
/* To be called before the client and the owners are freed. NULL is allowed. */
void gt_owner_events_free(struct gt_owner_events *events);
GT_DEFINE_CLEANUP(struct gt_owner_events *, gt_owner_events_free)
