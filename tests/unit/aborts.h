/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether a call that breaks what a header asks for aborts; for builds with assertions. */
static inline bool aborts(void (*breaks)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (!pid) {
        signal(SIGABRT, SIG_DFL);
        fclose(stderr); /* it says which assertion failed */
        breaks();
        _exit(0);
    }
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
