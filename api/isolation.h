/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "topology/model/isolation.h"

/*
 * `spec.isolated` of a NodeGPUTopology, which people and programs write: a list of
 * {gpu | link: [two GPUs] | all: true, reason, by, since, until}. A GPU is named by UUID or index.
 */

/* Reads the list, and the object's UID. 1: it is there, also if it is empty; 0: it is not, `*ret` is then
 * without entries; -EINVAL with the path of the wrong value. */
int gt_isolations_read(const cJSON *object, struct gt_isolations *ret, struct gt_err **err);

/* The same part of such an object, for a file. */
void gt_isolations_write(const struct gt_isolations *isolations, struct gt_buf *to);
