/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/wire/names.h"

#include <errno.h>

#include "scheduler-ext/wire/pod.h"

enum { KEPT_COUNT = 16384, KEPT_BYTES = 512 << 10 };

int gt_wire_names_add(struct gt_wire_names *names, const char *name, size_t len, struct gt_err **err)
{
    names->text.max = GT_WIRE_NODES_BYTES_MAX;
    if (!len)
        return gt_fail(err, EINVAL, "a node without a name");
    if (len > GT_WIRE_NAME_MAX)
        return gt_fail(err, EINVAL, "a node's name of %zu bytes, at most %d are allowed", len,
                       GT_WIRE_NAME_MAX);
    if (names->count == GT_WIRE_NODES_MAX)
        return gt_fail(err, EMSGSIZE, "more than %d nodes", GT_WIRE_NODES_MAX);
    if (names->count == names->capacity) {
        uint32_t capacity = names->capacity ? names->capacity * 2 : 256;
        uint32_t *grown = realloc(names->offsets, capacity * sizeof(*grown));
        if (!grown)
            return gt_fail(err, ENOMEM, "no memory for %u nodes", capacity);
        names->offsets = grown;
        names->capacity = capacity;
    }
    size_t offset = names->text.len;
    gt_buf_add(&names->text, name, len);
    gt_buf_add(&names->text, "", 1);
    if (names->text.failed)
        return gt_fail(err, EMSGSIZE, "names of nodes of more than %d bytes", GT_WIRE_NODES_BYTES_MAX);
    names->offsets[names->count++] = (uint32_t)offset;
    return 0;
}

void gt_wire_names_reset(struct gt_wire_names *names)
{
    if (names->capacity > KEPT_COUNT || names->text.capacity > KEPT_BYTES)
        gt_wire_names_done(names);
    names->count = 0;
    names->text.len = 0;
    names->text.failed = false;
}

void gt_wire_names_done(struct gt_wire_names *names)
{
    gt_buf_done(&names->text);
    free(names->offsets);
    *names = (struct gt_wire_names){.text = GT_BUF(GT_WIRE_NODES_BYTES_MAX)};
}
