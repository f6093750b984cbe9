/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include <cjson/cJSON.h>

/* A member by its path "spec.template", NULL if it is missing. */
static inline const cJSON *json_at(const cJSON *json, const char *path)
{
    while (json && *path) {
        char key[64];
        size_t len = strcspn(path, ".");
        if (len >= sizeof(key))
            return NULL;
        memcpy(key, path, len);
        key[len] = 0;
        json = cJSON_IsObject(json) ? cJSON_GetObjectItemCaseSensitive(json, key) : NULL;
        path += len + (path[len] == '.');
    }
    return json;
}

static inline const char *json_text(const cJSON *json, const char *path)
{
    return cJSON_GetStringValue(json_at(json, path));
}
