/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/kubelet_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "deviceplugin/listener.h"

enum { FOLDER_CHECK_MS = 30000, UNWATCHED_CHECK_MS = 1000 };

struct gt_kubelet_dir {
    gt_kubelet_dir_changed *changed;
    void *arg;
    char *path, *socket;
    int inotify; /* -1: there is none */
    int watch;   /* -1: the directory is not there */
    struct gt_source *readable, *timer;
};

/* Watching the same directory again changes nothing. */
static void kubelet_dir_watch(struct gt_kubelet_dir *dir)
{
    int watch = dir->inotify < 0 ? -1
                                 : inotify_add_watch(dir->inotify, dir->path,
                                                     IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM |
                                                         IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
    if (dir->watch >= 0 && dir->watch != watch)
        inotify_rm_watch(dir->inotify, dir->watch);
    dir->watch = watch;
    gt_source_arm(dir->timer, watch >= 0 ? FOLDER_CHECK_MS : UNWATCHED_CHECK_MS);
}

static void kubelet_dir_on_readable(void *arg, uint32_t happened)
{
    struct gt_kubelet_dir *dir = arg;
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    (void)happened;
    while (read(dir->inotify, events, sizeof(events)) > 0)
        ;
    kubelet_dir_watch(dir);
    dir->changed(dir->arg);
}

static void kubelet_dir_on_timer(void *arg)
{
    struct gt_kubelet_dir *dir = arg;
    kubelet_dir_watch(dir);
    dir->changed(dir->arg);
}

int gt_kubelet_dir_new(struct gt_loop *loop, const char *kubelet_dir, gt_kubelet_dir_changed *changed,
                       void *arg, struct gt_kubelet_dir **ret, struct gt_err **err)
{
    if (strlen(kubelet_dir) > PATH_MAX - 64)
        return gt_fail(err, ENAMETOOLONG, "kubelet directory: the path is too long");
    GT_CLEANUP(gt_kubelet_dir_free) struct gt_kubelet_dir *dir = calloc(1, sizeof(*dir));
    GT_NEED(dir, err, "kubelet directory");
    dir->changed = changed;
    dir->arg = arg;
    dir->watch = -1;
    dir->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (asprintf(&dir->path, "%s/device-plugins", kubelet_dir) < 0 ||
        asprintf(&dir->socket, "%s/kubelet.sock", dir->path) < 0)
        return gt_fail_sys(err, ENOMEM, "kubelet directory");
    int r = gt_loop_add_timer(loop, kubelet_dir_on_timer, dir, &dir->timer, err);
    if (r == 0 && dir->inotify >= 0)
        r = gt_loop_add_fd(loop, dir->inotify, POLLIN, kubelet_dir_on_readable, dir, &dir->readable, err);
    if (r < 0)
        return gt_wrap(err, "kubelet directory");
    kubelet_dir_watch(dir);
    *ret = gt_steal(dir);
    return 0;
}

void gt_kubelet_dir_free(struct gt_kubelet_dir *dir)
{
    if (!dir)
        return;
    gt_source_free(dir->readable);
    gt_source_free(dir->timer);
    if (dir->inotify >= 0)
        close(dir->inotify);
    free(dir->path);
    free(dir->socket);
    free(dir);
}

const char *gt_kubelet_dir_path(const struct gt_kubelet_dir *dir)
{
    return dir->path;
}

const char *gt_kubelet_dir_socket_path(const struct gt_kubelet_dir *dir)
{
    return dir->socket;
}

bool gt_kubelet_dir_socket(const struct gt_kubelet_dir *dir, struct gt_socket_id *ret)
{
    return gt_socket_id_read(dir->socket, ret);
}

bool gt_socket_id_read(const char *path, struct gt_socket_id *ret)
{
    struct statx st;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &st) < 0 ||
        !S_ISSOCK(st.stx_mode))
        return false;
    const struct statx_timestamp *time = st.stx_mask & STATX_BTIME ? &st.stx_btime : &st.stx_ctime;
    *ret = (struct gt_socket_id){.device = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
                                 .inode = st.stx_ino,
                                 .seconds = time->tv_sec,
                                 .nanoseconds = time->tv_nsec};
    return true;
}

bool gt_socket_id_equal(const struct gt_socket_id *a, const struct gt_socket_id *b)
{
    return a->device == b->device && a->inode == b->inode && a->seconds == b->seconds &&
           a->nanoseconds == b->nanoseconds;
}

static bool kubelet_dir_is_ours(const char *name)
{
    return strncmp(name, GT_SOCKET_PREFIX, strlen(GT_SOCKET_PREFIX)) == 0;
}

void gt_kubelet_dir_clean(const struct gt_kubelet_dir *dir)
{
    gt_listener_sweep(dir->path, GT_SOCKET_PREFIX, ".sock");
}

void gt_kubelet_dir_others(const struct gt_kubelet_dir *dir, gt_kubelet_dir_other *other, void *arg)
{
    gt_auto_dir DIR *entries = opendir(dir->path);
    unsigned sockets = 0;
    for (const struct dirent *entry;
         entries && sockets < GT_KUBELET_DIR_OTHERS && (entry = readdir(entries));) {
        struct gt_socket_id id;
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/%s", dir->path, entry->d_name);
        if (kubelet_dir_is_ours(entry->d_name) || strcmp(entry->d_name, "kubelet.sock") == 0 ||
            !gt_socket_id_read(path, &id))
            continue;
        sockets++;
        int fd = gt_unix_connect(path, NULL);
        if (fd >= 0 && !other(arg, entry->d_name, &id, fd))
            return;
    }
}
