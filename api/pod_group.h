/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_POD_GROUP_H
#define GPUTOPO_API_POD_GROUP_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/err.h"

/* PodGroup of Volcano (scheduling.volcano.sh/v1beta1): what is read of it. Pods name theirs by
 * GT_ANNOTATION_POD_GROUP. */
#define GT_POD_GROUP_GROUP   "scheduling.volcano.sh"
#define GT_POD_GROUP_VERSION "v1beta1"
#define GT_POD_GROUP_PLURAL  "podgroups"
#define GT_POD_GROUP_KIND    "PodGroup"

/* Texts are borrowed: they belong to the object that was read. */
struct gt_pod_group {
    const char *namespace_, *name;
    const char *queue; /* "default" where it names none */
    bool is_admitted;  /* its queue has let it in: its phase is there, and is not Pending */
};

/* -EINVAL with the path of what makes no sense. */
int gt_pod_group_read(const cJSON *object, struct gt_pod_group *ret, struct gt_err **err);

#endif
