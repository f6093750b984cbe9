/* SPDX-License-Identifier: Apache-2.0 */
#include <grpc/byte_buffer_reader.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "deviceplugin/rpc_grpc.h"

/* The completion queue and its thread. The queue has no descriptor for epoll: a thread must wait in it. What
 * that thread learns of a call goes to a loop through its mailbox. */

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

/* Passes the end of a call from gRPC's thread to the loop's. */

struct loop_call_message {
    struct gt_message message;
    struct gt_loop_call *call;
    unsigned serial;
    int status;
    char text[512];
    size_t len;
    uint8_t reply[];
};

static void rpc_loop_deliver(void *owner, struct gt_message *base)
{
    const struct loop_call_message *end = (const struct loop_call_message *)base;
    struct gt_loop_call *call = end->call;
    (void)owner;
    if (end->serial != call->serial || !call->call)
        return; /* cancelled meanwhile */
    gt_loop_call_cancel(call);
    call->done(call->arg, end->status, end->text, end->reply, end->len);
}

void gt_loop_call_done(void *arg, int status, const char *message, const uint8_t *reply, size_t len)
{
    struct gt_loop_call *call = arg;
    struct loop_call_message *end = malloc(sizeof(*end) + len);
    if (!end)
        return;
    *end = (struct loop_call_message){.message = {.deliver = rpc_loop_deliver},
                                      .call = call,
                                      .serial = call->serial,
                                      .status = status,
                                      .len = len};
    snprintf(end->text, sizeof(end->text), "%s", message);
    if (len)
        memcpy(end->reply, reply, len);
    gt_mailbox_send(call->mailbox, &end->message);
}

void gt_loop_call_cancel(struct gt_loop_call *call)
{
    gt_rpc_call_free(gt_steal(call->call));
    call->serial++; /* what it has sent is out of date now */
}
