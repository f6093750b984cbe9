/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * The client of gputopo-probe (protocol.h). Calls block, one request at a time, for the scan thread. The
 * connection is made when needed, and again after a failure.
 */
struct gt_probe_client;

/* Talks to the probe that listens on `socket` (another container's, or one started by hand). */
int gt_probe_client_new(const char *socket, struct gt_probe_client **ret, struct gt_err **err);

/*
 * Starts `program` (gputopo-probe) as a child with posix_spawn, joined by a socketpair, and starts it again,
 * at most once a second, when it has ended. `root` is the directory in which it searches for the vendor
 * library (opt/...). The child ends when the client is freed or this process ends. A `quiet` one logs nothing
 * about vendor calls that fail: the call log has them, too.
 */
int gt_probe_client_spawn(const char *program, const char *root, bool quiet, struct gt_probe_client **ret,
                          struct gt_err **err);
void gt_probe_client_free(struct gt_probe_client *client);
GT_DEFINE_CLEANUP(struct gt_probe_client *, gt_probe_client_free)
#define gt_auto_probe_client GT_CLEANUP(gt_probe_client_free)

/*
 * Requests all data of the vendor library. *ret_answers is the vendor call log, a JSON document
 * (docs/probe-protocol.md); the caller frees it. A failed or hanging vendor call is not an error here: the
 * log has it. An error means that the probe itself cannot be reached or does not keep to the protocol.
 *
 * -EINPROGRESS if the answer has not begun to arrive within that time (0: no such limit). The request stays
 * open: the next call continues to wait for it, within the deadline of the first.
 */
int gt_probe_scan(struct gt_probe_client *client, int milliseconds, char **ret_answers, struct gt_err **err);
/* Whether the last call ended with -EINPROGRESS, so that its answer is still expected. */
bool gt_probe_scan_is_due(const struct gt_probe_client *client);

enum { GT_PROBE_LATE_MS = 4000 }; /* the probe's 3 s for a call, and a margin */

/*
 * The same as gt_probe_scan() for health only, which costs less. -EINPROGRESS as above if the answer is
 * overdue after GT_PROBE_LATE_MS: vendor calls take long, or the probe does nothing. A child that is stopped
 * by a signal is replaced then, and the new one is asked.
 */
int gt_probe_health(struct gt_probe_client *client, char **ret_answers, struct gt_err **err);

bool gt_probe_health_is_due(const struct gt_probe_client *client);

struct gt_probe_stats {
    uint64_t scans, failures, restarts; /* restarts: of the probe process or of its worker */
    uint64_t late;                      /* questions for health that were overdue */
};
/* Safe from any thread. */
void gt_probe_client_stats(const struct gt_probe_client *client, struct gt_probe_stats *ret);

/* Sets the longest time of one gt_probe_scan(). It must be more than the probe's own limit of a scan; the
 * default fits a probe with default limits. */
void gt_probe_client_deadline(struct gt_probe_client *client, int milliseconds);

/* Sets how long the first connection waits for a probe that does not listen yet; default 0. Containers of one
 * pod start in any order, and a GPU that is served without the probe's data keeps its ID. */
void gt_probe_client_patience(struct gt_probe_client *client, int milliseconds);

/* A descriptor that becomes readable when the vendor library has reported an event, so that the caller can
 * scan at once; the next gt_probe_scan() reads it empty. It stays the same for the life of the client, and is
 * never readable if the library has no events. */
int gt_probe_client_event_fd(const struct gt_probe_client *client);
