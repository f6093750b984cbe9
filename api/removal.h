/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

/* Request bodies to delete objects and evict pods. The API server refuses them if the object has another uid
 * or version. */

/* Appends DeleteOptions of v1. `version` NULL: any. */
void gt_delete_options_write(const char *uid, const char *version, struct gt_buf *to);

/* Appends an Eviction of policy/v1. */
void gt_eviction_write(const char *namespace_, const char *pod, const char *uid, struct gt_buf *to);
