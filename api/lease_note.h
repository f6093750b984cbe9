/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_LEASE_NOTE_H
#define GPUTOPO_API_LEASE_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * The annotation GT_ANNOTATION_LEASE_NOTE of a Lease: GPUs that its holder keeps for pods which are not there
 * yet. A word for each place, with spaces between: "NODE=0-3,7", GPUs of the node, and "NODE=*", the whole
 * node.
 */
enum {
    GT_LEASE_NOTE_MAX = 64 << 10,
    GT_LEASE_NOTE_NODE_SIZE = 254,
    GT_LEASE_DURATION_MAX_S = 300, /* what another one's Lease says of its duration is believed up to this */
};

struct gt_lease_note_word {
    char node[GT_LEASE_NOTE_NODE_SIZE];
    uint64_t mask; /* all bits for the whole node */
    bool is_whole;
};

/* Takes the next word that makes sense from *note and moves it behind that; false: there is none. */
bool gt_lease_note_next(const char **note, struct gt_lease_note_word *ret);

/* Appends a word; `mask` 0: the whole node. What the buffer cannot hold is left out. */
void gt_lease_note_add(struct gt_buf *to, const char *node, uint64_t mask);

#endif
