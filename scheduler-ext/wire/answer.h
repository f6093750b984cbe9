/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "base/text.h"

/* Bit tricks on eight bytes at a time: whether one is `byte`, is below 0x20, or has the highest bit. */
#define GT_ANSWER_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t gt_answer_has(uint64_t bytes, unsigned char byte)
{
    bytes ^= GT_ANSWER_EACH(byte);
    return (bytes - GT_ANSWER_EACH(1)) & ~bytes & GT_ANSWER_EACH(0x80);
}

static inline bool gt_answer_is_plain(const char *text, size_t len)
{
    uint64_t special = 0, bytes;
    size_t i = 0;
    for (; i + sizeof(bytes) <= len; i += sizeof(bytes)) {
        memcpy(&bytes, text + i, sizeof(bytes));
        special |= gt_answer_has(bytes, '"') | gt_answer_has(bytes, '\\') | gt_answer_has(bytes, 0x7f) |
                   (((bytes - GT_ANSWER_EACH(0x20)) | bytes) & GT_ANSWER_EACH(0x80));
    }
    for (; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        special |= c < 0x20 || c >= 0x7f || c == '"' || c == '\\';
    }
    return !special;
}

/* Appends a JSON string. Names of nodes usually need no escapes; then it is one copy. */
static inline void gt_answer_quote(struct gt_buf *to, const char *text, size_t len)
{
    if (!gt_answer_is_plain(text, len)) {
        gt_text_quote(to, text);
        return;
    }
    char *at = gt_buf_extend(to, len + 2);
    if (!at)
        return;
    at[0] = '"';
    memcpy(at + 1, text, len);
    at[len + 1] = '"';
}

#define GT_ANSWER_PUT(to, literal) gt_buf_add((to), (literal), sizeof(literal) - 1)
