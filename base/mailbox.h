/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_MAILBOX_H
#define GPUTOPO_BASE_MAILBOX_H

#include "base/loop.h"

/*
 * Messages (letters) from other threads to one owner on the loop's thread. Letters are delivered in the order
 * in which they were sent, and none after the mailbox is freed, so that no letter reaches an owner that is
 * gone.
 */
struct gt_mailbox;

/* The first member of a message. */
struct gt_message {
    /* Made by malloc: the mailbox frees it after the delivery. Embedded: it is part of its sender, lives as
     * long as the mailbox, and always has room. Sent again while it waits, it is delivered once. */
    bool embedded;
    void (*deliver)(void *owner, struct gt_message *message);

    bool waiting; /* the mailbox's own, as the next */
    struct gt_message *next;
};

enum { GT_MESSAGES_MAX = 4096 };

int gt_mailbox_new(struct gt_loop *loop, void *owner, struct gt_mailbox **ret, struct gt_err **err);

/* From any thread; never waits for the owner. A letter made by malloc is lost where GT_MESSAGES_MAX are
 * waiting. */
void gt_mailbox_send(struct gt_mailbox *mailbox, struct gt_message *message);

/* After the last sender has ended, before the loop is freed, and not from within a delivery. */
void gt_mailbox_free(struct gt_mailbox *mailbox);
GT_DEFINE_CLEANUP(struct gt_mailbox *, gt_mailbox_free)
#define gt_auto_mailbox GT_CLEANUP(gt_mailbox_free)

#endif
