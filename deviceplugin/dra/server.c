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

enum { SOCKET_CHECK_MS = 2000, REASON_SIZE = 512, SOCKET_PATH_MAX = 512 };

static const char suffix[] = "-reg.sock";

/* A call, on its way to the loop's thread. */
struct dra_call_message {
    struct gt_message message;
    enum gt_dra_call_kind kind;
    struct gt_rpc_reply *reply;
    size_t len;
    uint8_t bytes[];
};

struct gt_dra_server {
    struct gt_message mailbox_message; /* embedded: there is a notice */
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

    pthread_mutex_t lock;     /* of all below, which gRPC's thread uses, too */
    bool noticed, registered; /* the kubelet's last notice */
    char reason[REASON_SIZE];
    struct gt_buf health;
};

/* ---- calls ---- */

static void deliver_call(void *owner, struct gt_message *base)
{
    struct gt_dra_server *server = owner;
    const struct dra_call_message *call = (const struct dra_call_message *)base;
    gt_auto_free struct gt_dra_request *request = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_dra_request_read(call->bytes, call->len, &request, &err) < 0)
        gt_rpc_answer(call->reply, GT_RPC_INVALID_ARGUMENT, gt_err_text(err), strlen(gt_err_text(err)));
    else
        server->events.called(server->events.arg, call->kind, request, call->reply);
}

/* On gRPC's thread. */
static bool dra_server_send_call(struct gt_dra_server *server, enum gt_dra_call_kind kind,
                                 const uint8_t *bytes, size_t len, struct gt_rpc_reply *reply)
{
    struct dra_call_message *call = malloc(sizeof(*call) + len);
    if (!call)
        return false;
    *call = (struct dra_call_message){
        .message = {.deliver = deliver_call}, .kind = kind, .reply = reply, .len = len};
    if (len)
        memcpy(call->bytes, bytes, len);
    return gt_mailbox_send(server->mailbox, &call->message);
}

static bool on_prepare(void *arg, const uint8_t *bytes, size_t len, struct gt_rpc_reply *reply)
{
    return dra_server_send_call(arg, GT_DRA_CALL_PREPARE, bytes, len, reply);
}

static bool on_unprepare(void *arg, const uint8_t *bytes, size_t len, struct gt_rpc_reply *reply)
{
    return dra_server_send_call(arg, GT_DRA_CALL_UNPREPARE, bytes, len, reply);
}

static enum gt_rpc_status on_info(void *arg, const uint8_t *bytes, size_t len, struct gt_buf *reply,
                                  struct gt_err **err)
{
    const struct gt_dra_server *server = arg;
    (void)bytes, (void)len, (void)err;
    gt_dra_answer_info(server->driver, reply);
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
}

/* ---- the socket ---- */

static void dra_server_on_accepted(void *arg, int fd)
{
    struct gt_dra_server *server = arg;
    gt_rpc_server_add(server->rpc_server, fd);
}

static int listen_again(struct gt_dra_server *server, struct gt_err **err)
{
    char hidden[SOCKET_PATH_MAX];
    uint32_t number = 0;
    struct stat st;
    gt_listener_free(gt_steal(server->listener));
    if (stat(server->directory, &st) < 0)
        return gt_fail_sys(err, errno, "%s", server->directory);
    snprintf(hidden, sizeof(hidden), ".%s-", server->driver);
    gt_listener_sweep(server->directory, hidden, suffix); /* of earlier processes */
    gt_listener_sweep(server->directory, hidden + 1, suffix);
    if (getrandom(&number, sizeof(number), 0) < 0)
        return gt_fail_sys(err, errno, "a random number");
    /* The kubelet calls when it finds the name; it ignores names that begin with a dot. */
    snprintf(hidden, sizeof(hidden), "%s/.%s-%08x%s", server->directory, server->driver, number, suffix);
    snprintf(server->path, sizeof(server->path), "%s/%s-%08x%s", server->directory, server->driver, number,
             suffix);
    int r = gt_listener_new(server->loop, hidden, dra_server_on_accepted, server, &server->listener, err);
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

void gt_dra_server_free(struct gt_dra_server *server)
{
    if (!server)
        return;
    gt_listener_free(server->listener);
    gt_rpc_server_free(server->rpc_server);
    gt_rpc_free(server->rpc);
    gt_mailbox_free(server->mailbox);
    gt_source_free(server->timer);
    gt_buf_done(&server->health);
    pthread_mutex_destroy(&server->lock);
    free(server->directory);
    free(server);
}
