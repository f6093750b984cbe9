/* SPDX-License-Identifier: Apache-2.0 */
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "deviceplugin/rpc_grpc.h"

/*
 * Every call is received through the generic request, so that an unknown path is answered with UNIMPLEMENTED
 * (gRPC would let it wait until the client's deadline). All operations of a call except the one that wakes
 * the thread are started on gRPC's thread, with one message sent at a time. A call is freed when each batch
 * that was started for it has had its event; a server when its calls, the armed request and its shutdown have
 * ended.
 */

enum { GRACE_MS = 200, CONNECTION_IDLE_MS = 30000, CALLS_PER_CONNECTION = 64 };

struct call {
    struct gt_rpc_server *server;
    struct call *previous, *next; /* under server->lock, as woken and pending */
    grpc_call *call;
    const struct gt_rpc_method *method; /* NULL: unknown */
    struct gt_rpc_caller caller;
    struct {
        struct gt_rpc_tag received, sent, closed, finished, woken;
    } tags;
    unsigned pending; /* batches whose event has not come */
    bool woken;
    struct {
        bool waits; /* for gt_rpc_answer() */
        bool came;  /* it has, or is about to */
        enum gt_rpc_status status;
        char *text; /* of the status; NULL without memory */
    } answer;       /* under server->lock */
    bool streaming, started, sending, closed, finished;
    uint64_t generation; /* of the message sent last */
    grpc_byte_buffer *received, *message;
    int cancelled;
};

struct gt_rpc_server {
    struct gt_rpc *rpc;
    const struct gt_rpc_service *service;
    grpc_server *server;
    grpc_server_credentials *credentials;

    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct call *calls;
    unsigned begun; /* calls, ever */
    uint64_t generation;
    bool ending;
    unsigned references; /* calls, the armed request, the shutdown */

    struct gt_rpc_tag request_tag, shutdown_tag;
    grpc_call *requested;
    grpc_call_details details;
    grpc_metadata_array metadata;
};

static const char ends[] = "the plugin ends this connection";

static void drop_server(struct gt_rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    if (--server->references == 0)
        pthread_cond_broadcast(&server->ended);
    pthread_mutex_unlock(&server->lock);
}

static bool is_ending(struct gt_rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool ending = server->ending;
    pthread_mutex_unlock(&server->lock);
    return ending;
}

/* One event of the call has been handled. */
static void rpc_server_release(struct call *call)
{
    struct gt_rpc_server *server = call->server;
    pthread_mutex_lock(&server->lock);
    bool last = --call->pending == 0;
    if (last) {
        if (call->previous)
            call->previous->next = call->next;
        else
            server->calls = call->next;
        if (call->next)
            call->next->previous = call->previous;
    }
    pthread_mutex_unlock(&server->lock);
    if (!last)
        return;
    grpc_call_unref(call->call);
    if (call->received)
        grpc_byte_buffer_destroy(call->received);
    if (call->message)
        grpc_byte_buffer_destroy(call->message);
    free(call->answer.text);
    free(call);
    drop_server(server);
}

static void rpc_server_start(struct call *call, const grpc_op *ops, size_t count, struct gt_rpc_tag *tag)
{
    pthread_mutex_lock(&call->server->lock);
    call->pending++;
    pthread_mutex_unlock(&call->server->lock);
    if (grpc_call_start_batch(call->call, ops, count, tag, NULL) == GRPC_CALL_OK)
        return;
    grpc_call_cancel(call->call, NULL);
    rpc_server_release(call); /* the event being dealt with still holds the call */
}

