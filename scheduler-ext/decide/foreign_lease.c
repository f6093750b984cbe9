/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/foreign_lease.h"

#include "api/lease.h"
#include "api/lease_note.h"

void gt_foreign_lease_take(struct gt_cache *cache, const cJSON *object, uint64_t now_ms)
{
    struct gt_lease lease;
    if (!object || gt_lease_read(object, &lease, NULL) < 0) {
        gt_cache_set_foreign(cache, "", 0);
        return;
    }
    /* Clocks of other machines are never compared: it has changed, so it counts as renewed now. */
    unsigned s = lease.duration_s < GT_LEASE_DURATION_MAX_S ? lease.duration_s : GT_LEASE_DURATION_MAX_S;
    gt_cache_set_foreign(cache, s ? gt_lease_note(object) : "", now_ms + (uint64_t)s * 1000);
}
