/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

/* Appends the decoded bytes of a base64 text; white space is skipped. -EINVAL if it is not base64. */
int gt_base64_decode(const char *text, struct gt_buf *to, struct gt_err **err);

/* Appends the bytes as base64 with padding. */
void gt_base64_encode(const char *bytes, size_t len, struct gt_buf *to);
