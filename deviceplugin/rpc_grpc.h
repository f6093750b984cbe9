/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_RPC_GRPC_H
#define GPUTOPO_DEVICEPLUGIN_RPC_GRPC_H

/* Private to rpc_queue.c, rpc_server.c and rpc_client.c, the only files that know the gRPC library. */

#include <grpc/grpc.h>
#include <pthread.h>
#include <signal.h>

#include "deviceplugin/rpc.h"

struct gt_rpc {
    grpc_completion_queue *queue;
    pthread_t thread;
    _Atomic uint64_t busy_since_ms; /* 0: waits for an event */
};

/* What a completion carries: who to call. Embedded in its owner, which lives until the event has come. */
struct gt_rpc_tag {
    void (*on_event)(void *owner, bool ok);
    void *owner;
};

/* gRPC starts threads whenever it likes, and they inherit the mask of the caller: the daemon's signals must
 * reach its loop only. Around every call that may start one. */
static inline sigset_t gt_rpc_block_signals(void)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    return old;
}

static inline void gt_rpc_restore_signals(const sigset_t *old)
{
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* A message as one run of bytes; empty for NULL. Release with grpc_slice_unref. */
grpc_slice gt_rpc_flatten(grpc_byte_buffer *message);

#endif
