/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "api/kinds/indices.h"
#include "api/kinds/kind.h"
#include "base/json_get.h"

/* PyTorchJob of Kubeflow. */

static const char *in_lower_case(const char *role)
{
    static const char *const known[] = {"master", "worker"}; /* older operators write "Master" */
    for (size_t i = 0; i < GT_COUNT(known); i++)
        if (strcasecmp(role, known[i]) == 0)
            return known[i];
    return role;
}

static int identify_pytorch(const struct gt_pod_meta *pod, struct gt_pod_identity *ret, struct gt_err **err)
{
    const char *job = gt_pod_label(pod, GT_KEY_KUBEFLOW_JOB), *type = gt_pod_label(pod, GT_KEY_KUBEFLOW_TYPE),
               *index = gt_pod_label(pod, GT_KEY_KUBEFLOW_INDEX);
    if (!job || (pod->owner_kind && !gt_pod_is_owned_by(pod, "PyTorchJob")))
        return 0;
    if (!type)
        return gt_index_missing(pod, GT_KEY_KUBEFLOW_TYPE, err);
    if (!index)
        return gt_index_missing(pod, GT_KEY_KUBEFLOW_INDEX, err);
    ret->job = job;
    ret->role = in_lower_case(type);
    return gt_index_read(pod, GT_KEY_KUBEFLOW_INDEX, index, ret, err);
}

static int read_pytorch(struct gt_template_reader *reader, const cJSON *spec)
{
    uint32_t minimum = 0;
    int r = gt_template_add_roles(reader, gt_get(spec, "pytorchReplicaSpecs"), "");
    if (r >= 0)
        r = gt_template_count(gt_get(gt_get_at(spec, "runPolicy", "schedulingPolicy"), "minAvailable"),
                              "schedulingPolicy.minAvailable", 0, &minimum, reader->err);
    if (r < 0)
        return r;
    gt_template_set_minimum(reader->owner, "schedulingPolicy.minAvailable", minimum);
    const cJSON *policy = gt_get(spec, "elasticPolicy");
    uint32_t least = 0, most = 0;
    r = gt_template_count(gt_get(policy, "minReplicas"), "elasticPolicy.minReplicas", 0, &least, reader->err);
    if (r >= 0)
        r = gt_template_count(gt_get(policy, "maxReplicas"), "elasticPolicy.maxReplicas", 0, &most,
                              reader->err);
    if (r >= 0)
        gt_template_set_least_workers(reader, "elasticPolicy.minReplicas", least, most);
    return r;
}

static bool has_pytorch_stopped(const cJSON *status)
{
    return gt_kind_condition_is_true(status, "Succeeded") || gt_kind_condition_is_true(status, "Failed");
}

const struct gt_kind gt_kind_pytorch = {.type = {"kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"},
                                        .name = "PyTorchJob",
                                        .identify = identify_pytorch,
                                        .read = read_pytorch,
                                        .has_stopped = has_pytorch_stopped};
