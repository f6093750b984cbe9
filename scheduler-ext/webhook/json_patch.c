/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/webhook/json_patch.h"

#include "base/json_write.h"

enum { JSON_PATCH_PATH_MAX = 1 << 20 };

void gt_json_patch_begin(struct gt_buf *to, const char *what, const char *path, const char *key)
{
    gt_auto_buf struct gt_buf full = GT_BUF(JSON_PATCH_PATH_MAX);
    gt_buf_puts(&full, path);
    for (; *key; key++)
        *key == '~' || *key == '/' ? gt_buf_puts(&full, *key == '~' ? "~0" : "~1")
                                   : gt_buf_add(&full, key, 1);
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "op", what);
    gt_json_add_text(to, "path", full.data ? full.data : "");
}
