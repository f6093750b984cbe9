/* SPDX-License-Identifier: Apache-2.0 */
#include "api/resource_claim.h"
#include "api/resource_slice.h"
#include "base/json.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* A ResourceClaim, and the same as a ResourceSlice, and as a ResourceClaimTemplate. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gt_auto_json cJSON *object = NULL;
    struct gt_resource_claim claim;
    struct gt_resource_slice_head head;
    struct gt_claim_template template;
    if (gt_json_parse((const char *)data, size, "claim", &object, NULL) < 0)
        return 0;
    if (gt_resource_claim_read(object, &claim, NULL) == 0) {
        if (!*claim.uid || claim.result_count > GT_CLAIM_RESULTS_MAX || claim.pod_count > GT_CLAIM_PODS_MAX)
            abort();
        for (unsigned i = 0; i < claim.result_count; i++)
            if (!*claim.results[i].device)
                abort();
    }
    if (gt_resource_slice_read(object, &head, NULL) == 0 && !*head.name)
        abort();
    if (gt_claim_template_read(object, &template, NULL) == 0) {
        bool fits = template.asks && !template.unfit;
        if (!*template.name || fits != (template.gpus > 0) || template.gpus > GT_CLAIM_GPUS_MAX)
            abort();
    }
    return 0;
}
