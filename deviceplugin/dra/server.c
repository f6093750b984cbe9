/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/server.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/mailbox.h"
#include "deviceplugin/listener.h"
#include "deviceplugin/rpc.h"

enum { SOCKET_CHECK_MS = 2000, STALE_SOCKETS_MAX = 64, REASON_SIZE = 512, SOCKET_PATH_MAX = 512 };

static const char suffix[] = "-reg.sock";

struct gt_dra_call {
    struct gt_dra_server *server;
    struct gt_dra_call *previous, *next; /* under server->lock */
    struct gt_rpc_reply *reply;
    enum gt_dra_call_kind kind;
    struct gt_dra_request request;
    bool delivered;
};

struct gt_dra_server {
    struct gt_message mailbox_message; /* embedded: there are calls, or a notice */
    char *directory;
    const char *driver; /* borrowed */
    char path[SOCKET_PATH_MAX];
    struct gt_dra_server_events events;
    struct gt_mailbox *mailbox;
    struct gt_rpc *rpc;
    struct gt_rpc_service service;
    struct gt_rpc_server *rpc_server;
    struct gt_listener *listener;
    struct gt_source *timer;
    struct gt_loop *loop;

    pthread_mutex_t lock; /* of all below, which gRPC's thread uses, too */
    struct gt_dra_call *calls, *last;
    bool ending;
    bool noticed, registered; /* the kubelet's last notice */
    char reason[REASON_SIZE];
    struct gt_buf health;
};

/* ---- calls ---- */

enum gt_dra_call_kind gt_dra_call_kind(const struct gt_dra_call *call)
{
    return call->kind;
}

const struct gt_dra_request *gt_dra_call_request(const struct gt_dra_call *call)
{
    return &call->request;
}

/* Under the lock. */
static void dra_server_unlink_call(struct gt_dra_call *call)
{
    struct gt_dra_server *server = call->server;
    *(call->previous ? &call->previous->next : &server->calls) = call->next;
    *(call->next ? &call->next->previous : &server->last) = call->previous;
}

static void dra_server_answer(struct gt_dra_call *call, enum gt_rpc_status status, const void *bytes,
                              size_t len)
{
    gt_rpc_answer(call->reply, status, bytes, len);
    gt_dra_request_done(&call->request);
    free(call);
}

void gt_dra_call_answer(struct gt_dra_call *call, const struct gt_buf *message)
{
    static const char none[] = "no memory for the answer";
    pthread_mutex_lock(&call->server->lock);
    dra_server_unlink_call(call);
    pthread_mutex_unlock(&call->server->lock);
    if (message->failed)
        dra_server_answer(call, GT_RPC_INTERNAL, none, strlen(none));
    else
        dra_server_answer(call, GT_RPC_OK, message->data, message->len);
}

static void dra_server_refuse(struct gt_rpc_reply *reply, enum gt_rpc_status status, const char *why)
{
    gt_rpc_answer(reply, status, why, strlen(why));
}

/* On gRPC's thread. */
static void take_call(struct gt_dra_server *server, enum gt_dra_call_kind kind, const uint8_t *bytes,
                      size_t len, struct gt_rpc_reply *reply)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_dra_call *call = calloc(1, sizeof(*call));
    if (!call) {
        dra_server_refuse(reply, GT_RPC_INTERNAL, "no memory for the call");
        return;
    }
    *call = (struct gt_dra_call){.server = server, .reply = reply, .kind = kind};
    if (gt_dra_request_read(bytes, len, &call->request, &err) < 0) {
        free(call);
        dra_server_refuse(reply, GT_RPC_INVALID_ARGUMENT, gt_err_text(err));
        return;
    }
    pthread_mutex_lock(&server->lock);
    bool ending = server->ending;
    if (!ending) {
        call->previous = server->last;
        *(server->last ? &server->last->next : &server->calls) = call;
        server->last = call;
    }
    pthread_mutex_unlock(&server->lock);
    if (!ending) {
        gt_mailbox_send(server->mailbox, &server->mailbox_message);
        return;
    }
    gt_dra_request_done(&call->request);
    free(call);
    dra_server_refuse(reply, GT_RPC_UNAVAILABLE, "the driver ends");
}

static void on_prepare(void *arg, const uint8_t *bytes, size_t len, struct gt_rpc_reply *reply)
{
    take_call(arg, GT_DRA_CALL_PREPARE, bytes, len, reply);
}

static void on_unprepare(void *arg, const uint8_t *bytes, size_t len, struct gt_rpc_reply *reply)
{
    take_call(arg, GT_DRA_CALL_UNPREPARE, bytes, len, reply);
}

