/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_WORKLOAD_H
#define GPUTOPO_API_WORKLOAD_H

#include "api/condition.h"
#include "api/owner.h"
#include "api/pod.h"
#include "api/resources.h"

/* Workload, ResourceFlavor and AdmissionCheck of Kueue: what is read of them, and what is written into their
 * status. */
#define GT_KUEUE_GROUP             "kueue.x-k8s.io"
#define GT_KUEUE_VERSION           "v1beta1"
#define GT_PLURAL_WORKLOAD         "workloads"
#define GT_PLURAL_ADMISSION_CHECK  "admissionchecks"
#define GT_PLURAL_RESOURCE_FLAVOR  "resourceflavors"
#define GT_KIND_WORKLOAD           "Workload"
#define GT_KIND_ADMISSION_CHECK    "AdmissionCheck"
#define GT_KUEUE_CONTROLLER_DOMAIN GT_API_GROUP "/"
#define GT_KUEUE_CONTROLLER                                                                                  \
    GT_KUEUE_CONTROLLER_DOMAIN "supernodes" /* spec.controllerName of a check of ours */

enum { GT_WORKLOAD_POD_SETS_MAX = 64, GT_WORKLOAD_CHECKS_MAX = 64 };

enum gt_check_state {
    GT_CHECK_PENDING,
    GT_CHECK_READY,
    GT_CHECK_RETRY,    /* Kueue takes the quota back, and tries again after a time */
    GT_CHECK_REJECTED, /* Kueue deactivates the Workload */
    GT_CHECK_STATES,
};
const char *gt_check_state_name(enum gt_check_state state);

struct gt_workload_check { /* what the status says of one AdmissionCheck */
    const char *name;
    enum gt_check_state state;
    int64_t since_s; /* Unix time; 0: not known */
    unsigned retries;
};

struct gt_workload_pod_set {   /* where its pods may run, and what each needs */
    struct gt_pod_where where; /* by their template; gt_workload_where() knows more */
    const cJSON *flavors;      /* names of ResourceFlavors, by resource */
    struct gt_amount *asked;   /* besides GPUs */
    unsigned asked_count;
};

struct gt_workload {
    cJSON *kept; /* a copy of what is read: what is not owned belongs to it */
    const char *namespace_, *name, *version;
    const char *owner_api_version, *owner_kind, *owner_name; /* of the first owner; "" none */
    int32_t priority;
    bool is_reserved; /* it has quota, has not ended, and is neither being evicted nor deactivated */
    const char *reserved_since;
    struct gt_workload_pod_set *pod_sets;
    struct gt_workload_check *checks;
    unsigned pod_set_count, check_count;
    struct gt_owner *job; /* as its pod sets have it; NULL: they ask for no GPUs, or cannot be read */
    char *refusal;        /* a sentence: why they cannot be read; NULL: they can */
};

/* `resource` is that of GPUs. gt_workload_free() it. -EINVAL with the path of what is invalid. */
int gt_workload_read(const cJSON *object, const char *resource, struct gt_workload **ret,
                     struct gt_err **err);
void gt_workload_free(struct gt_workload *workload);
GT_DEFINE_CLEANUP(struct gt_workload *, gt_workload_free)
#define gt_auto_workload GT_CLEANUP(gt_workload_free)

struct gt_check_verdict {
    enum gt_check_state state;
    const char *message;
    unsigned requeue_s; /* of GT_CHECK_RETRY: Kueue tries again after so long */
};

/* The body of an apply of the status: these checks of the Workload have that verdict. It holds for the
 * version that was read, and for no other. */
void gt_workload_write_checks(const struct gt_workload *workload, const char *const names[], unsigned count,
                              const struct gt_check_verdict *verdict, int64_t now_s, struct gt_buf *to);

struct gt_resource_flavor {
    char *name;
    cJSON *labels, *tolerations; /* of its nodes, of its pods; NULL: none */
};
/* Copies it; gt_resource_flavor_done() it. */
int gt_resource_flavor_read(const cJSON *object, struct gt_resource_flavor *ret, struct gt_err **err);
void gt_resource_flavor_done(struct gt_resource_flavor *flavor);

/* Where pods of the set may run as Kueue makes them when it admits them: with the labels and tolerations of
 * their flavors. gt_workload_where_done() it. */
int gt_workload_where(const struct gt_workload_pod_set *pod_set, const struct gt_resource_flavor *flavors,
                      unsigned count, struct gt_pod_where *ret, struct gt_err **err);
void gt_workload_where_done(struct gt_pod_where *where);

struct gt_admission_check { /* texts belong to the object */
    const char *name, *controller;
    bool has_parameters;
    uint64_t generation, observed; /* observed: that the condition is about; 0: none */
    struct gt_condition active;
};

int gt_admission_check_read(const cJSON *object, struct gt_admission_check *ret, struct gt_err **err);
/* The body of a merge patch of the status: the condition Active, about the generation that was read. */
void gt_admission_check_write(const struct gt_admission_check *check, const struct gt_condition *active,
                              struct gt_buf *to);

#endif
