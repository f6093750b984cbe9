/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_patch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/json_write.h"
/* ---- lists ---- */

/* The list's members whose `key` is not `name`, without the brackets. */
static int others_of(const cJSON *list, const char *key, const char *name, char **ret, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_POD_LISTS_MAX);
    for (const cJSON *item = gt_first(list); item; item = item->next) {
        const char *value = gt_get_string(item, key);
        if (strcmp(value, name) != 0)
            gt_json_add_tree(&text, NULL, item);
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
    return gt_json_attach(fields, NULL, field) && cJSON_AddStringToObject(field, "key", "metadata.name") &&
           cJSON_AddStringToObject(field, "operator", "In") &&
           gt_json_attach(field, "values", cJSON_CreateStringArray(&node, 1));
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

enum {
    POINTER_MAX = 1 << 20, /* bytes: the key of an annotation may be long before it is refused */
    CONTAINER_POINTER_SIZE = 64,
    POINTER_SIZE = 128,
    REPEATED_MAX = 1024,
};

/* One operation begins; its value, where it has one, and the brace follow. `key` is escaped as the last part
 * of the path. */
static void pod_json_patch_begin(struct gt_buf *to, const char *operation, const char *path, const char *key)
{
    gt_auto_buf struct gt_buf full = GT_BUF(POINTER_MAX);
    gt_buf_puts(&full, path);
    for (; *key; key++)
        *key == '~' || *key == '/' ? gt_buf_puts(&full, *key == '~' ? "~0" : "~1")
                                   : gt_buf_add(&full, key, 1);
    to->failed |= full.failed; /* a part of the path would be another one */
    gt_json_printf(to, "{'op': %s, 'path': %s", operation, full.data ? full.data : "");
}

/* Likewise, for what is added to a list: its value is an object, which end_item() ends. A list that is not
 * there is made. */
static void begin_item(struct gt_buf *to, const char *list, bool is_there)
{
    char path[POINTER_SIZE];
    snprintf(path, sizeof(path), "%s%s", list, is_there ? "/-" : "");
    pod_json_patch_begin(to, "add", path, "");
    gt_json_printf(to, "'value': =%s", is_there ? "{" : "[{");
}

static void end_item(struct gt_buf *to, bool is_there)
{
    gt_buf_puts(to, is_there ? "}}" : "}]}");
}

static void pod_json_patch_replace_text(struct gt_buf *to, const char *path, const char *text)
{
    pod_json_patch_begin(to, "replace", path, "");
    gt_json_add_text(to, "value", text);
    gt_json_end(to, '}');
}

void gt_pod_json_add_gate(const struct gt_pod *pod, struct gt_buf *to)
{
    begin_item(to, "/spec/schedulingGates", pod->gate_count);
    gt_json_add_text(to, "name", GT_GATE);
    end_item(to, pod->gate_count);
}

/* ---- annotations ---- */

static bool pod_json_patch_is_plan(const cJSON *annotation)
{
    return annotation->string && strncmp(annotation->string, GT_PLAN_PREFIX, strlen(GT_PLAN_PREFIX)) == 0;
}

/* The creator of a pod may write any annotations: those are not plans. */
void gt_pod_json_remove_plan(const struct gt_pod *pod, struct gt_buf *to)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, pod->annotations)
    {
        if (!pod_json_patch_is_plan(item))
            continue;
        pod_json_patch_begin(to, "remove", "/metadata/annotations/", item->string);
        gt_json_end(to, '}');
    }
}

/* Whether the annotations are written as a whole, in one operation: seven cost the API server a fifth more
 * for the whole patch. But what is repeated it reads twice. */
static bool may_repeat(const cJSON *annotations)
{
    size_t len = 0;
    const cJSON *item;
    if (annotations && !cJSON_IsObject(annotations))
        return false;
    cJSON_ArrayForEach(item, annotations)
    {
        len +=
            strlen(item->string ? item->string : "") + (cJSON_IsString(item) ? strlen(item->valuestring) : 0);
        if (pod_json_patch_is_plan(item) || !cJSON_IsString(item) || len > REPEATED_MAX)
            return false;
    }
    return true;
}

void gt_pod_json_remove_managers(const cJSON *object, struct gt_buf *to)
{
    const cJSON *entries = gt_get_at(object, "metadata", "managedFields");
    for (const cJSON *entry = gt_first(entries); entry; entry = entry->next) {
        if (strcmp(gt_get_string(entry, "operation"), "Update") != 0)
            return;
    }
    if (cJSON_GetArraySize(entries) == 0)
        return;
    pod_json_patch_begin(to, "remove", "/metadata/managedFields", "");
    gt_json_end(to, '}');
}

void gt_pod_json_add_annotations(const struct gt_pod *pod, const struct gt_pair *pairs, unsigned count,
                                 struct gt_buf *to)
{
    bool whole = may_repeat(pod->annotations);
    if (whole) {
        const cJSON *item;
        pod_json_patch_begin(to, "add", "/metadata/annotations", "");
        gt_json_begin(to, "value", '{');
        cJSON_ArrayForEach(item, pod->annotations) gt_json_add_text(to, item->string, item->valuestring);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!whole)
            pod_json_patch_begin(to, "add", "/metadata/annotations/", pairs[i].key);
        gt_json_add_text(to, whole ? pairs[i].key : "value", pairs[i].value);
        if (!whole)
            gt_json_end(to, '}');
    }
    if (whole)
        gt_buf_puts(to, "}}");
}

