/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod_rules.h"
#include "scheduler-ext/cache/cache_internal.h"

bool gt_cache_tolerates(const struct gt_pod_rules *constraints, const struct cache_taint *taint);
