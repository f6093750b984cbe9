/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/file/json_line.h"

#include <stdbool.h>
#include <string.h>

/* cJSON stores no positions. The text is valid JSON, so only strings and brackets matter; the end is checked
 * at every step nevertheless. */
struct line_scanner {
    const char *p, *end;
};

static bool at(const struct line_scanner *s, char c)
{
    return s->p < s->end && *s->p == c;
}

static void json_line_skip_space(struct line_scanner *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static void skip_string(struct line_scanner *s)
{
    for (s->p++; s->p < s->end && *s->p != '"'; s->p++)
        if (*s->p == '\\')
            s->p++;
    if (s->p < s->end)
        s->p++;
    else
        s->p = s->end;
}

static void json_line_skip_value(struct line_scanner *s)
{
    size_t depth = 0;
    do {
        json_line_skip_space(s);
        if (s->p >= s->end)
            return;
        if (at(s, '"')) {
            skip_string(s);
        } else if (at(s, '{') || at(s, '[')) {
            depth++;
            s->p++;
        } else if (at(s, '}') || at(s, ']')) {
            if (!depth) /* an empty list: nothing to skip */
                return;
            depth--;
            s->p++;
        } else if (at(s, ',') || at(s, ':')) {
            s->p++;
        } else {
            while (s->p < s->end && !strchr(",]}: \t\r\n", *s->p))
                s->p++;
        }
    } while (depth);
}

/* Moves from a value to its nth member; false where there is none. */
static bool enter_element(struct line_scanner *s, size_t n)
{
    if (!at(s, '['))
        return false;
    s->p++;
    for (size_t i = 0;; i++) {
        json_line_skip_space(s);
        if (s->p >= s->end || *s->p == ']')
            return false;
        if (i == n)
            return true;
        json_line_skip_value(s);
        json_line_skip_space(s);
        if (!at(s, ','))
            return false;
        s->p++;
    }
}

static bool enter_member(struct line_scanner *s, const char *key, size_t key_len)
{
    if (!at(s, '{'))
        return false;
    s->p++;
    for (;;) {
        json_line_skip_space(s);
        if (!at(s, '"'))
            return false;
        const char *name = s->p + 1;
        skip_string(s);
        size_t len = (size_t)(s->p - name) - 1;
        json_line_skip_space(s);
        if (!at(s, ':'))
            return false;
        s->p++;
        json_line_skip_space(s);
        if (len == key_len && memcmp(name, key, len) == 0)
            return s->p < s->end;
        json_line_skip_value(s);
        json_line_skip_space(s);
        if (!at(s, ','))
            return false;
        s->p++;
    }
}

unsigned gt_json_line(const char *text, size_t len, const char *path)
{
    struct line_scanner s = {text, text + len};
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        s.p += 3;
    json_line_skip_space(&s);
    const char *found = s.p;
    while (*path) {
        bool there;
        if (*path == '[') {
            size_t n = 0;
            for (path++; *path >= '0' && *path <= '9' && n < 100000000; path++)
                n = n * 10 + (size_t)(*path - '0');
            path += *path == ']';
            there = enter_element(&s, n);
        } else {
            path += *path == '.';
            size_t key_len = strcspn(path, ".[");
            there = key_len && enter_member(&s, path, key_len);
            path += key_len;
        }
        if (!there)
            break;
        found = s.p;
    }
    unsigned line = 1;
    for (const char *q = text; q < found; q++)
        line += *q == '\n';
    return line;
}
