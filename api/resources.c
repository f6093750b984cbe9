/* SPDX-License-Identifier: Apache-2.0 */
#include "api/resources.h"

#include <string.h>

#include "api/quantity.h"
#include "base/json_get.h"

/* NULL where it is not there. */
static struct gt_amount *api_resources_find(struct gt_resources *in, const char *name)
{
    return GT_FIND(in->list, in->count, name, name);
}

bool gt_resources_get(const struct gt_resources *resources, const char *name, uint64_t *ret)
{
    for (unsigned i = 0; i < resources->count; i++)
        if (strcmp(resources->list[i].name, name) == 0) {
            *ret = resources->list[i].amount;
            return true;
        }
    return false;
}

/* NULL: there is no place for one more. */
static struct gt_amount *api_resources_make(struct gt_resources *in, const char *name)
{
    struct gt_amount *amount = api_resources_find(in, name);
    if (!amount && in->count < GT_RESOURCES_MAX) {
        amount = &in->list[in->count++];
        *amount = (struct gt_amount){name, 0};
    }
    return amount;
}

static void api_resources_add(struct gt_resources *to, const struct gt_resources *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        struct gt_amount *amount = api_resources_make(to, from->list[i].name);
        uint64_t more = from->list[i].amount;
        if (amount)
            amount->amount = amount->amount < GT_AMOUNT_MAX - more ? amount->amount + more : GT_AMOUNT_MAX;
    }
}

static void raise_to(struct gt_resources *to, const struct gt_resources *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        struct gt_amount *amount = api_resources_make(to, from->list[i].name);
        if (amount && amount->amount < from->list[i].amount)
            amount->amount = from->list[i].amount;
    }
}

static bool read_quantity(const cJSON *json, const char *name, uint64_t *ret)
{
    int ten = strcmp(name, GT_RESOURCE_CPU) == 0 ? 3 : 0;
    if (cJSON_IsNumber(json)) { /* as written by hand */
        double value = json->valuedouble * (ten ? 1000 : 1);
        if (!(value >= 0))
            return false;
        *ret = value < (double)GT_AMOUNT_MAX ? (uint64_t)value : GT_AMOUNT_MAX;
        *ret += *ret < GT_AMOUNT_MAX && (double)*ret < value;
        return true;
    }
    const char *text = cJSON_GetStringValue(json);
    return text && gt_quantity_ceil(text, strlen(text), ten, GT_AMOUNT_MAX, ret);
}

/* Those that `to` has not. */
static void read_more(const cJSON *json, struct gt_resources *to)
{
    for (const cJSON *item = cJSON_IsObject(json) ? json->child : NULL; item; item = item->next) {
        uint64_t amount;
        if (!item->string || api_resources_find(to, item->string) ||
            !read_quantity(item, item->string, &amount))
            continue;
        struct gt_amount *made = api_resources_make(to, item->string);
        if (made)
            made->amount = amount;
    }
}

void gt_resources_read(const cJSON *json, struct gt_resources *ret)
{
    ret->count = 0;
    read_more(json, ret);
}

/* Of a container. */
static void api_resources_read_asked(const cJSON *container, struct gt_resources *ret)
{
    const cJSON *resources = gt_get(container, "resources");
    gt_resources_read(gt_get(resources, "requests"), ret);
    read_more(gt_get(resources, "limits"), ret);
}

static const cJSON *api_resources_first_of(const cJSON *spec, const char *key)
{
    const cJSON *list = gt_get(spec, key);
    return cJSON_IsArray(list) ? list->child : NULL;
}

void gt_pod_resources_read(const cJSON *spec, struct gt_resources *ret)
{
    struct gt_resources one, sidecars, most;
    const char *policy;
    ret->count = sidecars.count = most.count = 0;
    for (const cJSON *item = api_resources_first_of(spec, "initContainers"); item; item = item->next) {
        api_resources_read_asked(item, &one);
        policy = cJSON_GetStringValue(gt_get(item, "restartPolicy"));
        if (policy && strcmp(policy, "Always") == 0) {
            api_resources_add(&sidecars, &one);
        } else {
            api_resources_add(&one, &sidecars);
            raise_to(&most, &one);
        }
    }
    for (const cJSON *item = api_resources_first_of(spec, "containers"); item; item = item->next) {
        api_resources_read_asked(item, &one);
        api_resources_add(ret, &one);
    }
    api_resources_add(ret, &sidecars);
    raise_to(ret, &most);
    gt_resources_read(gt_get(gt_get(spec, "resources"), "requests"), &one);
    for (unsigned i = 0; i < one.count; i++) {
        struct gt_amount *amount = api_resources_make(ret, one.list[i].name);
        if (amount)
            amount->amount = one.list[i].amount;
    }
    gt_resources_read(gt_get(spec, "overhead"), &one);
    api_resources_add(ret, &one);
    one = (struct gt_resources){1, {{GT_RESOURCE_PODS, 1}}};
    api_resources_add(ret, &one);
}
