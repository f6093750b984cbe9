/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * Writes JSON text straight into a buffer, without white space. A tree of cJSON costs 64 bytes and an
 * allocation for each value, and each of them may fail; here the writer checks once, at the end, whether the
 * buffer holds everything. Large objects, such as a cluster of 10,000 nodes, are written this way.
 *
 * Commas are added automatically before everything that follows a value. `key` is the member's name in an
 * object, and NULL in an array or for a whole document.
 */

/*
 * Writes JSON as it is shown, with arguments in its holes:
 *
 *     gt_json_printf(to, "{'kind': 'Node', 'metadata': {'name': %s, ?'uid': %s}}", name, uid);
 *
 * Single quotes stand for double ones; spaces and commas are for the reader. A hole is a whole value, or a
 * key: %s a text, null for NULL, and with a '~' before it also for ""; %d, %u and their long forms a number,
 * with a '$' before it as a text; %g one with 9 digits; !%d true or false; =%s JSON text as it is. A member
 * with a '?' before it is left out where its hole is NULL, "" or 0. What is open at the end may be gone on
 * with; a piece of an object may begin with a key.
 */
void gt_json_printf(struct gt_buf *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Begins an object ('{') or an array ('['), and ends it ('}' or ']'). */
void gt_json_begin(struct gt_buf *to, const char *key, char bracket);
void gt_json_end(struct gt_buf *to, char bracket);
void gt_json_ends(struct gt_buf *to, const char *brackets); /* several, the innermost first */

void gt_json_add_text(struct gt_buf *to, const char *key, const char *text);
/* Leaves the member out if the text is NULL or empty. */
void gt_json_add_text_if(struct gt_buf *to, const char *key, const char *text);
/* Writes null if the text is NULL; an empty text is written as "". */
void gt_json_add_text_or_null(struct gt_buf *to, const char *key, const char *text);
void gt_json_add_int(struct gt_buf *to, const char *key, int64_t number);
void gt_json_add_unsigned(struct gt_buf *to, const char *key, uint64_t number);
/* With `digits` significant digits; null if the number is not finite. */
void gt_json_add_real(struct gt_buf *to, const char *key, double number, int digits);
void gt_json_add_bool(struct gt_buf *to, const char *key, bool value);
void gt_json_add_null(struct gt_buf *to, const char *key);
/* The positions of the bits that are set in a mask, as an array of numbers. */
void gt_json_add_mask(struct gt_buf *to, const char *key, uint64_t mask);
/* Adds JSON text as it is. */
void gt_json_add_raw(struct gt_buf *to, const char *key, const char *json);

/* Adds a comma if one is needed, and the key: the caller must add a value next. */
void gt_json_key(struct gt_buf *to, const char *key);

/* For human readers: what follows begins on a new line, `indent` columns from the left. */
void gt_json_new_line(struct gt_buf *to, int indent);
