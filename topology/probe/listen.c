/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/text.h"
#include "topology/probe/server.h"

enum { PROBE_BACKLOG = 8 };

/* Whether a program listens at the address. */
static bool alive(const struct sockaddr_un *address)
{
    gt_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
           errno != ECONNREFUSED;
}

int gt_server_listen(const char *path, bool open_mode, int *ret_fd, struct gt_err **err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    if (!*path || !gt_text_copy(address.sun_path, sizeof(address.sun_path), path))
        return gt_fail(err, EINVAL, "%s: a socket's path has 1 to %zu bytes", path,
                       sizeof(address.sun_path) - 1);
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        if (alive(&address))
            return gt_fail(err, EADDRINUSE, "%s: another probe serves there", path);
        unlink(path);
    }
    gt_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return gt_fail_sys(err, errno, "%s", path);
    /* bind gives the path its mode: a chmod afterwards could be led elsewhere by who can write there. */
    mode_t before = umask(open_mode ? 0111 : 0177);
    int r = bind(fd, (const struct sockaddr *)&address, sizeof(address));
    int code = errno;
    umask(before);
    if (r < 0)
        return gt_fail_sys(err, code, "%s", path);
    if (listen(fd, PROBE_BACKLOG) < 0) {
        r = gt_fail_sys(err, errno, "%s", path);
        unlink(path);
        return r;
    }
    *ret_fd = gt_steal_fd(&fd);
    return 0;
}
