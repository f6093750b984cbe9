/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

struct gt_err;

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

/* Reads quantities of Kubernetes ("8", "8k", "8000m", "1Ki", "8e3") and numbers of JSON without rounding
 * errors. */

enum gt_quantity {
    GT_QUANTITY_OK,
    GT_QUANTITY_BAD, /* not a quantity */
    GT_QUANTITY_FRACTION,
    GT_QUANTITY_TOO_LARGE,
};

#define GT_QUANTITY_LIMIT UINT64_C(10000000000000000) /* the largest `max` below */

/* *ret is the absolute value of a whole quantity up to `max`, *ret_negative its sign; both untouched unless
 * GT_QUANTITY_OK. */
enum gt_quantity gt_quantity_parse(const char *text, size_t len, uint64_t max, bool *ret_negative,
                                   uint64_t *ret);

/* The quantity times 10^`ten`, rounded up as Kubernetes does, and at most `max`. False if it is invalid or
 * negative. */
bool gt_quantity_ceil(const char *text, size_t len, int ten, uint64_t max, uint64_t *ret);

/* Reads a whole number from 0 to `max`; -EINVAL with a sentence that names `what`. */
int gt_quantity_read(const char *text, size_t len, uint64_t max, const char *what, uint64_t *ret,
                     struct gt_err **err);

/* The same for a JSON number, or a JSON text that is a quantity. */
int gt_quantity_from_json(const cJSON *json, unsigned max, const char *what, unsigned *ret,
                          struct gt_err **err);
