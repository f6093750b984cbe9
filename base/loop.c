/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

enum { EVENTS_AT_ONCE = 32, SIGNALS_MAX = 65 };

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR && EPOLLHUP == POLLHUP,
               "callers name events as poll.h does");

struct gt_source {
    struct gt_loop *loop;
    struct gt_source *previous, *next;
    int fd;
    bool owns_fd;
    bool dead;
    enum { SOURCE_FD, SOURCE_TIMER } type;
    gt_fd_callback *on_fd;
    gt_timer_callback *on_timer;
    void *arg;
};

struct gt_loop {
    int epoll;
    struct gt_source *sources; /* live ones */
    struct gt_source *dead; /* freed at the end of a round, since their events may still be handled in it */
    bool stopped;
    int result;

    struct gt_source *signals;
    sigset_t signal_set;
    struct {
        gt_signal_callback *callback;
        void *arg;
    } signal_callbacks[SIGNALS_MAX];
};

static int add_source(struct gt_loop *loop, int fd, uint32_t events, struct gt_source model,
                      struct gt_source **ret, struct gt_err **err)
{
    struct gt_source *source = malloc(sizeof(*source));
    GT_NEED(source, err, "event loop");
    *source = model;
    source->loop = loop;
    source->fd = fd;
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        int r = gt_fail_sys(err, errno, "event loop: watch descriptor %d", fd);
        free(source);
        return r;
    }
    source->next = loop->sources;
    if (source->next)
        source->next->previous = source;
    loop->sources = source;
    if (ret)
        *ret = source;
    return 0;
}

int gt_loop_add_fd(struct gt_loop *loop, int fd, uint32_t events, gt_fd_callback *callback, void *arg,
                   struct gt_source **ret, struct gt_err **err)
{
    return add_source(loop, fd, events, (struct gt_source){.type = SOURCE_FD, .on_fd = callback, .arg = arg},
                      ret, err);
}

int gt_loop_add_timer(struct gt_loop *loop, gt_timer_callback *callback, void *arg, struct gt_source **ret,
                      struct gt_err **err)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0)
        return gt_fail_sys(err, errno, "event loop: timer");
    int r = add_source(
        loop, fd, EPOLLIN,
        (struct gt_source){.type = SOURCE_TIMER, .owns_fd = true, .on_timer = callback, .arg = arg}, ret,
        err);
    if (r < 0)
        close(fd);
    return r;
}

static void set_timer(struct gt_source *timer, uint64_t milliseconds)
{
    struct itimerspec when = {
        .it_value = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000}};
    timerfd_settime(timer->fd, 0, &when, NULL);
}

void gt_source_arm(struct gt_source *timer, uint64_t milliseconds)
{
    set_timer(timer, milliseconds ? milliseconds : 1); /* 0 would disarm it */
}

void gt_source_disarm(struct gt_source *timer)
{
    set_timer(timer, 0);
}

static void on_signals(void *arg, uint32_t events)
{
    struct gt_loop *loop = arg;
    struct signalfd_siginfo info;
    (void)events;
    while (read(loop->signals->fd, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo < SIGNALS_MAX && loop->signal_callbacks[info.ssi_signo].callback)
            loop->signal_callbacks[info.ssi_signo].callback(loop->signal_callbacks[info.ssi_signo].arg,
                                                            (int)info.ssi_signo);
}

int gt_loop_add_signal(struct gt_loop *loop, int signal, gt_signal_callback *callback, void *arg,
                       struct gt_err **err)
{
    if (signal <= 0 || signal >= SIGNALS_MAX)
        return gt_fail(err, EINVAL, "event loop: no signal %d", signal);
    sigset_t set = loop->signal_set;
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(loop->signals ? loop->signals->fd : -1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return gt_fail_sys(err, errno, "event loop: signals");
    if (!loop->signals) {
        int r = add_source(
            loop, fd, EPOLLIN,
            (struct gt_source){.type = SOURCE_FD, .owns_fd = true, .on_fd = on_signals, .arg = loop},
            &loop->signals, err);
        if (r < 0) {
            close(fd);
            return r;
        }
    }
    loop->signal_set = set;
    loop->signal_callbacks[signal].callback = callback;
    loop->signal_callbacks[signal].arg = arg;
    return 0;
}

void gt_source_free(struct gt_source *source)
{
    if (!source || source->dead)
        return;
    struct gt_loop *loop = source->loop;
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    if (source->owns_fd)
        close(source->fd);
    source->dead = true;
    if (source->previous)
        source->previous->next = source->next;
    else
        loop->sources = source->next;
    if (source->next)
        source->next->previous = source->previous;
    source->next = loop->dead;
    loop->dead = source;
}

static void free_removed(struct gt_loop *loop)
{
    while (loop->dead) {
        struct gt_source *next = loop->dead->next;
        free(loop->dead);
        loop->dead = next;
    }
}

int gt_loop_new(struct gt_loop **ret, struct gt_err **err)
{
    gt_auto_loop struct gt_loop *loop = calloc(1, sizeof(*loop));
    GT_NEED(loop, err, "event loop");
    sigemptyset(&loop->signal_set);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0)
        return gt_fail_sys(err, errno, "event loop");
    *ret = gt_steal(loop);
    return 0;
}

void gt_loop_free(struct gt_loop *loop)
{
    if (!loop)
        return;
    while (loop->sources)
        gt_source_free(loop->sources);
    free_removed(loop);
    if (loop->epoll >= 0)
        close(loop->epoll);
    free(loop);
}

static void dispatch(struct gt_source *source, uint32_t events)
{
    if (source->dead)
        return;
    if (source->type == SOURCE_FD) {
        source->on_fd(source->arg, events);
        return;
    }
    uint64_t expirations;
    if (read(source->fd, &expirations, sizeof(expirations)) == sizeof(expirations))
        source->on_timer(source->arg);
}

int gt_loop_run(struct gt_loop *loop, struct gt_err **err)
{
    while (!loop->stopped) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int n = epoll_wait(loop->epoll, events, EVENTS_AT_ONCE, -1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gt_fail_sys(err, errno, "event loop");
        for (int i = 0; i < n && !loop->stopped; i++)
            dispatch(events[i].data.ptr, events[i].events);
        free_removed(loop);
    }
    loop->stopped = false;
    return loop->result;
}

void gt_loop_stop(struct gt_loop *loop, int result)
{
    loop->stopped = true;
    loop->result = result;
}
