/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/condition.h"
#include "api/job_kind.h"
#include "api/meta.h"
#include "api/pod_plan.h"
#include "api/resources.h"

/*
 * Pod: the members that are read. Texts are borrowed: they belong to the object that was read. NULL: the pod
 * has none.
 */

/* ---- its GPUs ---- */

struct gt_pod_container {
    const char *name; /* "" none */
    unsigned gpus;
    bool init;    /* of spec.initContainers */
    bool sidecar; /* an init container that keeps running (restartPolicy: Always) */
    bool claimed; /* by a claim, of which the kubelet's device manager knows nothing */
    unsigned at;  /* its position in the list of the spec, if it was read from one */
};

/* The containers with GPUs; those of each list in the order of the list. */
struct gt_pod_containers {
    unsigned count;
    struct gt_pod_container list[GT_POD_PLAN_CONTAINERS_MAX];
};
/* Adds a container unless it has no GPUs. -E2BIG if the list is full. */
int gt_pod_containers_add(struct gt_pod_containers *to, const struct gt_pod_container *container,
                          struct gt_err **err);

/*
 * The GPUs of a pod as Kubernetes counts them: the sum of its containers and sidecars, or, if that is more,
 * an ordinary init container together with the sidecars that started before it.
 */
struct gt_pod_gpus {
    unsigned total;
    /* How many containers share the total: sidecars first, then the others. If an ordinary init container
     * needs more than all of them, it is the last, with the number beyond the sum. */
    unsigned containers;
    unsigned sidecars; /* of those */
    /* After those: all ordinary init containers, with what they ask for. They have ended when the other
     * containers start, which take over their GPUs. */
    unsigned inits;
    /* Those by limits, as the kubelet serves them (struct gt_numa_pod). */
    uint64_t requests;
    const char *names[GT_POD_PLAN_CONTAINERS_MAX];
    unsigned counts[GT_POD_PLAN_CONTAINERS_MAX];
};
/* -E2BIG if a limit of api/names.h is exceeded. */
int gt_pod_gpus_count(const struct gt_pod_containers *from, struct gt_pod_gpus *ret, struct gt_err **err);

/* Reads the spec of a pod or template: GPUs by limits of `resource`, or by a claim (pod_claim.h). -EINVAL if
 * a list or an amount is invalid. */
int gt_pod_gpu_containers_read(const cJSON *spec, const char *resource, struct gt_pod_containers *ret,
                               struct gt_err **err);
int gt_pod_gpus_read(const cJSON *spec, const char *resource, struct gt_pod_gpus *ret, struct gt_err **err);

/* ---- its names and its job ---- */

enum { GT_POD_VALUE_MAX = 253 }; /* of a label or an annotation that is read */

/* The data for the rules of jobs (scheduler-ext/jobs). */
struct gt_pod_meta {
    const char *namespace_, *name; /* "" none */
    const struct gt_pair *labels, *annotations;
    const char *owner_kind, *owner_name; /* of the controlling owner, else of the first */
    const unsigned *gpus;                /* of each container */
    uint64_t requests;                   /* struct gt_numa_pod */
    uint16_t label_count, annotation_count, containers;
    bool owner_controls; /* it has controller: true */
};
/* The value of a label or an annotation; NULL: there is none. */
const char *gt_pod_label(const struct gt_pod_meta *pod, enum gt_pod_key key);
const char *gt_pod_annotation(const struct gt_pod_meta *pod, enum gt_pod_key key);

/* ---- all of it ---- */

/* Where it may run: unchanged parts of its spec (pod_rules.h). */
struct gt_pod_where {
    const cJSON *selector, *tolerations;
    const cJSON *terms; /* the terms of its required node affinity, which are alternatives */
    bool has_terms;     /* it has such an affinity, perhaps without terms */
};

/* PodScheduled, ours, DisruptionTarget. */
enum gt_pod_condition { GT_POD_SCHEDULED, GT_POD_PLACEMENT, GT_POD_DISRUPTED, GT_POD_CONDITIONS };

struct gt_pod { /* must not be copied: it has pointers to itself */
    struct gt_pod_meta meta;
    /* A sentence (static text) that says what is invalid; NULL: nothing is. Such a pod must not be placed,
     * and some members are not set. */
    const char *invalid;
    const char *uid, *resource_version;
    const char *owner_uid, *owner_api_version;
    const char *node_name, *nominated_node;
    const char *scheduler, *priority_class;
    const char *plan_gpus, *plan_node; /* annotations of its plan */
    const char *pod_group;             /* GT_ANNOTATION_POD_GROUP */
    const char *claim_template;        /* of the claim by which it gets its GPUs */
    int32_t priority;
    uint64_t created_s; /* Unix time */
    uint64_t gone_by_s; /* when it should be gone, once it is deleted (Unix time) */
    uint64_t fence;     /* GT_PLAN_ANNOTATION_EPOCH; 0: none */
    bool deleting, ended;
    const char *failed_for; /* why it has failed, one word of its status; NULL: it has not, or does not say */
    uint64_t start_s;       /* when its kubelet took, or refused it (Unix time); of one that has failed */
    bool started;           /* a container of it has run, by its phase */
    bool has_deadline;      /* spec.activeDeadlineSeconds */
    bool best_effort;       /* its QoS class */
    bool preempts_never;    /* spec.preemptionPolicy is Never */
    bool gated;             /* GT_GATE is among its gates */
    const char *kueue_gate; /* the first of Kueue's, a literal; NULL: it has none */
    bool other_gates;       /* besides ours, Kueue's and Volcano's */
    unsigned gate_count;    /* of all its gates */
    bool has_node_affinity;
    struct gt_condition conditions[GT_POD_CONDITIONS]; /* a missing one has the reason NULL or "" */
    struct gt_pod_where where;
    /* Parts of the object, for the writers in api/. */
    const cJSON *annotations, *gates, *condition_list, *affinity;
    const cJSON *spec, *labels; /* for pod_peers.h; of every pod */
    struct gt_pod_gpus gpus;
    struct gt_resources asked; /* GPUs only by limits; nothing for a pod that has ended */
    struct gt_pair label_pairs[GT_POD_KEYS], annotation_pairs[GT_POD_KEYS];
};

/* `resource` is the resource of GPUs. If the pod asks for no GPUs and has neither a plan nor our gate, only
 * its name, uid, version, node, scheduler, gates and resources are read, and whether it has ended. */
void gt_pod_read(const cJSON *object, const char *resource, struct gt_pod *ret);

/* Whether its kubelet would not begin it: with its GPUs, or for lack of them. */
bool gt_pod_is_refused_by_kubelet(const struct gt_pod *pod);

/* Where a pod with this spec may run; it borrows from the spec. */
struct gt_pod_where gt_pod_where_read(const cJSON *spec);

/* The pod's spec, which the caller may change; NULL: it has none. */
cJSON *gt_pod_spec(cJSON *object);

static inline bool gt_pod_is_planned(const struct gt_pod *pod)
{
    return pod->plan_node && pod->plan_gpus;
}
