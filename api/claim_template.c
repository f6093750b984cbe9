/* SPDX-License-Identifier: Apache-2.0 */
#include "api/claim_template.h"

#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/err.h"

static const char source[] = "ResourceClaimTemplate";

static bool is_of_gpus(const cJSON *request)
{
    return strcmp(gt_get_string(request, "deviceClassName"), GT_DRA_CLASS) == 0;
}

static bool claim_template_asks_for_gpus(const cJSON *requests)
{
    for (const cJSON *item = cJSON_IsArray(requests) ? requests->child : NULL; item; item = item->next) {
        const cJSON *choices = gt_get(item, "firstAvailable");
        if (is_of_gpus(gt_get(item, "exactly")))
            return true;
        for (const cJSON *one = cJSON_IsArray(choices) ? choices->child : NULL; one; one = one->next)
            if (is_of_gpus(one))
                return true;
    }
    return false;
}

static bool is_filled(const cJSON *object, const char *key)
{
    return cJSON_GetArraySize(gt_get(object, key)) > 0;
}

/* Of one that asks for GPUs. */
static const char *find_unfit(const cJSON *devices)
{
    const cJSON *requests = gt_get(devices, "requests"), *exactly = gt_get(requests->child, "exactly");
    const char *mode = gt_get_string(exactly, "allocationMode");
    return cJSON_GetArraySize(requests) > 1    ? "has several requests, where one can be planned"
           : !exactly                          ? "has alternatives (firstAvailable), where one can be planned"
           : is_filled(exactly, "selectors")   ? "has selectors, which a plan does not honour"
           : is_filled(devices, "constraints") ? "has constraints, which a plan does not honour"
           : is_filled(devices, "config")      ? "has a configuration, which a plan does not honour"
           : cJSON_IsTrue(gt_get(exactly, "adminAccess"))
               ? "asks for adminAccess, for which nothing is planned"
           : *mode && strcmp(mode, "ExactCount") != 0
               ? "asks for all GPUs of a node, not for a number of them"
               : NULL;
}

int gt_claim_template_read(const cJSON *object, struct gt_claim_template *ret, struct gt_err **err)
{
    struct gt_claim_template read = {.namespace_ = "", .request = ""};
    const struct gt_at at = {source, "", err}, of_metadata = {source, "metadata", err};
    const struct gt_at of_request = {source, "spec.spec.devices.requests[0]", err};
    const cJSON *devices = gt_get_at(object, "spec", "spec", "devices"),
                *requests = gt_get(devices, "requests");
    const char *version;
    uint64_t count = 1;
    GT_TRY(gt_api_meta(&at, object, &read.name, &version));
    GT_TRY(gt_api_text(&of_metadata, gt_get(object, "metadata"), "namespace", GT_API_NAME_MAX,
                       &read.namespace_));
    read.asks = claim_template_asks_for_gpus(requests);
    if (read.asks) {
        GT_TRY(gt_api_text(&of_request, requests->child, "name", GT_API_TEXT_MAX, &read.request));
        GT_TRY(gt_get_integer(&of_request, gt_get(requests->child, "exactly"), "count", UINT32_MAX, &count));
        read.unfit = find_unfit(devices);
        if (!read.unfit && (!count || count > GT_CLAIM_GPUS_MAX))
            read.unfit = "asks for more GPUs than a claim may have";
        read.gpus = read.unfit ? 0 : (unsigned)count;
    }
    *ret = read;
    return 0;
}
