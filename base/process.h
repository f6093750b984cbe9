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

/* For many threads that seldom allocate, and peaks now and then: one arena, and what a peak has used goes
 * back. */
void gt_process_keep_small(void);

/* How many descriptors the process may have; the soft limit is first raised to `wanted`, as far as the hard
 * one goes. */
uint64_t gt_process_descriptors(uint64_t wanted);

/* The same where a program cannot do with less than `needed`: -EMFILE with one line that names the limit.
 * Before libraries begin that abort without descriptors, as gRPC does. */
int gt_process_need_descriptors(uint64_t needed, struct gt_err **err);

#endif
