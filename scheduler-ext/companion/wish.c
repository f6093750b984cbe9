/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/wish.h"

#include <string.h>

#include "kube/status.h"

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
        if (strcmp(gt_kube_text(entry, "type"), type) == 0)
            return entry;
    }
    return NULL;
}

static bool conditions_hold(const cJSON *wish, const cJSON *have)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, wish)
    {
        const cJSON *is = by_type(have, gt_kube_text(entry, "type"));
        if (!is || !gt_wish_holds(entry, is))
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

static bool list_holds(const cJSON *wish, const cJSON *have)
{
    const cJSON *a = wish->child, *b = have->child;
    for (; a && b; a = a->next, b = b->next)
        if (!gt_wish_holds(a, b) || (cJSON_IsObject(a) && count_keys(a) != count_keys(b)))
            return false;
    return !a && !b;
}

bool gt_wish_holds(const cJSON *wish, const cJSON *have)
{
    const cJSON *member;
    if (!have || (wish->type & 0xff) != (have->type & 0xff))
        return false;
    if (cJSON_IsNumber(wish))
        return wish->valuedouble == have->valuedouble;
    if (cJSON_IsString(wish))
        return strcmp(wish->valuestring, have->valuestring) == 0;
    if (cJSON_IsArray(wish))
        return wish->string && strcmp(wish->string, conditions) == 0 ? conditions_hold(wish, have)
                                                                     : list_holds(wish, have);
    cJSON_ArrayForEach(member, wish)
    {
        if (!is_time_key(member->string) &&
            !gt_wish_holds(member, cJSON_GetObjectItemCaseSensitive(have, member->string)))
            return false;
    }
    return true;
}

cJSON *gt_wish_strays(const cJSON *wish, const cJSON *have)
{
    const cJSON *member;
    cJSON *patch = cJSON_CreateObject();
    cJSON_ArrayForEach(member, have)
    {
        if (!patch || is_time_key(member->string) || strcmp(member->string, conditions) == 0)
            continue;
        const cJSON *wished = cJSON_GetObjectItemCaseSensitive(wish, member->string);
        if (!wished)
            cJSON_AddNullToObject(patch, member->string);
        else if (cJSON_IsObject(wished) && cJSON_IsObject(member)) {
            cJSON *below = gt_wish_strays(wished, member);
            if (below && !cJSON_AddItemToObject(patch, member->string, below))
                cJSON_Delete(below);
        }
    }
    if (patch && patch->child)
        return patch;
    cJSON_Delete(patch);
    return NULL;
}

static bool set_text(cJSON *object, const char *key, const char *text)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    return cJSON_AddStringToObject(object, key, text) != NULL;
}

/* Whether it is one that we would write ourselves: what a hand has put there may be anything. */
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

bool gt_wish_stamp(cJSON *wish, const cJSON *have, const char *now)
{
    cJSON *entry;
    const cJSON *old = cJSON_GetObjectItemCaseSensitive(have, conditions);
    bool whole = set_text(wish, observed, now);
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(wish, conditions))
    {
        const cJSON *was = by_type(old, gt_kube_text(entry, "type"));
        const char *at = gt_kube_text(was, since);
        bool same =
            was && is_time(at) && strcmp(gt_kube_text(was, "status"), gt_kube_text(entry, "status")) == 0;
        whole = whole && set_text(entry, since, same ? at : now);
    }
    return whole;
}
