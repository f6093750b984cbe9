/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_DRA_PREPARE_H
#define GPUTOPO_DEVICEPLUGIN_DRA_PREPARE_H

#include "deviceplugin/dra/claims.h"
#include "deviceplugin/inventory.h"

/*
 * Whether a claim may have the devices that it was given. Nobody else checks that: the API server, the
 * scheduler and the kubelet take any allocation that somebody wrote.
 */

/* What the API server says was given to a claim, of this driver and this node. */
struct gt_dra_result {
    const char *request; /* may have a part behind a slash */
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

/* The claim that was asked for, with what it was given, not expanded yet. -EINVAL with a sentence: it is
 * another claim, has nothing of ours, the same device twice, or too much. */
int gt_dra_claim_make(const struct gt_dra_claim_id *id, const struct gt_dra_allocation *allocation,
                      struct gt_dra_claim *ret, struct gt_err **err);

struct gt_dra_facts {
    const struct gt_inventory *inventory; /* NULL: not known yet */
    const struct gt_dra_claims *claims;   /* that are prepared */
    uint64_t others; /* GPUs of the inventory's node that containers hold which got them in another way */
};

/* Puts the GPUs of composites in their place, where that is not done yet. -ENODEV: the node has no such one
 * now. -EINVAL: two devices of the claim have a GPU in common, or there are too many. Then it is unchanged.
 */
int gt_dra_claim_expand(const struct gt_inventory *inventory, struct gt_dra_claim *claim,
                        struct gt_err **err);

/*
 * Of an expanded claim. 0: it may. -EAGAIN: not now, since somebody holds a device who may be about to give
 * it back, or since the GPUs are not known yet. -ENODEV: never, as the device is none, lost or unhealthy.
 * Both with a sentence for the pod's Event.
 */
int gt_dra_claim_check(const struct gt_dra_facts *facts, const struct gt_dra_claim *claim,
                       struct gt_err **err);

#endif
