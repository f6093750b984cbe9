/* SPDX-License-Identifier: Apache-2.0 */
#include "http/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"
#include "http/http.h"

enum { BACKLOG = 4096 }; /* a scheduler may open hundreds at once; the kernel has a limit of its own */

int gt_http_address(const char *text, struct sockaddr_storage *ret, bool *ret_any, struct gt_err **err)
{
    struct sockaddr_storage to = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&to;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&to;
    char host[64];
    uint64_t port;

    const char *colon = strrchr(text, ':');
    if (!colon)
        return gt_fail(err, EINVAL, "address \"%.80s\": a port is missing, write ADDRESS:PORT", text);
    if (!gt_text_to_unsigned(colon + 1, 65535, &port))
        return gt_fail(err, EINVAL, "address \"%.80s\": the port must be a number from 0 to 65535", text);
    size_t len = (size_t)(colon - text);
    bool brackets = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    if (len - (brackets ? 2 : 0) >= sizeof(host))
        return gt_fail(err, EINVAL, "address \"%.80s\": too long", text);
    memcpy(host, text + (brackets ? 1 : 0), len - (brackets ? 2 : 0));
    host[len - (brackets ? 2 : 0)] = '\0';
    if (strcmp(host, "localhost") == 0 && !brackets)
        gt_text_copy(host, sizeof(host), "127.0.0.1");

    if (!len || (brackets && inet_pton(AF_INET6, host, &v6->sin6_addr) == 1)) {
        v6->sin6_family = AF_INET6; /* without an address: in6addr_any, all zeros */
        v6->sin6_port = htons((uint16_t)port);
    } else if (!brackets && inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
    } else
        return gt_fail(err, EINVAL,
                       "address \"%.80s\": \"%s\" is no IPv4 address, [IPv6 address] or localhost", text,
                       host);
    *ret = to;
    *ret_any = !len;
    return 0;
}

/* Binds and listens; -errno. */
static int bind_to(const struct sockaddr_storage *address, bool both, int *ret_fd)
{
    gt_auto_close int fd =
        socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0)
        return -errno;
    int on = 1, only_v6 = !both;
    socklen_t len = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
        return -errno;
    if (address->ss_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof(only_v6)) < 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)address, len) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    *ret_fd = gt_steal_fd(&fd);
    return 0;
}

int gt_http_option(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    struct sockaddr_storage address;
    bool any, is_off = !*value || strcmp(value, "none") == 0;
    if (!is_off && gt_http_address(value, &address, &any, err) < 0)
        return gt_wrap(err, "--%s", option->name);
    *(const char **)field = is_off ? NULL : value;
    return 0;
}

int gt_http_listen(const char *text, int *ret_fd, unsigned *ret_port, struct gt_err **err)
{
    struct sockaddr_storage address, bound;
    socklen_t len = sizeof(bound);
    gt_auto_close int fd = -1;
    bool any;
    GT_TRY(gt_http_address(text, &address, &any, err));
    int r = bind_to(&address, any, &fd);
    if (any && (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL)) {
        struct sockaddr_in v4 = {.sin_family = AF_INET,
                                 .sin_port = ((const struct sockaddr_in6 *)&address)->sin6_port};
        memset(&address, 0, sizeof(address));
        memcpy(&address, &v4, sizeof(v4));
        r = bind_to(&address, false, &fd);
    }
    if (r == -EADDRINUSE)
        return gt_fail(err, EADDRINUSE, "cannot listen on %s: another process already does", text);
    if (r < 0)
        return gt_fail_sys(err, -r, "cannot listen on %s", text);
    if (getsockname(fd, (struct sockaddr *)&bound, &len) < 0)
        return gt_fail_sys(err, errno, "cannot listen on %s", text);
    /* Both families keep the port at the same place. */
    *ret_port = ntohs(((const struct sockaddr_in *)&bound)->sin_port);
    *ret_fd = gt_steal_fd(&fd);
    return 0;
}
