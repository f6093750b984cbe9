/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "scheduler-ext/wire/scan_state.h"

/* "Pod.spec.containers[2].": the path of members to the current value. */
static void add_path(const struct gt_scan *s, struct gt_buf *to)
{
    unsigned last = s->skip ? s->skip - 1 : s->depth;
    for (unsigned d = 1; d <= last && d <= GT_SCAN_SHAPES_MAX; d++) {
        const struct gt_frame *frame = &s->frames[d];
        if (frame->shape->kind == GT_SCAN_ARRAY && frame->items)
            gt_buf_printf(to, "[%u]", frame->items - 1);
        else if (frame->shape->kind != GT_SCAN_ARRAY && frame->member)
            gt_buf_printf(to, "%s%s", to->len ? "." : "", frame->member);
    }
}

int gt_scan_fail(struct gt_scan *s, unsigned at, int errnum, struct gt_err **err, const char *format, ...)
{
    enum { PATH_MAX_BYTES = 512, TEXT_MAX_BYTES = 256 };
    gt_auto_buf struct gt_buf path = GT_BUF(PATH_MAX_BYTES), text = GT_BUF(TEXT_MAX_BYTES);
    va_list args;
    va_start(args, format);
    gt_buf_vprintf(&text, format, args);
    va_end(args);
    add_path(s, &path);
    s->failed = true;
    return gt_fail(err, errnum, "byte %" PRIu64 ": %s%s%s", s->offset + at, path.len ? path.data : "",
                   path.len ? ": " : "", text.data ? text.data : "");
}

static int refuse(struct gt_scan *s, unsigned at, int r, struct gt_err *inner, struct gt_err **err)
{
    gt_scan_fail(s, at, -r, err, "%s", gt_err_text(inner));
    gt_err_free(inner);
    return r;
}

static inline int emit(struct gt_scan *s, unsigned at, struct gt_scan_event *event, struct gt_err **err)
{
    struct gt_err *inner = NULL;
    const struct gt_frame *frame = &s->frames[s->depth];
    event->offset = s->offset + at;
    event->member = frame->shape && frame->shape->kind == GT_SCAN_OBJECT ? frame->member : NULL;
    int r = s->callback(s->arg, event, &inner);
    return r < 0 ? refuse(s, at, r, inner, err) : r;
}

static const char *kind_name(enum gt_scan_kind kind)
{
    static const char *const names[] = {
        [GT_SCAN_OBJECT] = "an object",
        [GT_SCAN_MAP] = "an object",
        [GT_SCAN_ARRAY] = "an array",
        [GT_SCAN_TEXT] = "a string",
        [GT_SCAN_NUMBER] = "a number",
        [GT_SCAN_BOOL] = "true or false",
        [GT_SCAN_AMOUNT] = "a string or a number",
    };
    return names[kind];
}

/* The shape of the value that begins now, which is counted. */
static const struct gt_scan_shape *next_shape(struct gt_scan *s)
{
    struct gt_frame *frame = &s->frames[s->depth];
    if (frame->shape && frame->shape->kind == GT_SCAN_ARRAY && frame->items < UINT32_MAX)
        frame->items++;
    return frame->want;
}

static int mismatch(struct gt_scan *s, unsigned at, const struct gt_scan_shape *shape,
                    enum gt_scan_found found, const char *name, struct gt_err **err)
{
    if (!shape->any_kind)
        return gt_scan_fail(s, at, EINVAL, err, "expected %s, found %s", kind_name(shape->kind), name);
    struct gt_scan_event event = {.what = GT_SCAN_OTHER, .id = shape->id, .found = found};
    int r = emit(s, at, &event, err);
    return r < 0 ? r : 0;
}

int gt_shape_open(struct gt_scan *s, unsigned at, bool object, bool *ret_skip, struct gt_err **err)
{
    const struct gt_scan_shape *shape = next_shape(s);
    if (!shape) {
        *ret_skip = true;
        return 0;
    }
    bool fits =
        object ? shape->kind == GT_SCAN_OBJECT || shape->kind == GT_SCAN_MAP : shape->kind == GT_SCAN_ARRAY;
    if (!fits) {
        *ret_skip = true;
        return mismatch(s, at, shape, object ? GT_FOUND_OBJECT : GT_FOUND_ARRAY,
                        object ? "an object" : "an array", err);
    }
    if (s->depth == GT_SCAN_SHAPES_MAX)
        return gt_scan_fail(s, at, EMSGSIZE, err, "nested deeper than %d", GT_SCAN_SHAPES_MAX);
    if (shape->id) {
        struct gt_scan_event event = {.what = GT_SCAN_OPEN, .id = shape->id};
        int r = emit(s, at, &event, err);
        if (r < 0)
            return r;
    }
    s->frames[s->depth + 1] =
        (struct gt_frame){.shape = shape, .want = shape->kind == GT_SCAN_ARRAY ? shape->of : NULL};
    return 0;
}

