/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/buf.h"

/* TokenReview and SubjectAccessReview: questions to the API server, which keeps nothing of them. */

/* Whose token is this? */
void gt_token_review_write(struct gt_buf *to, const char *token);
/* The user of the answer, taken out of it; NULL: the token is not valid. */
cJSON *gt_token_review_read(cJSON *answer);

/* May that user list `resource`, such as "pods"? `namespace_` NULL: of the whole cluster. */
void gt_access_review_write(struct gt_buf *to, const cJSON *user, const char *resource,
                            const char *namespace_);
bool gt_access_review_read(const cJSON *answer);
