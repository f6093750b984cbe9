/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_PATCH_H
#define GPUTOPO_PLACEMENT_PATCH_H

#include "api/pod_patch.h"
#include "scheduler-ext/decide/plan_texts.h"

/*
 * What is remembered of a pod's object to change it, and the changes. Every patch names the pod's uid and the
 * version that it was made from: where somebody was faster the API server refuses it. No I/O.
 *
 * A pod gets its plan in one request: annotations, the required node affinity, and the gate away. Whoever
 * comes after a crash finds each pod either with all of that, or as it was made.
 */
struct gt_pod_object {
    char *uid, *version;
    struct gt_pod_lists lists;
    char *pod_group;        /* that it names; NULL: none */
    uint64_t condition;     /* digest of our condition, as of gt_condition_digest(); 0: none */
    uint64_t nominated;     /* digest of status.nominatedNodeName; 0: none */
    uint64_t fence;         /* no plan of an older epoch is written to it; 0: none */
    bool planned;           /* it has the plan's annotations */
    bool gated, others;     /* by our gate; by others that have to go first, except for Kueue's */
    const char *kueue_gate; /* it waits for Kueue by this gate, a literal; NULL: it does not */
    bool unschedulable;     /* the scheduler says so */
    bool held;              /* likewise, except for its queue in Volcano: no node was looked at */
};

/* -EINVAL where it is invalid. */
int gt_pod_object_make(const struct gt_pod *pod, struct gt_pod_object *ret, struct gt_err **err);
void gt_pod_object_done(struct gt_pod_object *object);

struct gt_condition_text {
    bool holds;          /* status True */
    const char *reason;  /* one word */
    const char *message; /* a sentence; cut after 1,000 bytes */
};
uint64_t gt_condition_digest(const struct gt_condition_text *condition);

/* Bodies of merge patches. `now_s` is Unix time. */
/* Of the pod's status. `node` is the hint nominatedNodeName; NULL: none, and a gated pod loses the one it
 * has. */
void gt_patch_condition(const struct gt_pod_object *object, const struct gt_condition_text *condition,
                        const char *node, uint64_t now_s, struct gt_buf *to);
/* `texts` NULL: there is no plan, the gate alone goes. */
void gt_patch_lift(const struct gt_pod_object *object, const struct gt_plan_texts *texts, struct gt_buf *to);
/* Plans of epochs before this one are not written to the pod any more. */
void gt_patch_fence(const struct gt_pod_object *object, uint64_t epoch, struct gt_buf *to);

#endif
