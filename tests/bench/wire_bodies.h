/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

/* Request bodies with the size and structure of those that the two schedulers send: pods of 7 KB, nodes of 20
 * KB, both with managedFields, nodes with images and labels. The content is invented, and always the same. */

/* One Pod with 8 GPUs, its annotation and an owner. */
void gt_body_pod(struct gt_buf *to, uint32_t number);

/* ExtenderArgs, with names. */
void gt_body_extender(struct gt_buf *to, uint32_t nodes);

/* Volcano: a task and `nodes` of NodeInfo, each with the tasks of `pods` pods; the member is `node` if it is
 * for predicate. */
void gt_body_volcano(struct gt_buf *to, uint32_t nodes, uint32_t pods, bool predicate);
