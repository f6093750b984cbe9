/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_PEEK_H
#define GPUTOPO_KUBE_PEEK_H

#include <stddef.h>

/* What the beginning of a watch event says of it. "" where it does not come so far, or is too long. */
struct gt_kube_peek {
    char type[16];
    char namespace_[256], name[256], uid[64], resource_version[64];
};

/* Reads the first `len` bytes of an event that is not whole. The API server writes the metadata before the
 * rest. */
void gt_kube_peek(const char *text, size_t len, struct gt_kube_peek *ret);

#endif
