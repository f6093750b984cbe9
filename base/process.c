/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/options.h"

enum {
    STEP_NS = 1000000,
    DESCRIPTORS_CLOSED_MAX = 4096, /* where each has to be asked for */
};

int gt_child_close_from(posix_spawn_file_actions_t *files, int first)
{
#ifdef __GLIBC__
    return posix_spawn_file_actions_addclosefrom_np(files, first);
#else
    long count = sysconf(_SC_OPEN_MAX);
    int r = 0;
    for (int fd = first; fd < count && fd < DESCRIPTORS_CLOSED_MAX && r == 0; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            r = posix_spawn_file_actions_addclose(files, fd);
    return r;
#endif
}

int gt_child_spawn(const struct gt_child_spec *spec, pid_t *ret, struct gt_err **err)
{
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    /* posix_spawn rather than fork: no handlers of other libraries run, and it is cheap in a large process.
     */
    int r = posix_spawnattr_init(&attributes);
    if (r != 0)
        return gt_fail_sys(err, r, "%s", spec->program);
    char *const *argv = (char *const *)(uintptr_t)spec->argv;
    char *const *env = spec->env ? (char *const *)(uintptr_t)spec->env : environ;
    r = posix_spawnattr_setsigmask(&attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(&attributes, &all);
    if (r == 0)
        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pid_t pid = 0;
    if (r == 0)
        r = (spec->search ? posix_spawnp : posix_spawn)(&pid, spec->program, spec->files, &attributes, argv,
                                                        env);
    posix_spawnattr_destroy(&attributes);
    if (r != 0)
        return gt_fail_sys(err, r, "%s", spec->program);
    *ret = pid;
    return 0;
}

int gt_child_end(pid_t pid, int64_t patience_ms)
{
    int status;
    for (int64_t waited = 0; waited < patience_ms; waited++) {
        pid_t r = waitpid(pid, &status, WNOHANG);
        if (r == pid || (r < 0 && errno != EINTR))
            return r == pid ? status : -1;
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    kill(pid, SIGKILL);
    for (;;) {
        pid_t r = waitpid(pid, &status, 0);
        if (r == pid || errno != EINTR)
            return r == pid ? status : -1;
    }
}

static int child_start(const struct gt_child_spec *spec, bool reads, int out, pid_t *ret, struct gt_err **err)
{
    posix_spawn_file_actions_t files;
    struct gt_child_spec whole = *spec;
    whole.files = &files;
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0)
        return gt_fail_sys(err, r, "%s", spec->program);
    r = reads ? 0 : posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    r = r ? r : posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    r = r ? r : gt_child_close_from(&files, STDERR_FILENO + 1);
    r = r ? gt_fail_sys(err, r, "%s", spec->program) : gt_child_spawn(&whole, ret, err);
    posix_spawn_file_actions_destroy(&files);
    return r;
}

/* Reads until nobody holds the other end any more. */
static int child_read(int fd, uint64_t deadline, struct gt_buf *to, struct gt_err **err)
{
    char part[4096];
    for (;;) {
        uint64_t now = gt_clock_ms();
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        int n = now < deadline ? poll(&waiting, 1, (int)(deadline - now)) : 0;
        if (n == 0)
            return gt_fail(err, ETIMEDOUT, "it takes too long, and was ended");
        ssize_t got = n < 0 ? n : read(fd, part, sizeof(part));
        if (got == 0)
            return 0;
        if (got < 0 && errno != EINTR)
            return gt_fail_sys(err, errno, "its output");
        if (got > 0)
            gt_buf_add(to, part, (size_t)got);
        if (to->failed)
            return gt_fail(err, EFBIG, "it writes more than %zu bytes", to->max);
    }
}

int gt_child_run(const struct gt_child_spec *spec, bool reads, unsigned limit_ms, struct gt_buf *to,
                 int *ret_status, struct gt_err **err)
{
    uint64_t deadline = gt_clock_ms() + limit_ms;
    int ends[2] = {-1, -1};
    pid_t pid = 0;
    if (to && pipe2(ends, O_CLOEXEC) < 0)
        return gt_fail_sys(err, errno, "its output");
    gt_auto_close int ours = ends[0];
    int r = child_start(spec, reads, to ? ends[1] : STDERR_FILENO, &pid, err);
    if (to)
        close(ends[1]);
    if (r < 0)
        return r;
    r = to ? child_read(ours, deadline, to, err) : 0;
    uint64_t now = gt_clock_ms();
    int status = gt_child_end(pid, r >= 0 && now < deadline ? (int64_t)(deadline - now) : 0);
    if (r >= 0)
        *ret_status = status;
    return r;
}

/* Fields of /proc/self/stat after the command, counted from 0 (the state). */
enum { FIELD_UTIME = 11, FIELD_STIME = 12, FIELD_START = 19, FIELD_RSS = 21, FIELDS = 22 };

static bool read_stat(uint64_t field[FIELDS])
{
    char text[1024];
    if (gt_file_read_attribute(AT_FDCWD, "/proc/self/stat", text, sizeof(text)) < 0)
        return false;
    char *p = strrchr(text, ')'); /* the command may contain any character */
    for (unsigned i = 0; i < FIELDS; i++) {
        p = p ? strchr(p, ' ') : NULL;
        if (!p)
            return false;
        field[i] = strtoull(++p, NULL, 10);
    }
    return true;
}

static uint64_t count_descriptors(void)
{
    gt_auto_dir DIR *dir = opendir("/proc/self/fd");
    uint64_t count = 0;
    if (!dir)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            count++;
    return count ? count - 1 : 0; /* without the one of this reading */
}

bool gt_process_read(struct gt_process *ret)
{
    uint64_t field[FIELDS];
    struct timespec wall, boot;
    if (!read_stat(field))
        return false;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    double ticks = (double)sysconf(_SC_CLK_TCK);
    double booted = (double)(wall.tv_sec - boot.tv_sec) + (double)(wall.tv_nsec - boot.tv_nsec) / 1e9;
    *ret = (struct gt_process){
        .cpu_s = (double)(field[FIELD_UTIME] + field[FIELD_STIME]) / ticks,
        .start_s = booted + (double)field[FIELD_START] / ticks,
        .resident_bytes = field[FIELD_RSS] * (uint64_t)sysconf(_SC_PAGESIZE),
        .descriptors = count_descriptors(),
    };
    return true;
}

uint64_t gt_process_descriptors(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return wanted;
    rlim_t most = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (limit.rlim_cur < most) {
        struct rlimit raised = {.rlim_cur = most, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            return most;
    }
    return limit.rlim_cur;
}

int gt_process_need_descriptors(uint64_t needed, struct gt_err **err)
{
    uint64_t there = gt_process_descriptors(needed);
    if (there >= needed)
        return 0;
    return gt_fail(err, EMFILE,
                   "the limit of open files (ulimit -n, LimitNOFILE=) is %" PRIu64 ", at least %" PRIu64
                   " are needed",
                   there, needed);
}

/* For many threads that seldom allocate, and occasional peaks: one arena, and memory after a peak is returned
 * to the system. */
static void keep_small(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    mallopt(M_TRIM_THRESHOLD, 128 << 10);
#endif
}

void gt_process_trim(void)
{
#ifdef __GLIBC__
    /* Where another allocator stands in for glibc's (a sanitizer's, a preloaded one), the first call sets up
     * glibc's arenas, and a second one at that moment meets half of them. */
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    malloc_trim(0);
    pthread_mutex_unlock(&one_at_a_time);
#endif
}

int gt_process_run(const char *program, uint64_t descriptors,
                   int (*run)(const void *options, struct gt_err **err), const void *options)
{
    gt_auto_err struct gt_err *err = NULL;
    keep_small();
    int r = gt_process_need_descriptors(descriptors, &err);
    if (r == 0)
        r = run(options, &err);
    return r < 0 ? gt_exit_with(program, err, GT_EXIT_FAILED) : 0;
}
