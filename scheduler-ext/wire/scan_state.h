/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_SCAN_STATE_H
#define GPUTOPO_WIRE_SCAN_STATE_H

#include "scheduler-ext/wire/scan.h"
#include "scheduler-ext/wire/scan_masks.h"
#include "scheduler-ext/wire/scan_text.h"

/*
 * scan.c splits the text into tokens, checks its grammar and skips unwanted values; scan_shape.c handles the
 * shapes; scan_bytes.c checks the content of strings. The text is always processed in blocks of 64 bytes from
 * its start, so the size of chunks does not matter.
 */

/* What was read last, which determines what may follow. */
enum gt_scan_state {
    GT_AT_TOP,       /* nothing yet */
    GT_AT_OBJECT,    /* { */
    GT_AT_KEY,       /* , in an object */
    GT_AT_COLON,     /* a key */
    GT_AT_MEMBER,    /* : */
    GT_AFTER_MEMBER, /* a value in an object */
    GT_AT_ARRAY,     /* [ */
    GT_AT_ITEM,      /* , in an array */
    GT_AFTER_ITEM,   /* a value in an array */
    GT_AT_END,       /* the whole value */
    GT_STATES
};

struct gt_frame { /* an object or array that has a shape */
    const struct gt_scan_shape *shape;
    const struct gt_scan_shape *want; /* of the next value; NULL: skip it */
    const char *member;               /* OBJECT: its name */
    uint64_t seen;                    /* OBJECT: one bit for each member so far */
    uint32_t items;                   /* ARRAY: begun so far */
};

enum gt_open { GT_OPEN_NOTHING, GT_OPEN_KEY, GT_OPEN_STRING, GT_OPEN_SCALAR };

struct gt_scan {
    const struct gt_scan_shape *root;
    gt_scan_callback *callback;
    void *arg;
    gt_masks_fn *masks;

    uint64_t offset; /* of the current block; of the end of the text when it is finished */
    uint8_t tail[GT_MASKS_BLOCK];
    size_t tail_len;
    unsigned real; /* bytes of text in the current block: the last one is filled up with spaces */

    /* State that carries over from block to block. */
    bool in_string, escaped, in_scalar;
    uint8_t hex_left; /* digits that a \u escape still needs */
    struct gt_utf8 utf8;
    uint8_t state;
    bool failed;
    enum gt_open open;                    /* what `text` is collecting */
    unsigned depth;                       /* of the text */
    unsigned skip;                        /* nothing below this depth is wanted; 0: see the frames */
    uint8_t after[GT_SCAN_DEPTH_MAX + 1]; /* at each depth, the state when a value there has ended */

    struct gt_buf text;                             /* the current string, key or scalar */
    struct gt_frame frames[GT_SCAN_SHAPES_MAX + 1]; /* frames[d] is for the values at depth d */

    struct gt_buf *kept; /* NULL: no value is kept */
    unsigned kept_depth;
    const uint8_t *kept_from; /* in the current blocks */
};

/* Mask of the bits from i on. */
static inline uint64_t gt_bits_from(unsigned i)
{
    return i < 64 ? ~UINT64_C(0) << i : 0;
}

/* The characters of a block that a backslash before them escapes. */
uint64_t gt_find_escaped(struct gt_scan *scan, uint64_t backslash);

/* The errors in a block, one bit for each byte. */
struct gt_faults {
    uint64_t escape, utf8, control;
};

/* Each returns a mask of wrong bytes: escapes (which may reach into the next block), UTF-8, control
 * characters (white space is allowed outside strings). */
uint64_t gt_check_escapes(struct gt_scan *scan, const uint8_t *block, uint64_t escaped);
uint64_t gt_check_utf8(struct gt_scan *scan, const uint8_t *block, uint64_t high);
uint64_t gt_check_controls(const uint8_t *block, uint64_t control, uint64_t in_string);

/* Fails with byte, path of the member and a sentence. `at` is the offset in the current block. */
int gt_scan_fail(struct gt_scan *scan, unsigned at, int errnum, struct gt_err **err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Functions of scan_shape.c for scan.c. Each returns 0, or negative with *err set. */
int gt_shape_open(struct gt_scan *scan, unsigned at, bool object, bool *ret_skip, struct gt_err **err);
int gt_shape_close(struct gt_scan *scan, unsigned at, struct gt_err **err);
int gt_shape_key(struct gt_scan *scan, unsigned at, struct gt_err **err);
int gt_shape_string(struct gt_scan *scan, unsigned at, struct gt_err **err);
int gt_shape_scalar(struct gt_scan *scan, unsigned at, enum gt_scalar kind, struct gt_err **err);

/* Whether a string that begins now is wanted; sets the limit of scan->text for it. */
bool gt_shape_wants_string(struct gt_scan *scan);

#endif
