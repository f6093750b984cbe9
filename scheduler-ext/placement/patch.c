/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/patch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/time_text.h"
#include "kube/index.h"

enum {
    MESSAGE_MAX = 1000,
    REFUSAL_MAX = 500,
};

void gt_pod_object_done(struct gt_pod_object *object)
{
    free(object->uid);
    free(object->version);
    free(object->pod_group);
    free(object->refusal);
    gt_pod_lists_done(&object->lists);
    *object = (struct gt_pod_object){0};
}

/* Where a queue exceeds its share, Volcano's message says how many pods the PodGroup has and misses, and
 * nothing about nodes: reasons about nodes come after "Origin reason". */
static bool patch_is_held(const struct gt_pod *pod)
{
    const char *message = pod->conditions[GT_POD_SCHEDULED].message;
    return pod->pod_group && strncmp(message, "pod group is ", strlen("pod group is ")) == 0 &&
           !strstr(message, "Origin reason");
}

static char *patch_refusal_of(const struct gt_condition *scheduled)
{
    char text[REFUSAL_MAX + 1];
    gt_text_cut(text, sizeof(text), scheduled->message);
    return *text ? strdup(text) : NULL;
}

int gt_pod_object_make(const struct gt_pod *pod, struct gt_pod_object *ret, struct gt_err **err)
{
    const struct gt_condition *scheduled = &pod->conditions[GT_POD_SCHEDULED],
                              *placement = &pod->conditions[GT_POD_PLACEMENT];
    struct gt_pod_object made = {
        .gated = pod->gated,
        .others = pod->other_gates, /* Volcano's own gate must not be waited for */
        .kueue_gate = pod->kueue_gate,
        .planned = gt_pod_is_planned(pod),
        .nominated = pod->nominated_node ? gt_digest_keyed(pod->nominated_node) : 0,
        .fence = pod->fence,
        .unschedulable =
            scheduled->status == GT_CONDITION_FALSE && gt_condition_has(scheduled, "Unschedulable"),
    };
    made.held = made.unschedulable && patch_is_held(pod);
    if (!pod->uid || !pod->resource_version)
        return gt_fail(err, EINVAL, "a pod without uid or resourceVersion");
    if (placement->reason && *placement->reason)
        made.condition = gt_condition_digest(&(struct gt_condition_text){
            placement->status == GT_CONDITION_TRUE, placement->reason, placement->message});
    if (made.condition && placement->status == GT_CONDITION_FALSE)
        made.waits_s = gt_time_of_text(placement->since);
    made.refusal = made.unschedulable ? patch_refusal_of(scheduled) : NULL;
    made.uid = strdup(pod->uid);
    made.version = strdup(pod->resource_version);
    made.pod_group = pod->pod_group ? strdup(pod->pod_group) : NULL;
    bool taken = made.uid && made.version && (made.pod_group || !pod->pod_group);
    int r = taken ? gt_pod_lists_read(pod, &made.lists, err) : gt_fail_sys(err, ENOMEM, "pod");
    if (r < 0)
        gt_pod_object_done(&made);
    else
        *ret = made;
    return r;
}

/* ---- patches ---- */

uint64_t gt_condition_digest(const struct gt_condition_text *condition)
{
    gt_auto_buf struct gt_buf text = GT_BUF(8 * MESSAGE_MAX);
    char message[MESSAGE_MAX + 1];
    gt_text_shorten(message, sizeof(message), condition->message);
    gt_buf_printf(&text, "%d %s ", condition->is_true, condition->reason);
    gt_json_add_text(&text, NULL, message);
    uint64_t digest = gt_digest_keyed(text.data ? text.data : "");
    return digest ? digest : 1;
}

static struct gt_pod_patch patch_of(const struct gt_pod_object *object)
{
    return (struct gt_pod_patch){
        .uid = object->uid, .resource_version = object->version, .lists = &object->lists};
}

void gt_patch_condition(const struct gt_pod_object *object, const struct gt_condition_text *condition,
                        const char *node, int64_t since_s, struct gt_buf *to)
{
    char since[GT_TIME_TEXT_SIZE], message[MESSAGE_MAX + 1];
    const struct gt_condition placement = {.status =
                                               condition->is_true ? GT_CONDITION_TRUE : GT_CONDITION_FALSE,
                                           .reason = condition->reason,
                                           .message = message,
                                           .since = since};
    struct gt_pod_patch patch = patch_of(object);
    gt_time_text(since_s, since);
    gt_text_shorten(message, sizeof(message), condition->message);
    patch.placement = &placement;
    patch.nominates = node && (*node || (object->nominated && object->gated));
    patch.nominated_node = node && *node ? node : NULL;
    gt_pod_patch_write(&patch, to);
}

void gt_patch_lift(const struct gt_pod_object *object, const struct gt_plan_texts *texts, struct gt_buf *to)
{
    struct gt_pod_patch patch = patch_of(object);
    struct gt_pair pairs[GT_PLAN_PAIRS];
    patch.ungate = true;
    if (texts) {
        gt_plan_pairs(texts, pairs);
        patch.annotations = pairs;
        patch.annotation_count = GT_PLAN_PAIRS;
        patch.node = texts->node;
    }
    gt_pod_patch_write(&patch, to);
}

void gt_patch_fence(const struct gt_pod_object *object, uint64_t epoch, struct gt_buf *to)
{
    char text[24];
    const struct gt_pair pair = {GT_PLAN_ANNOTATION_EPOCH, text};
    struct gt_pod_patch patch = patch_of(object);
    snprintf(text, sizeof(text), "%" PRIu64, epoch);
    patch.annotations = &pair;
    patch.annotation_count = 1;
    gt_pod_patch_write(&patch, to);
}
