/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_claim.h"

#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/text.h"

static const char request_prefix[] = "gpus-";

/* ---- names ---- */

void gt_claim_template_name(const struct gt_claim_sizes *sizes, char to[static GT_CLAIM_TEMPLATE_SIZE])
{
    size_t len = strlen(GT_CLAIM_OF_POD);
    memcpy(to, GT_CLAIM_OF_POD, len + 1);
    for (unsigned i = 0; i < sizes->count; i++)
        len += (size_t)snprintf(to + len, GT_CLAIM_TEMPLATE_SIZE - len, "-%u", sizes->gpus[i]);
}

bool gt_claim_template_sizes(const char *name, struct gt_claim_sizes *ret)
{
    struct gt_claim_sizes sizes = {0};
    char again[GT_CLAIM_TEMPLATE_SIZE];
    unsigned total = 0;
    if (strncmp(name, GT_CLAIM_TEMPLATE_PREFIX, strlen(GT_CLAIM_TEMPLATE_PREFIX)) != 0)
        return false;
    for (const char *at = name + strlen(GT_CLAIM_OF_POD); *at; at += strcspn(at, "-")) {
        unsigned gpus = 0;
        at++; /* the dash */
        for (const char *digit = at; *digit >= '0' && *digit <= '9' && gpus <= GT_CLAIM_GPUS_MAX; digit++)
            gpus = gpus * 10 + (unsigned)(*digit - '0');
        total += gpus;
        if (!gpus || total > GT_CLAIM_GPUS_MAX)
            return false;
        sizes.gpus[sizes.count++] = gpus;
    }
    gt_claim_template_name(&sizes, again);
    if (strcmp(again, name) != 0)
        return false;
    *ret = sizes;
    return true;
}

void gt_claim_request_name(unsigned number, char to[static GT_CLAIM_REQUEST_SIZE])
{
    snprintf(to, GT_CLAIM_REQUEST_SIZE, "%s%u", request_prefix, number);
}

/* ---- the template ---- */

void gt_claim_template_write(const char *name, const struct gt_claim_sizes *sizes, struct gt_buf *to)
{
    gt_json_printf(
        to,
        "{'apiVersion': 'resource.k8s.io/v1', 'kind': 'ResourceClaimTemplate', 'metadata': {'name': %s,"
        "'labels': {'" GT_LABEL_MANAGED_BY "': '" GT_COMPANION_NAME "'}},"
        "'spec': {'spec': {'devices': {'requests': [",
        name);
    for (unsigned i = 0; i < sizes->count; i++) {
        char request[GT_CLAIM_REQUEST_SIZE];
        gt_claim_request_name(i, request);
        gt_json_printf(to,
                       "{'name': %s, 'exactly': {'deviceClassName': '" GT_DRA_CLASS
                       "', 'allocationMode': 'ExactCount', 'count': %u}}",
                       request, sizes->gpus[i]);
    }
    gt_buf_puts(to, "]}}}}");
}

/* ---- from limits ---- */

/* Where the GPUs of each container lie in the claim: sidecars first, then the others. An ordinary init
 * container has the first ones that sidecars from before it leave. */
static bool lay_out(const struct gt_pod_containers *from, unsigned start[static GT_POD_PLAN_CONTAINERS_MAX],
                    unsigned *ret_total)
{
    unsigned kept = 0, at = 0, total = 0;
    for (unsigned i = 0; i < from->count; i++) {
        const struct gt_pod_container *one = &from->list[i];
        if (one->gpus > GT_CLAIM_GPUS_MAX)
            return false;
        start[i] = kept;
        kept += one->sidecar ? one->gpus : 0;
        total = start[i] + one->gpus > total && one->init ? start[i] + one->gpus : total;
    }
    at = kept;
    for (unsigned i = 0; i < from->count; i++)
        if (!from->list[i].init) {
            start[i] = at;
            at += from->list[i].gpus;
        }
    *ret_total = at > total ? at : total;
    return *ret_total && *ret_total <= GT_CLAIM_GPUS_MAX;
}

bool gt_pod_claim_make(const struct gt_pod_containers *from, struct gt_pod_claim *ret)
{
    unsigned start[GT_POD_PLAN_CONTAINERS_MAX], total;
    bool cut[GT_CLAIM_GPUS_MAX + 1] = {false};
    unsigned number[GT_CLAIM_GPUS_MAX + 1]; /* of the request that begins there */
    if (!lay_out(from, start, &total))
        return false;
    for (unsigned i = 0; i < from->count; i++)
        cut[start[i]] = cut[start[i] + from->list[i].gpus] = true;
    cut[0] = true;
    ret->sizes.count = 0;
    for (unsigned i = 0; i < total; i++) {
        if (cut[i])
            ret->sizes.gpus[ret->sizes.count++] = 0;
        number[i] = ret->sizes.count - 1;
        ret->sizes.gpus[ret->sizes.count - 1]++;
    }
    number[total] = ret->sizes.count;
    for (unsigned i = 0; i < from->count; i++) {
        unsigned first = number[start[i]];
        ret->spans[i] = (struct gt_claim_span){first, number[start[i] + from->list[i].gpus] - first};
    }
    return true;
}

