/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DECIDE_FOREIGN_LEASE_H
#define GPUTOPO_DECIDE_FOREIGN_LEASE_H

#include <cjson/cJSON.h>

#include "scheduler-ext/cache/cache.h"

/* The Lease of the other scheduler that places GPU pods, as it is now (NULL: it is gone): what its note keeps
 * is kept for as long as the Lease says that it is good for, from `now_ms` on, a time of gt_clock_ms(). */
void gt_foreign_lease_take(struct gt_cache *cache, const cJSON *object, uint64_t now_ms);

#endif
