/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/wire/request.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

/* Each of these returns where to go on; `end` where the value or key goes on in the next piece. */

static const char *pass_string(struct gt_field_state *s, const char *p, const char *end)
{
    while (p < end && s->in_string) {
        const char *quote = memchr(p, '"', (size_t)(end - p)), *stop = quote ? quote : end;
        const char *slash = stop;
        while (slash > p && slash[-1] == '\\')
            slash--;
        bool escaped = ((stop - slash) & 1) != (slash == p && s->escaped);
        s->escaped = !quote && escaped;
        s->in_string = !quote || escaped;
        p = quote ? quote + 1 : end;
    }
    return p;
}

static const char *pass_value(struct gt_field_state *s, const char *p, const char *end)
{
    static const uint8_t matters[256] = {['"'] = 1, [','] = 2, ['{'] = 3, ['['] = 3, ['}'] = 4, [']'] = 4};
    uint32_t nested = s->nested;
    if (s->in_string)
        p = pass_string(s, p, end);
    for (; p < end; p++) {
        uint8_t c = matters[(uint8_t)*p];
        if (!c)
            continue;
        if (c == 1) {
            s->in_string = true;
            p = pass_string(s, p + 1, end) - 1;
        } else if (c == 3) {
            nested++;
        } else if (!nested) {
            break;
        } else if (c == 4) {
            nested--;
        }
    }
    s->nested = nested;
    return p;
}

static bool is_json_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The first byte of a value without fields, or of no value. */
static bool is_leaf(char c)
{
    return !is_json_space(c) && c != '{' && c != '[' && c != ']';
}

static int open_value(struct gt_field_reader *r, const char *p, struct gt_err **err)
{
    struct gt_field_state *s = &r->state;
    if (s->depth == GT_FIELD_DEPTH_MAX)
        return gt_fail(err, EINVAL, "nested deeper than expected");
    if (s->levels[s->depth].copies && *p == '{')
        s->copy_depth = s->depth + 1;
    s->levels[++s->depth] = (struct gt_field_level){
        .fields = s->wanted, .is_array = *p == '[', .copies = *p == '[' && s->copy_items};
    s->copy_items = false;
    s->at = *p == '{' ? GT_AT_KEY : GT_AT_VALUE;
    gt_buf_add(&r->text, p, 1);
    return 0;
}

static void take_key(struct gt_field_state *s, char c)
{
    if (c == '"' && !s->escaped) {
        s->at = GT_AT_COLON;
        return;
    }
    s->escaped = c == '\\' && !s->escaped;
    if (s->key_len < sizeof(s->key) - 1)
        s->key[s->key_len++] = c;
}

static int choose_field(struct gt_field_reader *r, struct gt_err **err)
{
    struct gt_field_state *s = &r->state;
    struct gt_field_level *level = &s->levels[s->depth];
    const struct gt_field *field = level->fields;
    s->key[s->key_len] = '\0';
    while (field->name && strcasecmp(field->name, s->key) != 0)
        field++;
    s->at = GT_IN_DROPPED;
    if (field->dropped || !(field->name || (field->others && s->key_len < sizeof(s->key) - 1)))
        return 0;
    uint64_t bit = field->name ? UINT64_C(1) << (field - level->fields) : 0;
    if (level->seen & bit)
        return gt_fail(err, EINVAL, "%s comes twice in one object", field->name);
    level->seen |= bit;
    gt_buf_printf(&r->text, "%s\"%s\":", level->has_fields ? "," : "", field->name ? field->name : s->key);
    level->has_fields = true;
    s->wanted = field->fields;
    s->copy_items = field->copy_items;
    s->at = field->fields ? GT_AT_VALUE : GT_IN_TAKEN;
    return 0;
}

static void end_copy(struct gt_field_reader *r, const char *from, const char *to)
{
    gt_buf_add(&r->copies, from, (size_t)(to - from));
    uint32_t end = (uint32_t)r->copies.len;
    gt_buf_add(&r->ends, &end, sizeof(end));
    r->state.copy_depth = 0;
}

