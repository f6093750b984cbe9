/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Reads lines of fields separated by commas, without quoting, in place; the format of the traces. Every error
 * names FILE:LINE. */
enum { GT_CSV_FIELDS_MAX = 32 };

struct gt_csv {
    const char *file;
    char *at, *end;
    unsigned line; /* of the row in fields[], from 1 */
    char *fields[GT_CSV_FIELDS_MAX];
    unsigned field_count;
};

/* `text` is changed while it is read, must outlive `csv`, and must be followed by a NUL. */
void gt_csv_open(struct gt_csv *csv, const char *file, char *text, size_t len);

/* Reads the next row that is not empty. 1: read; 0: end of the text; negative: an error (a NUL byte, too many
 * fields). */
int gt_csv_next(struct gt_csv *csv, struct gt_err **err);

/* Whether the row is this header. */
bool gt_csv_is(const struct gt_csv *csv, const char *const *names, unsigned count);

/* Fields as numbers, with errors that name the column. */
int gt_csv_whole(const struct gt_csv *csv, unsigned field, const char *name, uint32_t max, uint32_t *ret,
                 struct gt_err **err);
int gt_csv_real(const struct gt_csv *csv, unsigned field, const char *name, double max, double *ret,
                struct gt_err **err); /* 0 or more */
