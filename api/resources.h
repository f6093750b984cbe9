/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Amounts of resources: what pods ask for, and what nodes have. */
#define GT_RESOURCE_CPU    "cpu"    /* in thousandths */
#define GT_RESOURCE_MEMORY "memory" /* in bytes */
#define GT_RESOURCE_PODS   "pods"

#define GT_AMOUNT_MAX (INT64_MAX / 4096) /* larger amounts count as this, so that sums do not overflow */

enum { GT_RESOURCES_MAX = 64 }; /* of one object; further ones are ignored */

struct gt_amount {
    const char *name; /* borrowed from the object */
    uint64_t amount;
};

struct gt_resources {
    unsigned count;
    struct gt_amount list[GT_RESOURCES_MAX];
};

/* False if there is no such resource. */
bool gt_resources_get(const struct gt_resources *resources, const char *name, uint64_t *ret);

/* Reads a JSON object of names and quantities. Invalid quantities are ignored. */
void gt_resources_read(const cJSON *json, struct gt_resources *ret);

/*
 * What a pod asks for as kube-scheduler counts it: the sum of its containers and sidecars, or, if that is
 * more, an ordinary init container with the sidecars that started before it. A resource in spec.resources
 * replaces that sum. The overhead and one "pods" are added. A resource that has only a limit counts with its
 * limit.
 */
void gt_pod_resources_read(const cJSON *spec, struct gt_resources *ret);
