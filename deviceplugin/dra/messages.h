/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/dra/claims.h"
#include "deviceplugin/inventory.h"
#include "deviceplugin/rpc.h"

/*
 * The messages of the kubelet's interfaces for Dynamic Resource Allocation, as bytes. It does not send or
 * receive; safe from any thread.
 */
#define GT_DRA_PATH_INFO      "/pluginregistration.Registration/GetInfo"
#define GT_DRA_PATH_NOTIFY    "/pluginregistration.Registration/NotifyRegistrationStatus"
/* Methods; they follow the name of a service. */
#define GT_DRA_PREPARE        "/NodePrepareResources"
#define GT_DRA_UNPREPARE      "/NodeUnprepareResources"
#define GT_DRA_HEALTH         "/NodeWatchResources"
/* The services as they are on the wire. */
#define GT_DRA_V1             "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
#define GT_DRA_V1BETA1        "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"
#define GT_DRA_HEALTH_V1      "/v1.DRAResourceHealth"
#define GT_DRA_HEALTH_V1ALPHA "/v1alpha1.DRAResourceHealth"

/* The claims of NodePrepareResources or NodeUnprepareResources. */
enum { GT_DRA_REQUEST_CLAIMS_MAX = 256 };
struct gt_dra_request {
    unsigned count;
    struct gt_dra_claim_id *claims; /* owned */
};
/* -EINVAL for bytes that are not such a request, for more than GT_DRA_REQUEST_CLAIMS_MAX claims, for a claim
 * twice, and for texts that are not valid names. */
int gt_dra_request_read(const uint8_t *bytes, size_t len, struct gt_dra_request *ret, struct gt_err **err);
void gt_dra_request_done(struct gt_dra_request *request);

/* The result for one claim: it is prepared, or `error` says why not. */
struct gt_dra_outcome {
    const char *uid;
    const struct gt_dra_claim *claim; /* NULL with an error, and for unprepare */
    const char *error;                /* one sentence; NULL: none */
};
/* `pool` is the node's name; `kind` that of the CDI devices (claim_cdi.h). */
void gt_dra_answer_prepare(const struct gt_dra_outcome *outcomes, unsigned count, const char *pool,
                           const char *kind, struct gt_buf *to);
void gt_dra_answer_unprepare(const struct gt_dra_outcome *outcomes, unsigned count, struct gt_buf *to);

/* GetInfo: both services of each kind, the newest first. */
void gt_dra_answer_info(const char *driver, const char *endpoint, struct gt_buf *to);
/* NotifyRegistrationStatus: whether the kubelet has registered the driver. Its error is copied to
 * `ret_error`, "" for none. -EBADMSG for bytes that are not such a message. */
int gt_dra_notice_read(const uint8_t *bytes, size_t len, bool *ret_registered, char *ret_error, size_t size,
                       struct gt_err **err);

/* A message of NodeWatchResources: the health of every GPU of the inventory, also of lost ones. */
void gt_dra_answer_health(const struct gt_inventory *inventory, const char *pool, int64_t now_s,
                          struct gt_buf *to);
