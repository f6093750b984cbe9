/* SPDX-License-Identifier: Apache-2.0 */
#include "api/resource_claim.h"

#include <string.h>

#include "api/read.h"

static const char source[] = "ResourceClaim";

static int read_result(const struct gt_at *at, const cJSON *json, struct gt_claim_result *ret)
{
    *ret = (struct gt_claim_result){"", "", "", "", false};
    int r = gt_api_text(at, json, "request", GT_API_TEXT_MAX, &ret->request);
    if (r >= 0)
        r = gt_api_text(at, json, "driver", GT_API_TEXT_MAX, &ret->driver);
    if (r >= 0)
        r = gt_api_text(at, json, "pool", GT_API_TEXT_MAX, &ret->pool);
    if (r >= 0)
        r = gt_api_text(at, json, "device", GT_API_TEXT_MAX, &ret->device);
    if (r >= 0)
        r = gt_get_bool(at, json, "adminAccess", &ret->admin);
    if (r >= 0 && (!*ret->request || !*ret->driver || !*ret->pool || !*ret->device))
        r = gt_at_fail(at, "device", "a result needs a request, a driver, a pool and a device");
    return r;
}

static int read_results(const cJSON *allocation, struct gt_resource_claim *claim, struct gt_err **err)
{
    const cJSON *list = NULL, *item;
    const struct gt_at at = {source, "status.allocation.devices", err};
    unsigned count = 0;
    int r = gt_get_array(&at, gt_get(allocation, "devices"), "results", GT_CLAIM_RESULTS_MAX, &list, &count);
    cJSON_ArrayForEach(item, list)
    {
        char path[64];
        snprintf(path, sizeof(path), "status.allocation.devices.results[%u]", claim->result_count);
        if (r >= 0)
            r = read_result(&(struct gt_at){source, path, err}, item, &claim->results[claim->result_count++]);
    }
    return r;
}

static int read_pods(const cJSON *status, struct gt_resource_claim *claim, struct gt_err **err)
{
    const cJSON *list = NULL, *item;
    struct gt_at at = {source, "status", err};
    unsigned count = 0;
    int r = gt_get_array(&at, status, "reservedFor", GT_CLAIM_PODS_MAX, &list, &count);
    at.path = "status.reservedFor";
    cJSON_ArrayForEach(item, list)
    {
        const char *name = "";
        if (r >= 0 && strcmp(gt_get_string(item, "resource"), "pods") == 0)
            r = gt_api_text(&at, item, "name", GT_API_NAME_MAX, &name);
        if (r >= 0 && *name)
            claim->pods[claim->pod_count++] = name;
    }
    return r;
}

int gt_resource_claim_read(const cJSON *object, struct gt_resource_claim *ret, struct gt_err **err)
{
    struct gt_resource_claim claim = {.namespace_ = "", .uid = ""};
    const struct gt_at at = {source, "", err}, of_metadata = {source, "metadata", err};
    const cJSON *metadata = gt_get(object, "metadata"), *status = gt_get(object, "status");
    const char *version;
    int r = gt_api_meta(&at, object, &claim.name, &version);
    if (r >= 0)
        r = gt_api_text(&of_metadata, metadata, "namespace", GT_API_NAME_MAX, &claim.namespace_);
    if (r >= 0)
        r = gt_api_text(&of_metadata, metadata, "uid", GT_API_TEXT_MAX, &claim.uid);
    if (r >= 0 && !*claim.uid)
        r = gt_at_fail(&of_metadata, "uid", "is missing");
    claim.deleting = gt_get(metadata, "deletionTimestamp") != NULL;
    claim.allocated = gt_get(status, "allocation") != NULL;
    if (r >= 0)
        r = read_results(gt_get(status, "allocation"), &claim, err);
    if (r >= 0)
        r = read_pods(status, &claim, err);
    if (r < 0)
        return r;
    *ret = claim;
    return 0;
}
