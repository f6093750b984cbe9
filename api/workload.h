/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/condition.h"
#include "api/owner.h"
#include "api/pod.h"
#include "api/resources.h"

/* Workload, ResourceFlavor and AdmissionCheck of Kueue: the members that are read, and what is written into
 * their status. */
#define GT_KUEUE_GROUP             "kueue.x-k8s.io"
#define GT_PLURAL_WORKLOAD         "workloads"
#define GT_PLURAL_ADMISSION_CHECK  "admissionchecks"
#define GT_PLURAL_RESOURCE_FLAVOR  "resourceflavors"
#define GT_KIND_WORKLOAD           "Workload"
#define GT_KIND_ADMISSION_CHECK    "AdmissionCheck"
#define GT_KUEUE_CONTROLLER_DOMAIN GT_API_GROUP "/"
#define GT_KUEUE_CONTROLLER        GT_KUEUE_CONTROLLER_DOMAIN "supernodes" /* spec.controllerName of our checks */

enum { GT_WORKLOAD_POD_SETS_MAX = 64, GT_WORKLOAD_CHECKS_MAX = 64 };

enum gt_check_state {
    GT_CHECK_PENDING,
    GT_CHECK_READY,
    GT_CHECK_RETRY,    /* Kueue takes the quota back and tries again later */
    GT_CHECK_REJECTED, /* Kueue deactivates the Workload */
    GT_CHECK_STATES,
};
const char *gt_check_state_name(enum gt_check_state state);

struct gt_workload_check { /* the state of one AdmissionCheck in the status */
    const char *name;
    enum gt_check_state state;
    int64_t since_s; /* Unix time; 0: not known */
    unsigned retries;
};

struct gt_workload_pod_set {   /* where its pods may run, and what each needs */
    struct gt_pod_where where; /* by their template; gt_workload_where() adds the flavors */
    const cJSON *flavors;      /* names of ResourceFlavors, by resource */
    struct gt_amount *asked;   /* GPUs only by limits */
    unsigned asked_count;
};

struct gt_workload {
    cJSON *kept; /* a copy of what was read; borrowed texts belong to it */
    const char *namespace_, *name, *version;
    const char *owner_api_version, *owner_kind, *owner_name; /* of the first owner; "" none */
    int32_t priority;
    bool is_reserved; /* it has quota, has not ended, and is not evicted or deactivated */
    const char *reserved_since;
    struct gt_workload_pod_set *pod_sets;
    struct gt_workload_check *checks;
    unsigned pod_set_count, check_count;
    struct gt_owner *job; /* made from its pod sets; NULL: they ask for no GPUs, or are invalid */
    char *refusal;        /* a sentence why the pod sets are invalid; NULL: they are valid */
};

/* `resource` is the resource of GPUs. Free *ret with gt_workload_free(). -EINVAL with the path of what is
 * invalid. */
int gt_workload_read(const cJSON *object, const char *resource, struct gt_workload **ret,
                     struct gt_err **err);
void gt_workload_free(struct gt_workload *workload);
GT_DEFINE_CLEANUP(struct gt_workload *, gt_workload_free)
#define gt_auto_workload GT_CLEANUP(gt_workload_free)

struct gt_check_verdict {
    enum gt_check_state state;
    const char *message;
    unsigned requeue_s; /* for GT_CHECK_RETRY: seconds after which Kueue tries again */
};

/* The newest version of Kueue's API that is served (in an APIGroup) and known here, a literal; NULL: none. */
const char *gt_kueue_version(const cJSON *group);

/* Appends the body of an apply of the status, in this version of the API, which sets these checks of the
 * Workload to `verdict`. It is valid only for the version of the object that was read. */
void gt_workload_write_checks(const char *version, const struct gt_workload *workload,
                              const char *const names[], unsigned count,
                              const struct gt_check_verdict *verdict, int64_t now_s, struct gt_buf *to);

struct gt_resource_flavor {
    char *name;
    cJSON *labels, *tolerations; /* labels of its nodes, tolerations of its pods; NULL: none */
};
/* *ret has copies; free them with gt_resource_flavor_done(). */
int gt_resource_flavor_read(const cJSON *object, struct gt_resource_flavor *ret, struct gt_err **err);
void gt_resource_flavor_done(struct gt_resource_flavor *flavor);

/* Where the pods of the set may run after Kueue has admitted them: with the labels and tolerations of their
 * flavors. Free *ret with gt_workload_where_done(). */
int gt_workload_where(const struct gt_workload_pod_set *pod_set, const struct gt_resource_flavor *flavors,
                      unsigned count, struct gt_pod_where *ret, struct gt_err **err);
void gt_workload_where_done(struct gt_pod_where *where);

struct gt_admission_check { /* texts belong to the object */
    const char *name, *controller;
    bool has_parameters;
    uint64_t generation, observed; /* observed: the generation in the condition; 0: none */
    struct gt_condition active;
};

int gt_admission_check_read(const cJSON *object, struct gt_admission_check *ret, struct gt_err **err);
/* Appends the body of a merge patch of the status: the condition Active, for the generation that was read. */
void gt_admission_check_write(const char *version, const struct gt_admission_check *check,
                              const struct gt_condition *condition, struct gt_buf *to);
