/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "deviceplugin/rpc.h"

/* Passes the end of a call from gRPC's thread to the loop's. */

enum { RPC_LOOP_TEXT_MAX = 512 };

struct loop_call_message {
    struct gt_message message;
    struct gt_loop_call *call;
    unsigned serial;
    int status;
    char text[RPC_LOOP_TEXT_MAX];
    size_t len;
    uint8_t reply[];
};

static void rpc_loop_deliver(void *owner, struct gt_message *base)
{
    const struct loop_call_message *end = (const struct loop_call_message *)base;
    struct gt_loop_call *call = end->call;
    (void)owner;
    if (end->serial != call->serial || !call->call)
        return; /* cancelled meanwhile */
    gt_loop_call_cancel(call);
    call->done(call->arg, end->status, end->text, end->reply, end->len);
}

void gt_loop_call_done(void *arg, int status, const char *message, const uint8_t *reply, size_t len)
{
    struct gt_loop_call *call = arg;
    struct loop_call_message *end = malloc(sizeof(*end) + len);
    if (!end)
        return;
    *end = (struct loop_call_message){.message = {.deliver = rpc_loop_deliver},
                                      .call = call,
                                      .serial = call->serial,
                                      .status = status,
                                      .len = len};
    snprintf(end->text, sizeof(end->text), "%s", message);
    if (len)
        memcpy(end->reply, reply, len);
    gt_mailbox_send(call->mailbox, &end->message);
}

void gt_loop_call_cancel(struct gt_loop_call *call)
{
    gt_rpc_call_free(gt_steal(call->call));
    call->serial++; /* what it has sent is out of date now */
}
