/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_PROCESS_H
#define GPUTOPO_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What /proc says about this process. False, *ret untouched, where it says nothing. */
struct gt_process {
    double cpu_s, start_s; /* start_s: Unix time */
    uint64_t resident_bytes, descriptors;
};
bool gt_process_read(struct gt_process *ret);

/* How many descriptors the process may have; the soft limit is first raised to `wanted`, as far as the hard
 * one goes. */
uint64_t gt_process_descriptors(uint64_t wanted);

/* The same where a program cannot do with less than `needed`: -EMFILE with one line that names the limit.
 * Before libraries begin that abort without descriptors, as gRPC does. */
int gt_process_need_descriptors(uint64_t needed, struct gt_err **err);

/* What main() of a daemon does once its options are read: keeps small, has `descriptors` of them and runs.
 * Says what went wrong; returns the exit code. */
int gt_process_run(const char *program, uint64_t descriptors,
                   int (*run)(const void *options, struct gt_err **err), const void *options);

#endif
