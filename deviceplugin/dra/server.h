/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "deviceplugin/dra/messages.h"

/*
 * The socket of the driver in the kubelet's plugins_registry, on which registration, the driver and the
 * health of its devices are served. Each process uses a different name, so that two can serve side by side in
 * a rolling update; if the socket is removed, it is made again. Calls are handled on the loop's thread, and
 * several may wait for their answers at a time. The kubelet finds the socket by itself, also after a restart.
 */
struct gt_dra_server;

enum gt_dra_call_kind { GT_DRA_CALL_PREPARE, GT_DRA_CALL_UNPREPARE };

/* A call that waits for its answer. */
struct gt_dra_call;
enum gt_dra_call_kind gt_dra_call_kind(const struct gt_dra_call *call);
const struct gt_dra_request *gt_dra_call_request(const struct gt_dra_call *call);
/* Answers with this message, and frees the call. */
void gt_dra_call_answer(struct gt_dra_call *call, const struct gt_buf *message);

struct gt_dra_server_events { /* all on the loop's thread; none may free the server */
    void (*called)(void *arg, struct gt_dra_call *call); /* to be answered within the callback or later */
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
/* Answers waiting calls with UNAVAILABLE and frees them: no gt_dra_call may be used afterwards. */
void gt_dra_server_free(struct gt_dra_server *server);
GT_DEFINE_CLEANUP(struct gt_dra_server *, gt_dra_server_free)
#define gt_auto_dra_server GT_CLEANUP(gt_dra_server_free)

/* Sets the message of the health streams. It is sent at once, even if it is the same as before. */
void gt_dra_server_health(struct gt_dra_server *server, const struct gt_buf *message);

/* As gt_plugin_busy_ms(). */
uint64_t gt_dra_server_busy_ms(const struct gt_dra_server *server);
