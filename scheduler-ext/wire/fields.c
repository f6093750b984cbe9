/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/wire/request.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

/* Each of these returns where to go on; `end` where the value or key goes on in the next piece. */

static const char *pass_string(struct gt_field_state *state, const char *p, const char *end)
{
    while (p < end && state->in_string) {
        const char *quote = memchr(p, '"', (size_t)(end - p)), *stop = quote ? quote : end;
        const char *slash = stop;
        while (slash > p && slash[-1] == '\\')
            slash--;
        bool escaped = ((stop - slash) & 1) != (slash == p && state->escaped);
        state->escaped = !quote && escaped;
        state->in_string = !quote || escaped;
        p = quote ? quote + 1 : end;
    }
    return p;
}

static const char *pass_value(struct gt_field_state *state, const char *p, const char *end)
{
    static const uint8_t matters[256] = {['"'] = 1, [','] = 2, ['{'] = 3, ['['] = 3, ['}'] = 4, [']'] = 4};
    uint32_t nested = state->nested;
    if (state->in_string)
        p = pass_string(state, p, end);
    for (; p < end; p++) {
        uint8_t c = matters[(uint8_t)*p];
        if (!c)
            continue;
        if (c == 1) {
            state->in_string = true;
            p = pass_string(state, p + 1, end) - 1;
        } else if (c == 3) {
            nested++;
        } else if (!nested) {
            break;
        } else if (c == 4) {
            nested--;
        }
    }
    state->nested = nested;
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

static int open_value(struct gt_field_reader *reader, const char *p, struct gt_err **err)
{
    struct gt_field_state *s = &reader->state;
    if (s->depth == GT_FIELD_DEPTH_MAX)
        return gt_fail(err, EINVAL, "nested deeper than expected");
    s->levels[++s->depth] = (struct gt_field_level){.fields = s->wanted, .is_array = *p == '['};
    s->at = *p == '{' ? GT_AT_KEY : GT_AT_VALUE;
    gt_buf_add(&reader->text, p, 1);
    return 0;
}

static void take_key(struct gt_field_state *state, char c)
{
    if (c == '"' && !state->escaped) {
        state->at = GT_AT_COLON;
        return;
    }
    state->escaped = c == '\\' && !state->escaped;
    if (state->key_len < sizeof(state->key) - 1)
        state->key[state->key_len++] = c;
}

static int choose_field(struct gt_field_reader *reader, struct gt_err **err)
{
    struct gt_field_state *s = &reader->state;
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
    gt_buf_printf(&reader->text, "%s\"%s\":", level->has_fields ? "," : "",
                  field->name ? field->name : s->key);
    level->has_fields = true;
    s->wanted = field->fields;
    s->at = field->fields ? GT_AT_VALUE : GT_IN_TAKEN;
    return 0;
}

/* Behind a value: ',' or the end of what it is in. */
static void end_value(struct gt_field_reader *reader, const char *p)
{
    struct gt_field_state *s = &reader->state;
    const struct gt_field_level *level = &s->levels[s->depth];
    if (!s->depth || level->is_array || *p != ',')
        gt_buf_add(&reader->text, p, 1);
    if (!s->depth)
        return;
    if (*p == ',') {
        s->at = level->is_array ? GT_AT_VALUE : GT_AT_KEY;
        s->wanted = level->fields;
    } else {
        s->depth--;
        s->at = GT_AFTER_VALUE;
    }
}

static const char *pass_whole(struct gt_field_reader *reader, const char *p, const char *end)
{
    const char *stop = pass_value(&reader->state, p, end);
    if (reader->state.at == GT_IN_TAKEN)
        gt_buf_add(&reader->text, p, (size_t)(stop - p));
    if (stop < end)
        reader->state.at = GT_AFTER_VALUE;
    return stop;
}

/* One byte outside of values that are taken or dropped as a whole. */
static int step(struct gt_field_reader *reader, const char *p, struct gt_err **err)
{
    struct gt_field_state *s = &reader->state;
    if (s->at != GT_IN_KEY && is_json_space(*p))
        return 0;
    if (s->at == GT_IN_KEY) {
        take_key(s, *p);
    } else if (s->at == GT_AT_VALUE && *p != ']') {
        return open_value(reader, p, err);
    } else if (s->at == GT_AT_KEY && *p == '"') {
        s->key_len = 0;
        s->at = GT_IN_KEY;
    } else if (s->at == GT_AT_COLON && *p == ':') {
        return choose_field(reader, err);
    } else if (s->at == GT_AT_COLON || (s->at == GT_AT_KEY && *p != '}')) {
        return gt_fail(err, EINVAL, "expected %s", s->at == GT_AT_COLON ? "':'" : "a key");
    } else {
        end_value(reader, p);
    }
    return 0;
}

int gt_field_reader_feed(struct gt_field_reader *reader, const struct gt_field *fields, const char *bytes,
                         size_t len, struct gt_err **err)
{
    struct gt_field_state *s = &reader->state;
    const char *p = bytes, *end = bytes + len;
    if (!s->depth && s->at == GT_AT_VALUE)
        s->wanted = fields;
    while (p < end && !reader->text.failed) {
        if (s->at == GT_AT_VALUE && is_leaf(*p))
            s->at = GT_IN_TAKEN;
        if (s->at == GT_IN_TAKEN || s->at == GT_IN_DROPPED) {
            p = pass_whole(reader, p, end);
            continue;
        }
        int result = step(reader, p, err);
        if (result < 0)
            return gt_wrap(err, "byte %" PRIu64, s->offset + (uint64_t)(p - bytes));
        p++;
    }
    s->offset += len;
    return reader->text.failed
               ? gt_fail(err, EMSGSIZE, "more than %zu bytes that are needed", reader->text.max)
               : 0;
}

void gt_field_reader_reset(struct gt_field_reader *reader, size_t kept)
{
    if (reader->text.capacity > kept)
        gt_buf_done(&reader->text);
    reader->text.len = 0;
    reader->text.failed = false;
    reader->state = (struct gt_field_state){0};
}
