/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/call_times.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <string.h>

#include "base/json_get.h"
#include "base/text.h"

enum { COUNT_MAX = 2000000000, MS_MAX = 2000000000 };

static bool call_times_read_number(const cJSON *entry, const char *key, double max, double *ret)
{
    const cJSON *item = gt_get(entry, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > max)
        return false;
    *ret = item->valuedouble;
    return true;
}

static bool call_times_is_name(const char *text)
{
    return text[0] &&
           strspn(text, "0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == strlen(text);
}

static bool call_times_read_entry(const cJSON *entry, struct gt_call_time *to)
{
    const cJSON *call = gt_get(entry, "call");
    double count, ms, longest;
    if (!cJSON_IsString(call) || !call_times_is_name(call->valuestring) ||
        !call_times_read_number(entry, "count", COUNT_MAX, &count) ||
        !call_times_read_number(entry, "ms", MS_MAX, &ms) ||
        !call_times_read_number(entry, "longestMs", MS_MAX, &longest) ||
        !gt_text_copy(to->call, sizeof(to->call), call->valuestring))
        return false;
    to->calls = (uint64_t)count;
    to->seconds = ms / 1000;
    to->longest_s = longest / 1000;
    return true;
}

int gt_call_times_read(const char *text, size_t len, struct gt_call_times *ret, struct gt_err **err)
{
    cJSON *json = cJSON_ParseWithLength(text, len);
    const cJSON *list = gt_get(json, "times"), *entry;
    struct gt_call_times times = {0};
    int r = cJSON_IsArray(list) ? 0 : gt_fail(err, EINVAL, "times of vendor calls: \"times\" is not a list");
    cJSON_ArrayForEach(entry, list)
    {
        if (r >= 0 && times.count < GT_CALL_TIMES_MAX &&
            !call_times_read_entry(entry, &times.list[times.count++]))
            r = gt_fail(err, EINVAL, "times of vendor calls: an entry has no known form");
    }
    cJSON_Delete(json);
    if (r >= 0)
        *ret = times;
    return r;
}
