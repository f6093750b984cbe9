/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_POD_JSON_H
#define GPUTOPO_PLACEMENT_POD_JSON_H

#include <cjson/cJSON.h>

#include "api/names.h"
#include "scheduler-ext/jobs/identity.h"

/* What a pod, or the template of one, says in JSON: its GPUs and its annotations. Nothing else of it counts
 * for the rules. */
enum { GT_SHAPE_TEXT_MAX = 64 };

struct gt_pod_shape {
    unsigned gpus[GT_POD_CONTAINERS_MAX]; /* of each container */
    unsigned containers;
    uint32_t total;
    bool has_group, has_atomic;
    char group[GT_SHAPE_TEXT_MAX], atomic[GT_SHAPE_TEXT_MAX]; /* cut where they are longer: no size then */
};

/* -EINVAL where GPUs are asked for in a way that the API server would refuse. */
int gt_pod_shape_read(const cJSON *pod, const char *resource, struct gt_pod_shape *ret, struct gt_err **err);

/* A pod's labels, annotations and owner as jobs/ reads them. Texts belong to the JSON. */
struct gt_pod_pairs {
    struct gt_pair labels[GT_POD_KEYS], annotations[GT_POD_KEYS];
};
/* `ret` keeps pointers into `pairs` and `shape`. */
void gt_pod_meta_read(const cJSON *pod, const char *namespace_, const struct gt_pod_shape *shape,
                      struct gt_pod_pairs *pairs, struct gt_pod_meta *ret, const char **ret_api_version);

/* A member by its path "spec.template", NULL where it is not there. */
const cJSON *gt_pod_json_at(const cJSON *json, const char *path);
/* Its text; NULL where it is none. */
const char *gt_pod_json_text(const cJSON *json, const char *path);

/* The gates of spec.schedulingGates: whether `name` is among them, and how many there are. */
bool gt_pod_has_gate(const cJSON *pod, const char *name, unsigned *ret_count);

#endif
