/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/index.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 16, KEY_PART_MAX = 8 << 10 };

static size_t slot_of(const struct gt_index *index, const char *namespace_, const char *name)
{
    return (gt_index_digest(namespace_) * 31 + gt_index_digest(name)) & (index->slot_count - 1);
}

static struct gt_index_entry **place_of(const struct gt_index *index, const char *namespace_,
                                        const char *name)
{
    if (!index->slot_count)
        return NULL;
    struct gt_index_entry **place = &index->slots[slot_of(index, namespace_, name)];
    while (*place &&
           (strcmp((*place)->key, namespace_) != 0 || strcmp((*place)->key + (*place)->name_at, name) != 0))
        place = &(*place)->next;
    return place;
}

struct gt_index_entry *gt_index_find(const struct gt_index *index, const char *namespace_, const char *name)
{
    struct gt_index_entry **place = place_of(index, namespace_, name);
    return place ? *place : NULL;
}

static bool grow(struct gt_index *index)
{
    if (index->count < index->slot_count)
        return true;
    struct gt_index bigger = *index;
    bigger.slot_count = index->slot_count ? index->slot_count * 2 : SLOTS_FIRST;
    bigger.slots = calloc(bigger.slot_count, sizeof(struct gt_index_entry *));
    if (!bigger.slots)
        return index->slot_count > 0; /* longer chains then */
    for (size_t i = 0; i < index->slot_count; i++)
        while (index->slots[i]) {
            struct gt_index_entry *entry = index->slots[i];
            index->slots[i] = entry->next;
            size_t slot = slot_of(&bigger, entry->key, entry->key + entry->name_at);
            entry->next = bigger.slots[slot];
            bigger.slots[slot] = entry;
        }
    free(index->slots);
    *index = bigger;
    return true;
}

struct gt_index_entry *gt_index_add(struct gt_index *index, const char *namespace_, const char *name)
{
    size_t first = strlen(namespace_) + 1, second = strlen(name) + 1;
    if (index->count >= index->max || first > KEY_PART_MAX || second > KEY_PART_MAX || !grow(index))
        return NULL;
    struct gt_index_entry *entry = calloc(1, sizeof(*entry) + first + second);
    if (!entry)
        return NULL;
    entry->name_at = (uint16_t)first;
    memcpy(entry->key, namespace_, first);
    memcpy(entry->key + first, name, second);
    struct gt_index_entry **place = &index->slots[slot_of(index, namespace_, name)];
    entry->next = *place;
    *place = entry;
    index->count++;
    return entry;
}

static struct gt_index_entry *take(struct gt_index *index, struct gt_index_entry **place)
{
    struct gt_index_entry *entry = *place;
    *place = entry->next;
    entry->next = NULL;
    index->count--;
    return entry;
}

struct gt_index_entry *gt_index_take(struct gt_index *index, const char *namespace_, const char *name)
{
    struct gt_index_entry **place = place_of(index, namespace_, name);
    return place && *place ? take(index, place) : NULL;
}

struct gt_index_entry *gt_index_take_unmarked(struct gt_index *index, uint32_t mark, size_t *slot)
{
    for (; *slot < index->slot_count; (*slot)++)
        for (struct gt_index_entry **place = &index->slots[*slot]; *place; place = &(*place)->next)
            if ((*place)->mark != mark)
                return take(index, place);
    return NULL;
}

void gt_index_done(struct gt_index *index)
{
    for (size_t i = 0; i < index->slot_count; i++)
        while (index->slots[i])
            free(take(index, &index->slots[i]));
    free(index->slots);
    *index = (struct gt_index){.max = index->max};
}
