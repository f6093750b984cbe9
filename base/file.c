/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"

#define TEMPORARY ".XXXXXX"

int gt_file_read_all(int fd, const char *path, size_t max, char **ret_data, size_t *ret_len,
                     struct gt_err **err)
{
    gt_auto_buf struct gt_buf buf = GT_BUF(max);
    char chunk[16384];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gt_fail_sys(err, errno, "%s", path);
        if (n == 0)
            break;
        if ((size_t)n > max - buf.len)
            return gt_fail(err, EFBIG, "%s: larger than the limit of %zu bytes", path, max);
        gt_buf_add(&buf, chunk, (size_t)n);
    }
    size_t len = buf.len;
    char *data = gt_buf_take(&buf);
    GT_NEED(data, err, "%s", path);
    *ret_data = data;
    if (ret_len)
        *ret_len = len;
    return 0;
}

int gt_file_read(int dirfd, const char *path, size_t max, char **ret_data, size_t *ret_len,
                 struct gt_err **err)
{
    /* O_NONBLOCK: a FIFO must not hang the reader. */
    gt_auto_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return gt_fail_sys(err, errno, "%s", path);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return gt_fail_sys(err, errno, "%s", path);
    if (S_ISDIR(st.st_mode))
        return gt_fail_sys(err, EISDIR, "%s", path);
    return gt_file_read_all(fd, path, max, ret_data, ret_len, err);
}

int gt_file_read_attribute(int dirfd, const char *path, char *to, size_t size)
{
    gt_auto_close int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ssize_t n;
    do
        n = read(fd, to, size - 1);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    while (n > 0 && strchr(" \t\r\n", to[n - 1]))
        n--;
    to[n] = '\0';
    return (int)n;
}

DIR *gt_file_open_dir(int dirfd, const char *path)
{
    int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int errnum = errno;
    if (!dir && fd >= 0)
        close(fd);
    errno = errnum;
    return dir;
}

int gt_file_write_all(int fd, const void *data, size_t len)
{
    for (const char *at = data; len;) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

bool gt_file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int gt_file_check(const char *dir, const char *name, struct gt_err **err)
{
    struct stat st;
    gt_auto_free char *path = NULL;
    GT_TRY(gt_text_format(name, &path, err, "%s/%s", dir, name));
    if (stat(path, &st) < 0)
        return gt_fail_sys(err, errno, "%s", path);
    return S_ISDIR(st.st_mode) ? gt_fail(err, ENOENT, "%s is a directory", path) : 0;
}

/* Where the name begins in a path. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The directory of a file, as an open descriptor or -errno. */
static int open_parent(const char *path)
{
    const char *name = base_name(path);
    gt_auto_free char *parent = name == path ? strdup(".") : strndup(path, (size_t)(name - path));
    int fd = parent ? open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return fd < 0 ? -errno : fd;
}

/* A rename is on the disk when its directory is. Some file systems cannot sync one: EINVAL. */
static int sync_parent(const char *path)
{
    gt_auto_close int fd = open_parent(path);
    if (fd < 0)
        return fd;
    return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

static int write_whole(const char *path, const void *data, size_t len, unsigned mode, bool durable,
                       struct gt_err **err)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* a terminal, /dev/null, a pipe: no rename there */
        gt_auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
        int r = fd < 0 ? -errno : gt_file_write_all(fd, data, len);
        return r < 0 ? gt_fail_sys(err, -r, "%s", path) : 0;
    }
    gt_auto_free char *temporary = NULL;
    GT_TRY(gt_text_format(path, &temporary, err, "%s" TEMPORARY, path));
    gt_auto_close int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return gt_fail_sys(err, errno, "%s", path);
    int r = gt_file_write_all(fd, data, len);
    if (r == 0 && (fchmod(fd, mode) < 0 || (durable && fsync(fd) < 0) || rename(temporary, path) < 0))
        r = -errno;
    if (r < 0)
        unlink(temporary);
    else if (durable)
        r = sync_parent(path);
    return r < 0 ? gt_fail_sys(err, -r, "%s", path) : 0;
}

int gt_file_write(const char *path, const void *data, size_t len, unsigned mode, struct gt_err **err)
{
    return write_whole(path, data, len, mode, false, err);
}

int gt_file_write_durable(const char *path, const void *data, size_t len, unsigned mode, struct gt_err **err)
{
    return write_whole(path, data, len, mode, true, err);
}

/* Whether the entry is a temporary file of the file `name`: what write_whole() makes of TEMPORARY. */
static bool is_temporary(const char *entry, const char *name)
{
    size_t len = strlen(name), rest = strlen(TEMPORARY);
    if (strncmp(entry, name, len) != 0 || strlen(entry) != len + rest || entry[len] != '.')
        return false;
    for (const char *c = entry + len + 1; *c; c++)
        if (!((*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z')))
            return false;
    return true;
}

unsigned gt_file_sweep(const char *path, unsigned age_s)
{
    int fd = open_parent(path);
    gt_auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    unsigned removed = 0;
    if (!dir && fd >= 0)
        close(fd);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (is_temporary(entry->d_name, base_name(path)) &&
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            time(NULL) - st.st_mtime >= (time_t)age_s && unlinkat(fd, entry->d_name, 0) == 0)
            removed++;
    }
    return removed;
}

bool gt_file_beside_program(const char *name, char *to, size_t size)
{
    size_t name_size = strlen(name) + 1;
    ssize_t len = readlink("/proc/self/exe", to, size - 1);
    char *slash = len > 0 ? memrchr(to, '/', (size_t)len) : NULL;
    if (!slash || (size_t)(slash + 1 - to) + name_size > size)
        return false;
    memcpy(slash + 1, name, name_size);
    return access(to, X_OK) == 0;
}
