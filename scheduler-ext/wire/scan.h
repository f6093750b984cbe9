/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_SCAN_H
#define GPUTOPO_WIRE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * A push scanner for JSON. The caller describes with shapes which members it wants; everything else is
 * passed over at several times the speed of a network. The whole text is checked, the parts passed over too:
 * grammar, nesting, literals and numbers, escapes, control characters, UTF-8. There is no tree: memory is
 * the scanner itself (GT_SCAN_BYTES_MAX) and twelve times the longest text that was asked for, since one of
 * escapes only is six times as long as what it says.
 *
 *     static const struct gt_scan_shape name = {.kind = GT_SCAN_TEXT, .id = ID_NAME, .max = 253};
 *     static const struct gt_scan_member members[] = {{"name", &name}, {0}};
 *     static const struct gt_scan_shape root = {.kind = GT_SCAN_OBJECT, .members = members};
 *
 * Chunks may be cut anywhere. An error names the byte (from 0), the member and what was expected:
 * "byte 118: Pod.metadata.name: expected a string, found a number".
 *
 * A member that is null counts as absent. A wanted member that comes twice in one object is refused. A value
 * of another kind than its shape's is refused, or reported as GT_SCAN_OTHER where the shape allows any.
 */

enum {
    GT_SCAN_DEPTH_MAX = 128,  /* objects and arrays in each other */
    GT_SCAN_SHAPES_MAX = 24,  /* the same, of those with a shape */
    GT_SCAN_MEMBERS_MAX = 64, /* of one shape */
    GT_SCAN_KEY_MAX = 512,    /* bytes; a longer key is no member anybody asked for */
    GT_SCAN_NUMBER_MAX = 128, /* characters; a longer number is refused wherever it stands */
    GT_SCAN_BYTES_MAX = 4 << 10,
};

enum gt_scan_kind {
    GT_SCAN_OBJECT, /* {} with known members */
    GT_SCAN_MAP,    /* {} with keys that the callback chooses */
    GT_SCAN_ARRAY,
    GT_SCAN_TEXT,
    GT_SCAN_NUMBER,
    GT_SCAN_AMOUNT, /* a string or a number, as Kubernetes' quantities */
    GT_SCAN_BOOL,
};

struct gt_scan_member;

struct gt_scan_shape {
    enum gt_scan_kind kind;
    unsigned id;   /* passed to the callback; 0: an object or array that needs no events */
    bool any_kind; /* a value of another kind is reported, and passed over */
    const struct gt_scan_member *members; /* OBJECT: up to the one without a name */
    bool any_case;                        /* OBJECT: ASCII letters of its keys match in either case */
    const struct gt_scan_shape *of; /* ARRAY, MAP: what each value is; an item of an array is not null */
    uint32_t max;                   /* TEXT, AMOUNT: most bytes of the text */
};

struct gt_scan_member {
    const char *name;
    const struct gt_scan_shape *shape;
};

enum gt_scan_what {
    GT_SCAN_OPEN,  /* of an object, map or array that has an id */
    GT_SCAN_CLOSE, /* likewise */
    GT_SCAN_KEY,   /* of a map: `text` is the key. Return 1 to take its value, 0 to pass over it */
    GT_SCAN_VALUE, /* `text`; of a bool `yes` */
    GT_SCAN_OTHER, /* a value of another kind than the shape's: `found` */
};

enum gt_scan_found {
    GT_FOUND_OBJECT,
    GT_FOUND_ARRAY,
    GT_FOUND_TEXT,
    GT_FOUND_NUMBER,
    GT_FOUND_BOOL,
    GT_FOUND_NULL, /* an item of an array */
};

struct gt_scan_event {
    enum gt_scan_what what;
    unsigned id;  /* of the shape */
    bool is_text; /* VALUE: a string, not a number */
    bool yes;
    enum gt_scan_found found;
    const char *member; /* its name where it is one of an object with known members, else NULL */
    const char *text;   /* without escapes, NUL-terminated, has no NUL inside; until the callback returns */
    size_t len;
    uint64_t offset; /* of the byte at which the value ended */
};

/* 0 to go on (see GT_SCAN_KEY); negative with *err set ends the scan, which puts byte and member in front. */
typedef int gt_scan_callback(void *arg, const struct gt_scan_event *event, struct gt_err **err);

struct gt_scan;

/* `root` is the shape of the whole text, an object or array; it must outlive the scanner. NULL without
 * memory. */
struct gt_scan *gt_scan_new(const struct gt_scan_shape *root, gt_scan_callback *callback, void *arg);
void gt_scan_free(struct gt_scan *scan);
GT_DEFINE_CLEANUP(struct gt_scan *, gt_scan_free)
#define gt_auto_scan GT_CLEANUP(gt_scan_free)

/*
 * The next bytes. Faults are found at the latest 64 bytes later. -EBADMSG: not JSON; -EINVAL: JSON, but not
 * of that shape; -EMSGSIZE: beyond a limit; -ENOMEM; or what the callback returned. After a failure every
 * call fails until gt_scan_reset().
 */
int gt_scan_feed(struct gt_scan *scan, const void *bytes, size_t len, struct gt_err **err);

/* Says that the text is complete. */
int gt_scan_finish(struct gt_scan *scan, struct gt_err **err);

/* Bytes that it takes, beside the value that is kept. */
size_t gt_scan_held(const struct gt_scan *scan);

/* Makes it ready for the next text; keeps its memory. */
void gt_scan_reset(struct gt_scan *scan);

/* In a callback of GT_SCAN_OPEN: appends the bytes of that value, as they are, to `to`, which is complete
 * at its GT_SCAN_CLOSE. -EMSGSIZE there when the buffer's limit was too small. One value at a time. */
void gt_scan_keep(struct gt_scan *scan, struct gt_buf *to);

#endif
