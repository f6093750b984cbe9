/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
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
    struct gt_dra_claim_id claims[];
};
/* -EINVAL for bytes that are not such a request, for more than GT_DRA_REQUEST_CLAIMS_MAX claims, for a claim
 * twice, and for texts that are not valid names. */
int gt_dra_request_read(const uint8_t *bytes, size_t len, struct gt_dra_request **ret, struct gt_err **err);

/* The result for one claim: it is prepared, or `error` says why not. */
struct gt_dra_outcome {
    const char *uid;
    const struct gt_dra_claim *claim; /* NULL with an error, and for unprepare */
    const char *error;                /* one sentence; NULL: none */
};
/* A message consists of its fields one after the other, so messages with one claim each, concatenated, make
 * one message with all claims. `pool` is the node's name; `kind` that of the CDI devices (claim_cdi.h). */
void gt_dra_answer_prepare(const struct gt_dra_outcome *outcome, const char *pool, const char *kind,
                           struct gt_buf *to);
void gt_dra_answer_unprepare(const struct gt_dra_outcome *outcome, struct gt_buf *to);

/* GetInfo: both services of each kind, the newest first, on the socket that is asked. */
void gt_dra_answer_info(const char *driver, struct gt_buf *to);
/* NotifyRegistrationStatus: whether the kubelet has registered the driver. Its error is copied to
 * `ret_error`, "" for none. -EBADMSG for bytes that are not such a message. */
int gt_dra_notice_read(const uint8_t *bytes, size_t len, bool *ret_registered, char *ret_error, size_t size,
                       struct gt_err **err);

/* A message of NodeWatchResources: the health of every GPU of the inventory, also of lost ones. */
void gt_dra_answer_health(const struct gt_inventory *inventory, const char *pool, int64_t now_s,
                          struct gt_buf *to);

/*
 * The socket of the driver in the kubelet's plugins_registry, on which registration, the driver and the
 * health of its devices are served. Each process uses a different name, so that two can serve side by side in
 * a rolling update; if the socket is removed, it is made again. Calls are handled on the loop's thread, and
 * several may wait for their answers at a time. The kubelet finds the socket by itself, also after a restart.
 */
struct gt_dra_server;

enum gt_dra_call_kind { GT_DRA_CALL_PREPARE, GT_DRA_CALL_UNPREPARE };

struct gt_dra_server_events { /* all on the loop's thread; none may free the server */
    /* To be answered with gt_rpc_answer() within the callback or later, but not after the server is freed. */
    void (*called)(void *arg, enum gt_dra_call_kind kind, const struct gt_dra_request *request,
                   struct gt_rpc_reply *reply);
    /* The kubelet has registered the driver; or it refused, or the socket cannot be made (`why`). */
    void (*registered)(void *arg);
    void (*failed)(void *arg, const char *why);
    void *arg;
};

struct gt_dra_server_options {
    const char *kubelet_dir; /* plugins_registry/ is below it, and may appear later */
    const char *driver;      /* "gpu.metax-tech.com" */
};

int gt_dra_server_new(struct gt_loop *loop, const struct gt_dra_server_options *options,
                      const struct gt_dra_server_events *events, struct gt_dra_server **ret,
                      struct gt_err **err);
/* Calls that wait for an answer get UNAVAILABLE. */
void gt_dra_server_free(struct gt_dra_server *server);
GT_DEFINE_CLEANUP(struct gt_dra_server *, gt_dra_server_free)

/* Sets the message of the health streams. It is sent at once, even if it is the same as before. */
void gt_dra_server_health(struct gt_dra_server *server, const struct gt_buf *message);

/* As gt_plugin_busy_ms(). */
uint64_t gt_dra_server_busy_ms(const struct gt_dra_server *server);
