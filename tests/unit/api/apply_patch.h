/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* Apply patches as the API server does. */

static inline void apply_merge_patch(cJSON *object, const cJSON *patch)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, patch)
    {
        cJSON *known = cJSON_GetObjectItemCaseSensitive(object, item->string);
        if (cJSON_IsObject(item) && cJSON_IsObject(known)) {
            apply_merge_patch(known, item);
            continue;
        }
        cJSON_DeleteItemFromObjectCaseSensitive(object, item->string);
        if (!cJSON_IsNull(item))
            cJSON_AddItemToObject(object, item->string, cJSON_Duplicate(item, true));
    }
}

/* Replaces `from` with the shorter `to`. */
static inline void unescape(char *text, const char *from, const char *to)
{
    for (char *at = text; (at = strstr(at, from)); at += strlen(to)) {
        memcpy(at, to, strlen(to));
        memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
    }
}

/* Applies one operation of a JSON patch. False if it must fail by RFC 6902. */
static inline bool apply_operation(cJSON *object, const cJSON *operation)
{
    const char *what = cJSON_GetStringValue(cJSON_GetObjectItem(operation, "op"));
    char path[512], *at = path + 1;
    const char *pointer = cJSON_GetStringValue(cJSON_GetObjectItem(operation, "path"));
    if (!what || !pointer || strlen(pointer) >= sizeof(path))
        return false;
    memcpy(path, pointer, strlen(pointer) + 1);
    for (char *slash; (slash = strchr(at, '/')); at = slash + 1) {
        *slash = '\0';
        object = cJSON_IsArray(object) ? cJSON_GetArrayItem(object, (int)strtoul(at, NULL, 10))
                                       : cJSON_GetObjectItemCaseSensitive(object, at);
    }
    unescape(at, "~1", "/");
    unescape(at, "~0", "~");
    bool is_there = cJSON_HasObjectItem(object, at);
    cJSON *value = cJSON_Duplicate(cJSON_GetObjectItem(operation, "value"), true);
    if (cJSON_IsArray(object) && strcmp(at, "-") == 0 && strcmp(what, "add") == 0)
        return cJSON_AddItemToArray(object, value);
    if (!cJSON_IsObject(object) || (strcmp(what, "add") != 0 && !is_there)) {
        cJSON_Delete(value);
        return false;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(object, at);
    return strcmp(what, "remove") == 0 || cJSON_AddItemToObject(object, at, value);
}
