/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/patch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/pod_plan.h"
#include "base/bits.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/time_text.h"
#include "kube/index.h"
#include "scheduler-ext/core/plan.h"

enum {
    MESSAGE_MAX = 1000,
};

static const char *const kueue_gates[] = {GT_GATE_KUEUE, GT_GATE_KUEUE_TOPOLOGY};

void gt_pod_object_done(struct gt_pod_object *object)
{
    free(object->uid);
    free(object->version);
    free(object->gates);
    free(object->terms);
    free(object->pod_group);
    free(object->conditions);
    *object = (struct gt_pod_object){0};
}

static void add_json(struct gt_buf *to, const cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    if (!text)
        to->failed = true;
    else
        gt_buf_printf(to, "%s%s", to->len ? "," : "", text);
    cJSON_free(text);
}

/* The list's members whose `key` is not `name`, without the brackets. */
static int others_of(const cJSON *list, const char *key, const char *name, char **ret, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_POD_OBJECT_TEXT_MAX);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        const char *value = gt_get_string(item, key);
        if (strcmp(value, name) != 0)
            add_json(&text, item);
    }
    int r = gt_buf_check(&text, "pod", err);
    if (r >= 0 && text.len && !(*ret = gt_buf_take(&text)))
        r = gt_fail_sys(err, ENOMEM, "pod");
    return r;
}

static const char *kueue_gate_of(const char *name)
{
    for (unsigned i = 0; i < GT_COUNT(kueue_gates); i++)
        if (strcmp(name, kueue_gates[i]) == 0)
            return kueue_gates[i];
    return NULL;
}

static int read_lists(const struct gt_pod *pod, struct gt_pod_object *to, struct gt_err **err)
{
    const cJSON *gate, *terms = gt_get(pod->required_affinity, "nodeSelectorTerms");
    int r = others_of(pod->gates, "name", GT_GATE, &to->gates, err);
    if (r >= 0)
        r = others_of(pod->conditions, "type", GT_CONDITION_PLACEMENT, &to->conditions, err);
    if (r < 0)
        return r;
    cJSON_ArrayForEach(gate, pod->gates)
    {
        const char *name = gt_get_string(gate, "name");
        const char *kueue = kueue_gate_of(name);
        to->kueue_gate = to->kueue_gate ? to->kueue_gate : kueue;
        /* Volcano's own gate must not be waited for. */
        to->others = to->others ||
                     (*name && !kueue && strcmp(name, GT_GATE) != 0 && strcmp(name, GT_GATE_VOLCANO) != 0);
    }
    if (cJSON_GetArraySize(terms) > 0) {
        to->terms = cJSON_PrintUnformatted(terms);
        if (!to->terms)
            return gt_fail_sys(err, ENOMEM, "pod");
        if (strlen(to->terms) > GT_POD_OBJECT_TEXT_MAX) { /* the cache takes no such pod: it gets no plan */
            free(to->terms);
            to->terms = NULL;
        }
    }
    return 0;
}

/* Where a queue has more than its share, Volcano tells how many pods the PodGroup has and lacks, and nothing
 * of nodes: those it tells of behind "Origin reason". */
static bool is_held(const struct gt_pod *pod)
{
    const char *message = gt_get_string(pod->scheduled, "message");
    return pod->pod_group && strncmp(message, "pod group is ", strlen("pod group is ")) == 0 &&
           !strstr(message, "Origin reason");
}

