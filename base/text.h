/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

/* Appends `text` as a JSON string with its quotes; control characters are escaped, C1 ones too, and bytes
 * that are not UTF-8 become U+FFFD. */
void gt_text_quote(struct gt_buf *buf, const char *text);

/* Length of the UTF-8 sequence at the start of `text`, 1 for the NUL; 0 if it is invalid (overlong, a
 * surrogate, beyond U+10FFFF, cut off). */
unsigned gt_text_utf8_length(const char *text);

/* Whether the whole of `text` is valid UTF-8. */
bool gt_text_is_utf8(const char *text);

/* How many characters it has, which is how many columns a terminal takes for it. */
unsigned gt_text_characters(const char *text);

/* Replaces every byte that is a control character or not valid UTF-8 with '?', in place. */
void gt_text_make_printable(char *text);

/* Whether gt_text_make_printable() would leave the text as it is. */
bool gt_text_is_printable(const char *text);

/* Reads a whole decimal number between 0 and max; false for anything else, *ret untouched. */
bool gt_text_to_unsigned(const char *text, uint64_t max, uint64_t *ret);

/* Reads a finite decimal number such as "0.5" or "-1e3"; false for anything else, *ret untouched. */
bool gt_text_to_real(const char *text, double *ret);

/* Appends a number, faster than gt_buf_printf() does. */
void gt_text_add_unsigned(struct gt_buf *buf, uint64_t number);

/* Copies into an array of `size` bytes, always terminated; false (and an empty text) if it does not fit. */
bool gt_text_copy(char *to, size_t size, const char *from);

/* Allocates a copy for the caller; NULL has none. -ENOMEM: there is no memory for `what`. */
int gt_text_dup(const char *text, const char *what, char **ret, struct gt_err **err);

/* In a function with arguments as of printf(): writes their text into an array, cut where it is too long. */
#define GT_TEXT_OF_ARGS(to, format)                                                                          \
    do {                                                                                                     \
        va_list args_;                                                                                       \
        va_start(args_, format);                                                                             \
        vsnprintf((to), sizeof(to), (format), args_);                                                        \
        va_end(args_);                                                                                       \
    } while (0)

/* Copies it to *at, with its NUL, and moves *at behind that: for objects in one block. Returns the copy. */
const char *gt_text_put(const char *text, char **at);

/* As asprintf(): the caller frees *ret. -ENOMEM: there is no memory for `what`. */
int gt_text_format(const char *what, char **ret, struct gt_err **err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Copies as much as fits into an array of `size` bytes, always terminated; only whole characters are copied.
 */
void gt_text_cut(char *to, size_t size, const char *from);
/* The same for sentences: what does not fit ends with "...", so that nobody takes half a command for a whole
 * one. `size`: at least 4. */
void gt_text_shorten(char *to, size_t size, const char *from);

/*
 * Reads a list such as "0-3,7" into a mask; every number must be below `limit` (at most 64). An empty text
 * gives an empty mask. -EINVAL names the part that is wrong; `what` names the list.
 */
int gt_text_to_mask(const char *text, unsigned limit, const char *what, uint64_t *ret, struct gt_err **err);

/* "s", or "" for 1. */
static inline const char *gt_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Appends a mask as a list such as "0-3,7". */
void gt_text_add_mask(struct gt_buf *buf, uint64_t mask);

/* Whether `name` is one of `names`, a list with commas. */
bool gt_text_is_listed(const char *name, const char *names);

/* Copies the next name of such a list to `ret` and moves `*names` behind it; `*names` is NULL after the last.
 * False, with an empty text, if the name does not fit. */
bool gt_text_next_listed(const char **names, char *ret, size_t size);

/* How many letters have to be added, removed, changed or swapped with their neighbour to make one text of the
 * other, without regard to case (optimal string alignment). Neither is longer than GT_TEXT_DISTANCE_MAX. */
enum { GT_TEXT_DISTANCE_MAX = 253 };
unsigned gt_text_distance(const char *a, const char *b);
/* Which of `names` a text probably means: the one that it differs from least, in two letters at most; NULL:
 * none. */
const char *gt_text_meant(const char *text, const char *const *names, size_t count);
