/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/http_get.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

enum { HTTP_HEAD_MAX = 16 << 10, ADDRESS_MAX = 300 };

/* Splits "HOST:PORT" or "[V6]:PORT" into its two parts. */
static int split(char *text, const char **host, const char **port, struct gt_err **err)
{
    char *colon = strrchr(text, ':');
    if (!colon || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return gt_fail(err, EINVAL, "expected ADDRESS:PORT, is '%.100s'", text);
    *port = colon + 1;
    *colon = '\0';
    if (text[0] == '[' && colon > text + 1 && colon[-1] == ']') {
        colon[-1] = '\0';
        text++;
    }
    *host = *text ? text : "127.0.0.1";
    return 0;
}

static int wait_for(int fd, short events, uint64_t deadline)
{
    for (;;) {
        uint64_t now = gt_clock_ms();
        if (now >= deadline)
            return -ETIMEDOUT;
        struct pollfd waiting = {.fd = fd, .events = events};
        int n = poll(&waiting, 1, (int)(deadline - now));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

static int connect_one(const struct addrinfo *to, uint64_t deadline, int *ret)
{
    gt_auto_close int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, to->ai_addr, to->ai_addrlen) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        int r = wait_for(fd, POLLOUT, deadline), said = 0;
        if (r < 0)
            return r;
        socklen_t len = sizeof(said);
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &said, &len) < 0)
            return -errno;
        if (said)
            return -said;
    }
    *ret = gt_steal_fd(&fd);
    return 0;
}

static int connect_any(const char *host, const char *port, uint64_t deadline, int *ret, struct gt_err **err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    int r = getaddrinfo(host, port, &hints, &list);
    if (r != 0)
        return gt_fail(err, EHOSTUNREACH, "%s", gai_strerror(r));
    r = -EHOSTUNREACH;
    for (const struct addrinfo *to = list; to && r < 0; to = to->ai_next)
        r = connect_one(to, deadline, ret);
    freeaddrinfo(list);
    return r < 0 ? gt_fail(err, -r, "%s", strerror(-r)) : 0;
}

static int send_all(int fd, const char *text, size_t len, uint64_t deadline)
{
    while (len) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        } else {
            int r = wait_for(fd, POLLOUT, deadline);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* Reads until the server closes the connection, since the request is HTTP/1.0. */
static int receive_all(int fd, uint64_t deadline, struct gt_buf *to)
{
    char part[16 << 10];
    for (;;) {
        ssize_t n = recv(fd, part, sizeof(part), 0);
        if (n == 0)
            return 0;
        if (n > 0) {
            gt_buf_add(to, part, (size_t)n);
            if (to->failed)
                return -EFBIG;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        } else {
            int r = wait_for(fd, POLLIN, deadline);
            if (r < 0)
                return r;
        }
    }
}

static int read_answer(const struct gt_buf *answer, struct gt_buf *body, struct gt_err **err)
{
    const char *text = answer->data ? answer->data : "";
    const char *end = strstr(text, "\r\n\r\n");
    if (strncmp(text, "HTTP/1.", 7) != 0 || strlen(text) < 12 || text[8] != ' ' || !end ||
        end - text > HTTP_HEAD_MAX)
        return gt_fail(err, EBADMSG, "what answers there does not speak HTTP");
    if (strncmp(text + 9, "200", 3) != 0) {
        int said = (int)strcspn(end + 4, "\r\n"); /* our daemons give the reason in one line */
        return gt_fail(err, EBADMSG, "the answer is %.3s%s%.*s", text + 9, said ? ": " : "", said, end + 4);
    }
    gt_buf_add(body, end + 4, answer->len - (size_t)(end + 4 - text));
    return body->failed ? gt_fail(err, EFBIG, "the answer is larger than %zu bytes", body->max) : 0;
}

int cli_http_get(const char *address, const char *path, unsigned timeout_ms, struct gt_buf *body,
                 struct gt_err **err)
{
    uint64_t deadline = gt_clock_ms() + timeout_ms;
    char copy[ADDRESS_MAX];
    const char *host = NULL, *port = NULL;
    if (strlen(address) >= sizeof(copy))
        return gt_fail(err, EINVAL, "expected ADDRESS:PORT, is '%.100s'", address);
    memcpy(copy, address, strlen(address) + 1);
    int r = split(copy, &host, &port, err);
    gt_auto_close int fd = -1;
    if (r >= 0)
        r = connect_any(host, port, deadline, &fd, err);
    if (r < 0)
        return gt_err_code(err ? *err : NULL) == EINVAL ? r : gt_wrap(err, "%s", address);
    gt_auto_buf struct gt_buf request = GT_BUF(4096), answer = GT_BUF(body->max + HTTP_HEAD_MAX);
    gt_buf_printf(&request, "GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n", path, address);
    r = request.failed ? -ENOBUFS : send_all(fd, request.data, request.len, deadline);
    if (r >= 0)
        r = receive_all(fd, deadline, &answer);
    if (r == -EFBIG)
        return gt_fail(err, EFBIG, "%s: the answer is larger than %zu bytes", address, body->max);
    if (r < 0)
        return gt_fail(err, -r, "%s: %s", address, strerror(-r));
    r = read_answer(&answer, body, err);
    return r < 0 ? gt_wrap(err, "%s", address) : 0;
}
