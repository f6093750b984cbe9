/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/webhook/own_claim.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json_get.h"
#include "base/json_write.h"
#include "scheduler-ext/webhook/json_patch.h"

enum {
    OWN_PATH_SIZE = 96,
    OWNER_DEPTH = 4, /* below the spec: replica specs, a role, its template */
};

struct own_claim {
    const struct gt_claim_template *template_;
    cJSON *name;        /* of the template, in the spec */
    unsigned at;        /* in the spec's list */
    const char *in_pod; /* what the pod calls it */
    const char *unknown;
};

static cJSON *list_of(cJSON *object, const char *key)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsArray(list) ? list : NULL;
}

static void set_text(cJSON *item, const char *text, const char *path, struct gt_buf *patch)
{
    cJSON_SetValuestring(item, text);
    if (!patch)
        return;
    gt_json_patch_begin(patch, "replace", path, "");
    gt_json_add_text(patch, "value", text);
    gt_json_end(patch, '}');
}

/* ---- what it has ---- */

static int take_claim(const struct gt_cache *cache, const char *namespace_, cJSON *item, unsigned at,
                      struct own_claim *to, struct gt_err **err)
{
    cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "resourceClaimTemplateName");
    const char *shared = gt_get_string(item, "resourceClaimName");
    if (*shared && gt_cache_find_claim(cache, namespace_, shared))
        return gt_fail(
            err, EINVAL,
            "it names the ResourceClaim %.253s, which other pods may share: GPUs of groups are planned "
            "for pods that name a ResourceClaimTemplate",
            shared);
    if (!cJSON_IsString(name))
        return 0;
    const struct gt_claim_template *template =
        gt_cache_find_claim_template(cache, namespace_, name->valuestring);
    if (!template && !to->unknown)
        to->unknown = name->valuestring;
    if (!template || !template->asks)
        return 0;
    if (to->template_)
        return gt_fail(err, EINVAL,
                       "it has two claims of GPUs, by the ResourceClaimTemplates %.253s and %.253s",
                       to->template_->name, template->name);
    to->template_ = template;
    to->name = name;
    to->at = at;
    to->in_pod = gt_get_string(item, "name");
    if (template->unfit)
        return gt_fail(err, EINVAL, "the ResourceClaimTemplate %.253s %s", template->name, template->unfit);
    return 0;
}

static bool has_limits(cJSON *spec, const char *resource)
{
    struct gt_pod_containers containers;
    return gt_pod_gpu_containers_read(spec, resource, &containers, NULL) < 0 || containers.count;
}

/* Containers that name it; each of them but ordinary init containers has GPUs of its own. */
static unsigned count_uses(cJSON *spec, const char *in_pod)
{
    static const char *const lists[] = {"initContainers", "containers"};
    unsigned uses = 0;
    for (unsigned l = 0; l < GT_COUNT(lists); l++) {
        const cJSON *container;
        cJSON_ArrayForEach(container, list_of(spec, lists[l]))
        {
            const cJSON *claims = gt_get(gt_get(container, "resources"), "claims"), *item;
            bool stays = l || strcmp(gt_get_string(container, "restartPolicy"), "Always") == 0;
            cJSON_ArrayForEach(item, claims) uses +=
                stays && strcmp(gt_get_string(item, "name"), in_pod) == 0;
        }
    }
    return uses;
}

/* ---- what takes its place ---- */

