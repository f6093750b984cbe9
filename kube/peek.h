/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* What the beginning of a watch event shows. A text is "" if it is not in the beginning, or too long. */
struct gt_kube_peek {
    char type[16];
    char namespace_[256], name[256], uid[64], resource_version[64];
};

/* Reads the first `len` bytes of an incomplete event. The API server writes the metadata first. */
void gt_kube_peek(const char *text, size_t len, struct gt_kube_peek *ret);
