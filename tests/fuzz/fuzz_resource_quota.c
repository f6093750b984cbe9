/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/resource_quota.h"
#include "tests/fuzz/fuzz.h"

/* A ResourceQuota as JSON: it is refused, limits no GPUs, or the quota made from it is valid without the
 * object. */

static void check(const struct gt_resource_quota *quota)
{
    size_t len = strlen(quota->namespace_) + strlen(quota->name);
    unsigned values = 0;
    if (quota->scope_count > GT_QUOTA_SCOPES_MAX || !quota->name[0])
        abort();
    for (unsigned i = 0; i < quota->scope_count; i++) {
        const struct gt_quota_scope *scope = &quota->scopes[i];
        for (unsigned v = 0; v < scope->value_count; v++)
            len += strlen(scope->values[v]);
        values += scope->value_count;
        if (scope->kind > GT_QUOTA_OTHER_SCOPE || scope->operator> GT_QUOTA_NOT_IN)
            abort();
    }
    if (values > GT_QUOTA_VALUES_MAX || !len)
        abort();
    for (unsigned i = 0; i < 8; i++)
        gt_resource_quota_matches(quota, &(struct gt_quota_pod){.priority_class = i & 1 ? "high" : NULL,
                                                                .has_deadline = i & 2,
                                                                .best_effort = i & 4});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gt_auto_free struct gt_resource_quota *quota = NULL;
    gt_auto_err struct gt_err *err = NULL;
    cJSON *json = cJSON_ParseWithLength((const char *)data, size);
    int r = gt_resource_quota_read(json, "metax-tech.com/gpu", &quota, &err);
    cJSON_Delete(json);
    if ((r < 0) != (err != NULL) || (r < 0 && quota))
        abort();
    if (quota)
        check(quota);
    return 0;
}
