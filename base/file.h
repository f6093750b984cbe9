/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * Reads a whole file of at most `max` bytes, relative to the directory `dirfd` (AT_FDCWD: the working
 * directory). *ret_data is NUL-terminated, the caller frees it; ret_len may be NULL. -EFBIG for a larger
 * file.
 */
int gt_file_read(int dirfd, const char *path, size_t max, char **ret_data, size_t *ret_len,
                 struct gt_err **err);

/* The same of a descriptor that is open; `path` is for errors. */
int gt_file_read_all(int fd, const char *path, size_t max, char **ret_data, size_t *ret_len,
                     struct gt_err **err);

/*
 * Reads a sysfs-like attribute into `to`, without trailing white space. Returns its length or -errno; there
 * is no error object, since a missing attribute is normal.
 */
int gt_file_read_attribute(int dirfd, const char *path, char *to, size_t size);

/* To read the names in a directory, relative to the directory `dirfd`; NULL, and errno: it cannot be opened.
 */
DIR *gt_file_open_dir(int dirfd, const char *path);

/* 0 if `dir`/`name` exists and is not a directory. It uses the path only: it needs no descriptor and opens no
 * device. */
int gt_file_check(const char *dir, const char *name, struct gt_err **err);

/* Whether both are the state of one file that nobody has written between. */
struct stat;
bool gt_file_is_same(const struct stat *a, const struct stat *b);

/* Writes a whole file or nothing: a temporary file beside it, and a rename. `mode` as in open(2). Nothing
 * waits for the disk: after a power failure the file may be the old one, empty or missing. */
int gt_file_write(const char *path, const void *data, size_t len, unsigned mode, struct gt_err **err);

/* The same, and on success it outlives a power failure. This takes as long as the disk does: not for the
 * thread of an event loop. */
int gt_file_write_durable(const char *path, const void *data, size_t len, unsigned mode, struct gt_err **err);

/* Writes all of it to a descriptor; -errno. */
int gt_file_write_all(int fd, const void *data, size_t len);

enum { GT_FILE_SWEPT_AFTER_S = 60 }; /* for a file that another process may be writing */

/* Removes what writers of `path` have left that were killed: its temporary files that were last changed at
 * least `age_s` seconds ago. Returns how many. */
unsigned gt_file_sweep(const char *path, unsigned age_s);

/* Whether the directory of the running program also has the program `name`; its path is then in `to`. */
bool gt_file_beside_program(const char *name, char *to, size_t size);
