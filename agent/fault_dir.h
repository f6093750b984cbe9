/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "topology/model/isolation.h"

/*
 * The faults that other programs tell: `*.json` in a directory of root's (docs/how-to/isolate-a-gpu.md). What
 * a file said holds while the file is there: also if it can then not be read, until it can.
 */

enum { GT_FAULT_FILES_MAX = 64 };

struct gt_fault_dir {
    struct gt_isolations told; /* of all files together */
    unsigned count;
    struct gt_fault_dir_file {
        char name[NAME_MAX + 1];
        uint64_t stamp;   /* of its state when it was last read */
        bool is_bad;      /* it could not be used then: it is tried again */
        unsigned entries; /* of `told`, in the files' order */
    } files[GT_FAULT_FILES_MAX];
    uint64_t said; /* digest of what was last said of the directory itself, 0: nothing */
};

/* Reads what has changed, and logs what is wrong, each once. Returns whether `told` is different then. */
bool gt_fault_dir_read(const char *path, struct gt_fault_dir *dir);

/* For other directories of this kind: only root, or the user that the agent runs as, may have written it; a
 * number that is another one when a file has changed; and the text of a file in an open directory. */
int gt_fault_dir_check(const struct stat *of, mode_t type, const char *path, struct gt_err **err);
uint64_t gt_fault_dir_stamp(const struct stat *of);
int gt_fault_dir_text(int in, const char *name, struct stat *state, char **ret, size_t *len,
                      struct gt_err **err);
