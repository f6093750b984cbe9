/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ending.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mailbox.h"

enum { ENDING_STACK_BYTES = 128 << 10, TELL_MS = 200 };

struct gt_ending {
    struct gt_letter letter; /* that a signal came; embedded */
    struct gt_mailbox *mailbox;
    unsigned limit_ms;
    gt_signal_callback *callback;
    void *arg;
    sigset_t signals;
    pthread_t thread;

    pthread_mutex_t lock;
    uint64_t until_ms; /* under lock, as all below; 0: nothing has ended yet */
    int signal, status;
    unsigned untold; /* signals of which the loop was not told yet */
    bool begun, over;
};

/* Telling may hang as well, in a lock or a full pipe: then SIGALRM ends it. */
static void leave(const struct gt_ending *ending)
{
    const struct itimerval soon = {.it_value.tv_usec = TELL_MS * 1000L};
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    gt_warning("something hangs, leaving without it", GT_INT("after_ms", ending->limit_ms));
    _exit(ending->status);
}

static void deliver(void *owner, struct gt_letter *letter)
{
    struct gt_ending *ending = owner;
    (void)letter;
    pthread_mutex_lock(&ending->lock);
    int signal = ending->signal;
    unsigned untold = ending->untold;
    ending->untold = 0;
    pthread_mutex_unlock(&ending->lock);
    while (untold--)
        ending->callback(ending->arg, signal);
}

/* One of the signals, which gt_ending_begin() and gt_ending_free() send, too; false where none came in time.
 */
static bool await_signal(struct gt_ending *ending, uint64_t until_ms, int *ret)
{
    int signal;
    if (!until_ms)
        signal = sigwaitinfo(&ending->signals, NULL);
    else {
        int64_t left = (int64_t)until_ms - gt_clock_signed_ms();
        if (left <= 0)
            return false;
        const struct timespec wait = {(time_t)(left / 1000), (long)(left % 1000) * 1000000};
        signal = sigtimedwait(&ending->signals, NULL, &wait);
    }
    *ret = signal;
    return true;
}

static void *watch(void *arg)
{
    struct gt_ending *ending = arg;
    for (int signal = -1;;) {
        pthread_mutex_lock(&ending->lock);
        bool over = ending->over, told = signal > 0 && !ending->begun;
        if (told && !ending->until_ms)
            ending->until_ms = gt_clock_ms() + ending->limit_ms;
        if (told) {
            ending->signal = signal;
            ending->untold++;
        }
        uint64_t until_ms = ending->until_ms;
        pthread_mutex_unlock(&ending->lock);
        if (over)
            return NULL;
        if (told)
            gt_mailbox_send(ending->mailbox, &ending->letter);
        if (!await_signal(ending, until_ms, &signal))
            leave(ending);
    }
}

int gt_ending_new(struct gt_loop *loop, unsigned limit_ms, gt_signal_callback *callback, void *arg,
                  struct gt_ending **ret, struct gt_err **err)
{
    struct gt_ending *ending = calloc(1, sizeof(*ending));
    pthread_attr_t small;
    if (!ending)
        return gt_fail_sys(err, ENOMEM, "end of the process");
    *ending = (struct gt_ending){.letter = {.embedded = true, .deliver = deliver},
                                 .limit_ms = limit_ms,
                                 .callback = callback,
                                 .arg = arg,
                                 .status = 1};
    int r = gt_mailbox_new(loop, ending, &ending->mailbox, err);
    if (r < 0) {
        free(ending);
        return r;
    }
    sigemptyset(&ending->signals);
    sigaddset(&ending->signals, SIGTERM);
    sigaddset(&ending->signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ending->signals, NULL);
    pthread_mutex_init(&ending->lock, NULL);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, ENDING_STACK_BYTES);
    r = pthread_create(&ending->thread, &small, watch, ending);
    pthread_attr_destroy(&small);
    if (r != 0) {
        gt_mailbox_free(ending->mailbox);
        pthread_mutex_destroy(&ending->lock);
        free(ending);
        return gt_fail_sys(err, r, "end of the process: start a thread");
    }
    pthread_setname_np(ending->thread, "gputopo-ending");
    *ret = ending;
    return 0;
}

void gt_ending_begin(struct gt_ending *ending, int status)
{
    if (!ending)
        return;
    pthread_mutex_lock(&ending->lock);
    if (!ending->until_ms)
        ending->until_ms = gt_clock_ms() + ending->limit_ms;
    ending->status = status;
    ending->begun = true;
    pthread_mutex_unlock(&ending->lock);
    pthread_kill(ending->thread, SIGTERM); /* NOLINT(bugprone-bad-signal-to-kill-thread): it waits for that */
}

void gt_ending_free(struct gt_ending *ending)
{
    if (!ending)
        return;
    pthread_mutex_lock(&ending->lock);
    ending->over = true;
    pthread_mutex_unlock(&ending->lock);
    pthread_kill(ending->thread, SIGTERM); /* NOLINT(bugprone-bad-signal-to-kill-thread): it waits for that */
    pthread_join(ending->thread, NULL);
    gt_mailbox_free(ending->mailbox);
    pthread_mutex_destroy(&ending->lock);
    free(ending);
}
