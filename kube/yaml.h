/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_YAML_H
#define GPUTOPO_KUBE_YAML_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "base/err.h"

/*
 * Reads YAML (so JSON, too) as a tree of objects, arrays and strings: whatever type a plain scalar seems to
 * have, it stays the text that somebody wrote ("1", "no", "1e3"); only an empty one, "null" and "~" are null.
 * One document; an alias stands for a copy of what it names. A key that stands twice in a mapping is -EINVAL,
 * and so is one that is no text; a tree beyond the limits is -E2BIG. Errors name the line. Empty input
 * gives null. The caller owns *ret (cJSON_Delete).
 */
enum { GT_YAML_DEPTH_MAX = 32, GT_YAML_NODES_MAX = 1 << 19 };

int gt_yaml_read(const char *text, size_t len, cJSON **ret, struct gt_err **err);

#endif
