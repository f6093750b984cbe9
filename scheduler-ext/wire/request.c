/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/wire/request.h"

#include <errno.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"

enum { KEPT_BYTES = 256 << 10 };

#define FIELD_LIST static const struct gt_field

FIELD_LIST pod_metadata[] = {{.name = "managedFields", .dropped = true}, {.others = true}};
FIELD_LIST pod[] = {{.name = "metadata", .fields = pod_metadata}, {.others = true}};
FIELD_LIST extender_args[] = {{.name = "Pod", .fields = pod}, {.name = "NodeNames"}, {0}};
FIELD_LIST preempt_args[] = {{.name = "Pod", .fields = pod}, {.name = "NodeNameToMetaVictims"}, {0}};

FIELD_LIST scalar[] = {{.name = GT_RESOURCE_GPU}, {0}};
FIELD_LIST resource[] = {{.name = "ScalarResources", .fields = scalar}, {0}};
FIELD_LIST node_info[] = {{.name = "Name"}, {.name = "Idle", .fields = resource}, {0}};
FIELD_LIST task_info[] = {{.name = "Pod", .fields = pod}, {0}};
FIELD_LIST predicate_args[] = {
    {.name = "task", .fields = task_info}, {.name = "node", .fields = node_info}, {0}};
FIELD_LIST volcano_args[] = {
    {.name = "task", .fields = task_info}, {.name = "nodes", .fields = node_info}, {0}};

static const struct gt_field *const fields_of[GT_WIRE_VERBS] = {
    [GT_WIRE_FILTER] = extender_args,
    [GT_WIRE_PRIORITIZE] = extender_args,
    [GT_WIRE_PREEMPT] = preempt_args,
    [GT_WIRE_VOLCANO_PREDICATE] = predicate_args,
    [GT_WIRE_VOLCANO_PRIORITIZE] = volcano_args,
};

struct gt_wire_request *gt_wire_request_new(enum gt_wire_verb verb)
{
    struct gt_wire_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->verb = verb;
    request->reader.text.max = GT_WIRE_TEXT_MAX;
    return request;
}

int gt_wire_request_feed(struct gt_wire_request *request, const char *bytes, size_t len, struct gt_err **err)
{
    return gt_field_reader_feed(&request->reader, fields_of[request->verb], bytes, len, err);
}

static int read_asking_pod(const cJSON *object, struct gt_pod *ret, struct gt_err **err)
{
    struct gt_pod_gpus gpus;
    gt_pod_read(object, GT_RESOURCE_GPU, ret);
    if (ret->invalid && gt_pod_gpus_read(gt_get(object, "spec"), GT_RESOURCE_GPU, &gpus, err) < 0)
        return gt_wrap(err, "Pod.spec");
    if (ret->invalid)
        return gt_fail(err, EINVAL, "Pod: %s", ret->invalid);
    return ret->meta.name[0] ? 0 : gt_fail(err, EINVAL, "Pod.metadata.name: missing");
}

static int request_add_node(struct gt_wire_request *request, const char *list, const cJSON *json,
                            struct gt_err **err)
{
    const char *text = cJSON_GetStringValue(json);
    if (!text || !*text)
        return gt_fail(err, EINVAL, "%s[%u]: a node without a name", list, request->count);
    if (strlen(text) > GT_API_NAME_MAX)
        return gt_fail(err, EMSGSIZE, "%s[%u]: a name of more than %d bytes", list, request->count,
                       GT_API_NAME_MAX);
    request->nodes[request->count++] = text;
    return 0;
}

/* Room for the nodes of a list, which may be missing. */
static int make_node_list(struct gt_wire_request *request, const char *list, const cJSON *json,
                          struct gt_err **err)
{
    int count = cJSON_GetArraySize(json);
    if (json && !cJSON_IsArray(json))
        return gt_fail(err, EINVAL, "%s: expected an array, found %s", list, gt_json_type(json));
    if (count > GT_WIRE_NODES_MAX)
        return gt_fail(err, EMSGSIZE, "%s: more than %d nodes", list, GT_WIRE_NODES_MAX);
    request->nodes = calloc((size_t)count + 1, sizeof(*request->nodes));
    request->idle = calloc((size_t)count + 1, sizeof(*request->idle));
    return request->nodes && request->idle ? 0 : gt_fail(err, ENOMEM, "no memory for %d nodes", count);
}

static int read_extender_args(struct gt_wire_request *request, struct gt_err **err)
{
    const cJSON *names = gt_get(request->json, "NodeNames");
    GT_TRY(read_asking_pod(gt_get(request->json, "Pod"), &request->pod, err));
    if (!names)
        return gt_fail(err, EINVAL,
                       "NodeNames: missing; the extender's configuration needs nodeCacheCapable: true");
    int r = make_node_list(request, "NodeNames", names, err);
    for (const cJSON *item = names->child; item && r >= 0; item = item->next)
        r = request_add_node(request, "NodeNames", item, err);
    return r;
}

