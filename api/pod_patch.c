/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_patch.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/json_write.h"

/* ---- lists ---- */

static void pod_patch_add_item(struct gt_buf *to, const cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    if (!text)
        to->failed = true;
    else
        gt_json_add_raw(to, NULL, text);
    cJSON_free(text);
}

/* The list's members whose `key` is not `name`, without the brackets. */
static int others_of(const cJSON *list, const char *key, const char *name, char **ret, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_POD_LISTS_MAX);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        const char *value = gt_get_string(item, key);
        if (strcmp(value, name) != 0)
            pod_patch_add_item(&text, item);
    }
    GT_TRY(gt_buf_check(&text, "pod", err));
    if (text.len && !(*ret = gt_buf_take(&text)))
        return gt_fail_sys(err, ENOMEM, "pod");
    return 0;
}

int gt_pod_lists_read(const struct gt_pod *pod, struct gt_pod_lists *ret, struct gt_err **err)
{
    struct gt_pod_lists lists = {0};
    int r = others_of(pod->gates, "name", GT_GATE, &lists.gates, err);
    if (r >= 0)
        r = others_of(pod->condition_list, "type", GT_CONDITION_PLACEMENT, &lists.conditions, err);
    if (r >= 0 && cJSON_GetArraySize(pod->where.terms) > 0 &&
        !(lists.terms = cJSON_PrintUnformatted(pod->where.terms)))
        r = gt_fail_sys(err, ENOMEM, "pod");
    if (lists.terms && strlen(lists.terms) > GT_POD_LISTS_MAX)
        cJSON_free(gt_steal(lists.terms));
    if (r < 0)
        gt_pod_lists_done(&lists);
    else
        *ret = lists;
    return r;
}

void gt_pod_lists_done(struct gt_pod_lists *lists)
{
    free(lists->gates);
    free(lists->conditions);
    cJSON_free(lists->terms);
    *lists = (struct gt_pod_lists){0};
}

/* ---- affinity ---- */

/* One requirement more. A term that says nothing matches nothing and stays as it is. */
static bool require_node(cJSON *term, const char *node)
{
    cJSON *fields = cJSON_GetObjectItemCaseSensitive(term, "matchFields");
    if (!cJSON_GetArraySize(fields) &&
        !cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(term, "matchExpressions")))
        return true;
    if (!cJSON_IsArray(fields)) {
        cJSON_DeleteItemFromObjectCaseSensitive(term, "matchFields");
        fields = cJSON_AddArrayToObject(term, "matchFields");
    }
    cJSON *field = cJSON_CreateObject();
    if (!fields || !field || !cJSON_AddItemToArray(fields, field)) {
        cJSON_Delete(field);
        return false;
    }
    cJSON *values = cJSON_AddStringToObject(field, "key", "metadata.name") &&
                            cJSON_AddStringToObject(field, "operator", "In")
                        ? cJSON_AddArrayToObject(field, "values")
                        : NULL;
    return values && cJSON_AddItemToArray(values, cJSON_CreateString(node));
}

/* Terms are alternatives: each is tightened, none may be added or taken away. */
static void write_terms(const char *terms, const char *node, struct gt_buf *to)
{
    cJSON *list = terms ? cJSON_Parse(terms) : NULL, *term;
    bool whole = list || !terms; /* without memory: the pod's own terms must not be lost */
    if (!terms) {
        gt_buf_puts(to, "[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[");
        gt_json_add_text(to, NULL, node);
        gt_buf_puts(to, "]}]}]");
    }
    cJSON_ArrayForEach(term, list) whole = whole && require_node(term, node);
    char *text = list && whole ? cJSON_PrintUnformatted(list) : NULL;
    cJSON_Delete(list);
    if (text)
        gt_buf_puts(to, text);
    to->failed |= terms && !text;
    cJSON_free(text);
}

void gt_pod_write_affinity(const char *terms, const char *node, struct gt_buf *to)
{
    gt_buf_puts(to, "{\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":");
    write_terms(terms, node, to);
    gt_buf_puts(to, "}}");
}

/* ---- the patch ---- */

static void write_metadata(const struct gt_pod_patch *patch, struct gt_buf *to)
{
    gt_json_printf(to, "'metadata': {?'uid': %s, ?'resourceVersion': %s", patch->uid,
                   patch->resource_version);
    if (patch->annotation_count)
        gt_json_begin(to, "annotations", '{');
    for (unsigned i = 0; i < patch->annotation_count; i++)
        gt_json_add_text(to, patch->annotations[i].key, patch->annotations[i].value);
    gt_buf_puts(to, patch->annotation_count ? "}}" : "}");
}

static void pod_patch_write_spec(const struct gt_pod_patch *patch, struct gt_buf *to)
{
    gt_json_begin(to, "spec", '{');
    if (patch->node) {
        gt_json_printf(to, "'affinity': {'nodeAffinity':");
        gt_pod_write_affinity(patch->lists->terms, patch->node, to);
        gt_json_end(to, '}');
    }
    if (patch->ungate && patch->lists->gates)
        gt_json_printf(to, "'schedulingGates': [=%s]", patch->lists->gates);
    else if (patch->ungate)
        gt_json_add_null(to, "schedulingGates");
    gt_json_end(to, '}');
}

static void pod_patch_write_status(const struct gt_pod_patch *patch, struct gt_buf *to)
{
    gt_json_begin(to, "status", '{');
    if (patch->nominates)
        gt_json_printf(to, "'nominatedNodeName': %s", patch->nominated_node);
    if (patch->placement) {
        gt_json_begin(to, "conditions", '[');
        if (patch->lists->conditions)
            gt_json_add_raw(to, NULL, patch->lists->conditions);
        gt_condition_write(patch->placement, GT_CONDITION_PLACEMENT, to);
        gt_json_end(to, ']');
    }
    gt_json_end(to, '}');
}

void gt_pod_patch_write(const struct gt_pod_patch *patch, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    write_metadata(patch, to);
    if (patch->node || patch->ungate)
        pod_patch_write_spec(patch, to);
    if (patch->placement || patch->nominates)
        pod_patch_write_status(patch, to);
    gt_json_end(to, '}');
}
