/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_PLANS_H
#define GPUTOPO_AGENT_PLANS_H

#include "api/pod_plan.h"
#include "deviceplugin/plans.h"
#include "deviceplugin/podresources.h"

/*
 * What gputopo-scheduler has planned for the pods of this node: pod -> container -> device IDs, read from the
 * pods' annotations (api/pod_plan.h), and whether the containers got just that. No clock, no connection; all
 * of it the loop's thread's.
 */
enum { GT_PLANS_KNOWN_MAX = 512 /* with a plan */ };

struct gt_plan_table;

struct gt_plan_counts {
    unsigned pods, containers;      /* that are planned now */
    uint64_t as_planned, otherwise; /* containers that got what was planned; that got something else */
    uint64_t refused;               /* annotations that are no plan, or one too many */
};

int gt_plan_table_new(struct gt_plan_table **ret, struct gt_err **err);
void gt_plan_table_free(struct gt_plan_table *table);
GT_DEFINE_CLEANUP(struct gt_plan_table *, gt_plan_table_free)
#define gt_auto_plan_table GT_CLEANUP(gt_plan_table_free)

/*
 * A pod as it is now: `text` is the annotation, NULL where it has none. Another uid is another pod: what the
 * one before got is forgotten. 1: pods or plans are others now; 0: they are not; negative: this is no plan,
 * and the pod has none now (-EINVAL), or there are too many (-E2BIG).
 */
int gt_plan_table_set(struct gt_plan_table *table, const char *namespace, const char *pod, const char *uid,
                      const char *text, struct gt_err **err);
/* Whether the pod was there. */
bool gt_plan_table_drop(struct gt_plan_table *table, const char *namespace, const char *pod);

/* As the plugin takes them. `is_complete`: the table has all pods of the node that the API server has shown;
 * a table that is full never is. */
int gt_plan_table_snapshot(const struct gt_plan_table *table, bool is_complete, struct gt_plans **ret,
                           struct gt_err **err);

/* Compares what the kubelet lists, and reports each container once that got other devices than planned: when
 * two lists in a row say so, since the first may still be about an earlier pod of that name. A list that is
 * settling is ignored. */
struct gt_plan_mismatch {
    const char *namespace, *pod, *container;
    const char *planned, *actual; /* IDs with commas between */
};
typedef void gt_plan_mismatched(void *arg, const struct gt_plan_mismatch *mismatch);
void gt_plan_table_compare(struct gt_plan_table *table, const struct gt_holdings *holdings,
                           gt_plan_mismatched *mismatched, void *arg);

void gt_plan_table_counts(const struct gt_plan_table *table, struct gt_plan_counts *ret);

#endif
