/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_PLANNER_H
#define GPUTOPO_DEVICEPLUGIN_PLANNER_H

#include "deviceplugin/plans.h"
#include "deviceplugin/rpc.h"

/*
 * Finds the plan that a GetPreferredAllocation is about: asks the kubelet which pods wait, and blocks until
 * it answers. For the one handler thread of the plugin; never takes longer than its deadline and
 * GT_PLANNER_PLAN_MS except for what it takes to read an answer of GT_PLANNER_ANSWER_MAX bytes.
 */
struct gt_planner;

/* The plans of this moment, a reference; NULL: there are none. */
typedef struct gt_plans *gt_planner_plans(void *arg);

enum {
    /* Nobody waits so long but on a machine that is much too busy. Then a wrong choice costs more: it takes
     * GPUs that are planned for others. */
    GT_PLANNER_DEADLINE_MS = 1000,   /* the kubelet's answer takes 0.4 ms, 39 in the worst start storm seen */
    GT_PLANNER_PLAN_MS = 2000,       /* for the plan of a pod that the kubelet has seen before us */
    GT_PLANNER_RETRY_MS = 15,        /* first pause before a retry: the kubelet lets 100 in a second */
    GT_PLANNER_POLL_MS = 2,          /* between two checks whether it has come */
    GT_PLANNER_ANSWER_MAX = 1 << 20, /* a larger answer counts as late */
};

int gt_planner_new(const char *kubelet_dir, const char *resource, unsigned deadline_ms,
                   struct gt_planner **ret, struct gt_err **err);

/*
 * Only where the request has nothing that must be included: see deviceplugin/podresources.h for why. Does not
 * ask where no plan fits and none can come. The kubelet often learns of a pod before whoever makes the plans:
 * while a pod waits that they do not know, it puts newer ones in the place of `*plans`. With GT_PLAN_HIT
 * `*ret` is set, to one of `*plans`.
 */
enum gt_plan_result gt_planner_find(struct gt_planner *planner, struct gt_plans **plans,
                                    gt_planner_plans *newer, void *arg,
                                    const struct gt_planned_request *request, const struct gt_plan **ret);

/* No gt_planner_find() may be running. */
void gt_planner_free(struct gt_planner *planner);
GT_DEFINE_CLEANUP(struct gt_planner *, gt_planner_free)
#define gt_auto_planner GT_CLEANUP(gt_planner_free)

#endif
