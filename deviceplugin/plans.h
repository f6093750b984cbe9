/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_PLANS_H
#define GPUTOPO_DEVICEPLUGIN_PLANS_H

#include "deviceplugin/inventory.h"

/*
 * Which devices somebody has planned for which container of this node, and what follows for a request of the
 * kubelet that names no pod (docs/reference/agent.md, "Planned GPUs"). Where the plans come from is not known
 * here. Immutable, shared by reference count between threads.
 */
struct gt_plan {
    const char *namespace, *pod, *container;
    const char *const *ids; /* as advertised to the kubelet, each once */
    unsigned count;         /* 1 to GT_PLAN_IDS_MAX */
};

/* A pod that is bound to this node, planned or not. */
struct gt_bound_pod {
    const char *namespace, *pod;
};

enum {
    GT_PLANS_MAX = 1024,      /* containers */
    GT_PLAN_KNOWN_MAX = 4096, /* pods of the node */
    GT_PLAN_IDS_MAX = 128,    /* devices of one, GT_DEVICES_MAX */
};

struct gt_plans {
    unsigned references;
    bool is_complete; /* the plans are those of all pods in `known`, and a pod that is not there may have one
                       */
    unsigned known_count;
    const struct gt_bound_pod *known; /* sorted */
    unsigned count;
    struct gt_plan plans[]; /* what all point to lies behind them */
};

/* Copies; `known` NULL: the pods of the node are not known. -E2BIG beyond the limits, -ENOMEM. */
int gt_plans_new(const struct gt_plan *plans, unsigned count, const struct gt_bound_pod *known,
                 unsigned known_count, struct gt_plans **ret, struct gt_err **err);
struct gt_plans *gt_plans_ref(struct gt_plans *plans); /* NULL is allowed, in both */
void gt_plans_unref(struct gt_plans *plans);
GT_DEFINE_CLEANUP(struct gt_plans *, gt_plans_unref)
#define gt_auto_plans GT_CLEANUP(gt_plans_unref)

enum gt_plan_result {
    GT_PLAN_NONE,      /* no plan can be meant */
    GT_PLAN_HIT,       /* exactly one can */
    GT_PLAN_AMBIGUOUS, /* several, of different devices */
    GT_PLAN_LATE,      /* the kubelet did not say in time who waits */
    GT_PLAN_RESULTS,
};
/* "none", "hit"... */
const char *gt_plan_result_name(enum gt_plan_result result);

/* A set of the inventory's devices. */
struct gt_device_set {
    uint64_t bits[GT_DEVICES_MAX / 64];
};

/* What the kubelet asks for one container: `size` devices out of `available`. */
struct gt_planned_request {
    const struct gt_inventory *inventory;
    const char *const *available;
    unsigned available_count, size;
    struct gt_device_set usable; /* of the available ones, those that are there and healthy */
};

struct gt_planned_request gt_plan_request_make(const struct gt_inventory *inventory,
                                               const char *const *available, unsigned available_count,
                                               unsigned size);

/* Whether a plan is of exactly `size` devices, all of them available, there and healthy. */
bool gt_plan_fits(const struct gt_plan *plan, const struct gt_planned_request *request);
bool gt_plans_any_fits(const struct gt_plans *plans, const struct gt_planned_request *request);

/*
 * Of the plans that fit, those of containers that wait for devices by the kubelet's list. A pod's containers
 * get theirs in the order of that list, so that only the first one that waits can be meant. An ordinary init
 * container is not in the list: it waits while its pod is there and a planned container of the pod still
 * does, and goes before that one, who would have to include what the init container had. Plans of the same
 * devices are one. `*ret` is set with GT_PLAN_HIT.
 */
struct gt_listed_containers; /* deviceplugin/podresources_call.h */
enum gt_plan_result gt_plans_match(const struct gt_plans *plans, const struct gt_planned_request *request,
                                   const struct gt_listed_containers *listed, const struct gt_plan **ret);

/* Whether a pod waits that the plans do not know: it was bound a moment ago, and its plan is still to come.
 */
bool gt_plans_lack_one(const struct gt_plans *plans, const struct gt_listed_containers *listed);

/* The plan's devices in the caller's words: pointers into request->available, request->size of them. */
void gt_plan_ids(const struct gt_plan *plan, const struct gt_planned_request *request, const char **ret_ids);

#endif
