/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_SCAN_TEXT_H
#define GPUTOPO_WIRE_SCAN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The leaves of JSON: the content of strings, and scalars. */

enum gt_scalar { GT_SCALAR_NONE, GT_SCALAR_NUMBER, GT_SCALAR_TRUE, GT_SCALAR_FALSE, GT_SCALAR_NULL };

/* The kind of a scalar; GT_SCALAR_NONE: neither a JSON number nor a literal. */
enum gt_scalar gt_scalar_kind(const char *text, size_t len);

/* Resolves the escapes of a string in place; its grammar was checked before. NULL, or a text that says what
 * is wrong: half of a surrogate pair, a NUL. */
const char *gt_unescape(char *text, size_t *len);

bool gt_is_hex(uint8_t c);

/* Whether the character may follow a backslash. */
bool gt_is_escape(uint8_t c);

/* A check of UTF-8 that can be interrupted anywhere. */
struct gt_utf8 {
    uint8_t left;      /* bytes that must follow */
    uint8_t low, high; /* limits of the next of them */
};

/* False where the byte is not allowed here. */
bool gt_utf8_step(struct gt_utf8 *utf8, uint8_t c);

#endif