/* ---- from claims ---- */

void gt_claim_of_pod_read(const cJSON *spec, struct gt_claim_of_pod *ret)
{
    ret->name = ret->template_ = NULL;
    for (const cJSON *item = gt_first(gt_get(spec, "resourceClaims")); item; item = item->next) {
        const char *template = gt_get_string(item, "resourceClaimTemplateName");
        if (!gt_claim_template_sizes(template, &ret->sizes))
            continue;
        ret->name = gt_get_string(item, "name");
        ret->template_ = template;
        return;
    }
}

bool gt_claim_entry_next(const cJSON *spec, struct gt_claim_entry *entry)
{
    const cJSON *item = entry->item ? entry->item->next : gt_first(gt_get(spec, "resourceClaims"));
    unsigned at = entry->item ? entry->at + 1 : 0;
    *entry = (struct gt_claim_entry){.at = at,
                                     .item = item,
                                     .name = gt_get_string(item, "name"),
                                     .template_ = gt_get_string(item, "resourceClaimTemplateName"),
                                     .claim = gt_get_string(item, "resourceClaimName")};
    return item;
}

unsigned gt_claim_uses(const cJSON *spec, const char *name)
{
    static const char *const lists[] = {"initContainers", "containers"};
    unsigned uses = 0;
    for (unsigned l = 0; l < GT_COUNT(lists); l++) {
        const cJSON *item;
        for (const cJSON *container = gt_first(gt_get(spec, lists[l])); container;
             container = container->next) {
            bool stays = l || strcmp(gt_get_string(container, "restartPolicy"), "Always") == 0;
            cJSON_ArrayForEach(item, gt_get(gt_get(container, "resources"), "claims")) uses +=
                stays && strcmp(gt_get_string(item, "name"), name) == 0;
        }
    }
    return uses;
}

static cJSON *member_of(cJSON *object, const char *key)
{
    cJSON *member = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsObject(member) ? member : cJSON_AddObjectToObject(object, key);
}

void gt_pod_spec_ask_for_one(cJSON *spec, const char *resource)
{
    const cJSON *containers = gt_get(spec, "containers");
    cJSON *first = cJSON_IsArray(containers) ? containers->child : NULL;
    cJSON *limits = member_of(member_of(first, "resources"), "limits");
    if (!cJSON_GetObjectItemCaseSensitive(limits, resource))
        cJSON_AddStringToObject(limits, resource, "1");
}

static unsigned pod_claim_size_of(const struct gt_claim_sizes *sizes, const char *request)
{
    uint64_t number;
    size_t skip = strlen(request_prefix);
    if (strncmp(request, request_prefix, skip) != 0 ||
        !gt_text_to_unsigned(request + skip, GT_CLAIM_GPUS_MAX, &number) || number >= sizes->count)
        return 0;
    return sizes->gpus[number];
}

unsigned gt_claim_gpus_of(const struct gt_claim_of_pod *claim, const cJSON *container)
{
    const cJSON *list = gt_get(gt_get(container, "resources"), "claims");
    unsigned gpus = 0;
    if (!claim->template_ || !cJSON_IsArray(list))
        return 0;
    for (const cJSON *item = list->child; item; item = item->next) {
        const char *request = gt_get_string(item, "request");
        if (strcmp(gt_get_string(item, "name"), claim->name) != 0)
            continue;
        for (unsigned i = 0; !*request && i < claim->sizes.count; i++)
            gpus += claim->sizes.gpus[i];
        gpus += pod_claim_size_of(&claim->sizes, request);
        if (gpus > GT_CLAIM_GPUS_MAX)
            return GT_CLAIM_GPUS_MAX; /* a pod that names a request twice is none of the webhook's */
    }
    return gpus;
}

bool gt_pod_waits_for_claims(const cJSON *pod)
{
    const cJSON *status = gt_get(pod, "status");
    return strcmp(gt_get_string(status, "phase"), "Pending") == 0 &&
           (gt_get_at(pod, "spec", "resourceClaims") || gt_get(status, "extendedResourceClaimStatus"));
}
