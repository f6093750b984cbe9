/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "topology/model/node.h"

/*
 * The GPUs that gputopo-scheduler has planned for a pod: the value of the annotation GT_PLAN_ANNOTATION_GPUS,
 * a JSON object from container names to device IDs as the kubelet knows them.
 *
 *     {"trainer": ["GPU-a", "GPU-b"]}
 *
 * An ordinary init container has its own entry; its GPUs are among those of the other containers. The writer
 * refuses what the reader would refuse.
 */
enum {
    GT_POD_CONTAINERS_MAX = 64,   /* of a pod, with GPUs; ordinary init containers are counted separately */
    GT_POD_GPUS_MAX = UINT16_MAX, /* of a container or a pod: no node has so many, so it never runs */
    GT_POD_PLAN_CONTAINERS_MAX = 2 * GT_POD_CONTAINERS_MAX, /* including ordinary init containers */
    GT_POD_PLAN_TEXT_MAX = 16 << 10,                        /* bytes of the value */
};

struct gt_planned_container {
    const char *name;       /* 1 to 63 bytes, unique in a plan */
    const char *const *ids; /* each once */
    unsigned count;         /* 1 to GT_GPUS_MAX */
};

struct gt_pod_plan {
    unsigned count;
    struct gt_planned_container containers[]; /* followed by the texts */
};

/* -EINVAL says what is wrong; at most GT_POD_PLAN_TEXT_MAX + 1 bytes of `text` are read. */
int gt_pod_plan_read(const char *text, struct gt_pod_plan **ret, struct gt_err **err);

/* Appends the value. -EINVAL if it would not be a valid plan, -E2BIG if it would be longer than
 * GT_POD_PLAN_TEXT_MAX; `to` is then unchanged. */
int gt_pod_plan_write(const struct gt_planned_container *containers, unsigned count, struct gt_buf *to,
                      struct gt_err **err);
