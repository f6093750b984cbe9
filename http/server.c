/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "http/listen.h"

/*
 * libmicrohttpd keeps its connections in an epoll set of its own, which is one descriptor of our loop. The
 * listening socket stays with us: the library would spin on it when descriptors run out.
 */

enum {
    SILENCE_S = 10,
    REQUEST_MS = 20000, /* the most a request may take, whatever the peer's pace */
    SWEEP_MS = 5000,
    ACCEPT_PAUSE_MS = 1000,
    RUNS_AT_ONCE = 16,
};

struct peer {
    struct peer *previous, *next;
    int fd;
    uint64_t since_ms; /* connected, or done with the request before */
};

struct gt_http {
    struct gt_loop *loop;
    struct MHD_Daemon *daemon;
    gt_http_handler *handler;
    void *arg;
    int listener;
    unsigned port;
    struct gt_source *listener_source; /* NULL while nothing more is accepted */
    struct gt_source *daemon_source, *timeout, *sweep, *accept_again;
    struct peer *peers;
    unsigned peer_count;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static enum MHD_Result answer(struct gt_http *http, struct MHD_Connection *connection, unsigned status,
                              const char *content_type, struct gt_buf *body, const char *allow)
{
    (void)http;
    size_t len = body->len;
    char *data = gt_buf_take(body);
    if (!data)
        return MHD_NO;
    struct MHD_Response *response = MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(data);
        return MHD_NO;
    }
    enum MHD_Result done = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (allow && done == MHD_YES) {
        done = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
        /* A body that may follow is never read: the connection cannot go on. */
        if (done == MHD_YES)
            done = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    if (done == MHD_YES)
        done = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return done;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    static char header_seen;
    struct gt_http *http = arg;
    (void)version;
    (void)upload;
    gt_auto_buf struct gt_buf body = GT_BUF(GT_HTTP_BODY_MAX);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        gt_buf_puts(&body, "only GET and HEAD are served here\n");
        return answer(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", &body,
                      "GET, HEAD");
    }
    if (!*state) {
        *state = &header_seen;
        return MHD_YES;
    }
    if (*upload_size) { /* a GET with a body: read over */
        *upload_size = 0;
        return MHD_YES;
    }
    struct gt_http_response response = {
        .status = MHD_HTTP_OK, .content_type = "text/plain; charset=utf-8", .body = GT_BUF(GT_HTTP_BODY_MAX)};
    http->handler(http->arg, url, &response);
    enum MHD_Result done;
    if (response.body.failed) {
        gt_buf_puts(&body, "the answer is too large\n");
        done = answer(http, connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", &body,
                      NULL);
    } else
        done = answer(http, connection, response.status, response.content_type, &response.body, NULL);
    gt_buf_done(&response.body);
    return done;
}

/* Paths stay as they were written, so that "%00" ends no string. */
static size_t keep_escapes(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text);
}

static void discard_log(void *arg, const char *format, va_list args)
{
    (void)arg;
    (void)format;
    (void)args;
}

static void start_accepting(struct gt_http *http);

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct gt_http *http = arg;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        struct peer *peer = *context;
        if (!peer)
            return;
        if (peer->previous)
            peer->previous->next = peer->next;
        else
            http->peers = peer->next;
        if (peer->next)
            peer->next->previous = peer->previous;
        free(peer);
        *context = NULL;
        if (http->peer_count-- == GT_HTTP_CONNECTIONS_MAX && http->accept_again)
            gt_source_arm(http->accept_again, 0);
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct peer *peer = malloc(sizeof(*peer));
    if (!peer || !info) { /* served without the limit on its time; silence still ends it */
        free(peer);
        *context = NULL;
        return;
    }
    *peer = (struct peer){.next = http->peers, .fd = info->connect_fd, .since_ms = now_ms()};
    if (peer->next)
        peer->next->previous = peer;
    http->peers = peer;
    http->peer_count++;
    *context = peer;
    if (http->peer_count == 1)
        gt_source_arm(http->sweep, SWEEP_MS);
}

static void on_request_done(void *arg, struct MHD_Connection *connection, void **state,
                            enum MHD_RequestTerminationCode code)
{
    (void)arg;
    (void)state;
    (void)code;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info && info->socket_context)
        ((struct peer *)info->socket_context)->since_ms = now_ms();
}