/* The last batch of a call: the status, and for a unary call everything that it answers. */
static void rpc_server_finish(struct call *call, enum gt_rpc_status status, const char *text)
{
    grpc_slice details = grpc_slice_from_copied_string(text);
    grpc_op ops[4];
    size_t n = 0;
    memset(ops, 0, sizeof(ops));
    if (!call->started)
        ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (call->message && !call->streaming) {
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = call->message;
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[n].data.send_status_from_server.status = (grpc_status_code)status;
    ops[n++].data.send_status_from_server.status_details = &details;
    if (!call->streaming) { /* a stream waits for its close from the beginning */
        ops[n].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
        ops[n++].data.recv_close_on_server.cancelled = &call->cancelled;
    }
    call->started = call->finished = true;
    rpc_server_start(call, ops, n, &call->tags.finished);
    grpc_slice_unref(details);
}

/* Calls the handler to make a message; with another status than OK it returns the error's text. */
static enum gt_rpc_status make_message(struct call *call, struct gt_err **err)
{
    gt_auto_buf struct gt_buf reply = GT_BUF(GT_RPC_MESSAGE_MAX);
    grpc_slice request = gt_rpc_flatten(call->received);
    enum gt_rpc_status status = call->method->handler(
        call->server->service->arg, GRPC_SLICE_START_PTR(request), GRPC_SLICE_LENGTH(request), &reply, err);
    grpc_slice_unref(request);
    if (status != GT_RPC_OK)
        return status;
    if (gt_buf_check(&reply, "reply", err) < 0)
        return GT_RPC_INTERNAL;
    grpc_slice bytes = grpc_slice_from_copied_buffer(reply.data ? reply.data : "", reply.len);
    if (call->message)
        grpc_byte_buffer_destroy(call->message);
    call->message = grpc_raw_byte_buffer_create(&bytes, 1);
    grpc_slice_unref(bytes);
    return GT_RPC_OK;
}

/* Sends the next message of a stream, if there is one and none is being sent. */
static void pump(struct call *call)
{
    struct gt_rpc_server *server = call->server;
    if (!call->streaming || call->sending || call->finished)
        return;
    pthread_mutex_lock(&server->lock);
    bool ending = server->ending;
    uint64_t generation = server->generation;
    pthread_mutex_unlock(&server->lock);
    if (call->closed) {
        rpc_server_finish(call, GT_RPC_CANCELLED, "the client went away");
        return;
    }
    if (ending) {
        rpc_server_finish(call, GT_RPC_UNAVAILABLE, ends);
        return;
    }
    if (call->started && call->generation == generation)
        return;
    gt_auto_err struct gt_err *err = NULL;
    enum gt_rpc_status status = make_message(call, &err);
    if (status != GT_RPC_OK) {
        rpc_server_finish(call, status, gt_err_text(err));
        return;
    }
    grpc_op ops[2];
    size_t n = 0;
    memset(ops, 0, sizeof(ops));
    if (!call->started)
        ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[n].op = GRPC_OP_SEND_MESSAGE;
    ops[n++].data.send_message.send_message = call->message;
    call->generation = generation;
    call->started = call->sending = true;
    rpc_server_start(call, ops, n, &call->tags.sent);
}

static void on_sent(void *owner, bool ok)
{
    struct call *call = owner;
    (void)ok; /* on a failure the client has disconnected, and a close event comes, too */
    call->sending = false;
    pump(call);
    rpc_server_release(call);
}

static void on_woken(void *owner, bool ok)
{
    struct call *call = owner;
    (void)ok;
    pthread_mutex_lock(&call->server->lock);
    call->woken = false;
    bool answered = call->answer.came;
    pthread_mutex_unlock(&call->server->lock);
    pump(call);
    if (answered && !call->finished) {
        rpc_server_finish(call, call->answer.status, call->answer.text ? call->answer.text : "");
        rpc_server_release(call); /* what kept it until it was answered */
    }
    rpc_server_release(call);
}

static void answer_later(struct call *call)
{
    pthread_mutex_lock(&call->server->lock);
    call->answer.waits = !call->server->ending;
    call->pending += call->answer.waits; /* until it is answered */
    pthread_mutex_unlock(&call->server->lock);
    if (!call->answer.waits) {
        rpc_server_finish(call, GT_RPC_UNAVAILABLE, ends);
        return;
    }
    grpc_slice request = gt_rpc_flatten(call->received);
    bool taken = call->method->later(call->server->service->arg, GRPC_SLICE_START_PTR(request),
                                     GRPC_SLICE_LENGTH(request), (struct gt_rpc_reply *)call);
    grpc_slice_unref(request);
    if (taken)
        return;
    pthread_mutex_lock(&call->server->lock);
    bool ours = !call->answer.came; /* and not of answer_waiting() */
    call->answer.waits &= !ours;
    call->pending -= ours;
    pthread_mutex_unlock(&call->server->lock);
    if (ours)
        rpc_server_finish(call, GT_RPC_INTERNAL, "no memory for the call");
}

static void on_closed(void *owner, bool ok)
{
    struct call *call = owner;
    (void)ok;
    const struct gt_rpc_service *service = call->server->service;
    call->closed = true;
    if (service->ended && !is_ending(call->server))
        service->ended(service->watcher, &call->caller);
    pump(call);
    rpc_server_release(call);
}

static void rpc_server_on_finished(void *owner, bool ok)
{
    (void)ok;
    rpc_server_release(owner);
}

static void on_received(void *owner, bool ok)
{
    struct call *call = owner;
    const struct gt_rpc_service *service = call->server->service;
    bool ending = is_ending(call->server);
    if (ok && call->received && !ending && service->begun)
        service->begun(service->watcher, call->method, &call->caller);
    if (!ok || !call->received)
        rpc_server_finish(call, GT_RPC_INTERNAL, "the request has no message");
    else if (ending)
        rpc_server_finish(call, GT_RPC_UNAVAILABLE, ends);
    else if (call->method->streams) {
        call->streaming = true;
        grpc_op op;
        memset(&op, 0, sizeof(op));
        op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
        op.data.recv_close_on_server.cancelled = &call->cancelled;
        rpc_server_start(call, &op, 1, &call->tags.closed);
        pump(call);
    } else if (call->method->later)
        answer_later(call);
    else {
        gt_auto_err struct gt_err *err = NULL;
        enum gt_rpc_status status = make_message(call, &err);
        rpc_server_finish(call, status, gt_err_text(err));
    }
    rpc_server_release(call);
}

static void rpc_server_arm(struct gt_rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool ending = server->ending;
    if (!ending)
        server->references++;
    pthread_mutex_unlock(&server->lock);
    if (ending)
        return;
    grpc_call_error r =
        grpc_server_request_call(server->server, &server->requested, &server->details, &server->metadata,
                                 server->rpc->queue, server->rpc->queue, &server->request_tag);
    if (r != GRPC_CALL_OK)
        drop_server(server);
}

static const struct gt_rpc_method *find_method(const struct gt_rpc_service *service, const grpc_slice *path)
{
    for (unsigned i = 0; i < service->count; i++)
        if (grpc_slice_str_cmp(*path, service->methods[i].path) == 0)
            return &service->methods[i];
    return NULL;
}

/* gRPC calls the peer of a connection that it was given "fd:N". */
static int connection_of(grpc_call *call)
{
    char *peer = grpc_call_get_peer(call);
    uint64_t number = 0;
    bool known = strncmp(peer, "fd:", 3) == 0 && gt_text_to_unsigned(peer + 3, INT_MAX, &number);
    gpr_free(peer);
    return known ? (int)number : -1;
}

static void rpc_server_begin(struct gt_rpc_server *server, grpc_call *requested,
                             const struct gt_rpc_method *method)
{
    struct call *call = calloc(1, sizeof(*call));
    if (!call) {
        grpc_call_unref(requested); /* cancels it */
        return;
    }
    call->server = server;
    call->call = requested;
    call->method = method;
    call->caller.connection = connection_of(requested);
    call->tags.received = (struct gt_rpc_tag){on_received, call};
    call->tags.sent = (struct gt_rpc_tag){on_sent, call};
    call->tags.closed = (struct gt_rpc_tag){on_closed, call};
    call->tags.finished = (struct gt_rpc_tag){rpc_server_on_finished, call};
    call->tags.woken = (struct gt_rpc_tag){on_woken, call};
    call->pending = 1; /* until this function has ended */
    pthread_mutex_lock(&server->lock);
    call->caller.call = ++server->begun;
    server->references++;
    call->next = server->calls;
    if (call->next)
        call->next->previous = call;
    server->calls = call;
    pthread_mutex_unlock(&server->lock);
    if (!method) {
        rpc_server_finish(call, GT_RPC_UNIMPLEMENTED, "this plugin does not have that method");
    } else {
        grpc_op op;
        memset(&op, 0, sizeof(op));
        op.op = GRPC_OP_RECV_MESSAGE;
        op.data.recv_message.recv_message = &call->received;
        rpc_server_start(call, &op, 1, &call->tags.received);
    }
    rpc_server_release(call);
}

static void on_request(void *owner, bool ok)
{
    struct gt_rpc_server *server = owner;
    if (ok) {
        const struct gt_rpc_method *method = find_method(server->service, &server->details.method);
        grpc_call *requested = server->requested;
        grpc_call_details_destroy(&server->details);
        grpc_call_details_init(&server->details);
        grpc_metadata_array_destroy(&server->metadata);
        grpc_metadata_array_init(&server->metadata);
        rpc_server_begin(server, requested, method);
        rpc_server_arm(server);
    }
    drop_server(server);
}

static void on_shut_down(void *owner, bool ok)
{
    (void)ok;
    drop_server(owner);
}

static grpc_server *rpc_server_create(bool keeps_idle)
{
    grpc_arg arg[] = {
        {.type = GRPC_ARG_INTEGER,
         .key = (char[]){GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH},
         .value.integer = GT_RPC_MESSAGE_MAX},
        {.type = GRPC_ARG_INTEGER,
         .key = (char[]){GRPC_ARG_MAX_CONCURRENT_STREAMS},
         .value.integer = CALLS_PER_CONNECTION},
        {.type = GRPC_ARG_INTEGER, .key = (char[]){GRPC_ARG_ENABLE_CHANNELZ}, .value.integer = 0},
        /* A client that connects and sends nothing must not hold a connection for ever. */
        {.type = GRPC_ARG_INTEGER,
         .key = (char[]){GRPC_ARG_MAX_CONNECTION_IDLE_MS},
         .value.integer = keeps_idle ? INT_MAX : CONNECTION_IDLE_MS},
    };
    grpc_channel_args args = {.num_args = GT_COUNT(arg), .args = arg};
    return grpc_server_create(&args, NULL);
}

int gt_rpc_server_new(struct gt_rpc *rpc, const struct gt_rpc_service *service, struct gt_rpc_server **ret,
                      struct gt_err **err)
{
    struct gt_rpc_server *server = calloc(1, sizeof(*server));
    GT_NEED(server, err, "gRPC server");
    sigset_t old = gt_rpc_block_signals();
    server->rpc = rpc;
    server->service = service;
    server->request_tag = (struct gt_rpc_tag){on_request, server};
    server->shutdown_tag = (struct gt_rpc_tag){on_shut_down, server};
    pthread_mutex_init(&server->lock, NULL);
    gt_cond_init(&server->ended);
    grpc_call_details_init(&server->details);
    grpc_metadata_array_init(&server->metadata);
    server->credentials = grpc_insecure_server_credentials_create();
    server->server = rpc_server_create(service->keeps_idle);
    grpc_server_register_completion_queue(server->server, rpc->queue, NULL);
    grpc_server_start(server->server);
    rpc_server_arm(server);
    gt_rpc_restore_signals(&old);
    *ret = server;
    return 0;
}

void gt_rpc_server_add(struct gt_rpc_server *server, int fd)
{
    sigset_t old = gt_rpc_block_signals();
    grpc_server_add_channel_from_fd(server->server, fd, server->credentials);
    gt_rpc_restore_signals(&old);
}

/* Under the lock. Wakes gRPC's thread from another one: only an empty batch does. */
static void rpc_server_wake(struct call *call)
{
    if (call->woken)
        return;
    call->woken = true;
    call->pending++;
    if (grpc_call_start_batch(call->call, NULL, 0, &call->tags.woken, NULL) != GRPC_CALL_OK) {
        call->woken = false;
        call->pending--;
    }
}

void gt_rpc_answer(struct gt_rpc_reply *reply, enum gt_rpc_status status, const void *bytes, size_t len)
{
    struct call *call = (struct call *)reply;
    struct gt_rpc_server *server = call->server;
    sigset_t old = gt_rpc_block_signals();
    if (status == GT_RPC_OK) {
        grpc_slice slice = grpc_slice_from_copied_buffer(bytes ? bytes : "", len);
        call->message = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
    }
    pthread_mutex_lock(&server->lock);
    call->answer.status = status;
    if (status != GT_RPC_OK)
        call->answer.text = strndup(bytes, len);
    call->answer.came = true;
    bool lost = !call->woken && (rpc_server_wake(call), !call->woken);
    pthread_mutex_unlock(&server->lock);
    if (lost) {
        grpc_call_cancel(call->call, NULL);
        rpc_server_release(call);
    }
    gt_rpc_restore_signals(&old);
}

static void wake_streams(struct gt_rpc_server *server)
{
    for (struct call *call = server->calls; call; call = call->next)
        if (call->method && call->method->streams)
            rpc_server_wake(call);
}

void gt_rpc_server_changed(struct gt_rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->generation++;
    wake_streams(server);
    pthread_mutex_unlock(&server->lock);
}

/* The calls that nobody will answer any more. */
static void answer_waiting(struct gt_rpc_server *server)
{
    for (;;) {
        pthread_mutex_lock(&server->lock);
        struct call *call = server->calls;
        while (call && (!call->answer.waits || call->answer.came))
            call = call->next;
        if (call)
            call->answer.came = true; /* by nobody else */
        pthread_mutex_unlock(&server->lock);
        if (!call)
            return;
        gt_rpc_answer((struct gt_rpc_reply *)call, GT_RPC_UNAVAILABLE, ends, strlen(ends));
    }
}

/* Until nothing refers to the server, or for GRACE_MS. Under the lock. */
static void wait_gracefully(struct gt_rpc_server *server)
{
    uint64_t until = gt_clock_ns() + GRACE_MS * 1000000ULL;
    while (server->references && gt_cond_wait_until(&server->ended, &server->lock, until) == 0)
        ;
}

void gt_rpc_server_free(struct gt_rpc_server *server)
{
    if (!server)
        return;
    sigset_t old = gt_rpc_block_signals();
    pthread_mutex_lock(&server->lock);
    server->ending = true;
    server->references++; /* the shutdown */
    pthread_mutex_unlock(&server->lock);
    grpc_server_shutdown_and_notify(server->server, server->rpc->queue, &server->shutdown_tag);
    answer_waiting(server);
    pthread_mutex_lock(&server->lock);
    wake_streams(server);
    wait_gracefully(server);
    if (server->references) {
        pthread_mutex_unlock(&server->lock);
        grpc_server_cancel_all_calls(server->server);
        pthread_mutex_lock(&server->lock);
        while (server->references)
            pthread_cond_wait(&server->ended, &server->lock);
    }
    pthread_mutex_unlock(&server->lock);
    grpc_server_destroy(server->server);
    grpc_server_credentials_release(server->credentials);
    grpc_call_details_destroy(&server->details);
    grpc_metadata_array_destroy(&server->metadata);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->ended);
    free(server);
    gt_rpc_restore_signals(&old);
}
