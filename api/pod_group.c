/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_group.h"

#include <string.h>

#include "api/meta.h"
#include "api/resources.h"

const struct gt_pod_group_type gt_pod_group_types[] = {
    {{"scheduling.volcano.sh", "v1beta1", "podgroups", GT_KIND_POD_GROUP}, GT_KEY_POD_GROUP},
    {{"scheduling.x-k8s.io", "v1alpha1", "podgroups", GT_KIND_POD_GROUP}, GT_KEY_COSCHEDULING_GROUP},
    {{"scheduling.k8s.io", "v1alpha2", "podgroups", GT_KIND_POD_GROUP}, GT_KEY_SCHEDULING_GROUP}, /* 1.36 */
    {{"scheduling.k8s.io", "v1beta1", "podgroups", GT_KIND_POD_GROUP}, GT_KEY_SCHEDULING_GROUP},
    [GT_VOLCANO_QUEUE] = {{"scheduling.volcano.sh", "v1beta1", "queues", GT_KIND_VOLCANO_QUEUE}, GT_POD_KEYS},
};

int gt_pod_group_read(enum gt_pod_key key, const cJSON *object, struct gt_pod_group *ret, struct gt_err **err)
{
    struct gt_pod_group made = {.namespace_ = "", .key = key, .queue = "default"};
    const cJSON *gang = gt_get_at(gt_get(object, "spec"), "schedulingPolicy", "gang");
    const struct gt_at at = {GT_KIND_POD_GROUP, "metadata", err}, spec = {GT_KIND_POD_GROUP, "spec", err},
                       status = {GT_KIND_POD_GROUP, "status", err};
    const char *phase = "";
    GT_TRY(gt_api_meta(&at, object, &made.name, NULL));
    GT_TRY(gt_api_text(&at, gt_get(object, "metadata"), "namespace", GT_API_NAME_MAX, &made.namespace_));
    GT_TRY(gt_api_text(&spec, gt_get(object, "spec"), "queue", GT_API_NAME_MAX, &made.queue));
    GT_TRY(gt_get_unsigned(&spec, gt_get(object, "spec"), "minMember", INT32_MAX, &made.min_member));
    if (gang)
        GT_TRY(gt_get_unsigned(&spec, gang, "minCount", INT32_MAX, &made.min_member));
    GT_TRY(gt_api_text(&status, gt_get(object, "status"), "phase", GT_API_TEXT_MAX, &phase));
    made.is_admitted = *phase && strcmp(phase, "Pending") != 0;
    if (!*made.queue)
        made.queue = "default";
    *ret = made;
    return 0;
}

/* Of a list of resources; untouched where it does not name this one. */
static int pod_group_read_amount(const cJSON *list, const char *resource, const char *what, uint64_t *ret,
                                 struct gt_err **err)
{
    const char *text = cJSON_GetStringValue(gt_get(list, resource));
    return text ? gt_quantity_read(text, strlen(text), GT_QUANTITY_LIMIT, what, ret, err) : 0;
}

int gt_volcano_queue_read(const cJSON *object, const char *resource, struct gt_volcano_queue *ret,
                          struct gt_err **err)
{
    struct gt_volcano_queue made = {.capability = UINT64_MAX};
    const struct gt_at at = {GT_KIND_VOLCANO_QUEUE, "metadata", err};
    GT_TRY(gt_api_meta(&at, object, &made.name, NULL));
    GT_TRY(pod_group_read_amount(gt_get_at(object, "spec", "capability"), resource,
                                 "spec.capability of a Queue", &made.capability, err));
    GT_TRY(pod_group_read_amount(gt_get_at(object, "status", "allocated"), resource,
                                 "status.allocated of a Queue", &made.allocated, err));
    *ret = made;
    return 0;
}

bool gt_pod_group_is_made_for_pods(const char *name)
{
    static const char first[] = "podgroup-";
    return strncmp(name, first, sizeof(first) - 1) == 0;
}
