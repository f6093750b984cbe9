/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/backoff.h"

uint64_t gt_backoff_next(struct gt_backoff *backoff, unsigned retry_after_s, struct gt_jitter *jitter)
{
    uint64_t step = gt_backoff_step(backoff->failures++, GT_BACKOFF_FIRST_MS, GT_BACKOFF_MAX_MS);
    uint64_t retry_after =
        (retry_after_s < GT_BACKOFF_RETRY_AFTER_MAX_S ? retry_after_s : GT_BACKOFF_RETRY_AFTER_MAX_S) *
        UINT64_C(1000);
    uint64_t wait = step / 2 + gt_jitter_below(jitter, step / 2 + 1);
    return retry_after > wait ? retry_after + gt_jitter_below(jitter, step) : wait;
}
