/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "scheduler-ext/wire/scan_state.h"

/* Tokens outside of strings, by their first character. */
enum token { SCALAR, STRING, OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY, COMMA, COLON, TOKENS };

static const uint8_t token_of[256] = {
    ['"'] = STRING,      ['{'] = OPEN_OBJECT, ['}'] = CLOSE_OBJECT, ['['] = OPEN_ARRAY,
    [']'] = CLOSE_ARRAY, [','] = COMMA,       [':'] = COLON};

/* The grammar: a state and a token give the next state and an action. BAD is 0, so that everything that is
 * not listed is an error. */
enum { STATE = 0x0f, PLAIN = 0x10, OPEN = 0x20, CLOSE = 0x40, LEAF = 0x80 };
#define VALUES(after)                                                                                        \
    [SCALAR] = LEAF | (after), [STRING] = PLAIN | (after), [OPEN_OBJECT] = OPEN | GT_AT_OBJECT,              \
    [OPEN_ARRAY] = OPEN | GT_AT_ARRAY

static const uint8_t grammar[GT_STATES][TOKENS] = {
    [GT_AT_TOP] = {[OPEN_OBJECT] = OPEN | GT_AT_OBJECT, [OPEN_ARRAY] = OPEN | GT_AT_ARRAY},
    [GT_AT_OBJECT] = {[STRING] = PLAIN | GT_AT_COLON, [CLOSE_OBJECT] = CLOSE},
    [GT_AT_KEY] = {[STRING] = PLAIN | GT_AT_COLON},
    [GT_AT_COLON] = {[COLON] = PLAIN | GT_AT_MEMBER},
    [GT_AT_MEMBER] = {VALUES(GT_AFTER_MEMBER)},
    [GT_AFTER_MEMBER] = {[COMMA] = PLAIN | GT_AT_KEY, [CLOSE_OBJECT] = CLOSE},
    [GT_AT_ARRAY] = {VALUES(GT_AFTER_ITEM), [CLOSE_ARRAY] = CLOSE},
    [GT_AT_ITEM] = {VALUES(GT_AFTER_ITEM)},
    [GT_AFTER_ITEM] = {[COMMA] = PLAIN | GT_AT_ITEM, [CLOSE_ARRAY] = CLOSE},
};

static const char *const expected[GT_STATES] = {
    [GT_AT_TOP] = "an object or array",
    [GT_AT_OBJECT] = "a key or '}'",
    [GT_AT_KEY] = "a key",
    [GT_AT_COLON] = "':'",
    [GT_AT_MEMBER] = "a value",
    [GT_AFTER_MEMBER] = "',' or '}'",
    [GT_AT_ARRAY] = "a value or ']'",
    [GT_AT_ITEM] = "a value",
    [GT_AFTER_ITEM] = "',' or ']'",
    [GT_AT_END] = "nothing more",
};

/* Bit i of the result: whether the number of bits of x up to and with i is odd. */
static inline uint64_t parity_up_to(uint64_t x)
{
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    return x ^ x << 32;
}

static int fail_bytes(struct gt_scan *s, const uint8_t *p, unsigned at, const struct gt_faults *faults,
                      struct gt_err **err)
{
    uint64_t bit = UINT64_C(1) << at;
    if (faults->utf8 & bit)
        return gt_scan_fail(s, at, EBADMSG, err, "not UTF-8");
    if (faults->control & bit)
        return gt_scan_fail(s, at, EBADMSG, err, "a control character, 0x%02x", p[at]);
    return gt_scan_fail(s, at, EBADMSG, err, "an escape that JSON does not have");
}

static int fail_token(struct gt_scan *s, const uint8_t *p, unsigned at, struct gt_err **err)
{
    char found[16] = "a string";
    if (p[at] != '"')
        snprintf(found, sizeof(found), p[at] > 0x20 && p[at] < 0x7f ? "'%c'" : "byte 0x%02x", p[at]);
    return gt_scan_fail(s, at, EBADMSG, err, "expected %s, found %s", expected[s->state], found);
}

