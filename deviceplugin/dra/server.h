/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_DRA_SERVER_H
#define GPUTOPO_DEVICEPLUGIN_DRA_SERVER_H

#include "base/loop.h"
#include "deviceplugin/dra/messages.h"

/*
 * The socket of the driver in the kubelet's plugins_registry, on which registration, the driver and the
 * health of its devices are served. Its name is another one for each process, so that two serve side by side
 * in a rolling update; a socket that is gone is made again. Calls come to the loop's thread and are answered
 * from there, several at a time. The kubelet finds the socket by itself, also after a restart.
 */
struct gt_dra_server;

enum gt_dra_call_kind { GT_DRA_CALL_PREPARE, GT_DRA_CALL_UNPREPARE };

/* One that waits for its answer. */
struct gt_dra_call;
enum gt_dra_call_kind gt_dra_call_kind(const struct gt_dra_call *call);
const struct gt_dra_request *gt_dra_call_request(const struct gt_dra_call *call);
/* Answers with this message, and frees the call. */
void gt_dra_call_answer(struct gt_dra_call *call, const struct gt_buf *message);

struct gt_dra_server_events { /* all on the loop's thread; none may free the server */
    void (*called)(void *arg, struct gt_dra_call *call); /* answered then, or later */
    /* The kubelet has taken the driver in, or not, with its reason; or the socket cannot be made. */
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
/* Answers the calls that wait with UNAVAILABLE: a gt_dra_call is gone then. */
void gt_dra_server_free(struct gt_dra_server *server);
GT_DEFINE_CLEANUP(struct gt_dra_server *, gt_dra_server_free)
#define gt_auto_dra_server GT_CLEANUP(gt_dra_server_free)

/* The message of the health streams from now on; what it says is sent at once, also where it is the same. */
void gt_dra_server_health(struct gt_dra_server *server, const struct gt_buf *message);

/* As gt_plugin_busy_ms(). */
uint64_t gt_dra_server_busy_ms(const struct gt_dra_server *server);

#endif
