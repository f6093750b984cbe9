/* SPDX-License-Identifier: Apache-2.0 */
#include "load_connection.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 64 << 10 };

void load_close(struct load_connection *c)
{
    if (c->session)
        gnutls_deinit(c->session);
    if (c->fd >= 0)
        close(c->fd);
    c->session = NULL;
    c->fd = -1;
    c->state = LOAD_CLOSED;
}

bool load_open(struct load_connection *c, int epoll)
{
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    c->session = NULL;
    c->fresh = true;
    c->state = LOAD_CONNECTING;
    if (c->fd < 0)
        return false;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const struct sockaddr *to = (const struct sockaddr *)&c->target->address;
    if (connect(c->fd, to, sizeof(c->target->address)) < 0 && errno != EINPROGRESS)
        return false;
    if (c->target->tls) {
        if (gnutls_init(&c->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0)
            return false;
        gnutls_set_default_priority(c->session);
        gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->target->credentials);
        gnutls_server_name_set(c->session, GNUTLS_NAME_DNS, c->target->host, strlen(c->target->host));
        gnutls_transport_set_int(c->session, c->fd);
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) == 0;
}

/* Bytes, 0 for the end of the stream, -EAGAIN, or another negative number. */
static ssize_t put(struct load_connection *c, const char *data, size_t len)
{
    if (!c->session) {
        ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);
        return n < 0 ? -errno : n;
    }
    ssize_t n = gnutls_record_send(c->session, data, len);
    return n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ? -EAGAIN : n < 0 ? -EIO : n;
}

static ssize_t get(struct load_connection *c, char *data, size_t len)
{
    if (!c->session) {
        ssize_t n = recv(c->fd, data, len, 0);
        return n < 0 ? -errno : n;
    }
    ssize_t n = gnutls_record_recv(c->session, data, len);
    if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
        return -EAGAIN;
    return n < 0 ? -EIO : n;
}

static enum load_result send_on(struct load_connection *c)
{
    while (c->sent < c->request_len) {
        ssize_t n = put(c, c->request + c->sent, c->request_len - c->sent);
        if (n == -EAGAIN || n == -EINTR)
            return LOAD_WAITS;
        if (n <= 0)
            return LOAD_FAILED;
        c->sent += (size_t)n;
    }
    c->state = LOAD_RECEIVING;
    return LOAD_WAITS;
}

static const char *field(const char *header, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = strchr(header, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1 + strspn(line + len + 1, " ");
    }
    return NULL;
}

/* Takes what belongs to the header; the number of bytes taken, 0 when it is no header. */
static size_t take_header(struct load_connection *c, const char *data, size_t len)
{
    size_t room = sizeof(c->header) - 1 - c->header_len, before = c->header_len;
    size_t part = len < room ? len : room;
    memcpy(c->header + c->header_len, data, part);
    c->header_len += part;
    c->header[c->header_len] = '\0';
    const char *end = strstr(c->header, "\r\n\r\n");
    if (!end)
        return part;
    size_t whole = (size_t)(end - c->header) + 4;
    c->header[whole] = '\0';
    const char *length = field(c->header, "Content-Length"), *how = field(c->header, "Connection");
    if (strncmp(c->header, "HTTP/1.", 7) != 0 || strlen(c->header) < 12 || !length)
        return 0;
    c->status = (unsigned)strtoul(c->header + 9, NULL, 10);
    c->body_left = strtoull(length, NULL, 10);
    c->close_after = how && strncasecmp(how, "close", 5) == 0;
    c->header_done = true;
    return whole - before;
}

static enum load_result receive_on(struct load_connection *c)
{
    static char data[READ_SIZE];
    for (;;) {
        ssize_t n = get(c, data, sizeof(data));
        if (n == -EAGAIN || n == -EINTR)
            return LOAD_WAITS;
        if (n <= 0)
            return LOAD_FAILED;
        c->received += (uint64_t)n;
        size_t at = 0, len = (size_t)n;
        if (!c->header_done) {
            at = take_header(c, data, len);
            if (!at)
                return LOAD_FAILED;
        }
        if (!c->header_done)
            continue;
        if (len - at > c->body_left)
            return LOAD_FAILED; /* more than was announced */
        c->body_left -= len - at;
        if (!c->body_left) {
            c->state = LOAD_IDLE;
            c->fresh = false;
            return LOAD_ANSWER;
        }
    }
}

enum load_result load_request(struct load_connection *c, const char *request, size_t len)
{
    c->request = request;
    c->request_len = len;
    c->sent = c->header_len = 0;
    c->header_done = c->close_after = false;
    c->state = LOAD_SENDING;
    return send_on(c);
}

static enum load_result shake(struct load_connection *c)
{
    int r = 0;
    if (c->session)
        do
            r = gnutls_handshake(c->session);
        while (r == GNUTLS_E_INTERRUPTED || r == GNUTLS_E_WARNING_ALERT_RECEIVED);
    if (r == GNUTLS_E_AGAIN)
        return LOAD_WAITS;
    if (r < 0)
        return LOAD_FAILED;
    c->state = LOAD_IDLE;
    return LOAD_READY;
}

enum load_result load_go_on(struct load_connection *c)
{
    enum load_result result = LOAD_WAITS;
    int error = 0;
    socklen_t len = sizeof(error);
    char byte;
    switch (c->state) {
    case LOAD_CLOSED:
        break;
    case LOAD_CONNECTING:
        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
            return LOAD_FAILED;
        c->state = LOAD_SHAKING; /* fall through */
        __attribute__((fallthrough));
    case LOAD_SHAKING:
        return shake(c);
    case LOAD_IDLE: {
        ssize_t n = get(c, &byte, 1);
        return n == -EAGAIN || n == -EINTR ? LOAD_WAITS : n == 0 ? LOAD_ENDED : LOAD_FAILED;
    }
    case LOAD_SENDING:
        result = send_on(c);
        if (result != LOAD_WAITS)
            return result;
        /* An answer may come before all is sent. */
        __attribute__((fallthrough));
    case LOAD_RECEIVING:
        return receive_on(c);
    }
    return result;
}
