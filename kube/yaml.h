/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stddef.h>

#include "base/err.h"

/*
 * Reads YAML (and so JSON) as a tree of objects, arrays and strings. Plain scalars stay texts as they are
 * written ("1", "no", "1e3"); only an empty one, "null" and "~" are null. It reads one document; an alias
 * becomes a copy of its anchor. -EINVAL if a mapping has a key twice, or a key that is not a text; -E2BIG if
 * the tree exceeds the limits. Errors name the line. Empty input gives null. The caller owns *ret
 * (cJSON_Delete).
 */
enum { GT_YAML_DEPTH_MAX = 32, GT_YAML_NODES_MAX = 1 << 19 };

int gt_yaml_read(const char *text, size_t len, cJSON **ret, struct gt_err **err);
