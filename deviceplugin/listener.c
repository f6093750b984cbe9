/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/listener.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/backoff.h"

enum {
    RPC_BACKLOG = 32,
    ACCEPT_PAUSE_FIRST_MS = 50,
    ACCEPT_PAUSE_MAX_MS = 2000,
    RPC_ACCEPTS_AT_ONCE = 32,
    SWEPT_MAX = 64
};

/* A connection that another owner closes: the inode shows whether the descriptor's number is still this
 * connection. */
struct connection {
    int fd;
    ino_t inode;
};

struct gt_listener {
    struct gt_loop *loop;
    int fd;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    dev_t device;
    ino_t inode;
    struct gt_source *readable, *pause;
    unsigned failures; /* to accept, in a row */
    gt_accepted *accepted;
    void *arg;
    struct connection connections[GT_CONNECTIONS_MAX];
};

static int make_address(const char *path, struct sockaddr_un *ret, struct gt_err **err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return gt_fail(err, ENAMETOOLONG, "%s: a socket's path has at most %zu bytes", path,
                       sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    *ret = address;
    return 0;
}

int gt_unix_connect(const char *path, struct gt_err **err)
{
    struct sockaddr_un address;
    GT_TRY(make_address(path, &address, err));
    gt_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return gt_fail_sys(err, errno, "%s: socket", path);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return gt_fail_sys(err, errno, "%s: connect", path);
    return gt_steal_fd(&fd);
}

/* A free place for a connection, NULL: there is none. */
static struct connection *listener_find_place(struct gt_listener *listener)
{
    for (unsigned i = 0; i < GT_CONNECTIONS_MAX; i++) {
        struct connection *c = &listener->connections[i];
        struct stat st;
        if (c->fd < 0 || fstat(c->fd, &st) < 0 || !S_ISSOCK(st.st_mode) || st.st_ino != c->inode)
            return c;
    }
    return NULL;
}

static bool is_allowed(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static void listener_admit(struct gt_listener *listener, int fd)
{
    struct connection *place = listener_find_place(listener);
    struct stat st;
    if (!place || !is_allowed(fd) || fstat(fd, &st) < 0) {
        close(fd);
        return;
    }
    *place = (struct connection){fd, st.st_ino};
    listener->accepted(listener->arg, fd);
}

static void listener_on_readable(void *arg, uint32_t events);

static void listener_watch(struct gt_listener *listener)
{
    if (gt_loop_add_fd(listener->loop, listener->fd, POLLIN, listener_on_readable, listener,
                       &listener->readable, NULL) < 0)
        gt_source_arm(listener->pause, ACCEPT_PAUSE_MAX_MS);
}

static void on_pause_over(void *arg)
{
    struct gt_listener *listener = arg;
    if (!listener->readable)
        listener_watch(listener);
}

/* Without descriptors or memory the connection waits in the backlog; a pause prevents that the loop runs
 * without end. */
static void listener_pause_accepting(struct gt_listener *listener)
{
    gt_source_free(listener->readable);
    listener->readable = NULL;
    gt_source_arm(listener->pause,
                  gt_backoff_step(listener->failures++, ACCEPT_PAUSE_FIRST_MS, ACCEPT_PAUSE_MAX_MS));
}

static void listener_on_readable(void *arg, uint32_t events)
{
    struct gt_listener *listener = arg;
    (void)events;
    for (int i = 0; i < RPC_ACCEPTS_AT_ONCE; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            listener->failures = 0;
            listener_admit(listener, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            listener_pause_accepting(listener);
        else if (errno == EINTR || errno == ECONNABORTED)
            continue;
        return;
    }
}

int gt_listener_new(struct gt_loop *loop, const char *path, gt_accepted *accepted, void *arg,
                    struct gt_listener **ret, struct gt_err **err)
{
    struct sockaddr_un address;
    GT_TRY(make_address(path, &address, err));
    GT_CLEANUP(gt_listener_free) struct gt_listener *listener = calloc(1, sizeof(*listener));
    GT_NEED(listener, err, "%s", path);
    *listener = (struct gt_listener){.loop = loop, .fd = -1, .accepted = accepted, .arg = arg};
    for (unsigned i = 0; i < GT_CONNECTIONS_MAX; i++)
        listener->connections[i].fd = -1;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return gt_fail_sys(err, errno, "%s: socket", path);
    fchmod(listener->fd, 0600); /* what bind gives the path, less the umask */
    if (bind(listener->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return gt_fail_sys(err, errno, "%s: create the socket", path);
    memcpy(listener->path, address.sun_path, sizeof(listener->path));
    struct stat st;
    if (lstat(path, &st) < 0)
        return gt_fail_sys(err, errno, "%s", path);
    listener->device = st.st_dev;
    listener->inode = st.st_ino;
    if (listen(listener->fd, RPC_BACKLOG) < 0)
        return gt_fail_sys(err, errno, "%s: listen", path);
    GT_TRY(gt_loop_add_timer(loop, on_pause_over, listener, &listener->pause, err));
    GT_TRY(
        gt_loop_add_fd(loop, listener->fd, POLLIN, listener_on_readable, listener, &listener->readable, err));
    *ret = gt_steal(listener);
    return 0;
}

int gt_listener_rename(struct gt_listener *listener, const char *path, struct gt_err **err)
{
    struct sockaddr_un address;
    GT_TRY(make_address(path, &address, err));
    if (rename(listener->path, path) < 0)
        return gt_fail_sys(err, errno, "%s: rename to %s", listener->path, path);
    memcpy(listener->path, address.sun_path, sizeof(listener->path));
    return 0;
}

bool gt_listener_in_place(const struct gt_listener *listener)
{
    struct stat st;
    return lstat(listener->path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == listener->device &&
           st.st_ino == listener->inode;
}

void gt_listener_free(struct gt_listener *listener)
{
    if (!listener)
        return;
    gt_source_free(listener->readable);
    gt_source_free(listener->pause);
    if (listener->inode && gt_listener_in_place(listener))
        unlink(listener->path);
    if (listener->fd >= 0)
        close(listener->fd);
    free(listener);
}

void gt_listener_sweep(const char *directory, const char *begin, const char *end)
{
    gt_auto_dir DIR *entries = opendir(directory);
    unsigned removed = 0;
    for (const struct dirent *entry; entries && removed < SWEPT_MAX && (entry = readdir(entries));) {
        char path[PATH_MAX];
        struct stat st;
        size_t len = strlen(entry->d_name), least = strlen(begin) + strlen(end);
        if (len < least || strncmp(entry->d_name, begin, strlen(begin)) != 0 ||
            strcmp(entry->d_name + len - strlen(end), end) != 0 ||
            snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name) >= PATH_MAX ||
            lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
            continue;
        gt_auto_close int fd = gt_unix_connect(path, NULL);
        removed += fd == -ECONNREFUSED && unlink(path) == 0;
    }
}
