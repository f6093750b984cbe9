/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * The annotation GT_ANNOTATION_LEASE_NOTE of a Lease: GPUs that its holder reserves for pods that do not
 * exist yet. It has a word for each node, separated by spaces: "NODE=0-3,7", some GPUs of the node, or
 * "NODE=*", the whole node. A holder that ends in order leaves "quiet:SECONDS" instead: for so long it has
 * offered no place to a pod that is being created. "moved:TIME,TIME" are the Unix times of the moves of the
 * last day that it made by itself.
 */
#define GT_LEASE_NOTE_NO_LEADER "quiet:4294967295"

enum {
    GT_LEASE_NOTE_MAX = 64 << 10,
    GT_LEASE_NOTE_NODE_SIZE = 254,
    GT_LEASE_DURATION_MAX_S = 300, /* longest duration of another program's Lease that is accepted */
};

struct gt_lease_note_word {
    char node[GT_LEASE_NOTE_NODE_SIZE];
    uint64_t mask; /* GPUs of the node; all bits for the whole node */
    bool is_whole;
};

/* Reads the next valid word from *note and moves *note behind it; false: there is none. */
bool gt_lease_note_next(const char **note, struct gt_lease_note_word *ret);

/* Appends a word; `mask` 0: the whole node. A word that does not fit is left out. */
void gt_lease_note_add(struct gt_buf *to, const char *node, uint64_t mask);

void gt_lease_note_add_moved(struct gt_buf *to, const uint64_t *times_s, uint32_t count);
/* Reads the first `max` of these times; returns how many. */
uint32_t gt_lease_note_moved(const char *note, uint64_t *times_s, uint32_t max);

void gt_lease_note_add_quiet(struct gt_buf *to, uint64_t seconds);
/* False: the note does not say it. */
bool gt_lease_note_quiet(const char *note, uint64_t *ret_seconds);
