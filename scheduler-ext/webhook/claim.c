/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/webhook/claim.h"

#include <stdio.h>

#include "api/pod_claim.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "scheduler-ext/webhook/json_patch.h"

enum { CONTAINER_PATH_SIZE = 64 };

static void remove_amount(const cJSON *resources, const char *member, const char *path, const char *resource,
                          struct gt_buf *to)
{
    char full[CONTAINER_PATH_SIZE + 32];
    if (!gt_get(gt_get(resources, member), resource))
        return;
    snprintf(full, sizeof(full), "%s/resources/%s/", path, member);
    gt_json_patch_begin(to, "remove", full, resource);
    gt_json_end(to, '}');
}

static void add_entries(const struct gt_claim_span *span, struct gt_buf *to)
{
    for (unsigned i = span->first; i < span->first + span->count; i++) {
        char request[GT_CLAIM_REQUEST_SIZE];
        gt_claim_request_name(i, request);
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "name", GT_CLAIM_OF_POD);
        gt_json_add_text(to, "request", request);
        gt_json_end(to, '}');
    }
}

/* Claims that it has already stay: each of ours is added to them. */
static void add_claims(const cJSON *resources, const char *path, const struct gt_claim_span *span,
                       struct gt_buf *to)
{
    char full[CONTAINER_PATH_SIZE + 32];
    bool has_claims = cJSON_IsArray(gt_get(resources, "claims"));
    snprintf(full, sizeof(full), "%s/resources/claims%s", path, has_claims ? "/-" : "");
    for (unsigned i = span->first; has_claims && i < span->first + span->count; i++) {
        gt_json_patch_begin(to, "add", full, "");
        gt_json_key(to, "value");
        add_entries(&(struct gt_claim_span){i, 1}, to);
        gt_json_end(to, '}');
    }
    if (has_claims)
        return;
    gt_json_patch_begin(to, "add", full, "");
    gt_json_begin(to, "value", '[');
    add_entries(span, to);
    gt_json_end(to, ']');
    gt_json_end(to, '}');
}

bool gt_webhook_add_claim(const cJSON *spec, const char *resource, struct gt_buf *to)
{
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
    gt_json_patch_begin(to, "add", has_claims ? "/spec/resourceClaims/-" : "/spec/resourceClaims", "");
    gt_json_begin(to, "value", has_claims ? '{' : '[');
    if (!has_claims)
        gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "name", GT_CLAIM_OF_POD);
    gt_json_add_text(to, "resourceClaimTemplateName", template);
    gt_json_end(to, '}');
    if (!has_claims)
        gt_json_end(to, ']');
    gt_json_end(to, '}');
    for (unsigned i = 0; i < containers.count; i++) {
        const struct gt_pod_container *container = &containers.list[i];
        const char *list = container->init ? "initContainers" : "containers";
        const cJSON *json = cJSON_GetArrayItem(gt_get(spec, list), (int)container->at);
        const cJSON *resources = gt_get(json, "resources");
        char path[CONTAINER_PATH_SIZE];
        snprintf(path, sizeof(path), "/spec/%s/%u", list, container->at);
        remove_amount(resources, "limits", path, resource, to);
        remove_amount(resources, "requests", path, resource, to);
        add_claims(resources, path, &claim.spans[i], to);
    }
    return true;
}
