/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "kube/watch.h"
struct peek_reader {
    const char *at, *end;
    struct gt_kube_peek *to;
};

static bool peek_take(struct peek_reader *reader, char c)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at)
        reader->at++;
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* A whole string, as it stands between its quotes. */
static bool read_string(struct peek_reader *reader, const char **ret, size_t *ret_len)
{
    if (!peek_take(reader, '"'))
        return false;
    const char *begin = reader->at;
    for (; reader->at < reader->end; reader->at++) {
        if (*reader->at == '\\' && reader->at + 1 < reader->end)
            reader->at++;
        else if (*reader->at == '"') {
            *ret = begin;
            *ret_len = (size_t)(reader->at++ - begin);
            return true;
        }
    }
    return false;
}

/* Up to the comma or bracket behind a value. */
static bool peek_skip_value(struct peek_reader *reader)
{
    const char *text;
    size_t len, depth = 0;
    while (reader->at < reader->end) {
        char c = *reader->at;
        if (c == '"') {
            if (!read_string(reader, &text, &len))
                return false;
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return true;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        reader->at++;
    }
    return false;
}

static bool peek_is(const char *text, size_t len, const char *what)
{
    return len == strlen(what) && memcmp(text, what, len) == 0;
}

/* Texts with escapes are no names. */
static bool peek_read_text(struct peek_reader *reader, char *to, size_t size)
{
    const char *text;
    size_t len;
    if (!read_string(reader, &text, &len))
        return false;
    if (len < size && !memchr(text, '\\', len)) {
        memcpy(to, text, len);
        to[len] = '\0';
    }
    return true;
}

enum level { AT_EVENT, AT_OBJECT, AT_METADATA };

/* The members of an object, as far as they come. */
static bool peek_read_members(struct peek_reader *reader, enum level level)
{
    struct gt_kube_peek *to = reader->to;
    const struct {
        enum level level;
        const char *key;
        char *text;
        size_t size;
    } texts[] = {
        {AT_EVENT, "type", to->type, sizeof(to->type)},
        {AT_METADATA, "namespace", to->namespace_, sizeof(to->namespace_)},
        {AT_METADATA, "name", to->name, sizeof(to->name)},
        {AT_METADATA, "uid", to->uid, sizeof(to->uid)},
        {AT_METADATA, "resourceVersion", to->resource_version, sizeof(to->resource_version)},
    };
    static const char *const below[] = {[AT_EVENT] = "object", [AT_OBJECT] = "metadata", [AT_METADATA] = ""};
    if (!peek_take(reader, '{'))
        return false;
    do {
        const char *key;
        size_t len, i = 0;
        if (!read_string(reader, &key, &len) || !peek_take(reader, ':'))
            return false;
        while (i < GT_COUNT(texts) && !(texts[i].level == level && peek_is(key, len, texts[i].key)))
            i++;
        bool good = i < GT_COUNT(texts) ? peek_read_text(reader, texts[i].text, texts[i].size)
                    : level < AT_METADATA && peek_is(key, len, below[level])
                        ? peek_read_members(reader, level + 1)
                        : peek_skip_value(reader);
        if (!good)
            return false;
    } while (peek_take(reader, ','));
    return peek_take(reader, '}');
}

void gt_kube_peek(const char *text, size_t len, struct gt_kube_peek *ret)
{
    struct peek_reader reader = {.at = text, .end = text + len, .to = ret};
    *ret = (struct gt_kube_peek){0};
    peek_read_members(&reader, AT_EVENT);
}

void gt_lines_reset(struct gt_lines *lines)
{
    gt_buf_done(&lines->rest);
    lines->dropping = false;
}

/* A line that is whole, or as much of it as may be. False where the callback stops the feeding. */
static bool hand_on(struct gt_lines *lines, const char *data, size_t len, gt_lines_callback *callback,
                    void *arg)
{
    if (!lines->rest.len)
        return callback(arg, data, len);
    struct gt_buf line = lines->rest;
    lines->rest = (struct gt_buf){.max = line.max};
    bool go_on = callback(arg, line.data, line.len);
    gt_buf_done(&line);
    return go_on;
}

int gt_lines_feed(struct gt_lines *lines, const char *data, size_t len, void *arg)
{
    const char *end = data + len;
    while (data < end) {
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        size_t part = (size_t)((newline ? newline : end) - data);
        size_t capacity = lines->rest.max - lines->rest.len;
        bool too_long = !lines->dropping && part > capacity;
        size_t kept = too_long ? capacity : part;
        if (!lines->dropping && (lines->rest.len || (!newline && !too_long))) {
            gt_buf_add(&lines->rest, data, kept);
            if (lines->rest.failed)
                return -ENOMEM;
        }
        if (too_long) {
            lines->dropping = !newline;
            if (!hand_on(lines, data, kept, lines->on_long, arg))
                return -ECANCELED;
        } else if (lines->dropping) {
            lines->dropping = !newline;
        } else if (newline && !hand_on(lines, data, kept, lines->on_line, arg)) {
            return -ECANCELED;
        }
        data += part + (newline != NULL);
    }
    return 0;
}
