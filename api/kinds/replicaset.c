/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kinds/kind.h"
#include "base/json_get.h"

/* ReplicaSet, so Deployments. Its pods have no index. */

static int read_replicaset(struct gt_template_reader *reader, const cJSON *spec)
{
    return gt_template_add(reader, "", gt_get(spec, "replicas"), 1, gt_get(spec, "template"));
}

const struct gt_kind gt_kind_replicaset = {.type = {"apps", "v1", "replicasets", "ReplicaSet"},
                                           .name = "ReplicaSet",
                                           .is_also_owned = true,
                                           .read = read_replicaset};
