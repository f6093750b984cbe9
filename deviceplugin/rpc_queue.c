/* SPDX-License-Identifier: Apache-2.0 */
#include <grpc/byte_buffer_reader.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "deviceplugin/rpc_grpc.h"

/* The completion queue and its thread. The queue has no descriptor for epoll: a thread must wait in it. */

static void *rpc_queue_serve(void *arg)
{
    struct gt_rpc *rpc = arg;
    for (;;) {
        grpc_event event = grpc_completion_queue_next(rpc->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type != GRPC_OP_COMPLETE)
            continue;
        struct gt_rpc_tag *tag = event.tag;
        atomic_store(&rpc->busy_since_ms, gt_clock_ms());
        tag->on_event(tag->owner, event.success);
        atomic_store(&rpc->busy_since_ms, 0);
    }
}

int gt_rpc_new(struct gt_rpc **ret, struct gt_err **err)
{
    struct gt_rpc *rpc = calloc(1, sizeof(*rpc));
    GT_NEED(rpc, err, "gRPC");
    signal(SIGPIPE, SIG_IGN);
    sigset_t old = gt_rpc_block_signals();
    grpc_init();
    rpc->queue = grpc_completion_queue_create_for_next(NULL);
    int r = pthread_create(&rpc->thread, NULL, rpc_queue_serve, rpc);
    if (r == 0)
        pthread_setname_np(rpc->thread, "gputopo-rpc");
    else {
        grpc_completion_queue_shutdown(rpc->queue);
        rpc_queue_serve(rpc);
        grpc_completion_queue_destroy(rpc->queue);
        grpc_shutdown_blocking();
    }
    gt_rpc_restore_signals(&old);
    if (r != 0) {
        free(rpc);
        return gt_fail_sys(err, r, "gRPC: start a thread");
    }
    *ret = rpc;
    return 0;
}

void gt_rpc_free(struct gt_rpc *rpc)
{
    if (!rpc)
        return;
    grpc_completion_queue_shutdown(rpc->queue);
    pthread_join(rpc->thread, NULL);
    grpc_completion_queue_destroy(rpc->queue);
    grpc_shutdown_blocking();
    free(rpc);
}

uint64_t gt_rpc_busy_ms(const struct gt_rpc *rpc)
{
    uint64_t since = atomic_load(&rpc->busy_since_ms);
    return since ? gt_clock_ms() - since : 0;
}

grpc_slice gt_rpc_flatten(grpc_byte_buffer *message)
{
    grpc_byte_buffer_reader reader;
    if (!message || !grpc_byte_buffer_reader_init(&reader, message))
        return grpc_empty_slice();
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return all;
}

const char *gt_rpc_status_name(int status)
{
    static const char *const names[] = {
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED"};
    return status >= 0 && (size_t)status < GT_COUNT(names) ? names[status] : "an unknown status";
}
