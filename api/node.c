/* SPDX-License-Identifier: Apache-2.0 */
#include "api/node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/condition.h"
#include "api/meta.h"
#include "api/names.h"
#include "api/resources.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/time_text.h"

static int read_labels(const struct gt_at *at, const cJSON *object, struct gt_node_object *to)
{
    struct gt_at below = {at->source, "metadata", at->err};
    const cJSON *labels;
    int r = gt_get_object(&below, gt_get(object, "metadata"), "labels", &labels);
    int count = r >= 0 && labels ? cJSON_GetArraySize(labels) : 0;
    if (r < 0 || !count)
        return r;
    if (count > GT_NODE_LABELS_MAX)
        return gt_at_fail(&below, "labels", "%d members, the limit is %d", count, GT_NODE_LABELS_MAX);
    gt_auto_free struct gt_pair *list = calloc((size_t)count, sizeof(*list));
    if (!list)
        return gt_fail_sys(at->err, ENOMEM, "%s", at->source);
    unsigned i = 0;
    for (const cJSON *item = labels->child; item; item = item->next, i++) {
        below.path = "metadata.labels";
        if (!cJSON_IsString(item) || !item->string || !item->valuestring)
            return gt_at_fail(&below, item->string ? item->string : "", "expected a string, is %s",
                              gt_json_type(item));
        list[i] = (struct gt_pair){item->string, item->valuestring};
    }
    to->labels = gt_steal(list);
    to->label_count = i;
    return 0;
}

static int read_taints(const struct gt_at *at, const cJSON *spec, struct gt_node_object *to)
{
    struct gt_at below = {at->source, "spec", at->err};
    const cJSON *array;
    unsigned count, i = 0;
    GT_TRY(gt_get_array(&below, spec, "taints", GT_NODE_TAINTS_MAX, &array, &count));
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next, i++) {
        struct gt_node_taint *taint = &to->taints[i];
        char path[32];
        snprintf(path, sizeof(path), "spec.taints[%u]", i);
        below.path = path;
        *taint = (struct gt_node_taint){"", "", ""};
        GT_TRY(gt_api_text(&below, item, "key", 2 * GT_API_NAME_MAX, &taint->key));
        GT_TRY(gt_api_text(&below, item, "value", GT_API_TEXT_MAX, &taint->value));
        GT_TRY(gt_api_text(&below, item, "effect", GT_API_TEXT_MAX, &taint->effect));
        if (!taint->key[0] || !taint->effect[0])
            return gt_at_fail(&below, taint->key[0] ? "effect" : "key", "is missing");
    }
    to->taint_count = i;
    return 0;
}

int gt_node_object_read(const cJSON *json, const char *resource, struct gt_node_object *ret,
                        struct gt_err **err)
{
    static const char *const ready_type[] = {"Ready"};
    gt_auto_node_object struct gt_node_object node = {.uid = ""};
    struct gt_condition ready;
    char source[GT_API_NAME_MAX + 32] = "nodes";
    struct gt_at at = {source, "", err};
    GT_TRY(gt_api_meta(&at, json, &node.name, &node.resource_version));
    snprintf(source, sizeof(source), "nodes/%s", node.name);
    const cJSON *spec = gt_get(json, "spec"), *status = gt_get(json, "status");
    GT_TRY(gt_api_text(&(struct gt_at){source, "metadata", err}, gt_get(json, "metadata"), "uid",
                       GT_API_TEXT_MAX, &node.uid));
    GT_TRY(read_labels(&at, json, &node));
    GT_TRY(read_taints(&at, spec, &node));
    node.created_s = gt_time_of_text(gt_get_string(gt_get(json, "metadata"), "creationTimestamp"));
    gt_conditions_read(status, ready_type, 1, &ready);
    node.ready = ready.status == GT_CONDITION_TRUE;
    node.ready_s = gt_time_of_text(ready.since);
    node.vendor_gpus =
        cJSON_GetStringValue(gt_get_at(json, "metadata", "annotations", GT_ANNOTATION_VENDOR_GPUS));
    node.reserved = cJSON_GetStringValue(gt_get_at(json, "metadata", "annotations", GT_ANNOTATION_RESERVED));
    node.cordoned = cJSON_IsTrue(gt_get(spec, "unschedulable"));
    /* What is invalid counts as none. */
    gt_quantity_from_json(gt_get(gt_get(status, "capacity"), resource), GT_NODE_CAPACITY_MAX, resource,
                          &node.gpus, NULL);
    gt_resources_read(gt_get(status, "allocatable"), &node.allocatable);
    *ret = node;
    node.labels = NULL;
    return 0;
}

void gt_node_object_done(struct gt_node_object *node)
{
    free((void *)(uintptr_t)node->labels);
    node->labels = NULL;
    node->label_count = 0;
}

bool gt_node_taint_write(const cJSON *node, const char *key, const char *effect, struct gt_buf *to)
{
    gt_auto_json cJSON *taints = cJSON_CreateArray();
    unsigned own_count = 0, same = 0;
    for (const cJSON *item = gt_first(gt_get_at(node, "spec", "taints")); item; item = item->next) {
        bool own = strcmp(gt_get_string(item, "key"), key) == 0;
        own_count += own;
        same += own && effect && strcmp(gt_get_string(item, "effect"), effect) == 0;
        if (!own && !gt_json_attach(taints, NULL, cJSON_Duplicate(item, true)))
            return false;
    }
    if (own_count == same && own_count == (effect != NULL))
        return false;
    cJSON *own = effect ? cJSON_CreateObject() : NULL;
    if (effect && !(gt_json_attach(taints, NULL, own) && cJSON_AddStringToObject(own, "key", key) &&
                    cJSON_AddStringToObject(own, "effect", effect)))
        return false;
    gt_auto_free char *list = cJSON_PrintUnformatted(taints);
    gt_json_printf(to, "{'metadata': {'resourceVersion': %s}, 'spec': {'taints': =%s}}",
                   gt_meta_version(node), list ? list : "[]");
    return list != NULL;
}

const char *gt_node_object_label(const struct gt_node_object *node, const char *key)
{
    const struct gt_pair *found = GT_FIND(node->labels, node->label_count, key, key);
    return found ? found->value : NULL;
}

/* Up to the open metadata. */
static void node_begin(const char *name, const char *uid, struct gt_buf *to)
{
    gt_json_printf(to, "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': %s, 'uid': %s", name, uid);
}

void gt_node_condition_read(const cJSON *node, const char *type, struct gt_condition *ret)
{
    gt_conditions_read(gt_get(node, "status"), &type, 1, ret);
}

void gt_node_condition_write(const char *name, const char *uid, const struct gt_condition *condition,
                             struct gt_buf *to)
{
    static const char *const type[] = {GT_CONDITION_NODE_GPUS};
    node_begin(name, uid, to);
    gt_json_printf(to, "}, 'status': {");
    gt_conditions_write(condition, type, 1, to);
    gt_buf_puts(to, "}}");
}

void gt_node_object_write(const char *name, const char *uid, enum gt_node_part part,
                          const struct gt_pair *pairs, unsigned count, struct gt_buf *to)
{
    node_begin(name, uid, to);
    if (part != GT_NODE_NOTHING)
        gt_json_begin(to, part == GT_NODE_LABELS ? "labels" : "annotations", '{');
    for (unsigned i = 0; part != GT_NODE_NOTHING && i < count; i++)
        gt_json_add_text(to, pairs[i].key, pairs[i].value);
    gt_buf_puts(to, part != GT_NODE_NOTHING ? "}}}" : "}}");
}
