/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod_plan.h"
#include "deviceplugin/plans.h"
#include "deviceplugin/podresources.h"

/*
 * What gputopo-scheduler has planned for the pods of this node: pod -> container -> device IDs, read from the
 * pods' annotations (api/pod_plan.h), and whether the containers got these devices. It uses no clock and no
 * connection; for the loop's thread only.
 */
enum { GT_PLANS_KNOWN_MAX = 512 /* with a plan */ };

struct gt_plan_table;

struct gt_plan_counts {
    unsigned pods, containers;      /* with a plan now */
    uint64_t as_planned, otherwise; /* containers that got the planned devices; that got others */
    uint64_t refused;               /* annotations that are invalid, or beyond GT_PLANS_KNOWN_MAX */
};

int gt_plan_table_new(struct gt_plan_table **ret, struct gt_err **err);
void gt_plan_table_free(struct gt_plan_table *table);
GT_DEFINE_CLEANUP(struct gt_plan_table *, gt_plan_table_free)
#define gt_auto_plan_table GT_CLEANUP(gt_plan_table_free)

/*
 * Adds or updates a pod: `text` is the annotation, NULL if it has none. With another uid it is another pod,
 * and what the earlier one got is dropped. 1: pods or plans have changed; 0: they have not; negative: the
 * plan is invalid (-EINVAL) or there are too many (-E2BIG), and the pod then has no plan.
 */
int gt_plan_table_set(struct gt_plan_table *table, const char *namespace, const char *pod, const char *uid,
                      const char *text, struct gt_err **err);
/* Removes a pod; returns whether it was in the table. */
bool gt_plan_table_drop(struct gt_plan_table *table, const char *namespace, const char *pod);

/* The plans in the form for the plugin; the caller drops *ret. `is_complete`: the table has all pods of the
 * node that the API server has shown; a full table is never complete. */
int gt_plan_table_snapshot(const struct gt_plan_table *table, bool is_complete, struct gt_plans **ret,
                           struct gt_err **err);

/* Compares the plans with the kubelet's list, and reports each container once that got other devices than
 * planned, when two lists in a row show that: the first one may still be about an earlier pod of that name. A
 * list that is settling is ignored. */
struct gt_plan_mismatch {
    const char *namespace, *pod, *container;
    const char *planned, *actual; /* IDs, separated by commas */
};
typedef void gt_plan_mismatched(void *arg, const struct gt_plan_mismatch *mismatch);
void gt_plan_table_compare(struct gt_plan_table *table, const struct gt_device_uses *uses,
                           gt_plan_mismatched *mismatched, void *arg);

void gt_plan_table_counts(const struct gt_plan_table *table, struct gt_plan_counts *ret);
