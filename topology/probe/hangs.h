/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
