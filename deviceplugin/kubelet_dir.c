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

enum { FOLDER_CHECK_MS = 30000, CHECK_WITHOUT_INOTIFY_MS = 2000, STALE_MAX = 64, PARENTS_MAX = 64 };

struct gt_kubelet_dir {
    gt_kubelet_dir_changed *changed;
    void *arg;
    char *path, *socket;
    int inotify; /* -1: there is none */
    int watch;   /* of the deepest directory that exists, -1 none */
    struct gt_source *readable, *timer;
};

/* The parent of a path in place, false for "/" and ".". */
static bool cut_last_part(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash) {
        if (strcmp(path, ".") == 0)
            return false;
        memcpy(path, ".", 2);
        return true;
    }
    if (slash == path) {
        if (!path[1])
            return false;
        path[1] = '\0';
        return true;
    }
    *slash = '\0';
    return true;
}

/* Watches the deepest directory of the path that exists. Watching the same one again changes nothing. */
static void watch_deepest(struct gt_kubelet_dir *dir)
{
    if (dir->inotify < 0)
        return;
    char path[PATH_MAX];
    int watch = -1;
    snprintf(path, sizeof(path), "%s", dir->path);
    for (int i = 0; watch < 0 && i < PARENTS_MAX; i++) {
        watch = inotify_add_watch(dir->inotify, path,
                                  IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF |
                                      IN_MOVE_SELF | IN_ONLYDIR);
        if (watch < 0 && !cut_last_part(path))
            break;
    }
    if (dir->watch >= 0 && dir->watch != watch)
        inotify_rm_watch(dir->inotify, dir->watch);
    dir->watch = watch;
}

/* If a directory is created just before its parent is watched, there is no event for it: check once more. */
static void watch_all(struct gt_kubelet_dir *dir)
{
    for (int i = 0; i < PARENTS_MAX; i++) {
        int before = dir->watch;
        watch_deepest(dir);
        if (dir->watch == before)
            return;
    }
}

static void kubelet_dir_on_readable(void *arg, uint32_t happened)
{
    struct gt_kubelet_dir *dir = arg;
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    (void)happened;
    while (read(dir->inotify, events, sizeof(events)) > 0)
        ;
    watch_all(dir);
    dir->changed(dir->arg);
}

static void check_later(struct gt_kubelet_dir *dir)
{
    gt_source_arm(dir->timer,
                  dir->inotify >= 0 && dir->watch >= 0 ? FOLDER_CHECK_MS : CHECK_WITHOUT_INOTIFY_MS);
}

static void kubelet_dir_on_timer(void *arg)
{
    struct gt_kubelet_dir *dir = arg;
    watch_all(dir);
    check_later(dir);
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
    watch_all(dir);
    check_later(dir);
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

static bool is_ours_by_name(const char *name)
{
    size_t len = strlen(name);
    return strncmp(name, GT_SOCKET_PREFIX, strlen(GT_SOCKET_PREFIX)) == 0 && len > 5 &&
           strcmp(name + len - 5, ".sock") == 0;
}

static bool kubelet_dir_is_socket(DIR *in, const char *name)
{
    struct stat st;
    return fstatat(dirfd(in), name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode);
}

/* Returns a descriptor, -ECONNREFUSED if nobody listens, or another error. */
static int kubelet_dir_connect_to(const struct gt_kubelet_dir *dir, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir->path, name);
    return gt_unix_connect(path, NULL);
}

void gt_kubelet_dir_clean(const struct gt_kubelet_dir *dir)
{
    gt_auto_dir DIR *entries = opendir(dir->path);
    if (!entries)
        return;
    unsigned removed = 0;
    for (const struct dirent *entry; removed < STALE_MAX && (entry = readdir(entries));) {
        if (!is_ours_by_name(entry->d_name) || !kubelet_dir_is_socket(entries, entry->d_name))
            continue;
        gt_auto_close int fd = kubelet_dir_connect_to(dir, entry->d_name);
        if (fd == -ECONNREFUSED && unlinkat(dirfd(entries), entry->d_name, 0) == 0)
            removed++;
    }
}

void gt_kubelet_dir_others(const struct gt_kubelet_dir *dir, gt_kubelet_dir_other *other, void *arg)
{
    gt_auto_dir DIR *entries = opendir(dir->path);
    unsigned sockets = 0;
    for (const struct dirent *entry;
         entries && sockets < GT_KUBELET_DIR_OTHERS && (entry = readdir(entries));) {
        struct gt_socket_id id;
        char path[PATH_MAX];
        if (is_ours_by_name(entry->d_name) || strcmp(entry->d_name, "kubelet.sock") == 0 ||
            !kubelet_dir_is_socket(entries, entry->d_name))
            continue;
        sockets++;
        snprintf(path, sizeof(path), "%s/%s", dir->path, entry->d_name);
        int fd = gt_socket_id_read(path, &id) ? gt_unix_connect(path, NULL) : -ENOENT;
        if (fd >= 0 && !other(arg, entry->d_name, &id, fd))
            return;
    }
}
