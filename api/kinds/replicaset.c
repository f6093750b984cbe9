/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/kinds/kind.h"
#include "base/json_get.h"

/*
 * Its pods are known by their owner alone, and have no index.
 * kind: ReplicaSet, so Deployment
 * templates: `spec.replicas`
 * come: together
 */

static int read_replicaset(struct gt_template_reader *reader, const cJSON *spec)
{
    return gt_template_add(reader, "", gt_get(spec, "replicas"), 1, gt_get(spec, "template"));
}

static const char *warn_of_rollout(const cJSON *object)
{
    const char *strategy = gt_get_string(gt_get_at(object, "spec", "strategy"), "type");
    return strcmp(gt_get_string(object, "kind"), "Deployment") == 0 && strcmp(strategy, "Recreate") != 0
               ? "a rolling update may create a part of a unit, which is refused: give the Deployment the "
                 "strategy Recreate"
               : NULL;
}

const struct gt_kind gt_kind_replicaset = {.type = {"apps", "v1", "replicasets", "ReplicaSet"},
                                           .name = "ReplicaSet",
                                           .is_also_owned = true,
                                           .is_no_gang = true,
                                           .read = read_replicaset,
                                           .warn = warn_of_rollout};
