/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"

/* The file of a vendor library: its path, and what distinguishes it from a replacement. */
struct gt_library {
    char path[PATH_MAX];  /* the path to open */
    char shown[PATH_MAX]; /* the path below the root */
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

/*
 * Finds the library: `explicit_path` if it is not NULL, else below `root` in the places where the vendor
 * installs it, else anywhere below its opt/ (limited in depth and number of entries) where only root and the
 * own user can write. -ENOENT says where it was searched.
 */
int gt_library_locate(const char *root, const char *explicit_path, struct gt_library *ret,
                      struct gt_err **err);

bool gt_library_same(const struct gt_library *a, const struct gt_library *b);
