/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

enum { MEANT_LETTERS = 2 };

unsigned gt_text_utf8_length(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        return (p[1] & 0xc0) == 0x80 ? 2 : 0;
    if (p[0] >= 0xe0 && p[0] <= 0xef) {
        if ((p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80)
            return 0;
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f))
            return 0;
        return 3;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        if ((p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80 || (p[3] & 0xc0) != 0x80)
            return 0;
        if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
            return 0;
        return 4;
    }
    return 0;
}

bool gt_text_is_utf8(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        unsigned n = gt_text_utf8_length((const char *)p);
        if (!n)
            return false;
        p += n;
    }
    return true;
}

unsigned gt_text_characters(const char *text)
{
    unsigned count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80; /* not a later byte of one in UTF-8 */
    return count;
}

/* Length of the printable character at p, 0 for a control character (C1 ones too) or broken UTF-8. */
static unsigned printable_length(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    unsigned n = gt_text_utf8_length(p);
    return *u < 0x20 || *u == 0x7f || (*u == 0xc2 && u[1] < 0xa0) ? 0 : n;
}

void gt_text_make_printable(char *text)
{
    for (char *p = text; *p;) {
        unsigned n = printable_length(p);
        if (!n)
            *p = '?';
        p += n ? n : 1;
    }
}

bool gt_text_is_printable(const char *text)
{
    for (const char *p = text; *p;) {
        unsigned n = printable_length(p);
        if (!n)
            return false;
        p += n;
    }
    return true;
}

