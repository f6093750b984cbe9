/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/dra/claims.h"
#include "deviceplugin/inventory.h"

/*
 * Whether a claim may have the devices that it was given. No other component checks that: the API server, the
 * scheduler and the kubelet accept any allocation that somebody wrote.
 */

/* A device of this driver and node that was allocated to a claim, as the API server says. */
struct gt_dra_result {
    const char *request; /* may have a part after a slash */
    const char *device;
    bool admin;
};
struct gt_dra_allocation {
    const char *uid; /* of the claim as it is now */
    const struct gt_dra_result *results;
    unsigned count;
    const char *const *pods; /* that it is reserved for; some may be left out */
    unsigned pod_count;
};

/* The requested claim with its allocated devices, not expanded yet. -EINVAL with a sentence: it is another
 * claim, has no device of this driver, the same device twice, or too many. */
int gt_dra_claim_make(const struct gt_dra_claim_id *id, const struct gt_dra_allocation *allocation,
                      struct gt_dra_claim *ret, struct gt_err **err);

struct gt_dra_facts {
    const struct gt_inventory *inventory; /* NULL: not known yet */
    const struct gt_dra_claims *claims;   /* that are prepared */
    uint64_t others; /* GPUs of the inventory's node, as a mask, that containers hold without a claim of this
                        driver */
};

/* Replaces composites by their GPUs, unless that was done already. -ENODEV: the node has no such composite
 * now. -EINVAL: two devices of the claim have a GPU in common, or there are too many. The claim is unchanged
 * on failure. */
int gt_dra_claim_expand(const struct gt_inventory *inventory, struct gt_dra_claim *claim,
                        struct gt_err **err);

/*
 * Whether an expanded claim may have its devices. 0: yes. -EAGAIN: not now: a device has another holder,
 * which may release it soon, or the GPUs are not known yet. -ENODEV: never: a device does not exist, is lost
 * or is unhealthy. Both errors have a sentence for the pod's Event.
 */
int gt_dra_claim_check(const struct gt_dra_facts *facts, const struct gt_dra_claim *claim,
                       struct gt_err **err);
