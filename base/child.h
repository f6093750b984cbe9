/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* A program and how it is started: without a shell, and with the signals of a new session. */
struct gt_child_spec {
    const char *program;
    bool search; /* a name without a slash is looked for in $PATH, else in the working directory */
    const char *const *argv;
    const char *const *env; /* NULL: this process's own */
    const posix_spawn_file_actions_t *files;
};
int gt_child_spawn(const struct gt_child_spec *spec, pid_t *ret, struct gt_err **err);

/* Waits at most `patience_ms` for its end, then kills it. Returns its status as from waitpid(), -1 if nobody
 * knows it. */
int gt_child_end(pid_t pid, int64_t patience_ms);
