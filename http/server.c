/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/process.h"
#include "http/internal.h"

/*
 * libmicrohttpd keeps its connections in an epoll set of its own, which is one descriptor of our loop. The
 * listening socket stays with us: the library would spin on it when descriptors run out.
 */

enum {
    SWEEP_MS = 5000, /* at most */
    ACCEPT_PAUSE_MS = 100,
    ACCEPTS_AT_ONCE =
        8, /* before what they sent is read; so many may be on their way out beside the others */
    RUNS_AT_ONCE = 16,
    DESCRIPTORS = 4096, /* asked for where the soft limit of the process is less */
};

static void run_daemon(struct gt_http *http)
{
    MHD_UNSIGNED_LONG_LONG wait = 0;
    bool has_wait = true;
    for (int i = 0; i < RUNS_AT_ONCE && has_wait && wait == 0; i++) {
        MHD_run(http->library.daemon);
        has_wait = MHD_get_timeout(http->library.daemon, &wait) == MHD_YES;
    }
    if (!has_wait)
        return;
    if (wait == 0) { /* others of the loop first */
        gt_mailbox_send(http->mailbox, &http->again);
        return;
    }
    /* Deadlines mostly move to later times. So the timer is not set again for each request: if it fires
     * early, it checks again. */
    uint64_t at = gt_clock_ms() + wait;
    if (!http->library.timeout_at_ms || at < http->library.timeout_at_ms) {
        http->library.timeout_at_ms = at;
        gt_source_arm(http->library.timeout, wait);
    }
}

static void on_daemon(void *arg, uint32_t events)
{
    (void)events;
    run_daemon(arg);
}

static void on_again(void *owner, struct gt_message *message)
{
    (void)message;
    run_daemon(owner);
}

static void on_timeout(void *arg)
{
    struct gt_http *http = arg;
    http->library.timeout_at_ms = 0;
    run_daemon(http);
}

static unsigned sweep_ms(const struct gt_http *http)
{
    unsigned quarter = http->spec.request_ms / 4 + 1;
    return quarter < SWEEP_MS ? quarter : SWEEP_MS;
}

static bool overdue(const struct gt_http_peer *peer, uint64_t now)
{
    const struct gt_http_spec *spec = &peer->http->spec;
    unsigned limit = spec->request_ms;
    /* The library ends silent connections; this ends those whose request line comes too slowly. */
    if (!peer->in_request && peer->served && spec->idle_ms > limit)
        limit = spec->idle_ms;
    return now - peer->since_ms > limit;
}

/*
 * The library misses the end of a stream that came together with the last bytes before it. To shut the
 * reading side, which is at its end, makes it check again.
 */
