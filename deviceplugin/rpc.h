/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/mailbox.h"

/*
 * gRPC calls with requests and replies as bytes, over connections that the caller has made. Only the files
 * behind this header use the gRPC library (rpc_queue.c, rpc_server.c, rpc_client.c, rpc_grpc.h), so that
 * another transport would change those files only.
 *
 * One thread waits for gRPC; handlers and callbacks run on it, one at a time, and must be quick.
 */
struct gt_rpc;

/* Also ignores SIGPIPE. The process must not fork afterwards: gRPC has threads of its own. */
int gt_rpc_new(struct gt_rpc **ret, struct gt_err **err);
/* Call it after all its servers and calls are freed. Waits until gRPC has ended. */
void gt_rpc_free(struct gt_rpc *rpc);
GT_DEFINE_CLEANUP(struct gt_rpc *, gt_rpc_free)

/* For how many milliseconds the current handler or callback has been running, 0 if there is none. They run
 * one at a time, so all others wait for it. Safe from any thread. */
uint64_t gt_rpc_busy_ms(const struct gt_rpc *rpc);

/* The status codes of gRPC that are sent or distinguished here. */
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
    GT_RPC_MESSAGE_MAX = 4 << 20, /* largest request or reply of a server */
    GT_RPC_REPLY_MAX = 16 << 20, /* largest reply that a client accepts; a larger one is RESOURCE_EXHAUSTED */
};

/* Answers a request: appends the reply's bytes to `reply` and returns GT_RPC_OK, or returns another status
 * and sets *err. */
typedef enum gt_rpc_status gt_rpc_handler(void *arg, const uint8_t *request, size_t len, struct gt_buf *reply,
                                          struct gt_err **err);

/* A call that is answered later, from any thread, by exactly one gt_rpc_answer(), or when its server is
 * freed: with UNAVAILABLE. Meanwhile other calls are served. Returns false without memory: the call then ends
 * with INTERNAL. */
struct gt_rpc_reply;
typedef bool gt_rpc_later(void *arg, const uint8_t *request, size_t len, struct gt_rpc_reply *reply);
/* `bytes` are the reply if `status` is GT_RPC_OK, else the error text. If the client has disconnected,
 * nothing happens. */
void gt_rpc_answer(struct gt_rpc_reply *reply, enum gt_rpc_status status, const void *bytes, size_t len);

struct gt_rpc_method {
    const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
    gt_rpc_handler *handler;
    bool streams;        /* the handler makes the first message, and one after each gt_rpc_server_changed() */
    gt_rpc_later *later; /* instead of `handler`; not for a method that streams */
};

/* Identifies a caller. `connection` is unique among open connections, -1: not known. */
struct gt_rpc_caller {
    int connection;
    unsigned call; /* from 1; no two calls of a server have the same */
};

struct gt_rpc_service {
    const struct gt_rpc_method *methods;
    unsigned count;
    /* A call of a method has begun; a call of a method that streams has ended. The end is not reported if
     * gt_rpc_server_free() causes it. */
    void (*begun)(void *arg, const struct gt_rpc_method *method, const struct gt_rpc_caller *caller);
    void (*ended)(void *arg, const struct gt_rpc_caller *caller);
    void *watcher;   /* the `arg` of these two */
    void *arg;       /* of the handlers */
    bool keeps_idle; /* keep connections without a call open: the client takes a closed one as the end of this
                        program */
};

struct gt_rpc_server;

/* The service and its method table must outlive the server. */
int gt_rpc_server_new(struct gt_rpc *rpc, const struct gt_rpc_service *service, struct gt_rpc_server **ret,
                      struct gt_err **err);

/* Serves one connection; `fd` is a connected socket and belongs to gRPC from now on. */
void gt_rpc_server_add(struct gt_rpc_server *server, int fd);

/* Open streams send a new message. Several changes while a message is being sent cause one. */
void gt_rpc_server_changed(struct gt_rpc_server *server);

/* Ends the streams with UNAVAILABLE and lets running calls finish; after a fifth of a second it cancels what
 * is left. When it returns, no handler runs, and none will run. */
void gt_rpc_server_free(struct gt_rpc_server *server);

/* One call as a client. */
struct gt_rpc_call;

/* Called once, on gRPC's thread; `message` is the server's error text. */
typedef void gt_rpc_done(void *arg, int status, const char *message, const uint8_t *reply, size_t len);

struct gt_rpc_ask {
    const char *path;
    const void *request; /* `len` bytes */
    size_t len;
    unsigned timeout_ms;
    bool
        first; /* of a method that streams: `reply` is its first message, with GT_RPC_OK, and the call ends */
    gt_rpc_done *done;
    void *arg;
};

/* Calls over the connected socket `fd`, which belongs to gRPC from now on, also after a failure. */
int gt_rpc_call_new(struct gt_rpc *rpc, int fd, const struct gt_rpc_ask *ask, struct gt_rpc_call **ret,
                    struct gt_err **err);

/* Frees a call, and cancels it if it is still running; when this returns, `done` is not called any more. Must
 * not be called within `done`. */
void gt_rpc_call_free(struct gt_rpc_call *call);
GT_DEFINE_CLEANUP(struct gt_rpc_call *, gt_rpc_call_free)

/*
 * A call whose end is told on a loop's thread. It is a member of an owner that is freed after its last
 * delivery. It is started with gt_loop_call_done() as `done` and itself as `arg`. Without memory, and where
 * the mailbox is full, nothing is told: the owner has a timer.
 */
struct gt_loop_call {
    struct gt_mailbox *mailbox;
    gt_rpc_done *done;
    void *arg;
    struct gt_rpc_call *call; /* NULL: none runs; also when `done` is called */
    unsigned serial;          /* of rpc_loop.c */
};
gt_rpc_done gt_loop_call_done;
/* Ends it; nothing is told afterwards. */
void gt_loop_call_cancel(struct gt_loop_call *call);
