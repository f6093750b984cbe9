/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

#include "base/err.h"
#include "deviceplugin/rpc_grpc.h"

struct gt_rpc_call {
    grpc_channel *channel;
    grpc_call *call;
    struct gt_rpc_tag tag, message_tag;
    bool streams;
    grpc_byte_buffer *request, *reply;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;

    pthread_mutex_t lock;
    gt_rpc_done *done; /* under lock; NULL once called or not wanted any more */
    void *arg;
    unsigned owners;  /* under lock: the caller and the events */
    unsigned pending; /* under lock: events that have not come */
};

static void destroy(struct gt_rpc_call *call)
{
    if (call->call)
        grpc_call_unref(call->call);
    if (call->channel)
        grpc_channel_destroy(call->channel);
    grpc_byte_buffer_destroy(call->request);
    if (call->reply)
        grpc_byte_buffer_destroy(call->reply);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_slice_unref(call->details);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

static void rpc_client_drop(struct gt_rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    bool last = --call->owners == 0;
    pthread_mutex_unlock(&call->lock);
    if (last)
        destroy(call);
}

/* All events have come. */
static void rpc_client_complete(struct gt_rpc_call *call)
{
    if (call->streams && call->reply)
        call->status = GRPC_STATUS_OK; /* how the stream ends does not matter */
    grpc_slice reply = gt_rpc_flatten(call->reply);
    char *message = grpc_slice_to_c_string(call->details);
    pthread_mutex_lock(&call->lock);
    if (call->done)
        call->done(call->arg, (int)call->status, message, GRPC_SLICE_START_PTR(reply),
                   GRPC_SLICE_LENGTH(reply));
    call->done = NULL;
    pthread_mutex_unlock(&call->lock);
    gpr_free(message);
    grpc_slice_unref(reply);
    rpc_client_drop(call);
}

static void rpc_client_on_event(void *owner, bool ok)
{
    struct gt_rpc_call *call = owner;
    (void)ok; /* a batch with RECV_STATUS always succeeds; the status says the rest */
    pthread_mutex_lock(&call->lock);
    bool last = --call->pending == 0;
    pthread_mutex_unlock(&call->lock);
    if (last)
        rpc_client_complete(call);
}

/* The first message of a stream: nothing after it is waited for. */
static void on_message(void *owner, bool ok)
{
    struct gt_rpc_call *call = owner;
    grpc_call_cancel(call->call, NULL);
    rpc_client_on_event(owner, ok);
}

static grpc_channel *connect_channel(int fd)
{
    grpc_arg arg[] = {
        /* A path as authority is refused by Go servers, see grpc/grpc issue 38142. */
        {.type = GRPC_ARG_STRING,
         .key = (char[]){GRPC_ARG_DEFAULT_AUTHORITY},
         .value.string = (char[]){"localhost"}},
        {.type = GRPC_ARG_INTEGER, .key = (char[]){GRPC_ARG_ENABLE_RETRIES}, .value.integer = 0},
        {.type = GRPC_ARG_INTEGER, .key = (char[]){GRPC_ARG_ENABLE_CHANNELZ}, .value.integer = 0},
        {.type = GRPC_ARG_INTEGER,
         .key = (char[]){GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH},
         .value.integer = GT_RPC_REPLY_MAX},
    };
    grpc_channel_args args = {.num_args = GT_COUNT(arg), .args = arg};
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create_from_fd("unix", fd, credentials, &args);
    grpc_channel_credentials_release(credentials);
    return channel;
}

static grpc_call_error rpc_client_start(struct gt_rpc *rpc, struct gt_rpc_call *call, const char *path,
                                        unsigned timeout_ms)
{
    gpr_timespec deadline =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
    grpc_slice method = grpc_slice_from_copied_string(path);
    call->call = grpc_channel_create_call(call->channel, NULL, GRPC_PROPAGATE_DEFAULTS, rpc->queue, method,
                                          NULL, deadline, NULL);
    grpc_slice_unref(method);
    if (!call->call)
        return GRPC_CALL_ERROR;
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = call->request},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &call->initial},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &call->trailing,
                                        .status = &call->status,
                                        .status_details = &call->details}},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->reply},
    };
    /* A batch ends with the last of its operations: a stream's first message has one of its own. */
    size_t together = GT_COUNT(ops) - call->streams;
    grpc_call_error r = grpc_call_start_batch(call->call, ops, together, &call->tag, NULL);
    if (r == GRPC_CALL_OK && call->streams &&
        grpc_call_start_batch(call->call, &ops[together], 1, &call->message_tag, NULL) != GRPC_CALL_OK)
        on_message(call, false); /* its event will not come; the status does */
    return r;
}

int gt_rpc_call_new(struct gt_rpc *rpc, int fd, const struct gt_rpc_ask *ask, struct gt_rpc_call **ret,
                    struct gt_err **err)
{
    struct gt_rpc_call *call = calloc(1, sizeof(*call));
    if (!call) {
        close(fd);
        return gt_fail_sys(err, ENOMEM, "call %s", ask->path);
    }
    pthread_mutex_init(&call->lock, NULL);
    call->tag = (struct gt_rpc_tag){rpc_client_on_event, call};
    call->message_tag = (struct gt_rpc_tag){on_message, call};
    call->streams = ask->first;
    call->pending = ask->first ? 2 : 1;
    call->done = ask->done;
    call->arg = ask->arg;
    call->owners = 2;
    call->details = grpc_empty_slice();
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    grpc_slice bytes = grpc_slice_from_copied_buffer(ask->request, ask->len);
    call->request = grpc_raw_byte_buffer_create(&bytes, 1);
    grpc_slice_unref(bytes);

    sigset_t old = gt_rpc_block_signals();
    call->channel = connect_channel(fd);
    grpc_call_error r = rpc_client_start(rpc, call, ask->path, ask->timeout_ms);
    gt_rpc_restore_signals(&old);
    if (r != GRPC_CALL_OK) {
        destroy(call);
        return gt_fail(err, EIO, "call %s: gRPC refuses it: %s", ask->path, grpc_call_error_to_string(r));
    }
    *ret = call;
    return 0;
}

void gt_rpc_call_free(struct gt_rpc_call *call)
{
    if (!call)
        return;
    pthread_mutex_lock(&call->lock);
    call->done = NULL;
    pthread_mutex_unlock(&call->lock);
    grpc_call_cancel(call->call, NULL);
    rpc_client_drop(call);
}
