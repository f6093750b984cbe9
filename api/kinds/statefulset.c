/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kinds/kind.h"
#include "base/err.h"
#include "base/json_get.h"

#include <string.h>

/*
 * kind: StatefulSet
 * job: the owner
 * index: label `apps.kubernetes.io/pod-index`, else the end of the pod's name; less `spec.ordinals.start`, if
 *   the controller knows the object
 * templates: `spec.replicas`; `spec.ordinals.start` has rank 0
 * come: one by one, or together with `podManagementPolicy: Parallel`
 */

static int identify_statefulset(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                                struct gt_pod_identity *ret, struct gt_err **err)
{
    (void)kind;
    const char *index = gt_pod_label(pod, GT_KEY_STATEFUL_SET_INDEX);
    if (!gt_pod_is_owned_by(pod, "StatefulSet") || !pod->owner_name)
        return 0;
    ret->job = pod->owner_name;
    if (index)
        return gt_index_read(pod, GT_KEY_STATEFUL_SET_INDEX, index, ret, err);
    return gt_index_of_name(pod, ret->job, ret) ? 1 : gt_index_missing(pod, GT_KEY_STATEFUL_SET_INDEX, err);
}

static int read_statefulset(struct gt_template_reader *reader, const cJSON *spec)
{
    const char *policy = gt_get_string(spec, "podManagementPolicy");
    reader->owner->sequential = strcmp(policy, "Parallel") != 0;
    GT_TRY(gt_template_add(reader, "", gt_get(spec, "replicas"), 1, gt_get(spec, "template")));
    return gt_template_count(gt_get_at(spec, "ordinals", "start"), "ordinals.start", 0,
                             &reader->templates[0].first, reader->err);
}

const struct gt_kind gt_kind_statefulset = {.type = {"apps", "v1", "statefulsets", "StatefulSet"},
                                            .name = "StatefulSet",
                                            .identify = identify_statefulset,
                                            .is_no_gang = true,
                                            .read = read_statefulset};
