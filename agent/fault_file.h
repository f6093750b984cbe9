/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "topology/model/evidence.h"

/*
 * Reads a fault table as YAML (docs/reference/health.md). Values that it does not name are those of the
 * default table. -EINVAL with the file, the place in it and what was expected; `*ret` is then untouched.
 */
int gt_fault_file_read(const char *path, struct gt_fault_table *ret, struct gt_err **err);

/* The same for a text; `path` is its name in errors. */
int gt_fault_text_read(const char *text, size_t len, const char *path, struct gt_fault_table *ret,
                       struct gt_err **err);

/* Appends a complete table in that form. */
void gt_fault_text_write(const struct gt_fault_table *table, struct gt_buf *to);
