/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PROBE_LOCATE_H
#define GPUTOPO_PROBE_LOCATE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

/* A vendor library as a file: where it lies, and what distinguishes a file from its replacement. */
struct gt_library {
    char path[PATH_MAX];  /* to be opened */
    char shown[PATH_MAX]; /* as seen below the root */
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

/*
 * Finds the library: `explicit_path` where it is not NULL, else below `root` in the places where the vendor
 * installs it, else anywhere below its opt/ (to a limited depth, a limited number of entries) where only root
 * and the own user can write. -ENOENT says where it was searched.
 */
int gt_library_locate(const char *root, const char *explicit_path, struct gt_library *ret,
                      struct gt_err **err);

bool gt_library_same(const struct gt_library *a, const struct gt_library *b);

#endif
