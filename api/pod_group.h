/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* PodGroup and Queue of Volcano (scheduling.volcano.sh/v1beta1): the members that are read. Pods name their
 * PodGroup by GT_ANNOTATION_POD_GROUP. */
#define GT_VOLCANO_GROUP        "scheduling.volcano.sh"
#define GT_VOLCANO_VERSION      "v1beta1"
#define GT_PLURAL_POD_GROUP     "podgroups"
#define GT_PLURAL_VOLCANO_QUEUE "queues"
#define GT_KIND_POD_GROUP       "PodGroup"
#define GT_KIND_VOLCANO_QUEUE   "Queue"

/* Texts are borrowed: they belong to the object that was read. */
struct gt_pod_group {
    const char *namespace_, *name;
    const char *queue;   /* "default" if it names none */
    unsigned min_member; /* pods; 0: not given */
    bool is_admitted;    /* its queue has admitted it: it has a phase other than Pending */
};

struct gt_volcano_queue {
    const char *name;
    uint64_t capability; /* the most GPUs that its pods may have; UINT64_MAX: no limit */
    uint64_t allocated;  /* GPUs that they have, as its scheduler last reported */
};

/* -EINVAL with the path of what is invalid. */
int gt_volcano_queue_read(const cJSON *object, const char *resource, struct gt_volcano_queue *ret,
                          struct gt_err **err);
int gt_pod_group_read(const cJSON *object, struct gt_pod_group *ret, struct gt_err **err);

/* Whether Volcano has made the PodGroup for pods that name none. Its minimum of 1 is then Volcano's default.
 */
bool gt_pod_group_is_made_for_pods(const char *name);