static void run_daemon(struct gt_http *http)
{
    MHD_UNSIGNED_LONG_LONG wait = 0;
    bool has_wait = true;
    for (int i = 0; i < RUNS_AT_ONCE && has_wait && wait == 0; i++) {
        MHD_run(http->daemon);
        has_wait = MHD_get_timeout(http->daemon, &wait) == MHD_YES;
    }
    if (has_wait)
        gt_source_arm(http->timeout, wait);
    else
        gt_source_disarm(http->timeout);
}

static void on_daemon(void *arg, uint32_t events)
{
    (void)events;
    run_daemon(arg);
}

static void on_timeout(void *arg)
{
    run_daemon(arg);
}

/* Cuts off who has had his time; the library notices the end of the stream and cleans up. */
static void on_sweep(void *arg)
{
    struct gt_http *http = arg;
    uint64_t now = now_ms();
    for (struct peer *peer = http->peers; peer; peer = peer->next)
        if (now - peer->since_ms > REQUEST_MS)
            shutdown(peer->fd, SHUT_RDWR);
    run_daemon(http);
    if (http->peers)
        gt_source_arm(http->sweep, SWEEP_MS);
}

static void pause_accepting(struct gt_http *http)
{
    gt_source_free(gt_steal(http->listener_source));
}

static void on_accept(void *arg, uint32_t events)
{
    struct gt_http *http = arg;
    (void)events;
    while (http->peer_count < GT_HTTP_CONNECTIONS_MAX) {
        struct sockaddr_storage address;
        socklen_t len = sizeof(address);
        int fd = accept4(http->listener, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                pause_accepting(http);
                gt_source_arm(http->accept_again, ACCEPT_PAUSE_MS);
            }
            break; /* no more, or one that its peer gave up: the next event comes by itself */
        }
        /* Closes the descriptor itself where it fails. */
        MHD_add_connection(http->daemon, fd, (const struct sockaddr *)&address, len);
    }
    if (http->peer_count >= GT_HTTP_CONNECTIONS_MAX && http->listener_source)
        pause_accepting(http); /* until a connection ends */
    run_daemon(http);
}

static void start_accepting(struct gt_http *http)
{
    if (!http->listener_source && http->peer_count < GT_HTTP_CONNECTIONS_MAX &&
        gt_loop_add_fd(http->loop, http->listener, EPOLLIN, on_accept, http, &http->listener_source, NULL) <
            0)
        gt_source_arm(http->accept_again, ACCEPT_PAUSE_MS);
}

static void on_accept_again(void *arg)
{
    start_accepting(arg);
}

static int start_daemon(struct gt_http *http, struct gt_err **err)
{
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
        discard_log, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)GT_HTTP_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)GT_HTTP_HEADER_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SILENCE_S, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_NOTIFY_COMPLETED,
        on_request_done, http, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_END);
    if (!http->daemon)
        return gt_fail(err, EIO, "the HTTP server does not start");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return gt_fail(err, EIO, "the HTTP library has no epoll");
    return gt_loop_add_fd(http->loop, info->epoll_fd, EPOLLIN, on_daemon, http, &http->daemon_source, err);
}

int gt_http_new(struct gt_loop *loop, const char *address, gt_http_handler *handler, void *arg,
                struct gt_http **ret, struct gt_err **err)
{
    gt_auto_http struct gt_http *http = calloc(1, sizeof(*http));
    if (!http)
        return gt_fail_sys(err, ENOMEM, "HTTP server");
    *http = (struct gt_http){.loop = loop, .handler = handler, .arg = arg, .listener = -1};
    int r = gt_http_listen(address, &http->listener, &http->port, err);
    if (r < 0)
        return r;
    r = gt_loop_add_timer(loop, on_timeout, http, &http->timeout, err);
    if (r >= 0)
        r = gt_loop_add_timer(loop, on_sweep, http, &http->sweep, err);
    if (r >= 0)
        r = gt_loop_add_timer(loop, on_accept_again, http, &http->accept_again, err);
    if (r >= 0)
        r = start_daemon(http, err);
    if (r >= 0)
        r = gt_loop_add_fd(loop, http->listener, EPOLLIN, on_accept, http, &http->listener_source, err);
    if (r < 0)
        return gt_wrap(err, "HTTP server on %s", address);
    *ret = gt_steal(http);
    return 0;
}

unsigned gt_http_port(const struct gt_http *http)
{
    return http->port;
}

void gt_http_free(struct gt_http *http)
{
    if (!http)
        return;
    gt_source_free(http->daemon_source);
    gt_source_free(http->listener_source);
    gt_source_free(http->timeout);
    gt_source_free(http->sweep);
    gt_source_free(gt_steal(http->accept_again));
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    if (http->listener >= 0)
        close(http->listener);
    free(http);
}