void gt_pod_json_add_node(const struct gt_pod *pod, const char *node, struct gt_buf *to)
{
    bool has_affinity = cJSON_IsObject(pod->affinity);
    pod_json_patch_begin(to, "add", has_affinity ? "/spec/affinity/nodeAffinity" : "/spec/affinity", "");
    if (!has_affinity)
        gt_json_begin(to, "value", '{');
    gt_json_key(to, has_affinity ? "value" : "nodeAffinity");
    gt_pod_write_affinity(NULL, node, to);
    gt_buf_puts(to, has_affinity ? "}" : "}}");
}

/* ---- claims ---- */

static void remove_amount(const cJSON *resources, const char *member, const char *path, const char *resource,
                          struct gt_buf *to)
{
    char full[POINTER_SIZE];
    if (!gt_get(gt_get(resources, member), resource))
        return;
    snprintf(full, sizeof(full), "%s/resources/%s/", path, member);
    pod_json_patch_begin(to, "remove", full, resource);
    gt_json_end(to, '}');
}

static void pod_json_patch_add_request(unsigned number, struct gt_buf *to)
{
    char request[GT_CLAIM_REQUEST_SIZE];
    gt_claim_request_name(number, request);
    gt_json_printf(to, "'name': '" GT_CLAIM_OF_POD "', 'request': %s", request);
}

/* Claims that it has already stay: each of ours is added to them. */
static void add_requests(const cJSON *resources, const char *path, const struct gt_claim_span *span,
                         struct gt_buf *to)
{
    char list[POINTER_SIZE];
    bool has_claims = cJSON_IsArray(gt_get(resources, "claims"));
    snprintf(list, sizeof(list), "%s/resources/claims", path);
    for (unsigned i = 0; i < span->count; i++) {
        if (has_claims || !i)
            begin_item(to, list, has_claims);
        else
            gt_json_begin(to, NULL, '{');
        pod_json_patch_add_request(span->first + i, to);
        if (has_claims || i + 1 == span->count)
            end_item(to, has_claims);
        else
            gt_json_end(to, '}');
    }
}

bool gt_pod_json_add_claim(const cJSON *object, const char *resource, struct gt_buf *to)
{
    const cJSON *spec = gt_get(object, "spec");
    struct gt_pod_containers containers;
    struct gt_claim_of_pod old;
    struct gt_pod_claim claim;
    char template[GT_CLAIM_TEMPLATE_SIZE];
    gt_claim_of_pod_read(spec, &old);
    if (old.template_)
        return true;
    if (gt_pod_gpu_containers_read(spec, resource, &containers, NULL) < 0 ||
        !gt_pod_claim_make(&containers, &claim))
        return false;
    gt_claim_template_name(&claim.sizes, template);
    bool has_claims = cJSON_IsArray(gt_get(spec, "resourceClaims"));
    begin_item(to, "/spec/resourceClaims", has_claims);
    gt_json_printf(to, "'name': '" GT_CLAIM_OF_POD "', 'resourceClaimTemplateName': %s", template);
    end_item(to, has_claims);
    for (unsigned i = 0; i < containers.count; i++) {
        const struct gt_pod_container *container = &containers.list[i];
        const char *list = container->init ? "initContainers" : "containers";
        const cJSON *json = cJSON_GetArrayItem(gt_get(spec, list), (int)container->at);
        const cJSON *resources = gt_get(json, "resources");
        char path[CONTAINER_POINTER_SIZE];
        snprintf(path, sizeof(path), "/spec/%s/%u", list, container->at);
        remove_amount(resources, "limits", path, resource, to);
        remove_amount(resources, "requests", path, resource, to);
        add_requests(resources, path, &claim.spans[i], to);
    }
    return true;
}

static void pod_json_patch_set_text(cJSON *item, const char *text, const char *path, struct gt_buf *to)
{
    cJSON_SetValuestring(item, text);
    if (to)
        pod_json_patch_replace_text(to, path, text);
}

void gt_pod_json_replace_claim(cJSON *spec, const struct gt_claim_entry *entry,
                               const struct gt_claim_sizes *sizes, struct gt_buf *to)
{
    static const char *const lists[] = {"initContainers", "containers"};
    char name[GT_CLAIM_TEMPLATE_SIZE], request[GT_CLAIM_REQUEST_SIZE], path[POINTER_SIZE];
    gt_claim_template_name(sizes, name);
    gt_claim_request_name(0, request);
    for (unsigned l = 0; l < GT_COUNT(lists); l++) {
        unsigned c = 0;
        for (const cJSON *container = gt_first(gt_get(spec, lists[l])); container;
             container = container->next) {
            cJSON *item;
            unsigned at = 0;
            cJSON_ArrayForEach(item, gt_get(gt_get(container, "resources"), "claims"))
            {
                cJSON *of = cJSON_GetObjectItemCaseSensitive(item, "request");
                snprintf(path, sizeof(path), "/spec/%s/%u/resources/claims/%u/request", lists[l], c, at++);
                if (strcmp(gt_get_string(item, "name"), entry->name) == 0 && cJSON_IsString(of))
                    pod_json_patch_set_text(of, request, path, to);
            }
            c++;
        }
    }
    cJSON *item = cJSON_GetArrayItem(gt_get(spec, "resourceClaims"), (int)entry->at);
    snprintf(path, sizeof(path), "/spec/resourceClaims/%u/resourceClaimTemplateName", entry->at);
    pod_json_patch_set_text(cJSON_GetObjectItemCaseSensitive(item, "resourceClaimTemplateName"), name, path,
                            to);
}