int gt_pod_object_make(const struct gt_pod *pod, struct gt_pod_object *ret, struct gt_err **err)
{
    struct gt_pod_object made = {
        .gated = pod->gated,
        .planned = gt_pod_is_planned(pod),
        .nominated = pod->nominated_node ? gt_digest_keyed(pod->nominated_node) : 0,
        .fence = pod->fence,
        .unschedulable = gt_pod_condition_is(pod->scheduled, "False", "Unschedulable"),
    };
    made.held = made.unschedulable && is_held(pod);
    if (!pod->uid || !pod->resource_version)
        return gt_fail(err, EINVAL, "a pod without uid or resourceVersion");
    if (pod->placement)
        made.condition = gt_condition_digest(&(struct gt_condition_text){
            gt_pod_condition_is(pod->placement, "True", NULL), gt_get_string(pod->placement, "reason"),
            gt_get_string(pod->placement, "message")});
    made.uid = strdup(pod->uid);
    made.version = strdup(pod->resource_version);
    made.pod_group = pod->pod_group ? strdup(pod->pod_group) : NULL;
    bool taken = made.uid && made.version && (made.pod_group || !pod->pod_group);
    int r = taken ? 0 : gt_fail_sys(err, ENOMEM, "pod");
    if (r >= 0)
        r = read_lists(pod, &made, err);
    if (r < 0) {
        gt_pod_object_done(&made);
        return r;
    }
    *ret = made;
    return 0;
}

/* ---- patches ---- */

static size_t cut_at(const char *message)
{
    size_t n = 0;
    while (message[n]) {
        unsigned step = gt_text_utf8_length(message + n);
        step = step ? step : 1;
        if (n + step > MESSAGE_MAX)
            break;
        n += step;
    }
    return n;
}

static void add_cut(struct gt_buf *to, const char *key, const char *message)
{
    char text[MESSAGE_MAX + 1];
    size_t n = cut_at(message);
    memcpy(text, message, n);
    text[n] = 0;
    gt_json_add_text(to, key, text);
}

uint64_t gt_condition_digest(const struct gt_condition_text *condition)
{
    gt_auto_buf struct gt_buf text = GT_BUF(8 * MESSAGE_MAX);
    gt_buf_printf(&text, "%d %s ", condition->holds, condition->reason);
    add_cut(&text, NULL, condition->message);
    uint64_t digest = gt_digest_keyed(text.data ? text.data : "");
    return digest ? digest : 1;
}

static void begin(const struct gt_pod_object *object, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_begin(to, "metadata", '{');
    gt_json_add_text(to, "uid", object->uid);
    gt_json_add_text(to, "resourceVersion", object->version);
}

/* The list whole, since a merge patch knows no keys of lists. */
static void add_conditions(const struct gt_pod_object *object, const struct gt_condition_text *condition,
                           uint64_t now_s, struct gt_buf *to)
{
    char now[GT_TIME_TEXT_SIZE];
    gt_time_text((int64_t)now_s, now);
    gt_json_begin(to, "conditions", '[');
    if (object->conditions)
        gt_json_add_raw(to, NULL, object->conditions);
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "type", GT_CONDITION_PLACEMENT);
    gt_json_add_text(to, "status", condition->holds ? "True" : "False");
    gt_json_add_text(to, "reason", condition->reason);
    add_cut(to, "message", condition->message);
    gt_json_add_text(to, "lastTransitionTime", now);
    gt_json_end(to, '}');
    gt_json_end(to, ']');
}

void gt_patch_condition(const struct gt_pod_object *object, const struct gt_condition_text *condition,
                        const char *node, uint64_t now_s, struct gt_buf *to)
{
    begin(object, to);
    gt_json_end(to, '}');
    gt_json_begin(to, "status", '{');
    if (node || (object->nominated && object->gated))
        gt_json_add_text_or_null(to, "nominatedNodeName", node);
    add_conditions(object, condition, now_s, to);
    gt_buf_puts(to, "}}");
}

/* One requirement more in every term: terms are alternatives, and none may be added or taken away. A term
 * that says nothing matches nothing and stays as it is. */
