/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/plugin_notify.h"

#include <string.h>

enum { NOTIFY_NAMESPACE, NOTIFY_POD, NOTIFY_CONTAINER, NOTIFY_NAMES };

/* About one container; the texts lie behind the IDs. */
struct notify_letter {
    struct gt_letter letter;
    uint64_t offered;
    struct gt_choice choice;
    enum gt_plan_result plan;
    const char *names[NOTIFY_NAMES];
    const char *error; /* NULL: none */
    unsigned count;
    const char *ids[];
};

static struct notify_letter *make(const char *const *ids, unsigned count,
                                  const char *const names[NOTIFY_NAMES], const char *error)
{
    size_t size = error ? strlen(error) + 1 : 0;
    for (unsigned i = 0; i < count; i++)
        size += strlen(ids[i]) + 1;
    for (unsigned i = 0; i < NOTIFY_NAMES; i++)
        size += strlen(names[i]) + 1;
    struct notify_letter *letter = calloc(1, sizeof(*letter) + count * sizeof(letter->ids[0]) + size);
    if (!letter)
        return NULL;
    char *text = (char *)&letter->ids[count];
    for (unsigned i = 0; i < count; i++) {
        letter->ids[i] = text;
        text = stpcpy(text, ids[i]) + 1;
    }
    for (unsigned i = 0; i < NOTIFY_NAMES; i++) {
        letter->names[i] = text;
        text = stpcpy(text, names[i]) + 1;
    }
    if (error) {
        letter->error = text;
        stpcpy(text, error);
    }
    letter->count = count;
    return letter;
}

static void deliver_preferred(void *owner, struct gt_letter *base)
{
    const struct gt_plugin_events *events = &((const struct gt_notify_owner *)owner)->events;
    const struct notify_letter *letter = (const struct notify_letter *)base;
    const struct gt_preference preference = {
        .ids = letter->ids,
        .count = letter->count,
        .offered = letter->offered,
        .choice = letter->choice,
        .plan = letter->plan,
        .namespace = letter->names[NOTIFY_NAMESPACE],
        .pod = letter->names[NOTIFY_POD],
        .container = letter->names[NOTIFY_CONTAINER],
    };
    events->preferred(events->arg, &preference);
}

static void deliver_allocated(void *owner, struct gt_letter *base)
{
    const struct gt_plugin_events *events = &((const struct gt_notify_owner *)owner)->events;
    const struct notify_letter *letter = (const struct notify_letter *)base;
    const struct gt_allocation allocation = {letter->ids, letter->count, letter->error};
    events->allocated(events->arg, &allocation);
}

void gt_notify_preferred(struct gt_mailbox *mailbox, const struct gt_preference *preference)
{
    const char *const names[NOTIFY_NAMES] = {preference->namespace, preference->pod, preference->container};
    struct notify_letter *letter = make(preference->ids, preference->count, names, NULL);
    if (!letter)
        return;
    letter->letter.deliver = deliver_preferred;
    letter->offered = preference->offered;
    letter->choice = preference->choice;
    letter->plan = preference->plan;
    gt_mailbox_send(mailbox, &letter->letter);
}

void gt_notify_allocated(struct gt_mailbox *mailbox, const struct gt_allocation *allocation)
{
    static const char *const nobody[NOTIFY_NAMES] = {"", "", ""};
    struct notify_letter *letter = make(allocation->ids, allocation->count, nobody, allocation->error);
    if (!letter)
        return;
    letter->letter.deliver = deliver_allocated;
    gt_mailbox_send(mailbox, &letter->letter);
}
