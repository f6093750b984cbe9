/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/plans.h"
#include "deviceplugin/rpc.h"

/*
 * Finds the plan for a GetPreferredAllocation: asks the kubelet which pods wait, and blocks until it answers.
 * For the plugin's only handler thread. It takes at most its deadline and GT_PLAN_LOOKUP_PLAN_MS, and the
 * time to read an answer of GT_PLAN_LOOKUP_ANSWER_MAX bytes.
 */
struct gt_plan_lookup;

/* Returns the current plans, with a reference for the caller; NULL: there are none. */
typedef struct gt_plans *gt_plan_lookup_plans(void *arg);

enum {
    /* Only a heavily overloaded machine needs so long. Even there waiting is better than a wrong choice,
     * which takes GPUs that are planned for others. */
    GT_PLAN_LOOKUP_DEADLINE_MS =
        1000,                      /* the kubelet answers in 0.4 ms; in 39 ms at most when many pods start */
    GT_PLAN_LOOKUP_PLAN_MS = 2000, /* for the plan of a pod that only the kubelet knows yet */
    GT_PLAN_LOOKUP_RETRY_MS = 15,  /* first pause before a retry: the kubelet accepts 100 requests a second */
    GT_PLAN_LOOKUP_POLL_MS = 2,    /* between two checks whether the plan has come */
    GT_PLAN_LOOKUP_ANSWER_MAX = 1 << 20, /* a larger answer counts as late */
};

/* Both texts are borrowed. */
int gt_plan_lookup_new(const char *kubelet_dir, const char *resource, unsigned deadline_ms,
                       struct gt_plan_lookup **ret, struct gt_err **err);

/*
 * Call it only if the request has no IDs that must be included: see deviceplugin/podresources.h for why. It
 * does not ask the kubelet if no plan fits and none can come. The kubelet often knows a pod before the plans
 * do: while a pod waits that is not in the plans, `*plans` is replaced by newer ones. With GT_PLAN_HIT `*ret`
 * is set, to one of `*plans`.
 */
enum gt_plan_result gt_plan_lookup_find(struct gt_plan_lookup *lookup, struct gt_plans **plans,
                                        gt_plan_lookup_plans *newer, void *arg,
                                        const struct gt_planned_request *request, const struct gt_plan **ret);

/* No gt_plan_lookup_find() may be running. */
void gt_plan_lookup_free(struct gt_plan_lookup *lookup);
GT_DEFINE_CLEANUP(struct gt_plan_lookup *, gt_plan_lookup_free)
#define gt_auto_plan_lookup GT_CLEANUP(gt_plan_lookup_free)