static enum gt_rpc_status on_info(void *arg, const uint8_t *bytes, size_t len, struct gt_buf *reply,
                                  struct gt_err **err)
{
    const struct gt_dra_server *server = arg;
    (void)bytes, (void)len, (void)err;
    gt_dra_answer_info(server->driver, "", reply); /* on this socket */
    return GT_RPC_OK;
}

static enum gt_rpc_status on_notice(void *arg, const uint8_t *bytes, size_t len, struct gt_buf *reply,
                                    struct gt_err **err)
{
    struct gt_dra_server *server = arg;
    char reason[REASON_SIZE];
    bool registered;
    (void)reply;
    if (gt_dra_notice_read(bytes, len, &registered, reason, sizeof(reason), err) < 0)
        return GT_RPC_INVALID_ARGUMENT;
    pthread_mutex_lock(&server->lock);
    server->noticed = true;
    server->registered = registered;
    memcpy(server->reason, reason, sizeof(reason));
    pthread_mutex_unlock(&server->lock);
    gt_mailbox_send(server->mailbox, &server->mailbox_message);
    return GT_RPC_OK;
}

static enum gt_rpc_status dra_server_on_health(void *arg, const uint8_t *bytes, size_t len,
                                               struct gt_buf *reply, struct gt_err **err)
{
    struct gt_dra_server *server = arg;
    (void)bytes, (void)len, (void)err;
    pthread_mutex_lock(&server->lock);
    if (server->health.len)
        gt_buf_add(reply, server->health.data, server->health.len);
    pthread_mutex_unlock(&server->lock);
    return GT_RPC_OK;
}

static const struct gt_rpc_method methods[] = {
    {.path = GT_DRA_PATH_INFO, .handler = on_info},
    {.path = GT_DRA_PATH_NOTIFY, .handler = on_notice},
    {.path = GT_DRA_V1 GT_DRA_PREPARE, .later = on_prepare},
    {.path = GT_DRA_V1 GT_DRA_UNPREPARE, .later = on_unprepare},
    {.path = GT_DRA_V1BETA1 GT_DRA_PREPARE, .later = on_prepare},
    {.path = GT_DRA_V1BETA1 GT_DRA_UNPREPARE, .later = on_unprepare},
    {.path = GT_DRA_HEALTH_V1 GT_DRA_HEALTH, .handler = dra_server_on_health, .streams = true},
    {.path = GT_DRA_HEALTH_V1ALPHA GT_DRA_HEALTH, .handler = dra_server_on_health, .streams = true},
};

void gt_dra_server_health(struct gt_dra_server *server, const struct gt_buf *message)
{
    pthread_mutex_lock(&server->lock);
    gt_buf_consume(&server->health, server->health.len);
    gt_buf_add(&server->health, message->data ? message->data : "", message->len);
    pthread_mutex_unlock(&server->lock);
    gt_rpc_server_changed(server->rpc_server);
}

uint64_t gt_dra_server_busy_ms(const struct gt_dra_server *server)
{
    return gt_rpc_busy_ms(server->rpc);
}

static void dra_server_deliver(void *owner, struct gt_message *mailbox_message)
{
    struct gt_dra_server *server = owner;
    char reason[REASON_SIZE];
    (void)mailbox_message;
    pthread_mutex_lock(&server->lock);
    bool noticed = server->noticed, registered = server->registered;
    server->noticed = false;
    memcpy(reason, server->reason, sizeof(reason));
    pthread_mutex_unlock(&server->lock);
    if (noticed && registered)
        server->events.registered(server->events.arg);
    else if (noticed)
        server->events.failed(server->events.arg, reason);
    for (;;) {
        pthread_mutex_lock(&server->lock);
        struct gt_dra_call *call = server->calls;
        while (call && call->delivered)
            call = call->next;
        if (call)
            call->delivered = true;
        pthread_mutex_unlock(&server->lock);
        if (!call)
            return;
        server->events.called(server->events.arg, call);
    }
}

/* ---- the socket ---- */

static void dra_server_on_accepted(void *arg, int fd)
{
    struct gt_dra_server *server = arg;
    gt_rpc_server_add(server->rpc_server, fd);
}

