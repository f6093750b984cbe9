/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

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

/* The tag of a completion: what to call. Embedded in its owner, which must live until the event has come. */
struct gt_rpc_tag {
    void (*on_event)(void *owner, bool ok);
    void *owner;
};

/* Use it around every call that may start a thread of gRPC: threads inherit the signal mask, and only the
 * loop may receive the daemon's signals. */
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

/* A message as one contiguous slice; empty for NULL. Release it with grpc_slice_unref(). */
grpc_slice gt_rpc_flatten(grpc_byte_buffer *message);
