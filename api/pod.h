/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_POD_H
#define GPUTOPO_API_POD_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/condition.h"
#include "api/pair.h"
#include "api/pod_plan.h"
#include "api/resources.h"

/*
 * Pod: what is read of it. Texts are borrowed: they belong to the object that was read. NULL: it has none.
 */

/* ---- its GPUs ---- */

struct gt_pod_container {
    const char *name; /* "" none */
    unsigned gpus;
    bool init;    /* of spec.initContainers */
    bool sidecar; /* an init container that keeps running (restartPolicy: Always) */
    unsigned at;  /* its place in the list of the spec, where it was read */
};

/* The containers that ask for GPUs; those of each list in the order of the list. */
struct gt_pod_containers {
    unsigned count;
    struct gt_pod_container list[GT_POD_PLAN_CONTAINERS_MAX];
};
/* Leaves out one without GPUs. -E2BIG where the list is full. */
int gt_pod_containers_add(struct gt_pod_containers *to, const struct gt_pod_container *container,
                          struct gt_err **err);

/*
 * The GPUs of a pod as Kubernetes counts them: the sum of its containers and its sidecars, or, where that is
 * more, an ordinary init container together with the sidecars that started before it.
 */
struct gt_pod_gpus {
    unsigned total;
    /* How many containers share the total: sidecars first, then the others. An ordinary init container that
     * needs more than all of them is the last, with what it needs beyond. */
    unsigned containers;
    unsigned sidecars; /* of those */
    /* Behind those: all ordinary init containers, with what they ask for. They have ended when the others
     * start, who take over their GPUs. */
    unsigned inits;
    const char *names[GT_POD_PLAN_CONTAINERS_MAX];
    unsigned counts[GT_POD_PLAN_CONTAINERS_MAX];
};
/* -E2BIG where one of the limits in api/names.h is passed. */
int gt_pod_gpus_count(const struct gt_pod_containers *from, struct gt_pod_gpus *ret, struct gt_err **err);

/* Of a pod's spec, or a template's: by limits of `resource`, or by a claim (pod_claim.h). -EINVAL where a
 * list is none, or an amount no number of GPUs. */
int gt_pod_gpu_containers_read(const cJSON *spec, const char *resource, struct gt_pod_containers *ret,
                               struct gt_err **err);
int gt_pod_gpus_read(const cJSON *spec, const char *resource, struct gt_pod_gpus *ret, struct gt_err **err);

/* ---- who it is ---- */

/* The keys of labels and annotations that are kept; some frameworks write in both places. */
enum { GT_POD_KEYS = 21, GT_POD_VALUE_MAX = 253 };
bool gt_pod_key_is_kept(const char *key);

/* What the rules of jobs are applied to (scheduler-ext/jobs). */
struct gt_pod_meta {
    const char *namespace_, *name; /* "" none */
    const struct gt_pair *labels, *annotations;
    const char *owner_kind, *owner_name; /* of the owner that controls it, else of the first */
    const unsigned *gpus;                /* of each container */
    uint16_t label_count, annotation_count, containers;
    bool owner_controls; /* it has controller: true */
};
/* The value of a label, of an annotation; NULL: it has none. */
const char *gt_pod_label(const struct gt_pod_meta *pod, const char *key);
const char *gt_pod_annotation(const struct gt_pod_meta *pod, const char *key);

/* ---- all of it ---- */

/* Where it may run: parts of its spec as they stand (pod_rules.h). */
struct gt_pod_where {
    const cJSON *selector, *tolerations;
    const cJSON *terms; /* alternatives, of its required node affinity */
    bool has_terms;     /* it has such an affinity, if without terms */
};

/* PodScheduled, ours, DisruptionTarget. */
enum gt_pod_condition { GT_POD_SCHEDULED, GT_POD_PLACEMENT, GT_POD_DISRUPTED, GT_POD_CONDITIONS };

struct gt_pod { /* it points to itself: not to be copied */
    struct gt_pod_meta meta;
    /* What of it is invalid, a sentence that lives for ever; NULL: nothing. Such a pod is not to be
     * placed, and members may be missing here. */
    const char *invalid;
    const char *uid, *resource_version;
    const char *owner_uid, *owner_api_version;
    const char *node_name, *nominated_node;
    const char *scheduler, *priority_class;
    const char *plan_gpus, *plan_node; /* annotations of its plan */
    const char *pod_group;             /* GT_ANNOTATION_POD_GROUP */
    const char *claim_template;        /* of the claim that it has its GPUs by */
    int32_t priority;
    uint64_t created_s; /* Unix time */
    uint64_t fence;     /* GT_PLAN_ANNOTATION_EPOCH; 0: none */
    bool deleting, ended;
    bool has_deadline;      /* spec.activeDeadlineSeconds */
    bool best_effort;       /* its QoS class */
    bool gated;             /* GT_GATE is among its gates */
    const char *kueue_gate; /* the first of Kueue's, a literal; NULL: it has none */
    bool other_gates;       /* besides ours, Kueue's and Volcano's */
    unsigned gate_count;    /* of all its gates */
    bool has_node_affinity;
    struct gt_condition conditions[GT_POD_CONDITIONS]; /* not there: `reason` is NULL or "" */
    struct gt_pod_where where;
    /* Parts of the object, for those in api/ who change them. */
    const cJSON *annotations, *gates, *condition_list, *affinity;
    struct gt_pod_gpus gpus;
    struct gt_resources asked; /* besides GPUs; of a pod that has ended nothing */
    struct gt_pair label_pairs[GT_POD_KEYS], annotation_pairs[GT_POD_KEYS];
};

/* `resource` is that of GPUs. Of a pod that does not ask for them, has no plan and not our gate, no more is
 * read than its name, uid, version, node, gates and resources, and whether it has ended. */
void gt_pod_read(const cJSON *object, const char *resource, struct gt_pod *ret);

/* Its spec, to be changed; NULL: it has none. */
cJSON *gt_pod_spec(cJSON *object);

static inline bool gt_pod_is_planned(const struct gt_pod *pod)
{
    return pod->plan_node && pod->plan_gpus;
}

#endif