/* Removes sockets of earlier processes, on which nobody listens. */
static void dra_server_clean(const struct gt_dra_server *server)
{
    gt_auto_dir DIR *dir = opendir(server->directory);
    size_t len = strlen(server->driver);
    unsigned removed = 0;
    for (const struct dirent *entry; dir && removed < STALE_SOCKETS_MAX && (entry = readdir(dir));) {
        char path[SOCKET_PATH_MAX];
        const char *name = entry->d_name + (entry->d_name[0] == '.');
        size_t all = strlen(name);
        if (strncmp(name, server->driver, len) != 0 || name[len] != '-' || all < len + strlen(suffix) ||
            strcmp(name + all - strlen(suffix), suffix) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", server->directory, entry->d_name);
        gt_auto_close int fd = gt_unix_connect(path, NULL);
        if (fd == -ECONNREFUSED && unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            removed++;
    }
}

static int listen_again(struct gt_dra_server *server, struct gt_err **err)
{
    char hidden[SOCKET_PATH_MAX];
    uint32_t number = 0;
    struct stat st;
    gt_listener_free(gt_steal(server->listener));
    if (stat(server->directory, &st) < 0)
        return gt_fail_sys(err, errno, "%s", server->directory);
    dra_server_clean(server);
    if (getrandom(&number, sizeof(number), 0) < 0)
        return gt_fail_sys(err, errno, "a random number");
    /* The kubelet calls when it finds the name; it ignores names that begin with a dot. */
    snprintf(hidden, sizeof(hidden), "%s/.%s-%08x%s", server->directory, server->driver, number, suffix);
    snprintf(server->path, sizeof(server->path), "%s/%s-%08x%s", server->directory, server->driver, number,
             suffix);
    int r =
        gt_listener_new(server->loop, hidden, dra_server_on_accepted, server, NULL, &server->listener, err);
    if (r >= 0)
        r = gt_listener_rename(server->listener, server->path, err);
    if (r < 0)
        gt_listener_free(gt_steal(server->listener));
    return r;
}

static void dra_server_on_timer(void *arg)
{
    struct gt_dra_server *server = arg;
    gt_auto_err struct gt_err *err = NULL;
    gt_source_arm(server->timer, SOCKET_CHECK_MS);
    if (server->listener && gt_listener_in_place(server->listener))
        return;
    if (listen_again(server, &err) < 0)
        server->events.failed(server->events.arg, gt_err_text(err));
}

int gt_dra_server_new(struct gt_loop *loop, const struct gt_dra_server_options *options,
                      const struct gt_dra_server_events *events, struct gt_dra_server **ret,
                      struct gt_err **err)
{
    GT_CLEANUP(gt_dra_server_free) struct gt_dra_server *server = calloc(1, sizeof(*server));
    GT_NEED(server, err, "DRA driver");
    pthread_mutex_init(&server->lock, NULL);
    server->loop = loop;
    server->events = *events;
    server->mailbox_message = (struct gt_message){.embedded = true, .deliver = dra_server_deliver};
    server->health = (struct gt_buf)GT_BUF(GT_RPC_MESSAGE_MAX);
    server->service = (struct gt_rpc_service){
        .methods = methods, .count = GT_COUNT(methods), .arg = server, .keeps_idle = true};
    server->driver = options->driver;
    if (asprintf(&server->directory, "%s/plugins_registry", options->kubelet_dir) < 0)
        server->directory = NULL;
    GT_NEED(server->directory, err, "DRA driver");
    GT_TRY(gt_loop_add_timer(loop, dra_server_on_timer, server, &server->timer, err));
    GT_TRY(gt_mailbox_new(loop, server, &server->mailbox, err));
    GT_TRY(gt_rpc_new(&server->rpc, err));
    GT_TRY(gt_rpc_server_new(server->rpc, &server->service, &server->rpc_server, err));
    gt_source_arm(server->timer, 1);
    *ret = gt_steal(server);
    return 0;
}

static void end_calls(struct gt_dra_server *server)
{
    static const char why[] = "the driver ends";
    for (;;) {
        pthread_mutex_lock(&server->lock);
        server->ending = true;
        struct gt_dra_call *call = server->calls;
        if (call)
            dra_server_unlink_call(call);
        pthread_mutex_unlock(&server->lock);
        if (!call)
            return;
        dra_server_answer(call, GT_RPC_UNAVAILABLE, why, strlen(why));
    }
}

void gt_dra_server_free(struct gt_dra_server *server)
{
    if (!server)
        return;
    gt_listener_free(server->listener);
    end_calls(server);
    gt_rpc_server_free(server->rpc_server);
    gt_rpc_free(server->rpc);
    gt_mailbox_free(server->mailbox);
    gt_source_free(server->timer);
    gt_buf_done(&server->health);
    pthread_mutex_destroy(&server->lock);
    free(server->directory);
    free(server);
}
