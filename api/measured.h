/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json_get.h"
#include "topology/model/measured.h"

/*
 * A file of measured values:
 *
 *     {"version": 1, "measured": [{"link": [0, 1], "bandwidthGBps": 21.5, "by": "p2p test", "at":
 * "2026-11-29T09:00:00Z"}]}
 *
 * Adds its entries to *to; those that cannot be used are left out, with a sentence each for `note`. Old ones
 * are left out without one. *again_s: when the first of those added is too old, or of the future no longer; 0
 * before and after: never.
 * -EINVAL: no such file.
 */
int gt_measured_read(const cJSON *file, const char *source, int64_t now_s, struct gt_measured *to,
                     int64_t *again_s, void (*note)(void *arg, const char *why), void *arg,
                     struct gt_err **err);
