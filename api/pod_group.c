/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_group.h"

#include <string.h>

#include "api/read.h"

int gt_pod_group_read(const cJSON *object, struct gt_pod_group *ret, struct gt_err **err)
{
    struct gt_pod_group made = {.namespace_ = "", .queue = "default"};
    const struct gt_at at = {GT_POD_GROUP_KIND, "metadata", err}, spec = {GT_POD_GROUP_KIND, "spec", err},
                       status = {GT_POD_GROUP_KIND, "status", err};
    const char *version = "", *phase = "";
    int r = gt_api_meta(&at, object, &made.name, &version);
    if (r >= 0)
        r = gt_api_text(&at, gt_get(object, "metadata"), "namespace", GT_API_NAME_MAX, &made.namespace_);
    if (r >= 0)
        r = gt_api_text(&spec, gt_get(object, "spec"), "queue", GT_API_NAME_MAX, &made.queue);
    if (r >= 0)
        r = gt_api_text(&status, gt_get(object, "status"), "phase", GT_API_TEXT_MAX, &phase);
    if (r < 0)
        return r;
    made.is_admitted = *phase && strcmp(phase, "Pending") != 0;
    if (!*made.queue)
        made.queue = "default";
    *ret = made;
    return 0;
}
