/* SPDX-License-Identifier: Apache-2.0 */
#include "api/resource_claim.h"

#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/time_text.h"

static const char source[] = "ResourceClaim";

static int read_result(const struct gt_at *at, const cJSON *json, struct gt_claim_result *ret)
{
    *ret = (struct gt_claim_result){"", "", "", "", false};
    GT_TRY(gt_api_text(at, json, "request", GT_API_TEXT_MAX, &ret->request));
    GT_TRY(gt_api_text(at, json, "driver", GT_API_TEXT_MAX, &ret->driver));
    GT_TRY(gt_api_text(at, json, "pool", GT_API_TEXT_MAX, &ret->pool));
    GT_TRY(gt_api_text(at, json, "device", GT_API_TEXT_MAX, &ret->device));
    GT_TRY(gt_get_bool(at, json, "adminAccess", &ret->admin));
    if (!*ret->request || !*ret->driver || !*ret->pool || !*ret->device)
        return gt_at_fail(at, "device", "a result needs a request, a driver, a pool and a device");
    return 0;
}

static int read_results(const cJSON *allocation, struct gt_resource_claim *claim, struct gt_err **err)
{
    const cJSON *list = NULL;
    const struct gt_at at = {source, "status.allocation.devices", err};
    unsigned count = 0;
    GT_TRY(gt_get_array(&at, gt_get(allocation, "devices"), "results", GT_CLAIM_RESULTS_MAX, &list, &count));
    for (const cJSON *item = gt_first(list); item; item = item->next) {
        char path[64];
        snprintf(path, sizeof(path), "status.allocation.devices.results[%u]", claim->result_count);
        GT_TRY(read_result(&(struct gt_at){source, path, err}, item, &claim->results[claim->result_count++]));
    }
    return 0;
}

static int resource_claim_read_pods(const cJSON *status, struct gt_resource_claim *claim, struct gt_err **err)
{
    const cJSON *list = NULL;
    struct gt_at at = {source, "status", err};
    unsigned count = 0;
    GT_TRY(gt_get_array(&at, status, "reservedFor", GT_CLAIM_PODS_MAX, &list, &count));
    at.path = "status.reservedFor";
    for (const cJSON *item = gt_first(list); item; item = item->next) {
        const char *name = "";
        if (strcmp(gt_get_string(item, "resource"), "pods") == 0)
            GT_TRY(gt_api_text(&at, item, "name", GT_API_NAME_MAX, &name));
        if (*name)
            claim->pods[claim->pod_count++] = name;
    }
    return 0;
}

static int resource_claim_read_request(const struct gt_at *at, const cJSON *json,
                                       struct gt_claim_request *ret)
{
    const cJSON *exactly = gt_get(json, "exactly");
    uint64_t count = 1;
    *ret = (struct gt_claim_request){"", "", 0};
    GT_TRY(gt_api_text(at, json, "name", GT_API_TEXT_MAX, &ret->name));
    GT_TRY(gt_api_text(at, exactly, "deviceClassName", GT_API_TEXT_MAX, &ret->device_class));
    GT_TRY(gt_get_integer(at, exactly, "count", UINT32_MAX, &count));
    if (!*ret->name)
        return gt_at_fail(at, "name", "is missing");
    if (exactly && strcmp(gt_get_string(exactly, "allocationMode"), "All") != 0)
        ret->count = (unsigned)count;
    return 0;
}

static int read_requests(const cJSON *spec, struct gt_resource_claim *claim, struct gt_err **err)
{
    const cJSON *list = NULL;
    const struct gt_at at = {source, "spec.devices", err};
    unsigned count = 0;
    GT_TRY(gt_get_array(&at, gt_get(spec, "devices"), "requests", GT_CLAIM_REQUESTS_MAX, &list, &count));
    for (const cJSON *item = gt_first(list); item; item = item->next) {
        char path[64];
        snprintf(path, sizeof(path), "spec.devices.requests[%u]", claim->request_count);
        GT_TRY(resource_claim_read_request(&(struct gt_at){source, path, err}, item,
                                           &claim->requests[claim->request_count++]));
    }
    return 0;
}

/* The claim controller makes it for a pod, whose it is then. */
static int resource_claim_read_pod(const struct gt_at *at, const cJSON *metadata,
                                   struct gt_resource_claim *claim)
{
    for (const cJSON *owner = gt_first(gt_get(metadata, "ownerReferences")); owner; owner = owner->next)
        if (strcmp(gt_get_string(owner, "kind"), "Pod") == 0 && cJSON_IsTrue(gt_get(owner, "controller"))) {
            GT_TRY(gt_api_text(at, owner, "name", GT_API_NAME_MAX, &claim->pod));
            GT_TRY(gt_api_text(at, owner, "uid", GT_API_TEXT_MAX, &claim->pod_uid));
        }
    claim->is_protected = cJSON_GetArraySize(gt_get(metadata, "finalizers")) > 0;
    return 0;
}

