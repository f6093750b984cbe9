/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
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

const char *gt_cache_name_of(const cJSON *object)
{
    bool bad = false;
    return gt_cache_get_text(gt_cache_get(object, "metadata"), "name", GT_CLUSTER_NAME_MAX, &bad);
}

/* `digits` decimal digits; -1 for anything else. */
static int number(const char *text, unsigned digits)
{
    int value = 0;
    for (unsigned i = 0; i < digits; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar. */
static int64_t days(int year, int month, int day)
{
    int64_t y = year - (month <= 2);
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return y * 365 + y / 4 - y / 100 + y / 400 + day_of_year - 719468;
}

uint64_t gt_cache_time(const char *text)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd";
    if (!text || strnlen(text, sizeof(shape)) < sizeof(shape) || text[strlen(text) - 1] != 'Z')
        return 0;
    for (size_t i = 0; i < sizeof(shape) - 1; i++)
        if (shape[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != shape[i])
            return 0;
    int year = number(text, 4), month = number(text + 5, 2), day = number(text + 8, 2);
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31)
        return 0;
    return (uint64_t)(days(year, month, day) * 86400 + number(text + 11, 2) * 3600 +
                      number(text + 14, 2) * 60 + number(text + 17, 2));
}

bool gt_cache_quantity(const cJSON *json, unsigned max, unsigned *ret)
{
    uint64_t value;
    if (cJSON_IsString(json) && json->valuestring) {
        if (!gt_text_to_unsigned(json->valuestring, max, &value))
            return false;
    } else if (cJSON_IsNumber(json) && json->valuedouble >= 0 && json->valuedouble <= max) {
        value = (uint64_t)json->valuedouble;
        if ((double)value != json->valuedouble)
            return false;
    } else
        return false;
    *ret = (unsigned)value;
    return true;
}
