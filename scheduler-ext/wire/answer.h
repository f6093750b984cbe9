/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_ANSWER_H
#define GPUTOPO_WIRE_ANSWER_H

#include <string.h>

#include "base/text.h"

/* Appends a JSON string. Names of nodes need no escapes, as a rule: then it is one copy. */
static inline void gt_answer_quote(struct gt_buf *to, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') {
            gt_text_quote(to, text);
            return;
        }
    }
    gt_buf_add(to, "\"", 1);
    gt_buf_add(to, text, len);
    gt_buf_add(to, "\"", 1);
}

#define GT_ANSWER_PUT(to, literal) gt_buf_add((to), (literal), sizeof(literal) - 1)

#endif
