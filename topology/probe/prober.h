/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct gt_err;

/*
 * Queries the vendor library through a worker process and writes the call log. If a worker hangs or ends, it
 * is replaced, the call that caused it is left out for the rest of the scan (culprits.h), and the scan goes
 * on.
 */
struct gt_prober;

struct gt_prober_options {
    const char *root;    /* where opt/... is searched */
    const char *library; /* the library's file, not searched then; or NULL */
    int call_timeout_ms, scan_timeout_ms;
    bool verbose; /* leave the library's own output on stderr */
    int owner;    /* a scan ends when the peer of this socket has closed it; -1 none */
};

int gt_prober_new(const struct gt_prober_options *options, struct gt_prober **ret, struct gt_err **err);
void gt_prober_free(struct gt_prober *prober);
GT_DEFINE_CLEANUP(struct gt_prober *, gt_prober_free)
#define gt_auto_prober GT_CLEANUP(gt_prober_free)

/* Which calls are made (plan.c): all, or only those about health. */
struct gt_probe_plan {
    /* makes the calls; *ret_devices: the devices that answered */
    void (*ask)(struct gt_prober *prober, uint64_t *ret_devices);
    bool patient; /* calls that hang repeatedly are not made each time (hangs.h) */
};

/* Makes the calls of the plan. *ret_log is the call log, which the caller frees. -ECANCELED: the owner has
 * closed its socket. */
int gt_prober_scan(struct gt_prober *prober, const struct gt_probe_plan *plan, char **ret_log,
                   size_t *ret_len, unsigned *ret_restarts, struct gt_err **err);

/* For plan.c: one call. The answer's `value`, or NULL where there is none; the caller deletes it. */
struct cJSON;
struct cJSON *gt_prober_call(struct gt_prober *prober, const char *call, unsigned count,
                             const uint32_t *args);

/* plan.c: all calls of a scan, the most important first, and those of a health check. */
extern const struct gt_probe_plan gt_plan_scan, gt_plan_health;

/* The process that waits for events, updated after every scan. */
struct gt_event_worker;
struct gt_event_worker *gt_prober_events(struct gt_prober *prober);
