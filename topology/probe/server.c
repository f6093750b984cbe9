/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "topology/probe/protocol.h"
#include "topology/probe/worker.h"

enum {
    CLIENTS_MAX = 8,
    PATIENCE_MS = 5000,  /* for a first request, the rest of a line, and for a reader to read */
    EVENT_GAP_MS = 1000, /* watchers get events at most that often */
    PASSED_MAX = 4,
};

struct client {
    int fd; /* -1: free place */
    int watch;
    bool served; /* has sent a valid request: may stay idle */
    int64_t since;
    char in[GT_PROBE_REQUEST_MAX];
    size_t in_len;
    char *out;
    size_t out_len, out_sent;
};

struct server {
    struct gt_prober *prober;
    const struct gt_server_options *options;
    struct client clients[CLIENTS_MAX];
    bool ended;         /* the inherited connection is over */
    int64_t event_sent; /* when */
    bool event_waiting; /* one more is to be sent */
};

static void probe_server_drop(struct server *server, struct client *client)
{
    if (client->fd == server->options->peer)
        server->ended = true;
    close(client->fd);
    if (client->watch >= 0)
        close(client->watch);
    free(client->out);
    *client = (struct client){.fd = -1, .watch = -1};
}

/* A free place; the client silent for longest makes room, but not one that watches or waits for its answer.
 */
static struct client *probe_server_place(struct server *server)
{
    struct client *oldest = NULL;
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];
        if (client->fd < 0)
            return client;
        if (client->watch < 0 && !client->out && client->fd != server->options->peer &&
            (!oldest || client->since < oldest->since))
            oldest = client;
    }
    if (oldest)
        probe_server_drop(server, oldest);
    return oldest;
}

static void accept_client(struct server *server)
{
    gt_auto_close int fd = accept4(server->options->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) /* the connection stays readable: no spinning */
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        (peer.uid != geteuid() && peer.uid != 0 && peer.uid != server->options->allowed)) {
        gt_warning("client refused", GT_INT("uid", peer.uid));
        return;
    }
    struct client *client = probe_server_place(server);
    if (client)
        *client = (struct client){.fd = gt_steal_fd(&fd), .watch = -1, .since = gt_clock_signed_ms()};
}

static void flush(struct server *server, struct client *client)
{
    while (client->out_sent < client->out_len) {
        ssize_t n = send(client->fd, client->out + client->out_sent, client->out_len - client->out_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            probe_server_drop(server, client);
            return;
        }
        client->out_sent += (size_t)n;
        client->since = gt_clock_signed_ms();
    }
    free(client->out);
    client->out = NULL;
    client->out_len = client->out_sent = 0;
}

static void reply(struct server *server, struct client *client, const char *line, const char *document,
                  size_t len)
{
    gt_auto_buf struct gt_buf out = GT_BUF(GT_PROBE_HEADER_MAX + GT_PROBE_DOCUMENT_MAX);
    gt_buf_puts(&out, line);
    gt_buf_add(&out, document, len);
    size_t total = out.len;
    client->out = gt_buf_take(&out);
    if (!client->out) {
        probe_server_drop(server, client);
        return;
    }
    client->out_len = total;
    client->out_sent = 0;
    client->since = gt_clock_signed_ms();
    flush(server, client);
}

static void probe_server_scan(struct server *server, struct client *client, const struct gt_probe_plan *plan)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *log = NULL;
    size_t len = 0;
    unsigned restarts = 0;
    char line[GT_PROBE_HEADER_MAX];
    if (gt_prober_scan(server->prober, plan, &log, &len, &restarts, &err) < 0) {
        if (gt_err_code(err) == ECANCELED) {
            server->ended = true;
            return;
        }
        snprintf(line, sizeof(line), "error %.190s\n", gt_err_text(err));
        reply(server, client, line, "", 0);
        return;
    }
    snprintf(line, sizeof(line), "ok %zu %u\n", len, restarts);
    reply(server, client, line, log, len);
}

static void probe_server_serve(struct server *server, struct client *client)
{
    while (client->fd >= 0 && !client->out && !server->ended) {
        size_t used = 0;
        enum gt_probe_request request = gt_probe_read_request(client->in, client->in_len, &used);
        if (request == GT_PROBE_INCOMPLETE)
            return;
        if (request == GT_PROBE_BAD) {
            probe_server_drop(server, client);
            return;
        }
        client->served = true;
        client->in_len -= used;
        memmove(client->in, client->in + used, client->in_len);
        if (request == GT_PROBE_SCAN)
            probe_server_scan(server, client, &gt_plan_scan);
        else if (request == GT_PROBE_HEALTH)
            probe_server_scan(server, client, &gt_plan_health);
        else if (request == GT_PROBE_WATCH && client->watch < 0)
            reply(server, client, "error watch comes with a socket\n", "", 0);
        else
            reply(server, client, "ok 0 0\n", "", 0);
        if (request == GT_PROBE_WATCH)
            gt_prober_events(server->prober)->wanted = true;
    }
}

