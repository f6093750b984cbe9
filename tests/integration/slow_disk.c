/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/*
 * Preloaded before a program: a disk that takes its time, and a clock that is set.
 *
 *   SLOW_DISK_MS     what each fsync() and fdatasync() takes
 *   SLOW_DISK_WHILE  a file: while it exists, none of them ends
 *   SLOW_DISK_LOG    a file that gets a line for each, when it begins: "main PATH" on the first thread, else
 *                    "thread PATH"
 *   SLOW_DISK_KILL   a pattern as of the shell: the process is killed at the first sync of such a path
 *   SLOW_DISK_FULL   likewise: such paths have no space left, while the file SLOW_DISK_FULL_WHILE exists
 *   SET_CLOCK        a file: the time of day is so many seconds later
 */

static void path_of(int fd, char path[static 4096])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, 4095);
    path[len > 0 ? len : 0] = '\0';
}

static void slow(int fd)
{
    char path[4096], line[4200];
    const char *ms = getenv("SLOW_DISK_MS"), *held = getenv("SLOW_DISK_WHILE"),
               *log = getenv("SLOW_DISK_LOG"), *end = getenv("SLOW_DISK_KILL");
    path_of(fd, path);
    int to = log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    int n = snprintf(line, sizeof(line), "%s %s\n", gettid() == getpid() ? "main" : "thread", path);
    if (to >= 0 && write(to, line, (size_t)n) != n)
        abort();
    if (to >= 0)
        close(to);
    if (end && fnmatch(end, path, 0) == 0)
        kill(getpid(), SIGKILL);
    struct timespec left = {.tv_sec = ms ? atol(ms) / 1000 : 0,
                            .tv_nsec = ms ? atol(ms) % 1000 * 1000000 : 0};
    while (nanosleep(&left, &left) < 0)
        continue;
    while (held && access(held, F_OK) == 0)
        usleep(10000);
}

int fsync(int fd)
{
    slow(fd);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int fdatasync(int fd)
{
    slow(fd);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}

ssize_t write(int fd, const void *data, size_t len)
{
    const char *full = getenv("SLOW_DISK_FULL"), *as_long_as = getenv("SLOW_DISK_FULL_WHILE");
    char path[4096];
    if (full && as_long_as && access(as_long_as, F_OK) == 0) {
        path_of(fd, path);
        if (fnmatch(full, path, 0) == 0) {
            errno = ENOSPC;
            return -1;
        }
    }
    return ((ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(fd, data, len);
}

static time_t set_by(void)
{
    char text[32] = "";
    const char *path = getenv("SET_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t len = read(fd, text, sizeof(text) - 1);
    close(fd);
    return len > 0 ? (time_t)atoll(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int r = ((int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(id, ret);
    if (r == 0 && id == CLOCK_REALTIME)
        ret->tv_sec += set_by();
    return r;
}

time_t time(time_t *ret)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
