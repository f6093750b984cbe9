/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_NAMES_H
#define GPUTOPO_WIRE_NAMES_H

#include <stdint.h>

#include "base/buf.h"

/* The names of the nodes of one request, one after the other in one buffer. */

enum {
    GT_WIRE_NODES_MAX = 65536,
    GT_WIRE_NODES_BYTES_MAX = 16 << 20, /* of all their names */
};

struct gt_wire_names {
    struct gt_buf text;
    uint32_t *offsets; /* offset of each name in text.data */
    uint32_t count, capacity;
};

static inline const char *gt_wire_name(const struct gt_wire_names *names, uint32_t index)
{
    return names->text.data + names->offsets[index];
}

static inline size_t gt_wire_name_length(const struct gt_wire_names *names, uint32_t index)
{
    size_t end = index + 1 < names->count ? names->offsets[index + 1] : names->text.len;
    return end - names->offsets[index] - 1;
}

/* -EINVAL for a name that is empty or longer than GT_WIRE_NAME_MAX, -EMSGSIZE beyond the limits. */
int gt_wire_names_add(struct gt_wire_names *names, const char *name, size_t len, struct gt_err **err);

/* Bytes of memory that it uses. */
static inline size_t gt_wire_names_held(const struct gt_wire_names *names)
{
    return names->text.len + names->capacity * sizeof(*names->offsets);
}

/* Empties it, and frees memory beyond what some thousands of names need. */
void gt_wire_names_reset(struct gt_wire_names *names);
void gt_wire_names_done(struct gt_wire_names *names);

#endif