/* Behind a value: ',' or the end of what it is in. */
static void end_value(struct gt_field_reader *r, const char *p, const char *copy_from)
{
    struct gt_field_state *s = &r->state;
    const struct gt_field_level *level = &s->levels[s->depth];
    if (!s->depth || level->is_array || *p != ',')
        gt_buf_add(&r->text, p, 1);
    if (!s->depth)
        return;
    if (*p == ',') {
        s->at = level->is_array ? GT_AT_VALUE : GT_AT_KEY;
        s->wanted = level->fields;
    } else {
        if (s->copy_depth == s->depth)
            end_copy(r, copy_from, p + 1);
        s->depth--;
        s->at = GT_AFTER_VALUE;
    }
}

static const char *pass_whole(struct gt_field_reader *r, const char *p, const char *end)
{
    const char *stop = pass_value(&r->state, p, end);
    if (r->state.at == GT_IN_TAKEN)
        gt_buf_add(&r->text, p, (size_t)(stop - p));
    if (stop < end)
        r->state.at = GT_AFTER_VALUE;
    return stop;
}

/* One byte outside of values that are taken or dropped as a whole. */
static int step(struct gt_field_reader *r, const char *p, const char **copy_from, struct gt_err **err)
{
    struct gt_field_state *s = &r->state;
    bool copied = s->copy_depth;
    int result = 0;
    if (s->at != GT_IN_KEY && is_json_space(*p))
        return 0;
    if (s->at == GT_IN_KEY) {
        take_key(s, *p);
    } else if (s->at == GT_AT_VALUE && *p != ']') {
        result = open_value(r, p, err);
    } else if (s->at == GT_AT_KEY && *p == '"') {
        s->key_len = 0;
        s->at = GT_IN_KEY;
    } else if (s->at == GT_AT_COLON && *p == ':') {
        result = choose_field(r, err);
    } else if (s->at == GT_AT_COLON || (s->at == GT_AT_KEY && *p != '}')) {
        result = gt_fail(err, EINVAL, "expected %s", s->at == GT_AT_COLON ? "':'" : "a key");
    } else {
        end_value(r, p, *copy_from);
    }
    if (s->copy_depth && !copied)
        *copy_from = p;
    return result;
}

int gt_field_reader_feed(struct gt_field_reader *r, const struct gt_field *fields, const char *bytes,
                         size_t len, struct gt_err **err)
{
    struct gt_field_state *s = &r->state;
    const char *p = bytes, *end = bytes + len, *copy_from = bytes;
    if (!s->depth && s->at == GT_AT_VALUE)
        s->wanted = fields;
    while (p < end && !r->text.failed) {
        if (s->at == GT_AT_VALUE && is_leaf(*p))
            s->at = GT_IN_TAKEN;
        if (s->at == GT_IN_TAKEN || s->at == GT_IN_DROPPED) {
            p = pass_whole(r, p, end);
            continue;
        }
        int result = step(r, p, &copy_from, err);
        if (result < 0)
            return gt_wrap(err, "byte %" PRIu64, s->offset + (uint64_t)(p - bytes));
        p++;
    }
    if (s->copy_depth)
        gt_buf_add(&r->copies, copy_from, (size_t)(end - copy_from));
    s->offset += len;
    if (r->text.failed || r->copies.failed || r->ends.failed)
        return gt_fail(err, EMSGSIZE, "more than %zu bytes that are needed, or %zu of whole nodes",
                       r->text.max, r->copies.max);
    return 0;
}

static void reset(struct gt_buf *buf, size_t kept)
{
    if (buf->capacity > kept)
        gt_buf_done(buf);
    buf->len = 0;
    buf->failed = false;
}

void gt_field_reader_reset(struct gt_field_reader *r, size_t kept)
{
    reset(&r->text, kept);
    reset(&r->copies, kept);
    reset(&r->ends, kept);
    r->state = (struct gt_field_state){0};
}
