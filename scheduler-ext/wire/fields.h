/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_FIELDS_H
#define GPUTOPO_WIRE_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * Takes some fields out of a JSON text that comes in pieces, and drops all others as they come: of 50 MB that
 * Volcano posts, 50 KB are needed. What is left is JSON again, for base/json.h, which finds all mistakes in
 * it. Of what is dropped only strings and the depth of brackets are looked at.
 */
struct gt_field {
    const char *name;              /* the case of its letters does not matter, as in Go */
    const struct gt_field *fields; /* of the object, or of the objects in the array; NULL: the whole value */
    bool copy_items;               /* also copies the text of each object in the array, unchanged */
    bool dropped;                  /* this one is not taken */
    bool others;                   /* of the last, without a name: the fields that are not named are taken */
};

enum { GT_FIELD_DEPTH_MAX = 8, GT_FIELD_NAME_SIZE = 64 };

struct gt_field_level { /* an object or array of which only some fields are taken */
    const struct gt_field *fields;
    bool is_array, has_fields, copies;
    uint64_t seen; /* a bit for each field */
};

struct gt_field_reader {
    struct gt_buf text;   /* what is left; the caller sets the limit */
    struct gt_buf copies; /* of the objects, one after the other; likewise */
    struct gt_buf ends;   /* a uint32_t for each: where it ends in `copies`; likewise */

    /* For fields.c: all zeros at the start of a text. */
    struct gt_field_state {
        enum gt_field_at {
            GT_AT_VALUE,
            GT_AT_KEY,
            GT_IN_KEY,
            GT_AT_COLON,
            GT_IN_TAKEN,
            GT_IN_DROPPED,
            GT_AFTER_VALUE,
        } at;
        unsigned depth;
        struct gt_field_level levels[GT_FIELD_DEPTH_MAX + 1];
        const struct gt_field *wanted; /* the fields of the value that comes */
        bool copy_items;               /* of that value */
        char key[GT_FIELD_NAME_SIZE];
        unsigned key_len;
        bool in_string, escaped;
        uint32_t nested;     /* brackets that are open in a value that is taken or dropped as a whole */
        unsigned copy_depth; /* of the object that is copied; 0: none */
        uint64_t offset;     /* of the piece */
    } state;
};

/* -EINVAL: no JSON, -EMSGSIZE: beyond a limit; then no more pieces may follow. */
int gt_field_reader_feed(struct gt_field_reader *reader, const struct gt_field *fields, const char *bytes,
                         size_t len, struct gt_err **err);

/* For the next text. Buffers of more than `kept` bytes are freed. */
void gt_field_reader_reset(struct gt_field_reader *reader, size_t kept);

#endif
