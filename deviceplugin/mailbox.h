/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_MAILBOX_H
#define GPUTOPO_DEVICEPLUGIN_MAILBOX_H

#include "base/loop.h"

/*
 * News from other threads to one owner on the loop's thread. Unlike gt_loop_post() nothing is delivered after
 * the mailbox is freed, so that a letter never reaches an owner that is gone.
 */
struct gt_mailbox;

/* One piece of news. Made by malloc inside a larger struct as its first member; freed after delivery. */
struct gt_letter {
    struct gt_letter *next;
    void (*deliver)(void *owner, struct gt_letter *letter);
};

enum { GT_LETTERS_MAX = 4096 };

int gt_mailbox_new(struct gt_loop *loop, void *owner, struct gt_mailbox **ret, struct gt_err **err);

/* From any thread; takes the letter. False when GT_LETTERS_MAX are waiting: then it was freed instead. */
bool gt_mailbox_send(struct gt_mailbox *mailbox, struct gt_letter *letter);

/* After the last sender has ended, and not from within a delivery. */
void gt_mailbox_free(struct gt_mailbox *mailbox);

#endif
