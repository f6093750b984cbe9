/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_FD = 3, STEP_NS = 1000000 };

/*
 * The child ends when it reads the end of the socket, which the kernel closes in whatever way this process
 * ends. (The parent-death signal would come too early: it follows the thread that spawned, not the process.)
 */
int gt_child_spawn(const char *program, const char *root, bool quiet, pid_t *ret_pid, int *ret_fd,
                   struct gt_err **err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return gt_fail_sys(err, errno, "%s", program);
    gt_auto_close int ours = ends[0];
    gt_auto_close int theirs = ends[1];

    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    /* posix_spawn rather than fork: no handlers of other libraries run, and it is cheap in a large process.
     */
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0)
        return gt_fail_sys(err, r, "%s", program);
    r = posix_spawnattr_init(&attributes);
    if (r != 0) {
        posix_spawn_file_actions_destroy(&files);
        return gt_fail_sys(err, r, "%s", program);
    }
    const char *const argv[] = {"gputopo-probe", "--fd", "3", "--root", root, quiet ? "--quiet" : NULL, NULL};
    pid_t pid = 0;
    /* In this order: the socket may itself be one of 0, 1, 2 or 3. */
    r = posix_spawn_file_actions_adddup2(&files, theirs, CHILD_FD);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&files, 2, 1);
    if (r == 0)
        r = posix_spawn_file_actions_addclosefrom_np(&files, CHILD_FD + 1);
    if (r == 0)
        r = posix_spawnattr_setsigmask(&attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(&attributes, &all);
    if (r == 0)
        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (r == 0)
        r = posix_spawn(&pid, program, &files, &attributes, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (r != 0)
        return gt_fail_sys(err, r, "%s", program);
    *ret_pid = pid;
    *ret_fd = gt_steal_fd(&ours);
    return 0;
}

void gt_child_end(pid_t pid, int patience_ms)
{
    for (int waited = 0; waited < patience_ms; waited++) {
        pid_t r = waitpid(pid, NULL, WNOHANG);
        if (r == pid || (r < 0 && errno != EINTR))
            return;
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
