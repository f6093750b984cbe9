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

/* The same part of such an object, for a file. */
void gt_isolations_write(const struct gt_isolations *isolations, struct gt_buf *to);
