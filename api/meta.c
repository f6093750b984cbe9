/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"

#include <string.h>

#include "api/names.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/text.h"

int gt_api_text(const struct gt_at *at, const cJSON *object, const char *key, size_t max, const char **ret)
{
    const cJSON *value = gt_get(object, key);
    if (!value)
        return 0;
    if (!cJSON_IsString(value) || !value->valuestring)
        return gt_at_fail(at, key, "expected a string, is %s", gt_json_type(value));
    size_t len = strlen(value->valuestring);
    if (len > max)
        return gt_at_fail(at, key, "%zu bytes long, the limit is %zu", len, max);
    if (!gt_text_is_printable(value->valuestring))
        return gt_at_fail(at, key, "holds a control character or bytes that are no UTF-8");
    *ret = value->valuestring;
    return 0;
}

int gt_api_meta(const struct gt_at *at, const cJSON *object, const char **ret_name, const char **ret_version)
{
    struct gt_at below = {at->source, "metadata", at->err};
    const cJSON *metadata = gt_get(object, "metadata");
    *ret_name = "";
    GT_TRY(gt_api_text(&below, metadata, "name", GT_API_NAME_MAX, ret_name));
    if (!(*ret_name)[0])
        return gt_at_fail(&below, "name", "is missing");
    if (!ret_version)
        return 0;
    *ret_version = "";
    return gt_api_text(&below, metadata, "resourceVersion", GT_API_TEXT_MAX, ret_version);
}

const char *gt_meta_text(const cJSON *object, const char *key)
{
    return gt_get_string(gt_get(object, "metadata"), key);
}

bool gt_meta_is_deleting(const cJSON *object)
{
    return gt_get_at(object, "metadata", "deletionTimestamp") != NULL;
}

const char *gt_meta_label(const cJSON *object, const char *key)
{
    return gt_get_string(gt_get_at(object, "metadata", "labels"), key);
}

bool gt_meta_is_companions(const cJSON *object)
{
    return strcmp(gt_meta_label(object, GT_LABEL_MANAGED_BY), GT_COMPANION_NAME) == 0;
}

static bool meta_is_written_by(const cJSON *object, const char *manager, const char *operation)
{
    for (const cJSON *item = gt_first(gt_get_at(object, "metadata", "managedFields")); item;
         item = item->next) {
        if (strcmp(gt_get_string(item, "manager"), manager) == 0 &&
            strcmp(gt_get_string(item, "operation"), operation) == 0)
            return true;
    }
    return false;
}

bool gt_meta_is_applied_by(const cJSON *object, const char *manager)
{
    return meta_is_written_by(object, manager, "Apply");
}

bool gt_meta_is_updated_by(const cJSON *object, const char *manager)
{
    return meta_is_written_by(object, manager, "Update");
}

void gt_delete_options_write(const char *uid, const char *version, struct gt_buf *to)
{
    gt_json_printf(to,
                   "{'apiVersion': 'v1', 'kind': 'DeleteOptions',"
                   "'preconditions': {'uid': %s, ?'resourceVersion': %s}}",
                   uid, version);
}

void gt_eviction_write(const char *namespace_, const char *pod, const char *uid, struct gt_buf *to)
{
    gt_json_printf(
        to,
        "{'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'namespace': %s, 'name': %s},"
        "'deleteOptions': {'preconditions': {'uid': %s}}}",
        namespace_, pod, uid);
}