static void add_terms(const char *terms, const char *node, struct gt_buf *to)
{
    cJSON *list = terms ? cJSON_Parse(terms) : NULL;
    if (terms && !list) { /* without memory: the pod's own terms must not be lost */
        to->failed = true;
        return;
    }
    if (!list) {
        gt_buf_puts(to, "[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[");
        gt_json_add_text(to, NULL, node);
        gt_buf_puts(to, "]}]}]");
        return;
    }
    cJSON *term;
    cJSON_ArrayForEach(term, list)
    {
        cJSON *fields = cJSON_GetObjectItemCaseSensitive(term, "matchFields");
        if (!cJSON_GetArraySize(fields) &&
            !cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(term, "matchExpressions")))
            continue;
        if (!cJSON_IsArray(fields)) {
            cJSON_DeleteItemFromObjectCaseSensitive(term, "matchFields");
            fields = cJSON_AddArrayToObject(term, "matchFields");
        }
        cJSON *field = cJSON_CreateObject();
        if (!fields || !field || !cJSON_AddItemToArray(fields, field)) {
            cJSON_Delete(field);
            to->failed = true;
            break;
        }
        bool named = cJSON_AddStringToObject(field, "key", "metadata.name") &&
                     cJSON_AddStringToObject(field, "operator", "In");
        cJSON *values = named ? cJSON_AddArrayToObject(field, "values") : NULL;
        if (!values || !cJSON_AddItemToArray(values, cJSON_CreateString(node)))
            to->failed = true;
    }
    char *text = cJSON_PrintUnformatted(list);
    cJSON_Delete(list);
    if (text)
        gt_buf_puts(to, text);
    else
        to->failed = true;
    cJSON_free(text);
}

void gt_patch_affinity(const char *terms, const char *node, struct gt_buf *to)
{
    gt_buf_puts(to, "{\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":");
    add_terms(terms, node, to);
    gt_buf_puts(to, "}}");
}

static void add_annotations(const struct gt_plan_texts *texts, struct gt_buf *to)
{
    struct gt_pair pairs[GT_PLAN_PAIRS];
    gt_plan_pairs(texts, pairs);
    gt_json_begin(to, "annotations", '{');
    for (unsigned i = 0; i < GT_PLAN_PAIRS; i++)
        gt_json_add_text(to, pairs[i].key, pairs[i].value);
    gt_json_end(to, '}');
}

void gt_patch_lift(const struct gt_pod_object *object, const struct gt_plan_texts *texts, struct gt_buf *to)
{
    begin(object, to);
    if (texts)
        add_annotations(texts, to);
    gt_json_end(to, '}');
    gt_json_begin(to, "spec", '{');
    if (texts) {
        gt_json_begin(to, "affinity", '{');
        gt_json_key(to, "nodeAffinity");
        gt_patch_affinity(object->terms, texts->node, to);
        gt_json_end(to, '}');
    }
    gt_json_key(to, "schedulingGates");
    if (object->gates)
        gt_buf_printf(to, "[%s]}}", object->gates);
    else
        gt_buf_puts(to, "null}}");
}

void gt_patch_fence(const struct gt_pod_object *object, uint64_t epoch, struct gt_buf *to)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, epoch);
    begin(object, to);
    gt_json_begin(to, "annotations", '{');
    gt_json_add_text(to, GT_PLAN_ANNOTATION_EPOCH, text);
    gt_buf_puts(to, "}}}");
}

void gt_patch_delete(const char *uid, const char *version, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "v1");
    gt_json_add_text(to, "kind", "DeleteOptions");
    gt_json_begin(to, "preconditions", '{');
    gt_json_add_text(to, "uid", uid);
    gt_json_add_text(to, "resourceVersion", version);
    gt_buf_puts(to, "}}");
}

void gt_patch_evict(const char *namespace_, const char *name, const char *uid, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "policy/v1");
    gt_json_add_text(to, "kind", "Eviction");
    gt_json_begin(to, "metadata", '{');
    gt_json_add_text(to, "namespace", namespace_);
    gt_json_add_text(to, "name", name);
    gt_json_end(to, '}');
    gt_json_begin(to, "deleteOptions", '{');
    gt_json_begin(to, "preconditions", '{');
    gt_json_add_text(to, "uid", uid);
    gt_buf_puts(to, "}}}");
}
