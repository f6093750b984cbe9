/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_SCAN_H
#define GPUTOPO_WIRE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * A push scanner for JSON. The caller describes with shapes which members it wants; everything else is
 * skipped at several times the speed of a network. The whole text is checked, skipped parts included:
 * grammar, nesting, literals and numbers, escapes, control characters, UTF-8. There is no tree: memory is the
 * scanner itself (GT_SCAN_BYTES_MAX) and twelve times the longest wanted text, since a text of escapes is six
 * times as long as its content.
 *
 *     static const struct gt_scan_shape name = {.kind = GT_SCAN_TEXT, .id = ID_NAME, .max = 253};
 *     static const struct gt_scan_member members[] = {{"name", &name}, {0}};
 *     static const struct gt_scan_shape root = {.kind = GT_SCAN_OBJECT, .members = members};
 *
 * Chunks may be cut anywhere. An error names the byte (from 0), the member and what was expected:
 * "byte 118: Pod.metadata.name: expected a string, found a number".
 *
 * A member that is null counts as absent. A wanted member that occurs twice in one object is an error. A
 * value of another kind than its shape's is an error, or reported as GT_SCAN_OTHER where the shape has
 * any_kind.
 */

enum {
    GT_SCAN_DEPTH_MAX = 128,  /* nested objects and arrays */
    GT_SCAN_SHAPES_MAX = 24,  /* nested objects and arrays with a shape */
    GT_SCAN_KEY_MAX = 512,    /* bytes; a longer key is never a wanted member */
    GT_SCAN_NUMBER_MAX = 128, /* characters; a longer number is an error everywhere */
    GT_SCAN_BYTES_MAX = 4 << 10,
};

enum gt_scan_kind {
    GT_SCAN_OBJECT, /* {} with known members */
    GT_SCAN_MAP,    /* {} with keys that the callback chooses */
    GT_SCAN_ARRAY,
    GT_SCAN_TEXT,
    GT_SCAN_NUMBER,
    GT_SCAN_AMOUNT, /* a string or a number, as quantities of Kubernetes */
    GT_SCAN_BOOL,
};

struct gt_scan_member;

struct gt_scan_shape {
    enum gt_scan_kind kind;
    unsigned id;   /* passed to the callback; 0: an object or array that needs no events */
    bool any_kind; /* a value of another kind is reported and skipped */
    const struct gt_scan_member *members; /* OBJECT: ended by one without a name */
    bool any_case;                        /* OBJECT: ASCII letters of its keys match in either case */
    const struct gt_scan_shape *of;       /* ARRAY, MAP: shape of each value; items are not null */
    uint32_t max;                         /* TEXT, AMOUNT: most bytes of the text */
};

struct gt_scan_member {
    const char *name;
    const struct gt_scan_shape *shape;
};

enum gt_scan_what {
    GT_SCAN_OPEN,  /* of an object, map or array that has an id */
    GT_SCAN_CLOSE, /* likewise */
    GT_SCAN_KEY,   /* of a map: `text` is the key. Return 1 to read its value, 0 to skip it */
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
    const char *member; /* its name in an object with known members, else NULL */
    const char *text;   /* decoded, NUL-terminated, without NULs inside; valid until the callback returns */
    size_t len;
    uint64_t offset; /* of the byte at which the value ended */
};

/* Returns 0 to continue (see GT_SCAN_KEY); negative with *err set ends the scan, which adds byte and member
 * to the error. */
typedef int gt_scan_callback(void *arg, const struct gt_scan_event *event, struct gt_err **err);

struct gt_scan;

/* `root` is the shape of the whole text, an object or array; it must outlive the scanner. NULL without
 * memory. */
struct gt_scan *gt_scan_new(const struct gt_scan_shape *root, gt_scan_callback *callback, void *arg);
void gt_scan_free(struct gt_scan *scan);
GT_DEFINE_CLEANUP(struct gt_scan *, gt_scan_free)
#define gt_auto_scan GT_CLEANUP(gt_scan_free)

/*
 * Scans the next bytes. Errors are found at most 64 bytes later. -EBADMSG: not JSON; -EINVAL: JSON, but not
 * of that shape; -EMSGSIZE: beyond a limit; -ENOMEM; or what the callback returned. After a failure every
 * call fails until gt_scan_reset().
 */
int gt_scan_feed(struct gt_scan *scan, const void *bytes, size_t len, struct gt_err **err);

/* Says that the text is complete. */
int gt_scan_finish(struct gt_scan *scan, struct gt_err **err);

/* Bytes of memory that it uses, without the buffer of gt_scan_keep(). */
size_t gt_scan_held(const struct gt_scan *scan);

/* Prepares it for the next text; its memory is reused. */
void gt_scan_reset(struct gt_scan *scan);

/* To be called in a callback of GT_SCAN_OPEN: appends the unchanged bytes of that value to `to`, which is
 * complete at its GT_SCAN_CLOSE. The scan fails there with -EMSGSIZE when the buffer's limit is too small.
 * One value at a time. */
void gt_scan_keep(struct gt_scan *scan, struct gt_buf *to);

#endif