static int end_scalar(struct gt_scan *s, unsigned at, struct gt_err **err)
{
    s->open = GT_OPEN_NOTHING;
    if (s->text.failed)
        return gt_scan_fail(s, at, EMSGSIZE, err, "a number of more than %d characters", GT_SCAN_NUMBER_MAX);
    enum gt_scalar kind = gt_scalar_kind(s->text.data, s->text.len);
    if (kind == GT_SCALAR_NONE && at >= s->real)
        return gt_scan_fail(s, at, EBADMSG, err, "the text ends within \"%.*s\"", 24, s->text.data);
    if (kind == GT_SCALAR_NONE)
        return gt_scan_fail(s, at, EBADMSG, err, "\"%.*s\" is no value of JSON", 24, s->text.data);
    return s->skip ? 0 : gt_shape_scalar(s, at, kind, err);
}

static int end_string(struct gt_scan *s, unsigned at, struct gt_err **err)
{
    enum gt_open open = s->open;
    s->open = GT_OPEN_NOTHING;
    return open == GT_OPEN_KEY ? gt_shape_key(s, at, err) : gt_shape_string(s, at, err);
}

static void take(struct gt_scan *s, const uint8_t *p, unsigned from, unsigned to)
{
    gt_buf_add(&s->text, p + from, to - from);
}

static void begin(struct gt_scan *s, enum gt_open open)
{
    s->open = open;
    s->text.len = 0;
    s->text.failed = false;
}

static int open_value(struct gt_scan *s, const uint8_t *p, unsigned at, struct gt_err **err)
{
    bool object = p[at] == '{', skip = false;
    if (s->depth == GT_SCAN_DEPTH_MAX)
        return gt_scan_fail(s, at, EMSGSIZE, err, "nested deeper than %d", GT_SCAN_DEPTH_MAX);
    if (!s->skip) {
        if (!s->kept)
            s->kept_from = p + at; /* for gt_scan_keep() in the callback */
        int r = gt_shape_open(s, at, object, &skip, err);
        if (r < 0)
            return r;
        if (skip)
            s->skip = s->depth + 1;
    }
    s->depth++;
    s->after[s->depth] = object ? GT_AFTER_MEMBER : GT_AFTER_ITEM;
    s->state = object ? GT_AT_OBJECT : GT_AT_ARRAY;
    return 0;
}

static int close_value(struct gt_scan *s, const uint8_t *p, unsigned at, struct gt_err **err)
{
    int r = 0;
    if (!s->skip) {
        if (s->kept && s->depth == s->kept_depth) {
            gt_buf_add(s->kept, s->kept_from, (size_t)(p + at + 1 - s->kept_from));
            if (s->kept->failed)
                return gt_scan_fail(s, at, EMSGSIZE, err, "objects of more than %zu bytes to copy",
                                    s->kept->max);
            s->kept = NULL;
        }
        r = gt_shape_close(s, at, err);
    } else if (s->skip == s->depth) {
        s->skip = 0;
    }
    s->depth--;
    s->state = s->depth ? s->after[s->depth] : GT_AT_END;
    return r;
}

/* The relevant bits of a block, after strings and escapes are known. */
struct block {
    uint64_t tokens, string_ends, scalar;
};

/* A string or scalar that began in an earlier block. */
static int go_on(struct gt_scan *s, const uint8_t *p, const struct block *b, struct gt_err **err)
{
    uint64_t ends = s->open == GT_OPEN_SCALAR ? ~b->scalar : b->string_ends;
    unsigned end = ends ? gt_bit_first(ends) : GT_MASKS_BLOCK;
    take(s, p, 0, end);
    if (!ends)
        return 0;
    return s->open == GT_OPEN_SCALAR ? end_scalar(s, end, err) : end_string(s, end, err);
}

static int begin_scalar(struct gt_scan *s, const uint8_t *p, unsigned at, const struct block *b,
                        struct gt_err **err)
{
    uint64_t ends = ~b->scalar & gt_bits_from(at);
    unsigned end = ends ? gt_bit_first(ends) : GT_MASKS_BLOCK;
    begin(s, GT_OPEN_SCALAR);
    s->text.max = GT_SCAN_NUMBER_MAX;
    take(s, p, at, end);
    return ends ? end_scalar(s, end, err) : 0;
}

