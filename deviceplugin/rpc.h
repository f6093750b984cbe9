/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_RPC_H
#define GPUTOPO_DEVICEPLUGIN_RPC_H

#include <stdint.h>

#include "base/buf.h"

/*
 * gRPC as this house needs it: bytes in, bytes out, over connections that the caller has made. Everything
 * that knows the gRPC library is behind this header (rpc_queue.c, rpc_server.c, rpc_client.c, rpc_grpc.h), so
 * that another transport touches those files only.
 *
 * One thread waits for gRPC; handlers and callbacks run on it, one at a time, and must be quick.
 */
struct gt_rpc;

/* Also ignores SIGPIPE. No fork afterwards: gRPC has threads of its own. */
int gt_rpc_new(struct gt_rpc **ret, struct gt_err **err);
/* After every server and call of it is freed. Waits until gRPC has ended. */
void gt_rpc_free(struct gt_rpc *rpc);
GT_DEFINE_CLEANUP(struct gt_rpc *, gt_rpc_free)
#define gt_auto_rpc GT_CLEANUP(gt_rpc_free)

/* For how long the handler or callback that runs now has been running, 0 where none does. As they run one at
 * a time, it is the oldest: all others wait for it. Safe from any thread. */
uint64_t gt_rpc_busy_ms(const struct gt_rpc *rpc);

/* gRPC's status codes that we send or distinguish. */
enum gt_rpc_status {
    GT_RPC_OK = 0,
    GT_RPC_CANCELLED = 1,
    GT_RPC_INVALID_ARGUMENT = 3,
    GT_RPC_DEADLINE_EXCEEDED = 4,
    GT_RPC_NOT_FOUND = 5,
    GT_RPC_RESOURCE_EXHAUSTED = 8,
    GT_RPC_FAILED_PRECONDITION = 9,
    GT_RPC_UNIMPLEMENTED = 12,
    GT_RPC_INTERNAL = 13,
    GT_RPC_UNAVAILABLE = 14,
};

/* "UNAVAILABLE"..., as gRPC calls them. */
const char *gt_rpc_status_name(int status);

enum {
    GT_RPC_MESSAGE_MAX = 4 << 20, /* largest message that is served, either way */
    GT_RPC_REPLY_MAX = 16 << 20,  /* largest reply that a client takes; a larger one is RESOURCE_EXHAUSTED */
};

/* Answers a request: appends the reply's bytes to `reply`, or returns another status and says why. */
typedef enum gt_rpc_status gt_rpc_handler(void *arg, const uint8_t *request, size_t len, struct gt_buf *reply,
                                          struct gt_err **err);

/* A call that is answered later, from any thread, by one gt_rpc_answer(); before its server is freed. Until
 * then others are served. */
struct gt_rpc_reply;
typedef void gt_rpc_later(void *arg, const uint8_t *request, size_t len, struct gt_rpc_reply *reply);
/* `bytes` are the message where `status` is OK, else the text. The client may be gone: then nothing happens.
 */
void gt_rpc_answer(struct gt_rpc_reply *reply, enum gt_rpc_status status, const void *bytes, size_t len);

struct gt_rpc_method {
    const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
    gt_rpc_handler *handler;
    bool streams; /* the handler gives the first message, and the next one after each gt_rpc_server_changed()
                   */
    gt_rpc_later *later; /* in the place of `handler`; not where it streams */
};

/* Who calls: equal numbers of a connection are the same one as long as it is open, -1: not known. */
struct gt_rpc_caller {
    int connection;
    unsigned call; /* from 1; no two calls of a server have the same */
};

struct gt_rpc_service {
    const struct gt_rpc_method *methods;
    unsigned count;
    /* A call of a method has begun, or ended where it streams; its end is not reported where
     * gt_rpc_server_free makes it. */
    void (*begun)(void *arg, const struct gt_rpc_method *method, const struct gt_rpc_caller *caller);
    void (*ended)(void *arg, const struct gt_rpc_caller *caller);
    /* Somebody called a path that is not in the table (it was answered UNIMPLEMENTED). */
    void (*unknown)(void *arg);
    void *arg;
    bool keeps_idle; /* connections without a call stay open: the client takes their end for ours */
};

struct gt_rpc_server;

/* The service and its method table must outlive the server. */
int gt_rpc_server_new(struct gt_rpc *rpc, const struct gt_rpc_service *service, struct gt_rpc_server **ret,
                      struct gt_err **err);

/* Serves one connection; `fd` is a connected socket and belongs to gRPC from now on. */
void gt_rpc_server_add(struct gt_rpc_server *server, int fd);

/* Open streams shall send their message again. Several changes while a message is on its way become one. */
void gt_rpc_server_changed(struct gt_rpc_server *server);

/* Ends the streams with UNAVAILABLE, lets running calls finish, cuts off who does not go within a fifth of a
 * second. When it returns, no handler runs and none will. */
void gt_rpc_server_free(struct gt_rpc_server *server);

/* One call as a client. */
struct gt_rpc_call;

/* Called once on gRPC's thread, `message` is the server's text. */
typedef void gt_rpc_done(void *arg, int status, const char *message, const uint8_t *reply, size_t len);

/* Calls `path` over the connected socket `fd`, which belongs to gRPC from now on, also after a failure. */
int gt_rpc_call_new(struct gt_rpc *rpc, int fd, const char *path, const void *request, size_t len,
                    unsigned timeout_ms, gt_rpc_done *done, void *arg, struct gt_rpc_call **ret,
                    struct gt_err **err);

/* The same for a method that streams: `reply` is the first message, with GT_RPC_OK, and nothing after it is
 * waited for. */
int gt_rpc_call_first(struct gt_rpc *rpc, int fd, const char *path, const void *request, size_t len,
                      unsigned timeout_ms, gt_rpc_done *done, void *arg, struct gt_rpc_call **ret,
                      struct gt_err **err);

/* Cancels a call that is still running; when this returns, `done` is not called any more. Not from `done`. */
void gt_rpc_call_free(struct gt_rpc_call *call);
GT_DEFINE_CLEANUP(struct gt_rpc_call *, gt_rpc_call_free)
#define gt_auto_rpc_call GT_CLEANUP(gt_rpc_call_free)

#endif
