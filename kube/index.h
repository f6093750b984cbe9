/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/table.h"

/*
 * Objects by their namespace and name. An informer stores a digest of the uid of each, others what they know
 * of it. An entry takes 16 bytes and the name, and 16 to 24 in the table.
 */
struct gt_index_entry {
    union {
        uint64_t uid; /* a digest */
        void *item;   /* of the user, who frees it */
    };
    uint32_t hash, mark; /* mark: number of the list in which it was last seen */
    char key[];          /* namespace, NUL, name, NUL */
};

struct gt_index {
    struct gt_table table;
    size_t max;
};

const char *gt_index_name(const struct gt_index_entry *entry);

/* NULL if there is none. */
struct gt_index_entry *gt_index_find(const struct gt_index *index, const char *namespace_, const char *name);

/* Adds an entry for an object that has none, with the digest 0 and no item. NULL: full, no memory, or a name
 * longer than 8 KiB. */
struct gt_index_entry *gt_index_add(struct gt_index *index, const char *namespace_, const char *name);

/* Removes an entry and returns it; the caller frees it. NULL if there is none. Later ones may move into its
 * slot. */
struct gt_index_entry *gt_index_take(struct gt_index *index, const char *namespace_, const char *name);

/* Removes one entry with a different mark and returns it; the caller frees it. `*slot` is 0 for the first
 * call. NULL: there are no more. */
struct gt_index_entry *gt_index_take_unmarked(struct gt_index *index, uint32_t mark, size_t *slot);

/* The item of that name; NULL: there is none. */
void *gt_index_item(const struct gt_index *index, const char *namespace_, const char *name);
/* The next item; `*slot` is 0 for the first call. NULL: there are no more. None may be added or removed
 * meanwhile. */
void *gt_index_next(const struct gt_index *index, size_t *slot);

void gt_index_done(struct gt_index *index);
