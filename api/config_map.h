/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "api/pair.h"
#include "base/cleanup.h"
#include "base/err.h"

/* ConfigMap: its texts by key. */
enum { GT_CONFIG_MAP_KEYS_MAX = 1 << 16 };

struct gt_config_map {
    unsigned count;
    struct gt_pair data[]; /* followed by the texts */
};

/* Free *ret with gt_config_map_free(). Values that are not texts are left out. -E2BIG beyond
 * GT_CONFIG_MAP_KEYS_MAX. */
int gt_config_map_read(const cJSON *object, struct gt_config_map **ret, struct gt_err **err);
void gt_config_map_free(struct gt_config_map *map);
GT_DEFINE_CLEANUP(struct gt_config_map *, gt_config_map_free)
#define gt_auto_config_map GT_CLEANUP(gt_config_map_free)

/* NULL: it has no such key. */
const char *gt_config_map_get(const struct gt_config_map *map, const char *key);