static int begin_string(struct gt_scan *s, const uint8_t *p, unsigned at, bool key, const struct block *b,
                        struct gt_err **err)
{
    if (!key && !gt_shape_wants_string(s))
        return gt_shape_string(s, at, err);
    uint64_t ends = b->string_ends & gt_bits_from(at + 1);
    unsigned end = ends ? gt_bit_first(ends) : GT_MASKS_BLOCK;
    begin(s, key ? GT_OPEN_KEY : GT_OPEN_STRING);
    if (key)
        s->text.max = GT_SCAN_KEY_MAX;
    take(s, p, at + 1, end);
    return ends ? end_string(s, end, err) : 0;
}

/* Handles the tokens of a block: wanted ones one by one, others by the fast path. */
static int run_tokens(struct gt_scan *s, const uint8_t *p, const struct block *b, struct gt_err **err)
{
    uint64_t left = b->tokens;
    int r = 0;
    while (left) {
        unsigned at = gt_bit_first(left);
        uint8_t next = grammar[s->state][token_of[p[at]]];
        left &= left - 1;
        if (s->skip) {
            /* The fast path: only grammar and depth. */
            unsigned state = s->state, depth = s->depth;
            for (;;) {
                if (next & PLAIN) {
                    state = next & STATE;
                } else if (next & OPEN) {
                    if (depth == GT_SCAN_DEPTH_MAX)
                        break;
                    state = next & STATE;
                    s->after[++depth] = state == GT_AT_OBJECT ? GT_AFTER_MEMBER : GT_AFTER_ITEM;
                } else if (next & CLOSE && depth > s->skip) {
                    state = s->after[--depth];
                } else {
                    break;
                }
                if (!left) {
                    next = PLAIN;
                    break;
                }
                at = gt_bit_first(left);
                left &= left - 1;
                next = grammar[state][token_of[p[at]]];
            }
            s->state = (uint8_t)state;
            s->depth = depth;
            if (next == PLAIN)
                return 0;
        }
        if (!next)
            return fail_token(s, p, at, err);
        if (next & OPEN) {
            r = open_value(s, p, at, err);
        } else if (next & CLOSE) {
            r = close_value(s, p, at, err);
        } else if (next & LEAF) {
            r = begin_scalar(s, p, at, b, err);
            s->state = next & STATE;
        } else {
            if (p[at] == '"')
                r = begin_string(s, p, at, (next & STATE) == GT_AT_COLON, b, err);
            s->state = next & STATE;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static int run_block(struct gt_scan *s, const uint8_t *p, const struct gt_masks *m, struct gt_err **err)
{
    uint64_t escaped = 0, quote = m->quote;
    if (m->backslash || s->escaped) {
        escaped = gt_find_escaped(s, m->backslash);
        quote &= ~escaped;
    }
    uint64_t in_string = parity_up_to(quote) ^ (s->in_string ? ~UINT64_C(0) : 0);
    s->in_string = in_string >> 63;

    struct gt_faults faults = {0};
    if (escaped || s->hex_left)
        faults.escape = gt_check_escapes(s, p, escaped & in_string);
    if (m->high || s->utf8.left)
        faults.utf8 = gt_check_utf8(s, p, m->high);
    if (m->control)
        faults.control = gt_check_controls(p, m->control, in_string);
    uint64_t bad = (faults.escape | faults.utf8 | faults.control) & ~gt_bits_from(s->real);

    struct block b = {.scalar = ~(m->op | m->space | quote | in_string)};
    b.tokens = (m->op & ~in_string) | (quote & in_string) | (b.scalar & ~(b.scalar << 1 | s->in_scalar));
    b.string_ends = quote & ~in_string;
    s->in_scalar = b.scalar >> 63;
    if (bad) { /* first the part before it */
        uint64_t before = (bad & -bad) - 1;
        b.tokens &= before;
        b.string_ends &= before;
    }
    int r = 0;
    if (s->open)
        r = go_on(s, p, &b, err);
    if (r == 0)
        r = run_tokens(s, p, &b, err);
    if (r == 0 && bad)
        r = fail_bytes(s, p, gt_bit_first(bad), &faults, err);
    return r;
}

static int run(struct gt_scan *s, const uint8_t *p, size_t blocks, struct gt_err **err)
{
    enum { BATCH = 32 };
    struct gt_masks masks[BATCH];
    s->kept_from = p;
    const uint8_t *end = p + blocks * GT_MASKS_BLOCK;
    while (blocks) {
        size_t n = blocks < BATCH ? blocks : BATCH;
        s->masks(p, n, masks);
        for (size_t i = 0; i < n; i++, p += GT_MASKS_BLOCK, s->offset += GT_MASKS_BLOCK) {
            int r = run_block(s, p, &masks[i], err);
            if (r < 0) {
                s->failed = true;
                return r;
            }
        }
        blocks -= n;
    }
    if (s->kept)
        gt_buf_add(s->kept, s->kept_from, (size_t)(end - s->kept_from));
    return 0;
}

int gt_scan_feed(struct gt_scan *s, const void *bytes, size_t len, struct gt_err **err)
{
    const uint8_t *p = bytes;
    if (s->failed)
        return gt_fail(err, EINVAL, "this text has failed before");
    if (!len)
        return 0;
    if (s->tail_len) {
        size_t room = GT_MASKS_BLOCK - s->tail_len, n = len < room ? len : room;
        memcpy(s->tail + s->tail_len, p, n);
        s->tail_len += n;
        p += n;
        len -= n;
        if (s->tail_len < GT_MASKS_BLOCK)
            return 0;
        s->tail_len = 0;
        int r = run(s, s->tail, 1, err);
        if (r < 0)
            return r;
    }
    int r = run(s, p, len / GT_MASKS_BLOCK, err);
    if (r < 0)
        return r;
    s->tail_len = len % GT_MASKS_BLOCK;
    if (s->tail_len)
        memcpy(s->tail, p + len - s->tail_len, s->tail_len);
    return 0;
}

int gt_scan_finish(struct gt_scan *s, struct gt_err **err)
{
    if (s->failed)
        return gt_fail(err, EINVAL, "this text has failed before");
    unsigned len = (unsigned)s->tail_len;
    memset(s->tail + len, ' ', GT_MASKS_BLOCK - len);
    s->tail_len = 0;
    s->real = len;
    uint64_t total = s->offset + len;
    int r = run(s, s->tail, 1, err);
    if (r < 0)
        return r;
    s->failed = true;
    s->offset = total;
    if (s->in_string)
        return gt_scan_fail(s, 0, EBADMSG, err, "the text ends within a string");
    if (s->state != GT_AT_END)
        return gt_scan_fail(s, 0, EBADMSG, err, "the text ends here, expected %s", expected[s->state]);
    return 0;
}

void gt_scan_reset(struct gt_scan *s)
{
    s->offset = 0;
    s->tail_len = 0;
    s->real = GT_MASKS_BLOCK;
    s->in_string = s->escaped = s->in_scalar = false;
    s->hex_left = 0;
    s->utf8 = (struct gt_utf8){0};
    s->state = GT_AT_TOP;
    s->failed = false;
    s->open = GT_OPEN_NOTHING;
    s->depth = s->skip = 0;
    s->kept = NULL;
    s->frames[0] = (struct gt_frame){.want = s->root};
}

_Static_assert(sizeof(struct gt_scan) <= GT_SCAN_BYTES_MAX, "the header says so");

struct gt_scan *gt_scan_new(const struct gt_scan_shape *root, gt_scan_callback *callback, void *arg)
{
    struct gt_scan *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->root = root;
    s->callback = callback;
    s->arg = arg;
    s->masks = gt_masks_variants()->fn;
    gt_scan_reset(s);
    /* There is room for any key, so that none can be missed without memory. */
    static const char room[GT_SCAN_KEY_MAX];
    s->text.max = sizeof(room);
    gt_buf_add(&s->text, room, sizeof(room));
    if (s->text.failed) {
        gt_scan_free(s);
        return NULL;
    }
    return s;
}

size_t gt_scan_held(const struct gt_scan *s)
{
    return sizeof(*s) + s->text.capacity;
}

void gt_scan_free(struct gt_scan *s)
{
    if (!s)
        return;
    gt_buf_done(&s->text);
    free(s);
}

void gt_scan_set_masks(struct gt_scan *s, gt_masks_fn *fn)
{
    s->masks = fn;
}

void gt_scan_keep(struct gt_scan *s, struct gt_buf *to)
{
    s->kept = to;
    s->kept_depth = s->depth + 1;
}
