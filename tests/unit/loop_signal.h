/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/loop.h"

/* Signals on the thread of a test program's event loop. */
struct test_signal {
    int fd;
    void (*callback)(void *arg, int signal);
    void *arg;
};

static void test_on_signal(void *arg, uint32_t events)
{
    const struct test_signal *watched = arg;
    struct signalfd_siginfo info;
    (void)events;
    if (read(watched->fd, &info, sizeof(info)) == sizeof(info))
        watched->callback(watched->arg, (int)info.ssi_signo);
}

static inline int test_watch_signal(struct gt_loop *loop, int signal, void (*callback)(void *arg, int signal),
                                    void *arg, struct gt_err **err)
{
    static struct test_signal watched[4];
    static unsigned count;
    struct test_signal *at = &watched[count++];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    *at = (struct test_signal){signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), callback, arg};
    return gt_loop_add_fd(loop, at->fd, POLLIN, test_on_signal, at, NULL, err);
}
