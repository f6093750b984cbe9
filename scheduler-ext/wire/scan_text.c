/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/wire/scan_text.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_number(const char *p, const char *end)
{
    if (p < end && *p == '-')
        p++;
    if (p == end || !is_digit(*p))
        return false;
    if (*p == '0')
        p++;
    else
        while (p < end && is_digit(*p))
            p++;
    if (p < end && *p == '.') {
        if (++p == end || !is_digit(*p))
            return false;
        while (p < end && is_digit(*p))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p == end || !is_digit(*p))
            return false;
        while (p < end && is_digit(*p))
            p++;
    }
    return p == end;
}

enum gt_scalar gt_scalar_kind(const char *text, size_t len)
{
    if (len == 4 && memcmp(text, "true", 4) == 0)
        return GT_SCALAR_TRUE;
    if (len == 4 && memcmp(text, "null", 4) == 0)
        return GT_SCALAR_NULL;
    if (len == 5 && memcmp(text, "false", 5) == 0)
        return GT_SCALAR_FALSE;
    return is_number(text, text + len) ? GT_SCALAR_NUMBER : GT_SCALAR_NONE;
}

bool gt_is_hex(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool gt_is_escape(uint8_t c)
{
    return c && strchr("\"\\/bfnrtu", c);
}

static unsigned hex4(const char *p)
{
    unsigned value = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned c = (unsigned char)p[i];
        value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

const char *gt_unescape(char *text, size_t *len)
{
    const char *end = text + *len, *p = memchr(text, '\\', *len);
    char *to = text + (p ? p - text : (ptrdiff_t)*len);
    while (p && p < end) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        char c = p[1];
        p += 2;
        switch (c) {
        case 'b':
            *to++ = '\b';
            break;
        case 'f':
            *to++ = '\f';
            break;
        case 'n':
            *to++ = '\n';
            break;
        case 'r':
            *to++ = '\r';
            break;
        case 't':
            *to++ = '\t';
            break;
        case 'u': {
            unsigned value = hex4(p);
            p += 4;
            if (value >= 0xd800 && value < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
                unsigned second = hex4(p + 2);
                if (second < 0xdc00 || second > 0xdfff)
                    return "half of a surrogate pair";
                value = 0x10000 + ((value - 0xd800) << 10) + (second - 0xdc00);
                p += 6;
            } else if (value >= 0xd800 && value < 0xe000) {
                return "half of a surrogate pair";
            }
            if (!value)
                return "a NUL in a text";
            to = put_utf8(to, value);
            break;
        }
        default:
            *to++ = c;
        }
    }
    *len = (size_t)(to - text);
    return NULL;
}

bool gt_utf8_step(struct gt_utf8 *utf8, uint8_t c)
{
    if (utf8->left) {
        if (c < utf8->low || c > utf8->high)
            return false;
        *utf8 = (struct gt_utf8){(uint8_t)(utf8->left - 1), 0x80, 0xbf};
        return true;
    }
    if (c < 0x80)
        return true;
    if (c >= 0xc2 && c <= 0xdf)
        *utf8 = (struct gt_utf8){1, 0x80, 0xbf};
    else if (c >= 0xe0 && c <= 0xef)
        *utf8 = (struct gt_utf8){2, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf};
    else if (c >= 0xf0 && c <= 0xf4)
        *utf8 = (struct gt_utf8){3, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf};
    else
        return false;
    return true;
}