static void replace(cJSON *spec, const struct own_claim *own, struct gt_buf *patch)
{
    static const char *const lists[] = {"initContainers", "containers"};
    const struct gt_claim_sizes sizes = {1, {own->template_->gpus ? own->template_->gpus : 1}};
    char name[GT_CLAIM_TEMPLATE_SIZE], request[GT_CLAIM_REQUEST_SIZE], path[OWN_PATH_SIZE];
    gt_claim_template_name(&sizes, name);
    gt_claim_request_name(0, request);
    for (unsigned l = 0; l < GT_COUNT(lists); l++) {
        cJSON *container;
        unsigned c = 0;
        cJSON_ArrayForEach(container, list_of(spec, lists[l]))
        {
            cJSON *claims = list_of(cJSON_GetObjectItemCaseSensitive(container, "resources"), "claims"),
                  *item;
            unsigned at = 0;
            cJSON_ArrayForEach(item, claims)
            {
                cJSON *of = cJSON_GetObjectItemCaseSensitive(item, "request");
                snprintf(path, sizeof(path), "/spec/%s/%u/resources/claims/%u/request", lists[l], c, at++);
                if (strcmp(gt_get_string(item, "name"), own->in_pod) == 0 && cJSON_IsString(of))
                    set_text(of, request, path, patch);
            }
            c++;
        }
    }
    snprintf(path, sizeof(path), "/spec/resourceClaims/%u/resourceClaimTemplateName", own->at);
    set_text(own->name, name, path, patch);
}

static cJSON *member_of(cJSON *object, const char *key)
{
    cJSON *member = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsObject(member) ? member : cJSON_AddObjectToObject(object, key);
}

void gt_own_claim_stand_in(const char *resource, cJSON *spec)
{
    cJSON *containers = list_of(spec, "containers");
    cJSON *limits = member_of(member_of(containers ? containers->child : NULL, "resources"), "limits");
    if (!cJSON_GetObjectItemCaseSensitive(limits, resource))
        cJSON_AddStringToObject(limits, resource, "1");
}

int gt_own_claim_replace(const struct gt_cache *cache, const char *namespace_, const char *resource,
                         cJSON *spec, struct gt_buf *patch, struct gt_err **err)
{
    struct own_claim own = {0};
    struct gt_claim_of_pod ours;
    cJSON *claims = list_of(spec, "resourceClaims"), *item;
    unsigned at = 0;
    int r = 0;
    gt_claim_of_pod_read(spec, &ours);
    if (!cache || !claims || ours.template_)
        return 0;
    cJSON_ArrayForEach(item, claims)
    {
        if (r >= 0)
            r = take_claim(cache, namespace_, item, at++, &own, err);
    }
    if (r >= 0 && !own.template_ && (!own.unknown || has_limits(spec, resource)))
        return 0;
    if (r >= 0 && !own.template_)
        r = gt_fail(err, ENOENT, "the ResourceClaimTemplate %.253s is not there", own.unknown);
    else if (r >= 0 && has_limits(spec, resource))
        r = gt_fail(err, EINVAL, "it asks for GPUs by limits and by a claim");
    else if (r >= 0 && count_uses(spec, own.in_pod) != 1)
        r = gt_fail(err, EINVAL, "its claim of GPUs has to be that of one container, no more and no less");
    if (r >= 0)
        replace(spec, &own, patch);
    return r < 0 ? r : 1;
}

static bool replace_below(const struct gt_cache *cache, const char *namespace_, const char *resource,
                          cJSON *json, unsigned depth)
{
    cJSON *item;
    bool known = true;
    cJSON_ArrayForEach(item, json)
    {
        cJSON *spec = item->string && strcmp(item->string, "template") == 0
                          ? cJSON_GetObjectItemCaseSensitive(item, "spec")
                          : NULL;
        if (spec)
            known = gt_own_claim_replace(cache, namespace_, resource, spec, NULL, NULL) != -ENOENT && known;
        else if (depth && (cJSON_IsObject(item) || cJSON_IsArray(item)))
            known = replace_below(cache, namespace_, resource, item, depth - 1) && known;
    }
    return known;
}

bool gt_own_claims_replace(const struct gt_cache *cache, const char *namespace_, const char *resource,
                           cJSON *owner)
{
    return replace_below(cache, namespace_, resource, cJSON_GetObjectItemCaseSensitive(owner, "spec"),
                         OWNER_DEPTH);
}
