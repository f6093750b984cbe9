/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* What /proc says about this process. If it cannot be read, gt_process_read() returns false and leaves *ret
 * untouched. */
struct gt_process {
    double cpu_s, start_s; /* start_s: Unix time */
    uint64_t resident_bytes, descriptors;
};
bool gt_process_read(struct gt_process *ret);

/* How many descriptors the process may have, after the soft limit was raised to `wanted`, or to the hard
 * limit if that is lower. */
uint64_t gt_process_descriptors(uint64_t wanted);

/* The same for a program that needs at least `needed`: -EMFILE with one line that names the limit. Call it
 * before any library that aborts without descriptors, such as gRPC. */
int gt_process_need_descriptors(uint64_t needed, struct gt_err **err);

/* What main() of a daemon does after its options are read: it limits the memory of malloc(), makes sure of
 * `descriptors` descriptors and calls run(). Prints the error, if any; returns the exit code. */
int gt_process_run(const char *program, uint64_t descriptors,
                   int (*run)(const void *options, struct gt_err **err), const void *options);

/* Gives free memory back to the system, where the C library can. */
void gt_process_trim(void);

/* A program and how it is started: without a shell, and with the signals of a new session. */
struct gt_child_spec {
    const char *program;
    bool search; /* a name without a slash is looked for in $PATH, else in the working directory */
    const char *const *argv;
    const char *const *env; /* NULL: this process's own */
    const posix_spawn_file_actions_t *files;
};
int gt_child_spawn(const struct gt_child_spec *spec, pid_t *ret, struct gt_err **err);
/* Adds to the actions that descriptors from `first` on are closed; of a C library that cannot, those of now,
 * up to a limit. Returns an errno. */
int gt_child_close_from(posix_spawn_file_actions_t *files, int first);

/* Waits at most `patience_ms` for its end, then kills it. Returns its status as from waitpid(), -1 if nobody
 * knows it. */
int gt_child_end(pid_t pid, int64_t patience_ms);

/* Runs a program to its end, with nothing to read, or this process's input where `reads` is set, and keeps in
 * `to` what it prints; NULL: that goes to standard error. `files` of the spec is not used. *ret_status is as
 * from waitpid(). What has not ended after `limit_ms` is killed. -ETIMEDOUT: somebody held its output until
 * then; -EFBIG: it printed more than `to` takes. */
int gt_child_run(const struct gt_child_spec *spec, bool reads, unsigned limit_ms, struct gt_buf *to,
                 int *ret_status, struct gt_err **err);
