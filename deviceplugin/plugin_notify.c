/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/plugin_notify.h"

#include <string.h>

enum { NOTIFY_NAMESPACE, NOTIFY_POD, NOTIFY_CONTAINER, NOTIFY_NAMES };

/* About one container; the texts follow the IDs. */
struct notify_message {
    struct gt_message message;
    uint64_t offered;
    struct gt_choice choice;
    enum gt_plan_result plan;
    const char *names[NOTIFY_NAMES];
    const char *error; /* NULL: none */
    unsigned count;
    const char *ids[];
};

static struct notify_message *plugin_notify_make(const char *const *ids, unsigned count,
                                                 const char *const names[NOTIFY_NAMES], const char *error)
{
    size_t size = error ? strlen(error) + 1 : 0;
    for (unsigned i = 0; i < count; i++)
        size += strlen(ids[i]) + 1;
    for (unsigned i = 0; i < NOTIFY_NAMES; i++)
        size += strlen(names[i]) + 1;
    struct notify_message *message = calloc(1, sizeof(*message) + count * sizeof(message->ids[0]) + size);
    if (!message)
        return NULL;
    char *text = (char *)&message->ids[count];
    for (unsigned i = 0; i < count; i++) {
        message->ids[i] = text;
        text = stpcpy(text, ids[i]) + 1;
    }
    for (unsigned i = 0; i < NOTIFY_NAMES; i++) {
        message->names[i] = text;
        text = stpcpy(text, names[i]) + 1;
    }
    if (error) {
        message->error = text;
        stpcpy(text, error);
    }
    message->count = count;
    return message;
}

static void deliver_preferred(void *owner, struct gt_message *base)
{
    const struct gt_plugin_events *events = &((const struct gt_notify_owner *)owner)->events;
    const struct notify_message *message = (const struct notify_message *)base;
    const struct gt_preference preference = {
        .ids = message->ids,
        .count = message->count,
        .offered = message->offered,
        .choice = message->choice,
        .plan = message->plan,
        .namespace = message->names[NOTIFY_NAMESPACE],
        .pod = message->names[NOTIFY_POD],
        .container = message->names[NOTIFY_CONTAINER],
    };
    events->preferred(events->arg, &preference);
}

static void plugin_notify_deliver_allocated(void *owner, struct gt_message *base)
{
    const struct gt_plugin_events *events = &((const struct gt_notify_owner *)owner)->events;
    const struct notify_message *message = (const struct notify_message *)base;
    const struct gt_allocation allocation = {message->ids, message->count, message->error};
    events->allocated(events->arg, &allocation);
}

void gt_notify_preferred(struct gt_mailbox *mailbox, const struct gt_preference *preference)
{
    const char *const names[NOTIFY_NAMES] = {preference->namespace, preference->pod, preference->container};
    struct notify_message *message = plugin_notify_make(preference->ids, preference->count, names, NULL);
    if (!message)
        return;
    message->message.deliver = deliver_preferred;
    message->offered = preference->offered;
    message->choice = preference->choice;
    message->plan = preference->plan;
    gt_mailbox_send(mailbox, &message->message);
}

void gt_notify_allocated(struct gt_mailbox *mailbox, const struct gt_allocation *allocation)
{
    static const char *const nobody[NOTIFY_NAMES] = {"", "", ""};
    struct notify_message *message =
        plugin_notify_make(allocation->ids, allocation->count, nobody, allocation->error);
    if (!message)
        return;
    message->message.deliver = plugin_notify_deliver_allocated;
    gt_mailbox_send(mailbox, &message->message);
}
