/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"

const cJSON *gt_cache_get(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
    return !value || cJSON_IsNull(value) ? NULL : value;
}

const char *gt_cache_get_text(const cJSON *object, const char *key, size_t max, bool *ret_bad)
{
    const cJSON *value = gt_cache_get(object, key);
    if (!value)
        return NULL;
    if (cJSON_IsString(value) && value->valuestring) {
        size_t len = strnlen(value->valuestring, max + 1);
        if (len && len <= max)
            return value->valuestring;
        if (!len)
            return NULL; /* the API's way to say nothing */
    }
    *ret_bad = true;
    return NULL;
}
