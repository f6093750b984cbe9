/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "kube/index.h"
#include "kube/informer.h"
#include "kube/writer.h"
#include "scheduler-ext/companion/apply_set.h"

/* The state of an apply set and of its objects: observed state, desired state, and the queue of writes. */

/* An object as it was seen. */
struct gt_apply_set_seen {
    enum gt_apply_set_state state;
    char *uid, *version, *have; /* NULL where it is absent */
};

struct gt_apply_set_entry {
    struct gt_apply_set *set;
    const char *name;               /* in its entry of the index */
    struct gt_apply_set_seen there; /* as the watch sent it last */
    char *awaited; /* resourceVersion of our own write, "" for a deletion; NULL: the watch has it */
    uint64_t awaited_until;
    char *desired; /* NULL: it must not exist */
    uint32_t round;
    struct gt_write_key key;
    bool has_news; /* the watch has sent something since the request in flight was made */
    enum gt_kube_verb verb;
    uint64_t applied; /* digest of the desired state that the request writes; 0: none */
    unsigned unkept;  /* writes in a row of which the API server did not store all */
};

struct gt_apply_set {
    struct gt_apply_set_spec spec;
    struct gt_kube_informer *informer;
    struct gt_write_line line;
    struct gt_index entries; /* an item is a struct gt_apply_set_entry, in no namespace */
    uint32_t round;
    bool leads, synced, has_round;
    struct gt_apply_set_stats stats;
};

static inline void gt_apply_set_seen_done(struct gt_apply_set_seen *seen)
{
    free(seen->uid);
    free(seen->version);
    free(seen->have);
    *seen = (struct gt_apply_set_seen){0};
}

/* apply_set_write.c: the line of the set's writes; the end of an entry. */
void gt_apply_set_open(struct gt_apply_set *set);
void gt_apply_set_entry_free(struct gt_apply_set_entry *entry);

/*
 * Compares the desired state of a part of an object with its observed state. Two members are times and are
 * never compared: observedAt and lastTransitionTime. Entries of the list "conditions" are matched by their
 * type, since other controllers may have entries there.
 */

/* Whether everything that is desired is there. Further members do not matter, except in lists. */
bool gt_desired_is_met(const cJSON *desired, const cJSON *have);

/* A merge patch that removes what is there and not desired, except for conditions; NULL: there is nothing to
 * remove, or no memory. The caller owns it. */
cJSON *gt_desired_extras(const cJSON *desired, const cJSON *have);

/* Sets times in a desired state: lastTransitionTime of each condition stays as in `have` where the status is
 * the same, else it is `now` (RFC 3339); observedAt is `now`. False: no memory. */
bool gt_desired_stamp(cJSON *desired, const cJSON *have, const char *now);
