/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WEBHOOK_JSON_PATCH_H
#define GPUTOPO_WEBHOOK_JSON_PATCH_H

#include "base/buf.h"

/* One operation of a JSON patch (RFC 6902) begins; its value, where it has one, and the brace follow. `key`
 * is escaped as the last part of the path. */
void gt_json_patch_begin(struct gt_buf *to, const char *what, const char *path, const char *key);

#endif
