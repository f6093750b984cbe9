/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* By poll(2), which the client has everywhere: a loop has some dozen sources. */

struct gt_source {
    struct gt_loop *loop;
    struct gt_source *next;
    int fd; /* -1: a timer */
    short events, happened;
    bool armed, dead;
    uint64_t due; /* gt_clock_ms() */
    gt_fd_callback *on_fd;
    gt_timer_callback *on_timer;
    void *arg;
};

struct gt_loop {
    struct gt_source *sources; /* dead ones too, until the end of a round */
    struct pollfd *polled;
    unsigned count, capacity; /* sources, and how many fit into `polled` */
    bool stopped;
    int result;
};

static int loop_add(struct gt_loop *loop, struct gt_source model, struct gt_source **ret, struct gt_err **err)
{
    if (loop->count == loop->capacity) {
        unsigned capacity = loop->capacity ? 2 * loop->capacity : 16;
        struct pollfd *polled = realloc(loop->polled, capacity * sizeof(*polled));
        GT_NEED(polled, err, "event loop");
        loop->polled = polled;
        loop->capacity = capacity;
    }
    struct gt_source *source = malloc(sizeof(*source));
    GT_NEED(source, err, "event loop");
    *source = model;
    source->loop = loop;
    source->next = loop->sources;
    loop->sources = source;
    loop->count++;
    if (ret)
        *ret = source;
    return 0;
}

int gt_loop_add_fd(struct gt_loop *loop, int fd, uint32_t events, gt_fd_callback *callback, void *arg,
                   struct gt_source **ret, struct gt_err **err)
{
    if (fd < 0)
        return gt_fail_sys(err, EBADF, "event loop: watch descriptor %d", fd);
    return loop_add(
        loop, (struct gt_source){.fd = fd, .events = (short)events, .on_fd = callback, .arg = arg}, ret, err);
}

int gt_loop_add_timer(struct gt_loop *loop, gt_timer_callback *callback, void *arg, struct gt_source **ret,
                      struct gt_err **err)
{
    return loop_add(loop, (struct gt_source){.fd = -1, .on_timer = callback, .arg = arg}, ret, err);
}

void gt_source_arm(struct gt_source *source, uint64_t milliseconds)
{
    source->due = gt_clock_ms() + (milliseconds ? milliseconds : 1);
    source->armed = true;
}

void gt_source_disarm(struct gt_source *source)
{
    source->armed = false;
}

void gt_source_free(struct gt_source *source)
{
    if (source)
        source->dead = true;
}

static void loop_sweep(struct gt_loop *loop, bool all)
{
    for (struct gt_source **at = &loop->sources; *at;) {
        struct gt_source *source = *at;
        if (all || source->dead) {
            *at = source->next;
            free(source);
            loop->count--;
        } else {
            at = &source->next;
        }
    }
}

int gt_loop_new(struct gt_loop **ret, struct gt_err **err)
{
    struct gt_loop *loop = calloc(1, sizeof(*loop));
    GT_NEED(loop, err, "event loop");
    *ret = loop;
    return 0;
}

void gt_loop_free(struct gt_loop *loop)
{
    if (!loop)
        return;
    loop_sweep(loop, true);
    free(loop->polled);
    free(loop);
}

/* Notes on each source what has happened to it. */
static int loop_wait(struct gt_loop *loop, struct gt_err **err)
{
    uint64_t now = gt_clock_ms(), wait = UINT64_MAX;
    nfds_t count = 0;
    for (struct gt_source *source = loop->sources; source; source = source->next) {
        if (source->fd >= 0)
            loop->polled[count++] = (struct pollfd){.fd = source->fd, .events = source->events};
        else if (source->armed && (source->due <= now || source->due - now < wait))
            wait = source->due > now ? source->due - now : 0;
    }
    if (poll(loop->polled, count, wait < INT_MAX ? (int)wait : wait == UINT64_MAX ? -1 : INT_MAX) < 0) {
        if (errno != EINTR)
            return gt_fail_sys(err, errno, "event loop");
        for (nfds_t i = 0; i < count; i++)
            loop->polled[i].revents = 0;
    }
    count = 0;
    for (struct gt_source *source = loop->sources; source; source = source->next)
        if (source->fd >= 0)
            source->happened = loop->polled[count++].revents;
    return 0;
}

static void loop_dispatch(struct gt_source *source, uint64_t now)
{
    if (source->fd >= 0 && source->happened) {
        source->on_fd(source->arg, source->happened & POLLNVAL ? POLLERR : (uint32_t)source->happened);
    } else if (source->fd < 0 && source->armed && source->due <= now) {
        source->armed = false;
        source->on_timer(source->arg);
    }
}

int gt_loop_run(struct gt_loop *loop, struct gt_err **err)
{
    while (!loop->stopped) {
        loop_sweep(loop, false);
        GT_TRY(loop_wait(loop, err));
        uint64_t now = gt_clock_ms();
        for (struct gt_source *source = loop->sources; source && !loop->stopped; source = source->next)
            if (!source->dead)
                loop_dispatch(source, now); /* new ones come before it in the list */
    }
    loop->stopped = false;
    return loop->result;
}

void gt_loop_stop(struct gt_loop *loop, int result)
{
    loop->stopped = true;
    loop->result = result;
}