static int read_preempt_args(struct gt_wire_request *request, struct gt_err **err)
{
    static const char list[] = "NodeNameToMetaVictims";
    const cJSON *nodes = gt_get(request->json, list);
    GT_TRY(read_asking_pod(gt_get(request->json, "Pod"), &request->pod, err));
    if (!cJSON_IsObject(nodes))
        return gt_fail(err, EINVAL, "%s: expected an object, found %s", list, gt_json_type(nodes));
    int count = cJSON_GetArraySize(nodes);
    if (count > GT_WIRE_NODES_MAX)
        return gt_fail(err, EMSGSIZE, "%s: more than %d nodes", list, GT_WIRE_NODES_MAX);
    request->nodes = calloc((size_t)count + 1, sizeof(*request->nodes));
    request->victims = calloc((size_t)count + 1, sizeof(const cJSON *));
    GT_NEED(request->nodes && request->victims, err, "victims");
    for (const cJSON *item = nodes->child; item; item = item->next) {
        const cJSON *victims = gt_get(item, "Pods");
        for (const cJSON *victim = victims ? victims->child : NULL; victim; victim = victim->next)
            if (!*gt_get_string(victim, "UID"))
                return gt_fail(err, EINVAL, "%s.%.253s.Pods: a pod without a UID", list, item->string);
        request->victims[request->count] = item;
        request->nodes[request->count++] = item->string;
    }
    return 0;
}

/* There are many nodes, and an invalid one must not affect the others. What a Resource lacks counts as 0. */
static int32_t read_idle(const cJSON *node)
{
    const cJSON *idle = gt_get(node, "Idle"), *gpus = gt_get_at(idle, "ScalarResources", GT_RESOURCE_GPU);
    int64_t milli = 0;
    bool known = idle && (!gpus || gt_json_is_int(gpus, &milli)) && milli >= 0 && milli <= INT32_MAX;
    return known ? (int32_t)(milli / 1000) : -1;
}

static int read_volcano_args(struct gt_wire_request *request, struct gt_err **err)
{
    bool one = request->verb == GT_WIRE_VOLCANO_PREDICATE;
    const char *list = one ? "node" : "nodes";
    const cJSON *nodes = gt_get(request->json, list), *item = nodes;
    int r = read_asking_pod(gt_get_at(request->json, "task", "Pod"), &request->pod, err);
    if (r < 0)
        return gt_wrap(err, "task");
    r = make_node_list(request, list, one ? NULL : nodes, err);
    for (item = one || !nodes ? nodes : nodes->child; item && r >= 0; item = one ? NULL : item->next) {
        request->idle[request->count] = read_idle(item);
        r = request_add_node(request, list, gt_get(item, "Name"), err);
    }
    return r >= 0 && one && !request->count ? gt_fail(err, EINVAL, "node: missing") : r;
}

int gt_wire_request_read(struct gt_wire_request *request, struct gt_err **err)
{
    static const struct gt_json_limits limits = {GT_WIRE_TEXT_MAX, GT_WIRE_VALUES_MAX};
    const struct gt_buf *text = &request->reader.text;
    GT_TRY(gt_json_parse_within(text->data, text->len, "the request, without what is not read", &limits,
                                &request->json, err));
    if (!cJSON_IsObject(request->json))
        return gt_fail(err, EINVAL, "expected an object, found %s", gt_json_type(request->json));
    return request->verb < GT_WIRE_PREEMPT    ? read_extender_args(request, err)
           : request->verb == GT_WIRE_PREEMPT ? read_preempt_args(request, err)
                                              : read_volcano_args(request, err);
}

size_t gt_wire_request_bytes(const struct gt_wire_request *request)
{
    return sizeof(*request) + request->reader.text.len;
}

/* What was read of the body. */
static void forget_body(struct gt_wire_request *request)
{
    cJSON_Delete(request->json);
    free(request->nodes);
    free(request->idle);
    free((void *)request->victims);
    request->victims = NULL;
    request->json = NULL;
    request->nodes = NULL;
    request->idle = NULL;
    request->count = 0;
}

void gt_wire_request_reset(struct gt_wire_request *request)
{
    forget_body(request);
    gt_field_reader_reset(&request->reader, KEPT_BYTES);
}

void gt_wire_request_free(struct gt_wire_request *request)
{
    if (!request)
        return;
    forget_body(request);
    gt_field_reader_reset(&request->reader, 0);
    free(request);
}
