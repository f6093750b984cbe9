/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mailbox.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/assert.h"

struct gt_mailbox {
    void *owner;
    int event;
    struct gt_source *source;

    pthread_mutex_t lock;
    struct gt_message *first, **last; /* under lock, as the next */
    unsigned count;
};

static struct gt_message *mailbox_take(struct gt_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    struct gt_message *message = mailbox->first;
    if (message) {
        mailbox->first = message->next;
        if (!mailbox->first)
            mailbox->last = &mailbox->first;
        mailbox->count--;
        message->waiting = false;
    }
    pthread_mutex_unlock(&mailbox->lock);
    return message;
}

static void mailbox_on_event(void *arg, uint32_t events)
{
    struct gt_mailbox *mailbox = arg;
    uint64_t wakes;
    (void)events;
    if (read(mailbox->event, &wakes, sizeof(wakes)) < 0)
        return;
    /* Delivers only what waits now: otherwise a delivery that sends again could block the loop's other
     * sources. */
    pthread_mutex_lock(&mailbox->lock);
    unsigned waiting = mailbox->count;
    pthread_mutex_unlock(&mailbox->lock);
    while (waiting--) {
        struct gt_message *message = mailbox_take(mailbox);
        bool embedded = message->embedded;
        message->deliver(mailbox->owner, message);
        if (!embedded)
            free(message);
    }
}

int gt_mailbox_new(struct gt_loop *loop, void *owner, struct gt_mailbox **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_mailbox_free) struct gt_mailbox *mailbox = calloc(1, sizeof(*mailbox));
    GT_NEED(mailbox, err, "mailbox");
    mailbox->owner = owner;
    mailbox->last = &mailbox->first;
    pthread_mutex_init(&mailbox->lock, NULL);
    mailbox->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->event < 0)
        return gt_fail_sys(err, errno, "mailbox");
    GT_TRY(gt_loop_add_fd(loop, mailbox->event, POLLIN, mailbox_on_event, mailbox, &mailbox->source, err));
    *ret = gt_steal(mailbox);
    return 0;
}

bool gt_mailbox_send(struct gt_mailbox *mailbox, struct gt_message *message)
{
    GT_ASSERT(message->deliver);
    pthread_mutex_lock(&mailbox->lock);
    bool lost = !message->embedded && mailbox->count >= GT_MESSAGES_MAX;
    bool queued = !lost && !message->waiting;
    if (queued) {
        message->waiting = true;
        message->next = NULL;
        *mailbox->last = message;
        mailbox->last = &message->next;
        mailbox->count++;
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (lost)
        free(message);
    const uint64_t one = 1;
    while (queued && write(mailbox->event, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    return !lost;
}

void gt_mailbox_free(struct gt_mailbox *mailbox)
{
    if (!mailbox)
        return;
    gt_source_free(mailbox->source);
    for (struct gt_message *message; (message = mailbox_take(mailbox));)
        if (!message->embedded)
            free(message);
    if (mailbox->event >= 0)
        close(mailbox->event);
    pthread_mutex_destroy(&mailbox->lock);
    free(mailbox);
}
