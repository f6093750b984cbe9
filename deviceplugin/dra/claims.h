/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "deviceplugin/inventory.h"
#include "topology/model/composite.h"

/*
 * The claims that are prepared on this node, and which devices each holds. It uses no file and no clock
 * (store.h stores it on disk).
 */
enum {
    GT_DRA_CLAIMS_MAX = 512,
    GT_DRA_CLAIM_DEVICES_MAX = 32, /* as Kubernetes has it */
    GT_DRA_PODS_KEPT = 4,          /* the first; Kubernetes lets 256 share a claim */
    GT_DRA_UID_SIZE = 64,
    GT_DRA_NAMESPACE_SIZE = 64,
    GT_DRA_NAME_SIZE = 254,
    GT_DRA_REQUEST_SIZE = 64,
    GT_DRA_FILE_MAX = 8 << 20, /* bytes of JSON: room for GT_DRA_CLAIMS_MAX of the largest */
};

struct gt_dra_claim_id {
    char namespace[GT_DRA_NAMESPACE_SIZE];
    char name[GT_DRA_NAME_SIZE];
    char uid[GT_DRA_UID_SIZE];
};

struct gt_dra_claimed_device {
    char request[GT_DRA_REQUEST_SIZE]; /* without the part behind a slash */
    char device[GT_DRA_DEVICE_SIZE];   /* topology/model/node.h */
    /* The composite device that the GPU was given with (topology/model/composite.h); "": it was given alone.
     * Before a claim is expanded (prepare.h) it stands for several GPUs, and `device` is "". */
    char composite[GT_DRA_DEVICE_SIZE];
    bool admin; /* for monitoring: it holds nothing */
};

struct gt_dra_claim {
    struct gt_dra_claim_id id;
    unsigned device_count, pod_count;
    struct gt_dra_claimed_device devices[GT_DRA_CLAIM_DEVICES_MAX];
    char pods[GT_DRA_PODS_KEPT][GT_DRA_NAME_SIZE]; /* that it was reserved for, in the claim's namespace */
};

struct gt_dra_claims {
    struct gt_dra_claim *list; /* owned */
    unsigned count;
};

/* Whether a text can be a UID: letters, digits and dashes. It is used in file names. */
bool gt_dra_uid_is_valid(const char *uid);
/* Whether namespace and name are valid names of objects, and the UID is valid. */
bool gt_dra_claim_id_is_valid(const struct gt_dra_claim_id *id);

/* The claim with this UID; NULL: there is none. */
struct gt_dra_claim *gt_dra_claims_find(const struct gt_dra_claims *claims, const char *uid);
/* The claim that holds this device; NULL: none does. */
const struct gt_dra_claim *gt_dra_claims_with_device(const struct gt_dra_claims *claims, const char *device);
/* Adds a copy of the claim. -E2BIG beyond GT_DRA_CLAIMS_MAX, -ENOMEM, -EEXIST if the UID is there already. */
int gt_dra_claims_add(struct gt_dra_claims *claims, const struct gt_dra_claim *claim, struct gt_err **err);
int gt_dra_claims_copy(const struct gt_dra_claims *claims, struct gt_dra_claims *ret, struct gt_err **err);
/* False: there is no claim with this UID. */
bool gt_dra_claims_remove(struct gt_dra_claims *claims, const char *uid);
void gt_dra_claims_done(struct gt_dra_claims *claims);

/* As JSON, with a version. The reader accepts only what the writer of this version writes: -EINVAL says what
 * is wrong, and where (`source` names the file); -EPROTONOSUPPORT for a newer version. It is invalid if two
 * claims hold one device. */
void gt_dra_claims_write(const struct gt_dra_claims *claims, struct gt_buf *to);
int gt_dra_claims_read(const char *json, size_t len, const char *source, struct gt_dra_claims *ret,
                       struct gt_err **err);

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
