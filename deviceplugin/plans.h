/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/inventory.h"

/*
 * Which devices are planned for which container of this node, and which plan matches a request of the
 * kubelet, which names no pod (docs/reference/agent.md, "Planned GPUs"). Immutable, shared by reference count
 * between threads.
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
    bool is_complete; /* there are plans of all pods in `known`; a pod that is not in it may have a plan, too
                       */
    unsigned known_count;
    const struct gt_bound_pod *known; /* sorted */
    unsigned count;
    struct gt_plan plans[]; /* followed by what they point to */
};

/* Makes copies; `known` NULL: the pods of the node are not known. -E2BIG beyond the limits, -ENOMEM. */
int gt_plans_new(const struct gt_plan *plans, unsigned count, const struct gt_bound_pod *known,
                 unsigned known_count, struct gt_plans **ret, struct gt_err **err);
struct gt_plans *gt_plans_ref(struct gt_plans *plans); /* NULL is allowed, in both */
void gt_plans_unref(struct gt_plans *plans);
GT_DEFINE_CLEANUP(struct gt_plans *, gt_plans_unref)
#define gt_auto_plans GT_CLEANUP(gt_plans_unref)

enum gt_plan_result {
    GT_PLAN_NONE,      /* no plan matches */
    GT_PLAN_HIT,       /* exactly one matches */
    GT_PLAN_AMBIGUOUS, /* several match, with different devices */
    GT_PLAN_LATE,      /* the kubelet did not answer in time */
    GT_PLAN_RESULTS,
};
/* "none", "hit"... */
const char *gt_plan_result_name(enum gt_plan_result result);

/* A set of the inventory's devices. */
struct gt_device_set {
    uint64_t bits[GT_DEVICES_MAX / 64];
};

/* A request of the kubelet for one container: `size` devices out of `available`. */
struct gt_planned_request {
    const struct gt_inventory *inventory;
    const char *const *available;
    unsigned available_count, size;
    struct gt_device_set usable; /* the available ones that are present and healthy */
};

struct gt_planned_request gt_plan_request_make(const struct gt_inventory *inventory,
                                               const char *const *available, unsigned available_count,
                                               unsigned size);

/* Whether a plan has exactly `size` devices, all of them available, present and healthy. */
bool gt_plan_fits(const struct gt_plan *plan, const struct gt_planned_request *request);
bool gt_plans_any_fits(const struct gt_plans *plans, const struct gt_planned_request *request);

/*
 * Finds the plan among those that fit: its container must wait for devices according to the kubelet's list. A
 * pod's containers get their devices in the order of that list, so only the first waiting one matches. An
 * ordinary init container is not in the list: it counts as waiting while its pod is listed and a planned
 * container of the pod waits, and it comes first, since the other container's request would have to include
 * the init container's devices. Plans of the same devices count as one. `*ret` is set with GT_PLAN_HIT.
 */
struct gt_listed_containers; /* deviceplugin/podresources_call.h */
enum gt_plan_result gt_plans_match(const struct gt_plans *plans, const struct gt_planned_request *request,
                                   const struct gt_listed_containers *listed, const struct gt_plan **ret);

/* Whether a pod waits that the plans do not know yet: it was bound a moment ago. */
bool gt_plans_lack_one(const struct gt_plans *plans, const struct gt_listed_containers *listed);

/* The plan's devices as pointers into request->available, request->size of them. */
void gt_plan_ids(const struct gt_plan *plan, const struct gt_planned_request *request, const char **ret_ids);
