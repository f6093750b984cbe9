/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_TESTS_WIRE_REFERENCE_H
#define GPUTOPO_TESTS_WIRE_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * A simple recursive checker of JSON by RFC 8259, to test the scanner. It has the scanner's restrictions: an
 * object or array at the top, GT_SCAN_DEPTH_MAX, GT_SCAN_NUMBER_MAX.
 */

struct reference {
    const unsigned char *p, *end;
    unsigned depth;
};

static inline bool reference_value(struct reference *r);

static inline unsigned reference_peek(const struct reference *r)
{
    return r->p < r->end ? *r->p : 256;
}

static inline void reference_space(struct reference *r)
{
    while (reference_peek(r) == ' ' || reference_peek(r) == '\t' || reference_peek(r) == '\n' ||
           reference_peek(r) == '\r')
        r->p++;
}

static inline bool reference_hex(struct reference *r)
{
    for (unsigned i = 0; i < 4; i++, r->p++) {
        unsigned c = reference_peek(r);
        if (c > 127 || !strchr("0123456789abcdefABCDEF", (int)c) || !c)
            return false;
    }
    return true;
}

/* One character of more than a byte, by its value. */
static inline bool reference_utf8(struct reference *r)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned c = *r->p++, n = c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    if (!n)
        return false;
    unsigned value = c & (0xffU >> (n + 1));
    for (unsigned i = 1; i < n; i++) {
        if (reference_peek(r) >> 6 != 2)
            return false;
        value = value << 6 | (*r->p++ & 0x3f);
    }
    return value >= least[n] && value <= 0x10ffff && (value < 0xd800 || value > 0xdfff);
}

static inline bool reference_string(struct reference *r)
{
    if (reference_peek(r) != '"')
        return false;
    r->p++;
    for (;;) {
        unsigned c = reference_peek(r);
        if (c == 256 || c < 0x20)
            return false;
        if (c >= 0x80) {
            if (!reference_utf8(r))
                return false;
            continue;
        }
        r->p++;
        if (c == '"')
            return true;
        if (c != '\\')
            continue;
        c = reference_peek(r);
        if (c > 127 || !c || !strchr("\"\\/bfnrtu", (int)c))
            return false;
        r->p++;
        if (c == 'u' && !reference_hex(r))
            return false;
    }
}

static inline bool reference_digits(struct reference *r)
{
    const unsigned char *start = r->p;
    while (reference_peek(r) >= '0' && reference_peek(r) <= '9')
        r->p++;
    return r->p > start;
}

static inline bool reference_number(struct reference *r)
{
    const unsigned char *start = r->p;
    if (reference_peek(r) == '-')
        r->p++;
    if (reference_peek(r) == '0')
        r->p++;
    else if (!reference_digits(r))
        return false;
    if (reference_peek(r) == '.') {
        r->p++;
        if (!reference_digits(r))
            return false;
    }
    if (reference_peek(r) == 'e' || reference_peek(r) == 'E') {
        r->p++;
        if (reference_peek(r) == '+' || reference_peek(r) == '-')
            r->p++;
        if (!reference_digits(r))
            return false;
    }
    return r->p - start <= 128;
}

static inline bool reference_word(struct reference *r, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(r->end - r->p) < len || memcmp(r->p, word, len) != 0)
        return false;
    r->p += len;
    return true;
}

static inline bool reference_list(struct reference *r, bool object)
{
    unsigned close = object ? '}' : ']';
    r->p++;
    if (++r->depth > 128)
        return false;
    reference_space(r);
    if (reference_peek(r) != close) {
        for (;;) {
            if (object) {
                reference_space(r);
                if (!reference_string(r))
                    return false;
                reference_space(r);
                if (reference_peek(r) != ':')
                    return false;
                r->p++;
            }
            if (!reference_value(r))
                return false;
            if (reference_peek(r) != ',')
                break;
            r->p++;
        }
    }
    if (reference_peek(r) != close)
        return false;
    r->p++;
    r->depth--;
    return true;
}

/* With the white space around it. */
static inline bool reference_value(struct reference *r)
{
    bool good;
    reference_space(r);
    switch (reference_peek(r)) {
    case '{':
        good = reference_list(r, true);
        break;
    case '[':
        good = reference_list(r, false);
        break;
    case '"':
        good = reference_string(r);
        break;
    case 't':
        good = reference_word(r, "true");
        break;
    case 'f':
        good = reference_word(r, "false");
        break;
    case 'n':
        good = reference_word(r, "null");
        break;
    default:
        good = reference_number(r);
    }
    reference_space(r);
    return good;
}

static inline bool reference_accepts(const void *text, size_t len)
{
    struct reference r = {.p = text, .end = (const unsigned char *)text + len};
    reference_space(&r);
    if (reference_peek(&r) != '{' && reference_peek(&r) != '[')
        return false;
    return reference_value(&r) && r.p == r.end;
}

#endif
