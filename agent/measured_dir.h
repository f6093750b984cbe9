/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/measured.h"

/* What programs have measured on this node: `*.json`, and `*.txt` as the vendor's test prints it, in a
 * directory of root's, under the rules of fault_dir.h. A file that cannot be read says nothing. */
struct gt_measured_dir {
    struct gt_measured told; /* of all files together */
    uint64_t stamp;          /* of the files' state when they were last read */
    int64_t again_s;         /* when a value gets too old, or one of the future is due; 0: never */
    int64_t seen_s;          /* the time of the last call: it may be set back */
};

/* Reads all files if one has changed or the time says so, and logs what is wrong. Returns whether `told` is
 * different then. */
bool gt_measured_dir_read(const char *path, struct gt_measured_dir *dir);

/* Logs why a value is not used: a note of api/measured.h. */
void gt_measured_note(void *arg, const char *why);
