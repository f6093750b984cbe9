/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEP_NS = 1000000 };

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
