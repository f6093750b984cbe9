/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PROBE_CULPRITS_H
#define GPUTOPO_PROBE_CULPRITS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The calls that cost a worker its life in one scan, and what is not asked any more because of them:
 *   - the same call for the same device, or for the same link or pair of devices where it asks about one;
 *   - a call about links or pairs for a device at which two of them were fatal;
 *   - a call for every device once two devices are lost to it, or GT_CULPRITS_PER_CALL workers.
 * Private to topology/probe.
 */
enum { GT_CULPRITS_MAX = 16, GT_CULPRITS_PER_CALL = 5 };

struct gt_culprits {
    unsigned count;
    struct gt_culprit {
        char call[64];
        uint32_t device, link; /* UINT32_MAX: the call names none */
    } list[GT_CULPRITS_MAX];
};

/* `args` are `count` numbers: the device, and the link or the other device. Beyond GT_CULPRITS_MAX nothing is
 * noted: a scan ends long before. */
void gt_culprits_add(struct gt_culprits *culprits, const char *call, unsigned count, const uint32_t *args);

bool gt_culprits_has(const struct gt_culprits *culprits, const char *call, unsigned count,
                     const uint32_t *args);

#endif
