/* SPDX-License-Identifier: Apache-2.0 */
#include "api/removal.h"

#include "base/json_write.h"

static void write_preconditions(const char *uid, const char *version, struct gt_buf *to)
{
    gt_json_begin(to, "preconditions", '{');
    gt_json_add_text(to, "uid", uid);
    if (version)
        gt_json_add_text(to, "resourceVersion", version);
    gt_json_end(to, '}');
}

void gt_delete_options_write(const char *uid, const char *version, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "v1");
    gt_json_add_text(to, "kind", "DeleteOptions");
    write_preconditions(uid, version, to);
    gt_json_end(to, '}');
}

void gt_eviction_write(const char *namespace_, const char *pod, const char *uid, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "policy/v1");
    gt_json_add_text(to, "kind", "Eviction");
    gt_json_begin(to, "metadata", '{');
    gt_json_add_text(to, "namespace", namespace_);
    gt_json_add_text(to, "name", pod);
    gt_json_end(to, '}');
    gt_json_begin(to, "deleteOptions", '{');
    write_preconditions(uid, NULL, to);
    gt_json_end(to, '}');
    gt_json_end(to, '}');
}
