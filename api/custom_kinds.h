/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "base/err.h"

/*
 * Kinds of jobs that an administrator describes (docs/how-to/describe-a-kind.md). Call it before any pod or
 * owner is read: the kinds are those of the whole process, and replace what an earlier call gave. -EINVAL
 * with "SOURCE: kinds[0].templates[1].path: ..." where something is wrong; then none of them is known.
 */
int gt_custom_kinds_load(const cJSON *document, const char *source, struct gt_err **err);
