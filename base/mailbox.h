/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

/*
 * Messages from other threads to one owner on the loop's thread. They are delivered in the order in which
 * they were sent, and none after the mailbox is freed, so that no message reaches an owner that is freed.
 */
struct gt_mailbox;

/* The first member of a message. */
struct gt_message {
    /* false: made by malloc; the mailbox frees it after the delivery. true: it is part of its sender, which
     * must outlive the mailbox; it is never lost, and if it is sent again while it waits, it is delivered
     * once. */
    bool embedded;
    void (*deliver)(void *owner, struct gt_message *message);

    bool waiting; /* used by the mailbox only, as the next member */
    struct gt_message *next;
};

enum { GT_MESSAGES_MAX = 4096 };

int gt_mailbox_new(struct gt_loop *loop, void *owner, struct gt_mailbox **ret, struct gt_err **err);

/* From any thread; never waits for the owner. A message made by malloc is freed and lost if GT_MESSAGES_MAX
 * are waiting: false. */
bool gt_mailbox_send(struct gt_mailbox *mailbox, struct gt_message *message);

/* Call it after the last sender has ended and before the loop is freed, and not within a delivery. */
void gt_mailbox_free(struct gt_mailbox *mailbox);
GT_DEFINE_CLEANUP(struct gt_mailbox *, gt_mailbox_free)
