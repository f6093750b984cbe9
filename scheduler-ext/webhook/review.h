/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WEBHOOK_REVIEW_H
#define GPUTOPO_WEBHOOK_REVIEW_H

#include <cjson/cJSON.h>

#include "base/buf.h"

/*
 * An AdmissionReview, of which a tree is made of those members alone that the webhook reads: of a pod or a
 * template its name, owners, GPUs of `resource`, gates and the labels and annotations that mean something.
 * All else, megabytes of it, is checked and passed over. A value of another kind than is expected stands in
 * the tree as what it is, empty.
 *
 * `ret_annotations` gets those of the request's object as they stand, "{...}" as it was checked; nothing
 * where they are no object. Its limit is not below `len`.
 *
 * -EBADMSG, -EINVAL: no JSON, or a member twice; -EMSGSIZE: beyond a limit. The caller deletes *ret.
 */
enum { GT_REVIEW_VALUES_MAX = 32768 }; /* of the tree */

int gt_review_read(const char *body, size_t len, const char *resource, cJSON **ret,
                   struct gt_buf *ret_annotations, struct gt_err **err);

#endif
