/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_FOREIGN_LEASE_H
#define GPUTOPO_DECIDE_FOREIGN_LEASE_H

#include <cjson/cJSON.h>

#include "scheduler-ext/cache/cache.h"

/* Takes over the reservations in the Lease of the other scheduler that places GPU pods (NULL: it was
 * deleted). They last for the Lease's leaseDurationSeconds from `now_ms` on, a time of gt_clock_ms(). */
void gt_foreign_lease_take(struct gt_cache *cache, const cJSON *object, uint64_t now_ms);

#endif
