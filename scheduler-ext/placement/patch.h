/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod_patch.h"
#include "scheduler-ext/decide/plan_texts.h"

/*
 * The part of a pod's object that is needed to change it, and the patches. Every patch contains the pod's uid
 * and the resourceVersion that it was made from, so the API server refuses it where the pod has changed
 * meanwhile. No I/O.
 *
 * A pod gets its plan in one request: annotations, required node affinity, and removal of the gate. So after
 * a crash each pod has either all of it or nothing.
 */
struct gt_pod_object {
    char *uid, *version;
    struct gt_pod_lists lists;
    char *pod_group;        /* the PodGroup that it names; NULL: none */
    uint64_t condition;     /* digest of our condition, as of gt_condition_digest(); 0: none */
    int64_t waits_s;        /* since when it says that the pod has no plan (Unix time); 0: it does not */
    uint64_t nominated;     /* digest of status.nominatedNodeName; 0: none */
    uint64_t fence;         /* its fence: no plan of an older epoch can be written to it; 0: none */
    bool planned;           /* it has the plan's annotations */
    bool gated, others;     /* by our gate; by other gates that must be removed first, except for Kueue's */
    const char *kueue_gate; /* Kueue's gate on it, a literal; NULL: none */
    bool unschedulable;     /* its condition says so */
    char *refusal;          /* likewise: the scheduler's words, cut to 500 bytes; NULL: none */
    bool held;              /* likewise, because of its queue in Volcano: no node was tried */
};

/* -EINVAL where it is invalid. gt_pod_object_done() frees *ret. */
int gt_pod_object_make(const struct gt_pod *pod, struct gt_pod_object *ret, struct gt_err **err);
void gt_pod_object_done(struct gt_pod_object *object);

struct gt_condition_text {
    bool is_true;        /* status True */
    const char *reason;  /* one word */
    const char *message; /* a sentence; cut to 1,000 bytes */
};
uint64_t gt_condition_digest(const struct gt_condition_text *condition);

/* Bodies of merge patches. */
/* For the pod's status. `since_s` is Unix time. `node` is the hint nominatedNodeName; "": it is removed from
 * a gated pod; NULL: it stays as it is. */
void gt_patch_condition(const struct gt_pod_object *object, const struct gt_condition_text *condition,
                        const char *node, int64_t since_s, struct gt_buf *to);
/* `texts` NULL: there is no plan, only the gate is removed. */
void gt_patch_lift(const struct gt_pod_object *object, const struct gt_plan_texts *texts, struct gt_buf *to);
/* Plans of epochs before this one can no longer be written to the pod. */
void gt_patch_fence(const struct gt_pod_object *object, uint64_t epoch, struct gt_buf *to);