static void show_end(struct gt_http_peer *peer)
{
    char byte;
    if (!peer->end_shown && recv(peer->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
        peer->end_shown = true;
        shutdown(peer->fd, SHUT_RD);
    }
}

/* Shuts down connections whose time is over; the library notices the end of the stream and cleans up. */
static void on_sweep(void *arg)
{
    struct gt_http *http = arg;
    uint64_t now = gt_clock_ms();
    for (struct gt_http_peer *peer = http->peers; peer; peer = peer->next)
        if (!peer->cut && overdue(peer, now)) {
            http->stats.cut_slow++;
            gt_http_cut(peer);
        } else
            show_end(peer);
    run_daemon(http);
    if (http->peers)
        gt_source_arm(http->sweep, sweep_ms(http));
}

static const union MHD_ConnectionInfo *info_of(struct MHD_Connection *connection,
                                               enum MHD_ConnectionInfoType what)
{
    return MHD_get_connection_info(connection, what);
}

static void open_peer(struct gt_http *http, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info = info_of(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    int fd = info ? info->connect_fd : -1;
    struct gt_http_peer *peer = calloc(1, sizeof(*peer));
    http->stats.connections++;
    http->stats.connections_total++;
    info = info_of(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct gt_http_remote *remote = peer && info ? gt_http_remote_get(http, info->client_addr) : NULL;
    if (!remote) { /* without one no request is served */
        free(peer);
        shutdown(fd, SHUT_RDWR);
        return;
    }
    *context = peer;
    uint64_t now = gt_clock_ms();
    *peer = (struct gt_http_peer){
        .http = http, .next = http->peers, .remote = remote, .fd = fd, .since_ms = now, .received_ms = now};
    http->live++;
    remote->connections++;
    if (http->tls) {
        info = info_of(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        peer->tls.session = info ? info->tls_session : NULL;
        peer->tls.set =
            peer->tls.session ? gt_tls_dress(http->tls, peer->tls.session, &peer->tls.done) : NULL;
        if (!peer->tls.set) /* the session has no certificate: no handshake succeeds */
            shutdown(fd, SHUT_RDWR);
    }
    if (!http->peers)
        gt_source_arm(http->sweep, sweep_ms(http));
    else
        http->peers->previous = peer;
    http->peers = peer;
}

static void close_peer(struct gt_http *http, struct gt_http_peer *peer)
{
    http->stats.connections--;
    if (!http->listener_source && http->accept_again)
        gt_source_arm(http->accept_again, 0);
    if (!peer)
        return;
    if (!peer->cut) {
        http->live--;
        peer->remote->connections--;
    }
    if (peer->linger && http->linger)
        gt_linger_add(http->linger, peer->fd);
    if (peer->previous)
        peer->previous->next = peer->next;
    else
        http->peers = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    gt_http_peer_reset(peer);
    gt_http_remote_put(http, peer->remote);
    http->stats.refused_tls += http->tls && !peer->tls.done;
    gt_tls_set_unref(peer->tls.set); /* its session is gone already */
    free(peer->tls.client_names);
    free(peer);
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        open_peer(arg, connection, context);
    else
        close_peer(arg, gt_steal(*context));
}

/* Until a connection ends, or a moment has passed. */
static void http_server_pause_accepting(struct gt_http *http)
{
    gt_source_free(gt_steal(http->listener_source));
    gt_source_arm(http->accept_again, ACCEPT_PAUSE_MS);
}

static struct gt_http_peer *find_victim(struct gt_http *http, const struct gt_http_remote *remote)
{
    run_daemon(http); /* connections that have sent something by now are not silent */
    return gt_http_victim(http, remote);
}

static void http_server_evict(struct gt_http *http, struct gt_http_peer *peer)
{
    if (!peer)
        return;
    http->stats.evicted++;
    gt_http_cut(peer);
}

static void check_certificate(struct gt_http *http)
{
    gt_auto_err struct gt_err *why = NULL;
    int r = gt_tls_check(http->tls, &why);
    if (r > 0)
        http->stats.tls_loads++;
    else if (r < 0)
        http->stats.tls_failures++;
    if (r != 0 && http->spec.on_tls)
        http->spec.on_tls(http->spec.arg, r < 0 ? gt_err_text(why) : NULL);
}

/* Makes room for a connection of that address within what one address may have. */
static bool http_server_admit(struct gt_http *http, const struct sockaddr *address)
{
    struct gt_http_remote *remote = gt_http_remote_get(http, address);
    bool full = remote && remote->connections >= http->spec.address_max;
    struct gt_http_peer *victim = full ? find_victim(http, remote) : NULL;
    http_server_evict(http, victim);
    if (remote)
        gt_http_remote_put(http, remote);
    if (remote && full && !victim)
        http->stats.refused_address++;
    return remote && (!full || victim);
}

/* False: there is no further connection now. */
static bool accept_one(struct gt_http *http)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    const struct gt_http_spec *spec = &http->spec;
    bool full = http->live >= spec->connections_max;
    if (http->stats.connections >= spec->connections_max + ACCEPTS_AT_ONCE ||
        (full && !find_victim(http, NULL))) {
        http_server_pause_accepting(http);
        return false;
    }
    int fd = accept4(http->listener, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            http_server_evict(http, gt_http_victim(http, NULL));
            http_server_pause_accepting(http);
        }
        return false; /* no more, or one that its peer gave up: the next event comes by itself */
    }
    if (!http_server_admit(http, (const struct sockaddr *)&address)) {
        close(fd);
        return true;
    }
    if (http->live >= spec->connections_max)
        http_server_evict(http, gt_http_victim(http, NULL));
    /* Closes the descriptor itself where it fails. */
    MHD_add_connection(http->library.daemon, fd, (const struct sockaddr *)&address, len);
    return true;
}

static void on_accept(void *arg, uint32_t events)
{
    struct gt_http *http = arg;
    (void)events;
    if (http->tls)
        check_certificate(http);
    for (unsigned i = 0; i < ACCEPTS_AT_ONCE && accept_one(http); i++)
        ;
    run_daemon(http);
}

static void on_accept_again(void *arg)
{
    struct gt_http *http = arg;
    if (!http->listener_source &&
        gt_loop_add_fd(http->loop, http->listener, POLLIN, on_accept, http, &http->listener_source, NULL) < 0)
        gt_source_arm(http->accept_again, ACCEPT_PAUSE_MS);
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

static int start_daemon(struct gt_http *http, struct gt_err **err)
{
    const struct gt_http_spec *spec = &http->spec;
    http->library.daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | (http->tls ? MHD_USE_TLS : 0), 0, NULL, NULL,
        gt_http_on_request, http, MHD_OPTION_EXTERNAL_LOGGER, discard_log, NULL, MHD_OPTION_CONNECTION_LIMIT,
        spec->connections_max + ACCEPTS_AT_ONCE, MHD_OPTION_CONNECTION_MEMORY_LIMIT, spec->buffer,
        MHD_OPTION_CONNECTION_TIMEOUT, (spec->idle_ms + 999) / 1000, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, http, MHD_OPTION_NOTIFY_COMPLETED, gt_http_on_request_done, http,
        MHD_OPTION_URI_LOG_CALLBACK, gt_http_on_line, http, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
        MHD_OPTION_HTTPS_CERT_CALLBACK, gt_tls_no_certificate(), MHD_OPTION_HTTPS_PRIORITIES,
        gt_tls_priorities, MHD_OPTION_END);
    if (!http->library.daemon)
        return gt_fail(err, EIO, "the HTTP server does not start");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->library.daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return gt_fail(err, EIO, "the HTTP library has no epoll");
    return gt_loop_add_fd(http->loop, info->epoll_fd, POLLIN, on_daemon, http, &http->library.source, err);
}

static int add_sources(struct gt_http *http, struct gt_err **err)
{
    struct gt_loop *loop = http->loop;
    http->again = (struct gt_message){.embedded = true, .deliver = on_again};
    GT_TRY(gt_mailbox_new(loop, http, &http->mailbox, err));
    GT_TRY(gt_loop_add_timer(loop, on_timeout, http, &http->library.timeout, err));
    GT_TRY(gt_loop_add_timer(loop, on_sweep, http, &http->sweep, err));
    GT_TRY(gt_loop_add_timer(loop, on_accept_again, http, &http->accept_again, err));
    GT_TRY(gt_linger_new(loop, &http->linger, err));
    GT_TRY(start_daemon(http, err));
    return gt_loop_add_fd(loop, http->listener, POLLIN, on_accept, http, &http->listener_source, err);
}

static void fill_in(struct gt_http_spec *spec)
{
    spec->answer_max = spec->answer_max ? spec->answer_max : GT_HTTP_BODY_MAX;
    if (spec->answer_max > spec->budget->max / 2) /* no request could ever get so much */
        spec->answer_max = spec->budget->max / 2;
    spec->buffer = spec->buffer ? spec->buffer : GT_HTTP_HEADER_MAX;
    spec->connections_max = spec->connections_max ? spec->connections_max : GT_HTTP_CONNECTIONS_MAX;
    /* The process has other uses of descriptors, and other servers. */
    uint64_t quarter = gt_process_descriptors(DESCRIPTORS) / 4 + 1;
    if (spec->connections_max > quarter)
        spec->connections_max = (unsigned)quarter;
    spec->address_max = spec->address_max ? spec->address_max : (spec->connections_max + 1) / 2;
    spec->idle_ms = spec->idle_ms ? spec->idle_ms : GT_HTTP_IDLE_MS;
    spec->request_ms = spec->request_ms ? spec->request_ms : GT_HTTP_REQUEST_MS;
}

int gt_http_start(struct gt_loop *loop, const struct gt_http_spec *spec, struct gt_http **ret,
                  struct gt_err **err)
{
    gt_auto_http struct gt_http *http = calloc(1, sizeof(*http));
    GT_NEED(http, err, "HTTP server");
    *http = (struct gt_http){.loop = loop, .spec = *spec, .listener = -1};
    http->own_budget.max = GT_HTTP_BYTES_MAX;
    if (!http->spec.budget)
        http->spec.budget = &http->own_budget;
    fill_in(&http->spec);
    GT_TRY(spec->tls.certificate ? gt_tls_new(&spec->tls, &http->tls, err) : 0);
    GT_TRY(gt_http_listen(spec->address, &http->listener, &http->port, err));
    http->stats.tls_loads = http->tls != NULL;
    GT_TRY_WRAP(add_sources(http, err), err, "HTTP server on %s", spec->address);
    *ret = gt_steal(http);
    return 0;
}

int gt_http_new(struct gt_loop *loop, const char *address, gt_http_handler *handler, void *arg,
                struct gt_http **ret, struct gt_err **err)
{
    struct gt_http_spec spec = {.address = address, .handler = handler, .arg = arg};
    return gt_http_start(loop, &spec, ret, err);
}

int gt_http_new_health(struct gt_loop *loop, const char *address, gt_http_handler *handler, void *arg,
                       struct gt_http **ret, struct gt_err **err)
{
    struct gt_http_spec spec = {
        .address = address,
        .handler = handler,
        .arg = arg,
        .answer_max = 16 << 10,
        .buffer = 4 << 10,
        .connections_max = 16,
        .idle_ms = 2000,
        .request_ms = 2000,
    };
    return gt_http_start(loop, &spec, ret, err);
}

unsigned gt_http_port(const struct gt_http *http)
{
    return http->port;
}

void gt_http_stats(struct gt_http *http, struct gt_http_stats *ret)
{
    if (http->tls)
        check_certificate(http);
    *ret = http->stats;
    if (http->tls)
        gt_tls_validity(http->tls, &ret->tls_begins, &ret->tls_expires);
}

void gt_http_free(struct gt_http *http)
{
    if (!http)
        return;
    gt_source_free(http->library.source);
    gt_source_free(http->listener_source);
    gt_source_free(http->library.timeout);
    gt_source_free(http->sweep);
    gt_source_free(gt_steal(http->accept_again));
    gt_linger_free(gt_steal(http->linger));
    if (http->library.daemon)
        MHD_stop_daemon(http->library.daemon);
    gt_mailbox_free(http->mailbox);
    gt_tls_free(http->tls);
    if (http->listener >= 0)
        close(http->listener);
    free(http);
}
