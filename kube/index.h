/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_INDEX_H
#define GPUTOPO_KUBE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/table.h"

/*
 * What an informer remembers of each object: its namespace and name, and digests of its resourceVersion and
 * uid. 24 bytes and the name, and 16 to 24 in the table.
 */
struct gt_index_entry {
    uint64_t uid;        /* a digest */
    uint32_t hash, mark; /* mark: the list that it was last seen in */
    char key[];          /* namespace, NUL, name, NUL */
};

struct gt_index {
    struct gt_table table;
    size_t max;
};

const char *gt_index_name(const struct gt_index_entry *entry);

/* NULL where it is not there. */
struct gt_index_entry *gt_index_find(const struct gt_index *index, const char *namespace_, const char *name);

/* Adds one that is not there yet, its digests 0. NULL: full, no memory, or a name beyond 8 KiB. */
struct gt_index_entry *gt_index_add(struct gt_index *index, const char *namespace_, const char *name);

/* Takes an entry out; the caller frees it. NULL where it is not there. */
struct gt_index_entry *gt_index_take(struct gt_index *index, const char *namespace_, const char *name);

/* Takes out one entry whose mark is another; the caller frees it. `*slot` is 0 at first. NULL: no more. */
struct gt_index_entry *gt_index_take_unmarked(struct gt_index *index, uint32_t mark, size_t *slot);

void gt_index_done(struct gt_index *index);

#endif
