/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/mailbox.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct gt_mailbox {
    void *owner;
    int event;
    struct gt_source *source;

    pthread_mutex_t lock;
    struct gt_letter *first, **last; /* under lock */
    unsigned count;
};

static struct gt_letter *take_all(struct gt_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    struct gt_letter *first = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    mailbox->count = 0;
    pthread_mutex_unlock(&mailbox->lock);
    return first;
}

static void on_event(void *arg, uint32_t events)
{
    struct gt_mailbox *mailbox = arg;
    uint64_t count;
    (void)events;
    if (read(mailbox->event, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR)
        return;
    struct gt_letter *letter = take_all(mailbox);
    while (letter) {
        struct gt_letter *next = letter->next;
        letter->deliver(mailbox->owner, letter);
        free(letter);
        letter = next;
    }
}

int gt_mailbox_new(struct gt_loop *loop, void *owner, struct gt_mailbox **ret, struct gt_err **err)
{
    struct gt_mailbox *mailbox = calloc(1, sizeof(*mailbox));
    if (!mailbox)
        return gt_fail_sys(err, ENOMEM, "mailbox");
    mailbox->owner = owner;
    mailbox->last = &mailbox->first;
    mailbox->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->event < 0) {
        free(mailbox);
        return gt_fail_sys(err, errno, "mailbox");
    }
    int r = gt_loop_add_fd(loop, mailbox->event, EPOLLIN, on_event, mailbox, &mailbox->source, err);
    if (r < 0) {
        close(mailbox->event);
        free(mailbox);
        return r;
    }
    pthread_mutex_init(&mailbox->lock, NULL);
    *ret = mailbox;
    return 0;
}

bool gt_mailbox_send(struct gt_mailbox *mailbox, struct gt_letter *letter)
{
    pthread_mutex_lock(&mailbox->lock);
    bool room = mailbox->count < GT_LETTERS_MAX;
    if (room) {
        letter->next = NULL;
        *mailbox->last = letter;
        mailbox->last = &letter->next;
        mailbox->count++;
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (!room) {
        free(letter);
        return false;
    }
    uint64_t one = 1;
    while (write(mailbox->event, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    return true;
}

void gt_mailbox_free(struct gt_mailbox *mailbox)
{
    if (!mailbox)
        return;
    gt_source_free(mailbox->source);
    for (struct gt_letter *letter = take_all(mailbox); letter;) {
        struct gt_letter *next = letter->next;
        free(letter);
        letter = next;
    }
    close(mailbox->event);
    pthread_mutex_destroy(&mailbox->lock);
    free(mailbox);
}
