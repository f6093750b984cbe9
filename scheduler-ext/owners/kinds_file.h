/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Reads the file with kinds of jobs that users describe (api/kinds/custom.h). */
int gt_kinds_file_read(const char *path, struct gt_err **err);
