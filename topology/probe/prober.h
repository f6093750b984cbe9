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

struct gt_prober_options { /* its texts are borrowed */
    const char *root;      /* where opt/... is searched */
    const char *library;   /* the library's file, not searched then; or NULL */
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

/*
 * Calls about one device that ended the worker in several checks. After GT_HANGS_FREE failures a call is not
 * made in each check, but again after GT_HANGS_FIRST_MS, then twice as long each time, at most
 * GT_HANGS_MAX_MS. Until then it counts as failed for the same reason. Times are of any clock that only goes
 * forward. Private to topology/probe.
 */
enum { GT_HANGS_LIST = 32, GT_HANGS_FREE = 3, GT_HANGS_FIRST_MS = 10000, GT_HANGS_MAX_MS = 60000 };

struct gt_hangs {
    unsigned count;
    struct gt_hang {
        char call[64], why[64];
        unsigned arg_count;
        uint32_t args[2];
        unsigned failures; /* in a row */
        uint64_t seen_ms;
    } list[GT_HANGS_LIST];
};

/* Notes that the call failed, and why. Calls without a device are not noted: a library that hangs as a whole
 * is queried again in each check. */
void gt_hangs_failed(struct gt_hangs *hangs, const char *call, unsigned count, const uint32_t *args,
                     const char *why, uint64_t now_ms);

/* Notes that the call was answered. */
void gt_hangs_answered(struct gt_hangs *hangs, const char *call, unsigned count, const uint32_t *args);

/* NULL if the call may be made now; else why it failed the last time. */
const char *gt_hangs_wait(const struct gt_hangs *hangs, const char *call, unsigned count,
                          const uint32_t *args, uint64_t now_ms);

/*
 * The calls during which a worker ended in one scan, and the calls that are left out because of them:
 *   - the same call for the same device, or for the same link or pair of devices where it asks about one;
 *   - a call about links or pairs for a device for which two such calls were fatal;
 *   - any call for a device for which a function was fatal that other devices have answered, or two functions
 *     that none has;
 *   - a call for any device, once it was fatal for two devices and none has answered it, or once it has ended
 *     GT_CULPRITS_PER_CALL workers.
 * Private to topology/probe.
 */
enum { GT_CULPRITS_MAX = 16, GT_CULPRITS_PER_CALL = 5, GT_CULPRITS_SOUND_MAX = 32 };

struct gt_culprits {
    unsigned count;
    struct gt_culprit {
        char call[64];
        uint32_t device, link; /* UINT32_MAX: the call names none */
    } list[GT_CULPRITS_MAX];
    unsigned sound_count;
    char sound[GT_CULPRITS_SOUND_MAX][64]; /* calls that some device has answered */
};

/* `args` are `count` numbers: the device, and the link or the other device. Beyond GT_CULPRITS_MAX nothing is
 * noted; a scan ends before. */
void gt_culprits_add(struct gt_culprits *culprits, const char *call, unsigned count, const uint32_t *args);

/* The call was answered for some device. */
void gt_culprits_answered(struct gt_culprits *culprits, const char *call);

bool gt_culprits_has(const struct gt_culprits *culprits, const char *call, unsigned count,
                     const uint32_t *args);
