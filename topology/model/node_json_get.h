/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json_get.h"
#include "topology/model/node.h"

/* Getters as in base/json_get.h, for types that only a node has. */
int gt_get_kind(const struct gt_at *at, const cJSON *object, const char *key, enum gt_link_kind *ret);
int gt_get_bdf(const struct gt_at *at, const cJSON *object, const char *key, char ret[static GT_BDF_SIZE]);

/* An element of an array. */
int gt_read_kind(const struct gt_at *at, const char *key, const cJSON *value, enum gt_link_kind *ret);
