/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/identity.h"

/* For the kinds' files: the index of a pod. */

/* Many controllers write a key as label and as annotation, older ones only in one place. NULL: none. */
const char *gt_pod_key_value(const struct gt_pod_meta *pod, enum gt_pod_key key);
bool gt_pod_is_owned_by(const struct gt_pod_meta *pod, const char *kind);
/* 1; -EINVAL where the text of the key is no number. */
int gt_index_read(const struct gt_pod_meta *pod, enum gt_pod_key key, const char *text,
                  struct gt_pod_identity *ret, struct gt_err **err);
/* The index from "<before>-<index>", where the name has that form. */
bool gt_index_of_name(const struct gt_pod_meta *pod, const char *before, struct gt_pod_identity *ret);
/* -EINVAL with a sentence that the key is missing. */
int gt_index_missing(const struct gt_pod_meta *pod, enum gt_pod_key key, struct gt_err **err);
