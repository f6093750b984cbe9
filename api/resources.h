/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_RESOURCES_H
#define GPUTOPO_API_RESOURCES_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Amounts of resources besides GPUs: what pods ask for, what nodes have. */
#define GT_RESOURCE_CPU    "cpu"    /* in thousandths */
#define GT_RESOURCE_MEMORY "memory" /* in bytes */
#define GT_RESOURCE_PODS   "pods"

#define GT_AMOUNT_MAX (INT64_MAX / 4096) /* larger ones count as this: sums do not overflow */

enum { GT_RESOURCES_MAX = 64 }; /* of one object; further ones are passed over */

struct gt_amount {
    const char *name; /* borrowed from the object */
    uint64_t amount;
};

struct gt_resources {
    unsigned count;
    struct gt_amount list[GT_RESOURCES_MAX];
};

/* False where it is not there. */
bool gt_resources_get(const struct gt_resources *resources, const char *name, uint64_t *ret);

/* An object of names and quantities. What is no quantity is passed over, and so is `without` (NULL: nothing).
 */
void gt_resources_read(const cJSON *json, const char *without, struct gt_resources *ret);

/*
 * What a pod asks for as kube-scheduler counts it: the sum of its containers and sidecars, or, where that is
 * more, an ordinary init container with the sidecars that started before it; for what spec.resources asks
 * for, that instead; and the overhead. A resource that has a limit alone is asked for as that. One "pods".
 */
void gt_pod_resources_read(const cJSON *spec, const char *without, struct gt_resources *ret);

#endif
