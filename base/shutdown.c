/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shutdown.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mailbox.h"

enum { SHUTDOWN_STACK_BYTES = 128 << 10, LOG_MS = 200 };

struct gt_shutdown {
    struct gt_message message; /* that a signal came; embedded */
    struct gt_mailbox *mailbox;
    unsigned limit_ms;
    gt_signal_callback *callback;
    void *arg;
    sigset_t signals;
    pthread_t thread;

    pthread_mutex_t lock;
    uint64_t until_ms; /* under lock, as all below; 0: nothing has ended yet */
    int signal, status;
    unsigned undelivered; /* signals that the loop has not received yet */
    bool begun, over;
};

/* The log may hang as well, in a lock or a full pipe: then SIGALRM ends the process. */
static void shutdown_exit(const struct gt_shutdown *shutdown)
{
    const struct itimerval soon = {.it_value.tv_usec = LOG_MS * 1000L};
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    gt_warning("something hangs, leaving without it", GT_INT("after_ms", shutdown->limit_ms));
    _exit(shutdown->status);
}

static void shutdown_deliver(void *owner, struct gt_message *message)
{
    struct gt_shutdown *shutdown = owner;
    (void)message;
    pthread_mutex_lock(&shutdown->lock);
    int signal = shutdown->signal;
    unsigned undelivered = shutdown->undelivered;
    shutdown->undelivered = 0;
    pthread_mutex_unlock(&shutdown->lock);
    while (undelivered--)
        shutdown->callback(shutdown->arg, signal);
}

/* Waits for one of the signals, which gt_shutdown_begin() and gt_shutdown_free() send, too; false if none
 * came in time. */
static bool await_signal(struct gt_shutdown *shutdown, uint64_t until_ms, int *ret)
{
    int signal;
    if (!until_ms)
        signal = sigwaitinfo(&shutdown->signals, NULL);
    else {
        int64_t left = (int64_t)until_ms - gt_clock_signed_ms();
        if (left <= 0)
            return false;
        const struct timespec wait = {(time_t)(left / 1000), (long)(left % 1000) * 1000000};
        signal = sigtimedwait(&shutdown->signals, NULL, &wait);
    }
    *ret = signal;
    return true;
}

static void *shutdown_watch(void *arg)
{
    struct gt_shutdown *shutdown = arg;
    for (int signal = -1;;) {
        pthread_mutex_lock(&shutdown->lock);
        bool over = shutdown->over, delivered = signal > 0 && !shutdown->begun;
        if (delivered && !shutdown->until_ms)
            shutdown->until_ms = gt_clock_ms() + shutdown->limit_ms;
        if (delivered) {
            shutdown->signal = signal;
            shutdown->undelivered++;
        }
        uint64_t until_ms = shutdown->until_ms;
        pthread_mutex_unlock(&shutdown->lock);
        if (over)
            return NULL;
        if (delivered)
            gt_mailbox_send(shutdown->mailbox, &shutdown->message);
        if (!await_signal(shutdown, until_ms, &signal))
            shutdown_exit(shutdown);
    }
}

int gt_shutdown_new(struct gt_loop *loop, unsigned limit_ms, gt_signal_callback *callback, void *arg,
                    struct gt_shutdown **ret, struct gt_err **err)
{
    struct gt_shutdown *shutdown = calloc(1, sizeof(*shutdown));
    pthread_attr_t small;
    GT_NEED(shutdown, err, "end of the process");
    *shutdown = (struct gt_shutdown){.message = {.embedded = true, .deliver = shutdown_deliver},
                                     .limit_ms = limit_ms,
                                     .callback = callback,
                                     .arg = arg,
                                     .status = 1};
    int r = gt_mailbox_new(loop, shutdown, &shutdown->mailbox, err);
    if (r < 0) {
        free(shutdown);
        return r;
    }
    sigemptyset(&shutdown->signals);
    sigaddset(&shutdown->signals, SIGTERM);
    sigaddset(&shutdown->signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &shutdown->signals, NULL);
    pthread_mutex_init(&shutdown->lock, NULL);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, SHUTDOWN_STACK_BYTES);
    r = pthread_create(&shutdown->thread, &small, shutdown_watch, shutdown);
    pthread_attr_destroy(&small);
    if (r != 0) {
        gt_mailbox_free(shutdown->mailbox);
        pthread_mutex_destroy(&shutdown->lock);
        free(shutdown);
        return gt_fail_sys(err, r, "end of the process: start a thread");
    }
    pthread_setname_np(shutdown->thread, "gputopo-end");
    *ret = shutdown;
    return 0;
}

void gt_shutdown_begin(struct gt_shutdown *shutdown, int status)
{
    if (!shutdown)
        return;
    pthread_mutex_lock(&shutdown->lock);
    if (!shutdown->until_ms)
        shutdown->until_ms = gt_clock_ms() + shutdown->limit_ms;
    shutdown->status = status;
    shutdown->begun = true;
    pthread_mutex_unlock(&shutdown->lock);
    /* NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread): it waits for that */
    pthread_kill(shutdown->thread, SIGTERM);
}

void gt_shutdown_free(struct gt_shutdown *shutdown)
{
    if (!shutdown)
        return;
    pthread_mutex_lock(&shutdown->lock);
    shutdown->over = true;
    pthread_mutex_unlock(&shutdown->lock);
    /* NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread): it waits for that */
    pthread_kill(shutdown->thread, SIGTERM);
    pthread_join(shutdown->thread, NULL);
    gt_mailbox_free(shutdown->mailbox);
    pthread_mutex_destroy(&shutdown->lock);
    free(shutdown);
}