void gt_text_quote(struct gt_buf *buf, const char *text)
{
    gt_buf_puts(buf, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const unsigned char *plain = p;
        while (*p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\')
            p++;
        gt_buf_add(buf, plain, (size_t)(p - plain));
        if (!*p)
            break;
        unsigned n = gt_text_utf8_length((const char *)p);
        if (!n) {
            gt_buf_puts(buf, "\xef\xbf\xbd");
            p++;
            continue;
        }
        if (*p == '"' || *p == '\\')
            gt_buf_printf(buf, "\\%c", *p);
        else if (*p == '\n')
            gt_buf_puts(buf, "\\n");
        else if (*p == '\t')
            gt_buf_puts(buf, "\\t");
        else if (printable_length((const char *)p))
            gt_buf_add(buf, p, n);
        else
            gt_buf_printf(buf, "\\u%04x", n == 2 ? p[1] : *p); /* C1 begins with 0xc2 */
        p += n;
    }
    gt_buf_puts(buf, "\"");
}

static bool read_digits(const char **text, uint64_t max, uint64_t *ret)
{
    const char *p = *text;
    uint64_t value = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (digit > max || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *text = p;
    *ret = value;
    return true;
}

bool gt_text_to_unsigned(const char *text, uint64_t max, uint64_t *ret)
{
    uint64_t value;
    if (!read_digits(&text, max, &value) || *text)
        return false;
    *ret = value;
    return true;
}

void gt_text_add_unsigned(struct gt_buf *buf, uint64_t number)
{
    char digits[24], *p = digits + sizeof(digits);
    do
        *--p = (char)('0' + number % 10);
    while (number /= 10);
    gt_buf_add(buf, p, (size_t)(digits + sizeof(digits) - p));
}

bool gt_text_copy(char *to, size_t size, const char *from)
{
    size_t len = strlen(from);
    if (len >= size) {
        to[0] = '\0';
        return false;
    }
    memcpy(to, from, len + 1);
    return true;
}

int gt_text_dup(const char *text, const char *what, char **ret, struct gt_err **err)
{
    char *copy = text ? strdup(text) : NULL;
    GT_NEED(copy || !text, err, "%s", what);
    *ret = copy;
    return 0;
}

const char *gt_text_put(const char *text, char **at)
{
    const char *copy = *at;
    *at = stpcpy(*at, text) + 1;
    return copy;
}

int gt_text_format(const char *what, char **ret, struct gt_err **err, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    GT_NEED(n >= 0, err, "%s", what);
    *ret = text;
    return 0;
}

void gt_text_cut(char *to, size_t size, const char *from)
{
    size_t n = 0;
    while (from[n]) {
        unsigned step = gt_text_utf8_length(from + n);
        step = step ? step : 1;
        if (n + step >= size)
            break;
        n += step;
    }
    memcpy(to, from, n);
    to[n] = '\0';
}

void gt_text_shorten(char *to, size_t size, const char *from)
{
    gt_text_cut(to, size, from);
    if (!from[strlen(to)])
        return;
    gt_text_cut(to, size - 3, from);
    memcpy(to + strlen(to), "...", 4);
}

int gt_text_to_mask(const char *text, unsigned limit, const char *what, uint64_t *ret, struct gt_err **err)
{
    uint64_t mask = 0;
    for (const char *p = text; *p;) {
        uint64_t first, last;
        const char *part = p;
        int shown = (int)strcspn(part, ",");
        if (shown > 32)
            shown = 32;
        if (!read_digits(&p, 1000000, &first))
            return gt_fail(err, EINVAL, "%s: \"%.*s\" is not a number or a range", what, shown, part);
        last = first;
        if (*p == '-') {
            p++;
            if (!read_digits(&p, 1000000, &last) || last < first)
                return gt_fail(err, EINVAL, "%s: \"%.*s\" is not a number or a range", what, shown, part);
        }
        if (*p == ',' && p[1])
            p++;
        else if (*p)
            return gt_fail(err, EINVAL, "%s: \"%.*s\" is not a number or a range", what, shown, part);
        if (last >= limit)
            return gt_fail(err, EINVAL, "%s: there is no %.*s, the highest is %d", what, shown, part,
                           (int)limit - 1);
        for (uint64_t i = first; i <= last; i++)
            mask |= UINT64_C(1) << i;
    }
    *ret = mask;
    return 0;
}

void gt_text_add_mask(struct gt_buf *buf, uint64_t mask)
{
    const char *separator = "";
    for (unsigned i = 0; i < 64; i++) {
        if (!(mask >> i & 1))
            continue;
        unsigned last = i;
        while (last + 1 < 64 && mask >> (last + 1) & 1)
            last++;
        gt_buf_puts(buf, separator);
        gt_text_add_unsigned(buf, i);
        if (last > i) {
            gt_buf_puts(buf, last > i + 1 ? "-" : ",");
            gt_text_add_unsigned(buf, last);
        }
        separator = ",";
        i = last;
    }
}

bool gt_text_is_listed(const char *name, const char *names)
{
    size_t len = strlen(name);
    while (*names) {
        size_t next = strcspn(names, ",");
        if (next == len && strncmp(names, name, len) == 0)
            return true;
        names += next + (names[next] == ',');
    }
    return false;
}

bool gt_text_next_listed(const char **names, char *ret, size_t size)
{
    const char *name = *names;
    size_t len = strcspn(name, ",");
    bool fits = len < size;
    *names = name[len] ? name + len + 1 : NULL;
    memcpy(ret, name, fits ? len : 0);
    ret[fits ? len : 0] = '\0';
    return fits;
}

/* strtod() accepts more: white space, hexadecimal, inf and nan. */
bool gt_text_to_real(const char *text, double *ret)
{
    char *end;
    double number = strtod(text, &end);
    if (!*text || *end || strspn(text, "0123456789.eE+-") != strlen(text) || !isfinite(number))
        return false;
    *ret = number;
    return true;
}

static unsigned smallest(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;
    return least < c ? least : c;
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

unsigned gt_text_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned rows[3][GT_TEXT_DISTANCE_MAX + 1];
    unsigned *row = rows[0], *above = rows[1], *two_above = rows[2];
    for (unsigned j = 0; j <= m; j++)
        row[j] = j;
    for (unsigned i = 1; i <= n; i++) {
        unsigned *oldest = two_above;
        two_above = above, above = row, row = oldest;
        row[0] = i;
        for (unsigned j = 1; j <= m; j++) {
            row[j] = smallest(above[j - 1] + !same_letter(a[i - 1], b[j - 1]), above[j] + 1, row[j - 1] + 1);
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
                row[j] = smallest(row[j], two_above[j - 2] + 1, UINT_MAX);
        }
    }
    return row[m];
}

const char *gt_text_meant(const char *text, const char *const *names, size_t count)
{
    const char *best = NULL;
    /* of three letters two others say nothing */
    unsigned nearest_yet = strlen(text) < 2 * MEANT_LETTERS ? MEANT_LETTERS : MEANT_LETTERS + 1;
    for (size_t i = 0; strlen(text) <= GT_TEXT_DISTANCE_MAX && i < count; i++) {
        unsigned far = gt_text_distance(text, names[i]);
        if (far < nearest_yet) {
            nearest_yet = far;
            best = names[i];
        }
    }
    return best;
}
