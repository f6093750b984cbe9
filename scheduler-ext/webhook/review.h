/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WEBHOOK_REVIEW_H
#define GPUTOPO_WEBHOOK_REVIEW_H

#include <cjson/cJSON.h>

#include "base/buf.h"

/*
 * Reads an AdmissionReview into a tree that has only the members that the webhook uses: of a pod or a pod
 * template its name, owners, GPUs of `resource`, gates, and the labels and annotations that matter. The rest,
 * which may be megabytes, is checked and skipped. A value of an unexpected kind is in the tree as an empty
 * value of its kind.
 *
 * The text of the annotations of the request's object, "{...}", is appended to `ret_annotations`; nothing
 * where they are not an object. Its limit must be at least `len`.
 *
 * -EBADMSG, -EINVAL: not JSON, or a duplicate member; -EMSGSIZE: beyond a limit. The caller frees *ret with
 * cJSON_Delete().
 */
enum { GT_REVIEW_VALUES_MAX = 32768 }; /* of the tree */

int gt_review_read(const char *body, size_t len, const char *resource, cJSON **ret,
                   struct gt_buf *ret_annotations, struct gt_err **err);

#endif
