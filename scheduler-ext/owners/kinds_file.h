/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_OWNERS_KINDS_FILE_H
#define GPUTOPO_OWNERS_KINDS_FILE_H

#include "base/err.h"

/* Reads the file with kinds of jobs that users describe (api/kinds/custom.h). */
int gt_kinds_file_read(const char *path, struct gt_err **err);

#endif