int gt_resource_claim_read(const cJSON *object, struct gt_resource_claim *ret, struct gt_err **err)
{
    struct gt_resource_claim claim = {.namespace_ = "", .uid = "", .pod = "", .pod_uid = ""};
    const struct gt_at at = {source, "", err}, of_metadata = {source, "metadata", err};
    const cJSON *metadata = gt_get(object, "metadata"), *status = gt_get(object, "status");
    GT_TRY(gt_api_meta(&at, object, &claim.name, &claim.resource_version));
    GT_TRY(gt_api_text(&of_metadata, metadata, "namespace", GT_API_NAME_MAX, &claim.namespace_));
    GT_TRY(gt_api_text(&of_metadata, metadata, "uid", GT_API_TEXT_MAX, &claim.uid));
    if (!*claim.uid)
        return gt_at_fail(&of_metadata, "uid", "is missing");
    claim.deleting = gt_get(metadata, "deletionTimestamp") != NULL;
    claim.allocated = gt_get(status, "allocation") != NULL;
    GT_TRY(resource_claim_read_pod(&of_metadata, metadata, &claim));
    GT_TRY(read_requests(gt_get(object, "spec"), &claim, err));
    GT_TRY(read_results(gt_get(status, "allocation"), &claim, err));
    GT_TRY(resource_claim_read_pods(status, &claim, err));
    *ret = claim;
    return 0;
}

/* ---- patches ---- */

static void resource_claim_begin(const struct gt_claim_version *version, struct gt_buf *to)
{
    gt_json_printf(to, "{'metadata': {'uid': %s, 'resourceVersion': %s", version->uid,
                   version->resource_version);
}

void gt_claim_write_protection(const struct gt_claim_version *version, struct gt_buf *to)
{
    resource_claim_begin(version, to);
    gt_json_printf(to, "'finalizers': ['" GT_CLAIM_FINALIZER "']}}");
}

/* The node's selector has the form that the scheduler gives it; the API server's rules for drivers want no
 * other. */
void gt_claim_write_allocation(const struct gt_claim_version *version,
                               const struct gt_claim_allocation *allocation, struct gt_buf *to)
{
    char now[GT_TIME_TEXT_SIZE];
    gt_time_text(allocation->now_s, now);
    resource_claim_begin(version, to);
    gt_json_printf(to, "}, 'status': {'allocation': {'allocationTimestamp': %s, 'devices': {'results': [",
                   now);
    for (unsigned i = 0; i < allocation->count; i++) {
        const struct gt_claim_result *result = &allocation->results[i];
        gt_json_printf(to, "{'request': %s, 'driver': %s, 'pool': %s, 'device': %s}", result->request,
                       result->driver, result->pool, result->device);
    }
    gt_json_printf(to,
                   "]}, 'nodeSelector': {'nodeSelectorTerms': [{'matchFields': [{'key': 'metadata.name',"
                   "'operator': 'In', 'values': [%s]}]}]}}}}",
                   allocation->node);
}

/* The API server wants both to go at once. */
void gt_claim_write_no_allocation(const struct gt_claim_version *version, struct gt_buf *to)
{
    resource_claim_begin(version, to);
    gt_json_printf(to, "}, 'status': {'allocation': null, 'reservedFor': null}}");
}

static const char template_source[] = "ResourceClaimTemplate";

static bool is_of_gpus(const cJSON *request)
{
    return strcmp(gt_get_string(request, "deviceClassName"), GT_DRA_CLASS) == 0;
}

static bool claim_template_asks_for_gpus(const cJSON *requests)
{
    for (const cJSON *item = gt_first(requests); item; item = item->next) {
        if (is_of_gpus(gt_get(item, "exactly")))
            return true;
        for (const cJSON *one = gt_first(gt_get(item, "firstAvailable")); one; one = one->next)
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
    const struct gt_at at = {template_source, "", err}, of_metadata = {template_source, "metadata", err};
    const struct gt_at of_request = {template_source, "spec.spec.devices.requests[0]", err};
    const cJSON *devices = gt_get_at(object, "spec", "spec", "devices"),
                *requests = gt_get(devices, "requests");
    uint64_t count = 1;
    GT_TRY(gt_api_meta(&at, object, &read.name, NULL));
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
