/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "topology/model/isolation.h"

/*
 * `spec.isolated` of a NodeGPUTopology, which people and programs write: a list of
 * {gpu | link: [two GPUs] | all: true, grade, value, reason, evict, by, since, until}. A GPU is named by UUID
 * or index.
 */

#define GT_GRADE_BAD "bad" /* the grade of an entry that takes GPUs out of use, the default */

/* The entries as they stand there, an array; NULL: the object has no list. */
const cJSON *gt_isolated_entries(const cJSON *object);

/* A merge patch that replaces the list, if the object is still of this version. */
void gt_isolated_patch_write(const char *resource_version, const cJSON *entries, struct gt_buf *to);

/* The body that asks the API server who asks (a SelfSubjectReview), and the user's name in its answer, "" if
 * it has none. */
#define GT_SELF_REVIEW "{\"apiVersion\": \"authentication.k8s.io/v1\", \"kind\": \"SelfSubjectReview\"}"
const char *gt_self_review_user(const cJSON *review);

/* Reads the list, and the object's UID. 1: it is there, also if it is empty; 0: it is not, `*ret` is then
 * without entries; -EINVAL with the path of the wrong value. */
int gt_isolations_read(const cJSON *object, struct gt_isolations *ret, struct gt_err **err);

/* The same of a file of other programs: {"version": 1, "faults": [the same entries]}. The entries are added
 * to
 * `*to`, which is untouched on failure. */
int gt_fault_list_read(const cJSON *file, struct gt_isolations *to, struct gt_err **err);

/* ---- entries of the list ---- */

/* The UUIDs of the GPU, or of both of the link, that an entry names; 0: it names none by UUID. */
unsigned gt_isolated_uuids(const cJSON *entry, const char *ret[static 2]);
bool gt_isolated_is_over(const cJSON *entry, int64_t now_s);
/* Whether both name the same GPU, or link, by UUID. */
bool gt_isolated_same_gpus(const cJSON *a, const cJSON *b);

/* Two NodeGPUTopologies: the first isolates by UUID what may be in the node of the second by now. */
struct gt_isolated_moving {
    const cJSON *from, *to;
    bool from_is_silent; /* its status may be of before */
    int64_t now_s;
};
struct gt_isolated_move {
    cJSON *to, *added; /* the second's list with the entries that are `added` to it */
    cJSON *from;       /* the first's without those that the second's agent obeys */
    bool leaves;       /* there are such */
    bool is_full;      /* the second has no room for one */
};
int gt_isolated_move_make(const struct gt_isolated_moving *moving, struct gt_isolated_move *ret,
                          struct gt_err **err);
void gt_isolated_move_done(struct gt_isolated_move *move);
#define gt_auto_isolated_move __attribute__((cleanup(gt_isolated_move_done)))

/* The second's list without entries that were added, and that the first does not have any more: somebody has
 * released them meanwhile. One without a list is another object than before, which releases nothing. NULL:
 * all stay. */
cJSON *gt_isolated_take_back(const cJSON *from, const cJSON *to, const cJSON *added);

/* The same part of such an object, for a file. */
void gt_isolations_write(const struct gt_isolations *isolations, struct gt_buf *to);
