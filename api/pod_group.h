/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/owner.h"
#include "base/err.h"

/* PodGroups of Volcano, of the scheduler plugin Coscheduling and of Kubernetes, and Queues of Volcano: the
 * members that are read. */
#define GT_KIND_POD_GROUP     "PodGroup"
#define GT_KIND_VOLCANO_QUEUE "Queue"

/* The types of these objects: PodGroups, Volcano's first, and by what their pods name them; Queues. */
enum { GT_VOLCANO_QUEUE = 4, GT_POD_GROUP_TYPES };
extern const struct gt_pod_group_type {
    struct gt_owner_type type;
    enum gt_pod_key key;
} gt_pod_group_types[GT_POD_GROUP_TYPES];

/* Texts are borrowed: they belong to the object that was read. */
struct gt_pod_group {
    const char *namespace_, *name;
    enum gt_pod_key key; /* of its type */
    const char *queue;   /* Volcano's; "default" if it names none */
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
int gt_pod_group_read(enum gt_pod_key key, const cJSON *object, struct gt_pod_group *ret,
                      struct gt_err **err);

/* Whether Volcano has made the PodGroup for pods that name none. Its minimum of 1 is then Volcano's default.
 */
bool gt_pod_group_is_made_for_pods(const char *name);
