/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/file/reader.h"

#include <stdio.h>
#include <string.h>

static int reader_by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

void gt_named_sort(struct named *list, uint32_t count)
{
    if (count)
        qsort(list, count, sizeof(*list), reader_by_name);
}

uint32_t gt_named_find(const struct named *list, uint32_t count, const char *name)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(list[middle].name, name);
        if (!order)
            return list[middle].index;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return GT_NONE;
}

uint32_t gt_named_twice(const struct named *list, uint32_t count, uint32_t *ret_first)
{
    uint32_t twice = GT_NONE;
    for (uint32_t i = 1; i < count; i++)
        if (list[i].index < twice && strcmp(list[i - 1].name, list[i].name) == 0) {
            twice = list[i].index;
            *ret_first = list[i - 1].index;
        }
    return twice;
}

int gt_reader_object(const struct gt_at *at, const cJSON *json)
{
    return cJSON_IsObject(json) ? 0 : gt_at_fail(at, "", "expected an object, is %s", gt_json_type(json));
}

int gt_reader_name(const struct gt_at *at, const cJSON *object, const char *key,
                   char ret[static READER_NAME_SIZE])
{
    ret[0] = '\0';
    TRY(gt_get_text(at, object, key, ret, READER_NAME_SIZE));
    if (!gt_get(object, key))
        return gt_at_fail(at, key, "is missing");
    return ret[0] ? 0 : gt_at_fail(at, key, "is empty");
}

int gt_reader_gpus(const struct gt_at *at, const cJSON *object, const char *key, unsigned n, uint64_t *ret)
{
    const cJSON *array;
    unsigned count, i = 0;
    uint64_t mask = 0;
    TRY(gt_get_array(at, object, key, GT_GPUS_MAX, &array, &count));
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next, i++) {
        char place[32];
        snprintf(place, sizeof(place), "%s[%u]", key, i);
        if (!cJSON_IsNumber(item))
            return gt_at_fail(at, place, "expected a number, is %s", gt_json_type(item));
        double number = item->valuedouble;
        if (!(number >= 0 && number < n))
            return gt_at_fail(at, place, "there is no GPU %g, the node has %u", number, n);
        unsigned gpu = (unsigned)number;
        if (gpu != number)
            return gt_at_fail(at, place, "expected a whole number, is %g", number);
        if (mask >> gpu & 1)
            return gt_at_fail(at, place, "GPU %u is there twice", gpu);
        mask |= UINT64_C(1) << gpu;
    }
    *ret = mask;
    return 0;
}
