/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/kinds/list.h"

/* The labels and annotations of a pod that are read. Some frameworks use both places. */
#define GT_POD_KEY(name, text) GT_KEY_##name,
enum gt_pod_key {
    /* What users say of a job. */
    GT_KEY_GROUP,
    GT_KEY_ATOMIC,
    GT_KEY_LOSS,
    GT_KEY_UNPLACED,
    GT_KEY_SPREAD,
    GT_KEY_JOB_TOPOLOGY,
    GT_KEY_GROUP_TOPOLOGY,
    GT_KEY_SLOW,
    GT_KEY_SIZES, /* so many */
    GT_KEY_PLAN_UNIT = GT_KEY_SIZES,
    GT_KEY_PLAN_RANK,
    GT_KEY_POD_GROUP,
    GT_KEY_MOVABLE,
    GT_KEY_COST,
    GT_KEY_MOVE_TO,
    GT_KEY_CHECKPOINT_ASKED,
    GT_KEY_CHECKPOINT_DONE,
    GT_JOB_KEY_LIST(GT_POD_KEY) GT_KEY_CUSTOM, /* the first label of kinds that users describe */
    GT_POD_KEYS = GT_KEY_CUSTOM + 24,
};
#undef GT_POD_KEY

const char *gt_pod_key_text(enum gt_pod_key key);
/* GT_POD_KEYS: it is none of them. */
enum gt_pod_key gt_pod_key_of(const char *text);
/* Adds a key, before any pod is read. GT_POD_KEYS: there are too many. */
enum gt_pod_key gt_pod_key_add(const char *text);
