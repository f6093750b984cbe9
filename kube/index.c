/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { KEY_PART_MAX = 8 << 10 };

struct wanted {
    const char *namespace_, *name;
};

const char *gt_index_name(const struct gt_index_entry *entry)
{
    return entry->key + strlen(entry->key) + 1;
}

static bool index_is(const void *item, const void *key)
{
    const struct gt_index_entry *entry = item;
    const struct wanted *wanted = key;
    return strcmp(entry->key, wanted->namespace_) == 0 && strcmp(gt_index_name(entry), wanted->name) == 0;
}

struct gt_index_entry *gt_index_find(const struct gt_index *index, const char *namespace_, const char *name)
{
    return gt_table_find(&index->table, gt_digest_hash_of_name(namespace_, name), index_is,
                         &(struct wanted){namespace_, name});
}

struct gt_index_entry *gt_index_add(struct gt_index *index, const char *namespace_, const char *name)
{
    size_t first = strlen(namespace_) + 1, second = strlen(name) + 1;
    if (index->table.count >= index->max || first > KEY_PART_MAX || second > KEY_PART_MAX)
        return NULL;
    GT_ASSERT(!gt_index_find(index, namespace_, name));
    struct gt_index_entry *entry = calloc(1, sizeof(*entry) + first + second);
    if (!entry)
        return NULL;
    entry->hash = gt_digest_hash_of_name(namespace_, name);
    memcpy(entry->key, namespace_, first);
    memcpy(entry->key + first, name, second);
    if (gt_table_add(&index->table, entry->hash, entry) < 0) {
        free(entry);
        return NULL;
    }
    return entry;
}

struct gt_index_entry *gt_index_take(struct gt_index *index, const char *namespace_, const char *name)
{
    struct gt_index_entry *entry = gt_index_find(index, namespace_, name);
    if (entry)
        gt_table_remove(&index->table, entry->hash, entry);
    return entry;
}

struct gt_index_entry *gt_index_take_unmarked(struct gt_index *index, uint32_t mark, size_t *slot)
{
    /* After a removal an entry from a later slot may move into this slot, so the slot is checked again. */
    for (; *slot < index->table.size; (*slot)++) {
        struct gt_index_entry *entry = index->table.items[*slot];
        if (entry && entry->mark != mark) {
            gt_table_remove(&index->table, entry->hash, entry);
            return entry;
        }
    }
    return NULL;
}

void *gt_index_item(const struct gt_index *index, const char *namespace_, const char *name)
{
    const struct gt_index_entry *entry = gt_index_find(index, namespace_, name);
    return entry ? entry->item : NULL;
}

void *gt_index_next(const struct gt_index *index, size_t *slot)
{
    const struct gt_index_entry *entry = NULL;
    while (!entry && *slot < index->table.size)
        entry = index->table.items[(*slot)++];
    return entry ? entry->item : NULL;
}

void gt_index_done(struct gt_index *index)
{
    for (size_t i = 0; i < index->table.size; i++)
        free(index->table.items[i]);
    gt_table_done(&index->table);
}