/* Keeps the first descriptor that came along, for events, and closes the others. */
static void server_keep_descriptor(struct client *client, struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
            if (client->watch < 0)
                client->watch = fd;
            else
                close(fd);
        }
    }
}

static void receive(struct server *server, struct client *client)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(PASSED_MAX * sizeof(int))];
    struct iovec part = {client->in + client->in_len, sizeof(client->in) - client->in_len};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(client->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n >= 0)
        server_keep_descriptor(client, &message);
    if (n <= 0) {
        probe_server_drop(server, client);
        return;
    }
    client->in_len += (size_t)n;
    client->since = gt_clock_signed_ms();
    probe_server_serve(server, client);
}

/* Notifies watchers; send() never blocks here, whatever kind of descriptor they have passed. */
static void probe_server_send_event(struct server *server)
{
    server->event_waiting = false;
    server->event_sent = gt_clock_signed_ms();
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];
        if (client->fd >= 0 && client->watch >= 0 &&
            send(client->watch, "e", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN) {
            close(client->watch);
            client->watch = -1;
        }
    }
}

/* Drops clients whose time is over; returns how long to sleep until the next one, -1 for ever. */
static int run_timers(struct server *server)
{
    int64_t now = gt_clock_signed_ms(), next = -1;
    if (server->event_waiting && now - server->event_sent >= EVENT_GAP_MS)
        probe_server_send_event(server);
    if (server->event_waiting)
        next = EVENT_GAP_MS - (now - server->event_sent);
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];
        if (client->fd < 0 || (client->served && !client->in_len && !client->out) ||
            client->fd == server->options->peer)
            continue;
        int64_t left = PATIENCE_MS - (now - client->since);
        if (left <= 0)
            probe_server_drop(server, client);
        else if (next < 0 || left < next)
            next = left;
    }
    return (int)next;
}

int gt_server_run(struct gt_prober *prober, const struct gt_server_options *options, struct gt_err **err)
{
    struct server server = {
        .prober = prober, .options = options, .event_sent = gt_clock_signed_ms() - EVENT_GAP_MS};
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        server.clients[i] = (struct client){.fd = -1, .watch = -1};
    if (options->peer >= 0)
        server.clients[0].fd = options->peer;
    while (!server.ended) {
        int timeout = run_timers(&server);
        struct pollfd fds[CLIENTS_MAX + 2];
        for (unsigned i = 0; i < CLIENTS_MAX; i++) {
            const struct client *client = &server.clients[i];
            fds[i] = (struct pollfd){.fd = client->fd, .events = client->out ? POLLOUT : POLLIN};
        }
        fds[CLIENTS_MAX] = (struct pollfd){.fd = options->listener, .events = POLLIN};
        fds[CLIENTS_MAX + 1] =
            (struct pollfd){.fd = gt_event_worker_fd(gt_prober_events(prober)), .events = POLLIN};
        int n = poll(fds, CLIENTS_MAX + 2, timeout);
        if (n < 0 && errno != EINTR)
            return gt_fail_sys(err, errno, "probe: poll");
        if (n <= 0)
            continue;
        for (unsigned i = 0; i < CLIENTS_MAX && !server.ended; i++) {
            struct client *client = &server.clients[i];
            if (!fds[i].revents || client->fd != fds[i].fd)
                continue;
            if (!client->out) {
                receive(&server, client);
                continue;
            }
            if (fds[i].revents & (POLLHUP | POLLERR))
                probe_server_drop(&server, client);
            else {
                flush(&server, client);
                if (client->fd >= 0)
                    probe_server_serve(&server, client); /* what it sent meanwhile */
            }
        }
        if (fds[CLIENTS_MAX].revents)
            accept_client(&server);
        if (fds[CLIENTS_MAX + 1].revents &&
            gt_event_worker_fd(gt_prober_events(prober)) == fds[CLIENTS_MAX + 1].fd)
            server.event_waiting = gt_event_worker_take(gt_prober_events(prober)) || server.event_waiting;
    }
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        if (server.clients[i].fd >= 0)
            probe_server_drop(&server, &server.clients[i]);
    return 0;
}
