/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"

#include <string.h>

#include "api/names.h"
#include "base/json_get.h"

static const char *meta_text_of(const cJSON *object, const char *key)
{
    return gt_get_string(gt_get(object, "metadata"), key);
}

const char *gt_meta_namespace(const cJSON *object)
{
    return meta_text_of(object, "namespace");
}

const char *gt_meta_name(const cJSON *object)
{
    return meta_text_of(object, "name");
}

const char *gt_meta_uid(const cJSON *object)
{
    return meta_text_of(object, "uid");
}

const char *gt_meta_version(const cJSON *object)
{
    return meta_text_of(object, "resourceVersion");
}

bool gt_meta_is_deleting(const cJSON *object)
{
    return gt_get_at(object, "metadata", "deletionTimestamp") != NULL;
}

bool gt_meta_is_companions(const cJSON *object)
{
    const cJSON *labels = gt_get_at(object, "metadata", "labels");
    return strcmp(gt_get_string(labels, GT_LABEL_MANAGED_BY), GT_COMPANION_NAME) == 0;
}

bool gt_meta_is_applied_by(const cJSON *object, const char *manager)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, gt_get_at(object, "metadata", "managedFields"))
    {
        if (strcmp(gt_get_string(item, "manager"), manager) == 0 &&
            strcmp(gt_get_string(item, "operation"), "Apply") == 0)
            return true;
    }
    return false;
}