int gt_shape_close(struct gt_scan *s, unsigned at, struct gt_err **err)
{
    const struct gt_scan_shape *shape = s->frames[s->depth].shape;
    if (!shape->id)
        return 0;
    s->frames[s->depth].member = NULL;
    struct gt_scan_event event = {.what = GT_SCAN_CLOSE, .id = shape->id};
    return emit(s, at, &event, err);
}

static bool same_key(const char *a, const char *b, size_t len, bool any_case)
{
    if (!any_case)
        return memcmp(a, b, len) == 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char x = (unsigned char)a[i], y = (unsigned char)b[i];
        if (x != y && ((x ^ y) != 0x20 || (x | 0x20) < 'a' || (x | 0x20) > 'z'))
            return false;
    }
    return true;
}

static int find_member(struct gt_scan *s, unsigned at, struct gt_frame *frame, struct gt_err **err)
{
    const struct gt_scan_shape *shape = frame->shape;
    for (unsigned i = 0; shape->members[i].name; i++) {
        const char *name = shape->members[i].name;
        if (strlen(name) != s->text.len || !same_key(name, s->text.data, s->text.len, shape->any_case))
            continue;
        frame->member = name;
        frame->want = shape->members[i].shape;
        if (frame->seen >> i & 1)
            return gt_scan_fail(s, at, EINVAL, err, "comes twice in one object");
        frame->seen |= UINT64_C(1) << i;
        break;
    }
    return 0;
}

int gt_shape_key(struct gt_scan *s, unsigned at, struct gt_err **err)
{
    struct gt_frame *frame = &s->frames[s->depth];
    frame->want = NULL;
    frame->member = NULL;
    if (s->text.failed || gt_unescape(s->text.data, &s->text.len))
        return 0; /* longer than any key that is wanted, or with a NUL: unknown */
    s->text.data[s->text.len] = '\0';
    if (frame->shape->kind == GT_SCAN_OBJECT)
        return find_member(s, at, frame, err);
    struct gt_scan_event event = {
        .what = GT_SCAN_KEY, .id = frame->shape->id, .text = s->text.data, .len = s->text.len};
    int r = emit(s, at, &event, err);
    if (r > 0)
        frame->want = frame->shape->of;
    return r < 0 ? r : 0;
}

bool gt_shape_wants_string(struct gt_scan *s)
{
    const struct gt_scan_shape *shape = s->frames[s->depth].want;
    if (!shape || (shape->kind != GT_SCAN_TEXT && shape->kind != GT_SCAN_AMOUNT))
        return false;
    s->text.max = (size_t)shape->max * 6; /* "\u0041" is one byte */
    return true;
}

int gt_shape_string(struct gt_scan *s, unsigned at, struct gt_err **err)
{
    const struct gt_scan_shape *shape = next_shape(s);
    if (!shape)
        return 0;
    if (shape->kind != GT_SCAN_TEXT && shape->kind != GT_SCAN_AMOUNT)
        return mismatch(s, at, shape, GT_FOUND_TEXT, "a string", err);
    const char *fault = s->text.failed ? NULL : gt_unescape(s->text.data, &s->text.len);
    if (fault)
        return gt_scan_fail(s, at, EBADMSG, err, "%s", fault);
    if (s->text.failed || s->text.len > shape->max)
        return gt_scan_fail(s, at, EMSGSIZE, err, "a text of more than %u bytes", shape->max);
    s->text.data[s->text.len] = '\0';
    struct gt_scan_event event = {
        .what = GT_SCAN_VALUE, .id = shape->id, .is_text = true, .text = s->text.data, .len = s->text.len};
    return emit(s, at, &event, err);
}

int gt_shape_scalar(struct gt_scan *s, unsigned at, enum gt_scalar kind, struct gt_err **err)
{
    static const char *const names[] = {[GT_SCALAR_NUMBER] = "a number",
                                        [GT_SCALAR_TRUE] = "true",
                                        [GT_SCALAR_FALSE] = "false",
                                        [GT_SCALAR_NULL] = "null"};
    const struct gt_scan_shape *shape = next_shape(s);
    if (!shape)
        return 0;
    if (kind == GT_SCALAR_NULL && s->frames[s->depth].shape->kind != GT_SCAN_ARRAY)
        return 0;
    bool fits = kind == GT_SCALAR_NUMBER ? shape->kind == GT_SCAN_NUMBER || shape->kind == GT_SCAN_AMOUNT
                                         : kind != GT_SCALAR_NULL && shape->kind == GT_SCAN_BOOL;
    if (!fits)
        return mismatch(s, at, shape,
                        kind == GT_SCALAR_NUMBER ? GT_FOUND_NUMBER
                        : kind == GT_SCALAR_NULL ? GT_FOUND_NULL
                                                 : GT_FOUND_BOOL,
                        names[kind], err);
    struct gt_scan_event event = {.what = GT_SCAN_VALUE,
                                  .id = shape->id,
                                  .yes = kind == GT_SCALAR_TRUE,
                                  .text = s->text.data,
                                  .len = s->text.len};
    return emit(s, at, &event, err);
}
