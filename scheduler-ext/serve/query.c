/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/query.h"

#include <string.h>

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool decode(const char *text, size_t len, char *ret, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i] == '+' ? ' ' : text[i];
        if (text[i] == '%') {
            int high = i + 2 < len ? digit(text[i + 1]) : -1, low = high < 0 ? -1 : digit(text[i + 2]);
            if (low < 0 || (high == 0 && low == 0))
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (at + 1 >= size)
            return false;
        ret[at++] = c;
    }
    ret[at] = '\0';
    return true;
}

bool gt_query_get(const char *query, const char *key, char *ret, size_t size)
{
    size_t key_len = strlen(key);
    ret[0] = '\0';
    for (const char *p = query; p && *p;) {
        size_t len = strcspn(p, "&");
        if (len > key_len && strncmp(p, key, key_len) == 0 && p[key_len] == '=') {
            if (decode(p + key_len + 1, len - key_len - 1, ret, size))
                return true;
            ret[0] = '\0';
            return false;
        }
        p += len + (p[len] == '&');
    }
    return false;
}
