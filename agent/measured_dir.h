/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/measured.h"

/* What programs have measured on this node: `*.json` in a directory of root's, under the rules of
 * fault_dir.h. A file that cannot be read says nothing. */
struct gt_measured_dir {
    struct gt_measured told; /* of all files together */
    uint64_t stamp;          /* of the files' state when they were last read */
    int64_t end_s;           /* when the first value is too old; 0: never */
};

/* Reads all files if one has changed or a value has become too old, and logs what is wrong. Returns whether
 * `told` was made again. */
bool gt_measured_dir_read(const char *path, struct gt_measured_dir *dir);
