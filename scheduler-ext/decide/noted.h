/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "scheduler-ext/cache/cache.h"

/*
 * The notes in Leases (api/lease.h), from the ledger and into it: what only the leading replica of
 * gputopo-scheduler knows, for the others, and what each scheduler reserves, for the other one.
 */

/* Appends the nodes that are reserved for a waiting job, the places that are for pods to come, and those that
 * Volcano vacates, a word a node. */
void gt_noted_write(const struct gt_cluster *cluster, struct gt_buf *to);
/* Reads the leader's note, in place of the last one; invalid words and unknown nodes are skipped. */
void gt_noted_read(struct gt_cluster *cluster, const char *note);
/* Takes over the reservations in the Lease of the other scheduler that places GPU pods (NULL: it was
 * deleted). They last for the Lease's leaseDurationSeconds from `now_ms` on, a time of gt_clock_ms(). */
void gt_noted_read_foreign(struct gt_cache *cache, const cJSON *object, uint64_t now_ms);
