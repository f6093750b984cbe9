/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/text.h"

#define VENDOR_LIBRARY "libmxsml.so"

enum { FOLDER_DEPTH_MAX = 6, ENTRIES_MAX = 20000 };

static const char *const places[] = {
    "opt/mxdriver/lib/" VENDOR_LIBRARY,
    "opt/maca/lib/" VENDOR_LIBRARY,
    "opt/mxn100/lib/" VENDOR_LIBRARY,
};

/* Opens below the root; an absolute symbolic link stays below it, as it would for a program whose root it is.
 */
static int open_below(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) /* old kernel, or a container that knows no openat2 */
        fd = openat(root, path, flags | O_CLOEXEC);
    return (int)fd;
}

static bool locate_identify(int fd, const char *shown, struct gt_library *ret)
{
    struct stat st;
    struct gt_library library = {0};
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    /* The real path rather than the link's: the library loads others from its own directory. */
    ssize_t n = readlink(link, library.path, sizeof(library.path) - 1);
    if (n <= 0 || library.path[0] != '/')
        return false;
    library.path[n] = '\0';
    if (!gt_text_copy(library.shown, sizeof(library.shown), shown))
        return false;
    library.device = st.st_dev;
    library.inode = st.st_ino;
    library.size = st.st_size;
    library.changed = st.st_mtim;
    *ret = library;
    return true;
}

/*
 * Whether only root, or who runs us, can change it. Not all below /opt is the vendor's: there, a library or a
 * directory on the way that somebody else could fill is passed over, since what is found is run.
 */
static bool is_trusted(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & S_IWOTH) &&
           (!(st.st_mode & S_IWGRP) || st.st_gid == 0 || st.st_gid == getegid());
}

static bool look_at(int root, const char *path, bool must_be_trusted, struct gt_library *ret)
{
    char shown[PATH_MAX];
    gt_auto_close int fd = open_below(root, path, O_PATH);
    if (fd < 0 || (must_be_trusted && !is_trusted(fd)) ||
        snprintf(shown, sizeof(shown), "/%s", path) >= (int)sizeof(shown))
        return false;
    return locate_identify(fd, shown, ret);
}

/* Depth first; real directories only, so that a link cannot lead in circles or out. */
static bool locate_search(int root, const char *path, unsigned depth, unsigned *entries,
                          struct gt_library *ret)
{
    int fd = open_below(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0)
        return false;
    gt_auto_dir DIR *dir = is_trusted(fd) ? fdopendir(fd) : NULL;
    if (!dir) {
        close(fd);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(dir)) && (*entries)++ < ENTRIES_MAX;) {
        char below[PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) >= (int)sizeof(below))
            continue;
        if (strcmp(entry->d_name, VENDOR_LIBRARY) == 0 && look_at(root, below, true, ret))
            return true;
        if (depth < FOLDER_DEPTH_MAX && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) &&
            locate_search(root, below, depth + 1, entries, ret))
            return true;
    }
    return false;
}

int gt_library_locate(const char *root, const char *explicit_path, struct gt_library *ret,
                      struct gt_err **err)
{
    if (explicit_path) {
        gt_auto_close int fd = open(explicit_path, O_PATH | O_CLOEXEC);
        if (fd < 0)
            return gt_fail_sys(err, errno, "%s", explicit_path);
        return locate_identify(fd, explicit_path, ret) ? 0
                                                       : gt_fail(err, EINVAL, "%s: no file", explicit_path);
    }
    gt_auto_close int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gt_fail_sys(err, errno, "%s", root);
    for (unsigned i = 0; i < GT_COUNT(places); i++)
        if (look_at(fd, places[i], false, ret))
            return 0;
    unsigned entries = 0;
    if (locate_search(fd, "opt", 0, &entries, ret))
        return 0;
    return gt_fail(err, ENOENT,
                   "no " VENDOR_LIBRARY
                   " in /opt/mxdriver/lib, /opt/maca/lib, /opt/mxn100/lib or below /opt%s",
                   entries >= ENTRIES_MAX ? " (too large to be searched whole)" : "");
}

bool gt_library_same(const struct gt_library *a, const struct gt_library *b)
{
    return strcmp(a->path, b->path) == 0 && a->device == b->device && a->inode == b->inode &&
           a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}
