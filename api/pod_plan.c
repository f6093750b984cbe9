/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_plan.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"

enum { NAME_MAX_BYTES = 63 };

/* ---- what is a plan ---- */

static int check_container(const struct gt_planned_container *containers, unsigned at, struct gt_err **err)
{
    const struct gt_planned_container *container = &containers[at];
    size_t len = strnlen(container->name, NAME_MAX_BYTES + 1);
    if (!len || len > NAME_MAX_BYTES)
        return gt_fail(err, EINVAL, "container \"%.63s\": the name has not 1 to %d bytes", container->name,
                       NAME_MAX_BYTES);
    for (unsigned i = 0; i < at; i++)
        if (strcmp(containers[i].name, container->name) == 0)
            return gt_fail(err, EINVAL, "container \"%s\" is there twice", container->name);
    if (!container->count || container->count > GT_GPUS_MAX)
        return gt_fail(err, EINVAL, "container \"%s\" has no list of 1 to %d devices", container->name,
                       GT_GPUS_MAX);
    for (unsigned i = 0; i < container->count; i++) {
        if (!gt_device_id_is_valid(container->ids[i]))
            return gt_fail(err, EINVAL, "container \"%s\" has something that is no device ID",
                           container->name);
        for (unsigned k = 0; k < i; k++)
            if (strcmp(container->ids[k], container->ids[i]) == 0)
                return gt_fail(err, EINVAL, "container \"%s\" has %s twice", container->name,
                               container->ids[i]);
    }
    return 0;
}

static int pod_plan_check_count(unsigned count, struct gt_err **err)
{
    if (count > GT_POD_PLAN_CONTAINERS_MAX)
        return gt_fail(err, EINVAL, "it has more than %d containers", GT_POD_PLAN_CONTAINERS_MAX);
    return 0;
}

/* ---- reading ---- */

/* The plan that the JSON has, its lists still empty; ret_ids: how many IDs, ret_size: bytes of all texts. */
static int pod_plan_measure(const cJSON *json, unsigned *ret_containers, size_t *ret_ids, size_t *ret_size,
                            struct gt_err **err)
{
    const cJSON *list, *id;
    unsigned containers = 0;
    size_t ids = 0, size = 0;
    cJSON_ArrayForEach(list, json)
    {
        GT_TRY(pod_plan_check_count(++containers, err));
        if (!cJSON_IsArray(list))
            return gt_fail(err, EINVAL, "container \"%.63s\" has no list of 1 to %d devices", list->string,
                           GT_GPUS_MAX);
        size += strlen(list->string) + 1;
        cJSON_ArrayForEach(id, list)
        {
            if (!cJSON_IsString(id))
                return gt_fail(err, EINVAL, "container \"%.63s\" has something that is no device ID",
                               list->string);
            size += strlen(id->valuestring) + 1;
            ids++;
        }
    }
    *ret_containers = containers;
    *ret_ids = ids;
    *ret_size = size;
    return 0;
}

static int pod_plan_fill(const cJSON *json, struct gt_pod_plan *plan, unsigned containers, size_t ids,
                         struct gt_err **err)
{
    const char **id_at = (const char **)&plan->containers[containers];
    char *text_at = (char *)(id_at + ids);
    const cJSON *list, *id;
    cJSON_ArrayForEach(list, json)
    {
        struct gt_planned_container *container = &plan->containers[plan->count];
        *container = (struct gt_planned_container){.name = gt_text_put(list->string, &text_at), .ids = id_at};
        cJSON_ArrayForEach(id, list)
        {
            *id_at++ = gt_text_put(id->valuestring, &text_at);
            container->count++;
        }
        GT_TRY(check_container(plan->containers, plan->count++, err));
    }
    return 0;
}

/* An object of lists, and nothing deeper: cJSON would go down a thousand. Brackets in texts do not count. */
static bool is_shallow(const char *text)
{
    bool in_text = false;
    unsigned depth = 0;
    for (; *text; text++) {
        if (in_text && *text == '\\' && text[1])
            text++;
        else if (*text == '"')
            in_text = !in_text;
        else if (!in_text && (*text == '[' || *text == '{') && ++depth > 2)
            return false;
        else if (!in_text && (*text == ']' || *text == '}') && depth)
            depth--;
    }
    return true;
}

int gt_pod_plan_read(const char *text, struct gt_pod_plan **ret, struct gt_err **err)
{
    size_t ids = 0, size = 0;
    unsigned containers = 0;
    if (strnlen(text, GT_POD_PLAN_TEXT_MAX + 1) > GT_POD_PLAN_TEXT_MAX)
        return gt_fail(err, EINVAL, "it has more than %d bytes", GT_POD_PLAN_TEXT_MAX);
    if (!is_shallow(text))
        return gt_fail(err, EINVAL, "it has more than lists of device IDs");
    gt_auto_json cJSON *json = cJSON_ParseWithOpts(text, NULL, true);
    if (!cJSON_IsObject(json))
        return gt_fail(err, EINVAL, "it is no JSON object");
    GT_TRY(pod_plan_measure(json, &containers, &ids, &size, err));
    gt_auto_free struct gt_pod_plan *plan =
        calloc(1, sizeof(*plan) + containers * sizeof(plan->containers[0]) + ids * sizeof(char *) + size);
    GT_NEED(plan, err, "plan");
    GT_TRY(pod_plan_fill(json, plan, containers, ids, err));
    *ret = gt_steal(plan);
    return 0;
}

/* ---- writing ---- */

int gt_pod_plan_write(const struct gt_planned_container *containers, unsigned count, struct gt_buf *to,
                      struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_POD_PLAN_TEXT_MAX + 1);
    int r = pod_plan_check_count(count, err);
    gt_json_begin(&text, NULL, '{');
    for (unsigned c = 0; c < count && r >= 0; c++) {
        r = check_container(containers, c, err);
        gt_json_begin(&text, containers[c].name, '[');
        for (unsigned i = 0; i < containers[c].count && r >= 0; i++)
            gt_json_add_text(&text, NULL, containers[c].ids[i]);
        gt_json_end(&text, ']');
    }
    gt_json_end(&text, '}');
    if (r < 0)
        return r;
    if (text.failed || text.len > GT_POD_PLAN_TEXT_MAX)
        return gt_fail(err, E2BIG, "a plan of %u containers has more than %d bytes", count,
                       GT_POD_PLAN_TEXT_MAX);
    gt_buf_add(to, text.data, text.len);
    return gt_buf_check(to, "plan", err);
}
