/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/apply_set_entry.h"

#include <string.h>

#include "base/json_get.h"

static const char observed[] = "observedAt", since[] = "lastTransitionTime", conditions[] = "conditions";

static bool is_time_key(const char *key)
{
    return key && (strcmp(key, observed) == 0 || strcmp(key, since) == 0);
}

static const cJSON *by_type(const cJSON *list, const char *type)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, list)
    {
        if (strcmp(gt_get_string(entry, "type"), type) == 0)
            return entry;
    }
    return NULL;
}

static bool desired_conditions_are_met(const cJSON *desired, const cJSON *have)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, desired)
    {
        const cJSON *is = by_type(have, gt_get_string(entry, "type"));
        if (!is || !gt_desired_is_met(entry, is))
            return false;
    }
    return true;
}

static unsigned count_keys(const cJSON *object)
{
    const cJSON *member;
    unsigned count = 0;
    cJSON_ArrayForEach(member, object) count += !is_time_key(member->string);
    return count;
}

static bool desired_list_is_met(const cJSON *desired, const cJSON *have)
{
    const cJSON *a = desired->child, *b = have->child;
    for (; a && b; a = a->next, b = b->next)
        if (!gt_desired_is_met(a, b) || (cJSON_IsObject(a) && count_keys(a) != count_keys(b)))
            return false;
    return !a && !b;
}

bool gt_desired_is_met(const cJSON *desired, const cJSON *have)
{
    const cJSON *member;
    if (!have || (desired->type & 0xff) != (have->type & 0xff))
        return false;
    if (cJSON_IsNumber(desired))
        return desired->valuedouble == have->valuedouble;
    if (cJSON_IsString(desired))
        return strcmp(desired->valuestring, have->valuestring) == 0;
    if (cJSON_IsArray(desired))
        return desired->string && strcmp(desired->string, conditions) == 0
                   ? desired_conditions_are_met(desired, have)
                   : desired_list_is_met(desired, have);
    cJSON_ArrayForEach(member, desired)
    {
        if (!is_time_key(member->string) &&
            !gt_desired_is_met(member, cJSON_GetObjectItemCaseSensitive(have, member->string)))
            return false;
    }
    return true;
}

cJSON *gt_desired_extras(const cJSON *desired, const cJSON *have)
{
    const cJSON *member;
    cJSON *patch = cJSON_CreateObject();
    cJSON_ArrayForEach(member, have)
    {
        if (!patch || is_time_key(member->string) || strcmp(member->string, conditions) == 0)
            continue;
        const cJSON *wanted = cJSON_GetObjectItemCaseSensitive(desired, member->string);
        if (!wanted)
            cJSON_AddNullToObject(patch, member->string);
        else if (cJSON_IsObject(wanted) && cJSON_IsObject(member)) {
            cJSON *below = gt_desired_extras(wanted, member);
            if (below && !cJSON_AddItemToObject(patch, member->string, below))
                cJSON_Delete(below);
        }
    }
    if (patch && patch->child)
        return patch;
    cJSON_Delete(patch);
    return NULL;
}

static bool desired_set_text(cJSON *object, const char *key, const char *text)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    return cJSON_AddStringToObject(object, key, text) != NULL;
}

/* Whether it is a time as we write it; a user may have written anything there. */
static bool is_time(const char *text)
{
    const char *form = "0000-00-00T00:00:00Z";
    size_t len = strlen(form);
    if (strlen(text) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    return true;
}

bool gt_desired_stamp(cJSON *desired, const cJSON *have, const char *now)
{
    cJSON *entry;
    const cJSON *old = cJSON_GetObjectItemCaseSensitive(have, conditions);
    bool whole = desired_set_text(desired, observed, now);
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(desired, conditions))
    {
        const cJSON *was = by_type(old, gt_get_string(entry, "type"));
        const char *at = gt_get_string(was, since);
        bool same =
            was && is_time(at) && strcmp(gt_get_string(was, "status"), gt_get_string(entry, "status")) == 0;
        whole = whole && desired_set_text(entry, since, same ? at : now);
    }
    return whole;
}
