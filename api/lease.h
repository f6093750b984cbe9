/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/time_text.h"
enum { GT_LEASE_IDENTITY_MAX = 256, GT_LEASE_VERSION_MAX = 128 };

/*
 * A Lease of coordination.k8s.io/v1. It is read, created and updated with gt_kube_start() on gt_kube_leases;
 * an update with the resourceVersion that was read is refused with 409 if the object has changed since.
 */
struct gt_lease {
    char identity[GT_LEASE_IDENTITY_MAX]; /* "": nobody */
    unsigned duration_s;                  /* 0: not said */
    unsigned transitions;                 /* how often the holder changed */
    char acquired[GT_TIME_TEXT_SIZE];     /* as it was read; "" if missing */
    char renewed[GT_TIME_TEXT_SIZE];
    char resource_version[GT_LEASE_VERSION_MAX]; /* "" for a create */
    const char *note; /* written as GT_ANNOTATION_LEASE_NOTE, borrowed; NULL, and after a read: none */
};

/* -EBADMSG if the object is not a Lease. */
int gt_lease_read(const cJSON *object, struct gt_lease *ret, struct gt_err **err);

/* The annotation GT_ANNOTATION_LEASE_NOTE; "" if there is none. It belongs to the object. */
const char *gt_lease_note(const cJSON *object);

/* Appends the object as JSON. */
void gt_lease_write(struct gt_buf *to, const char *namespace_, const char *name,
                    const struct gt_lease *lease);

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
