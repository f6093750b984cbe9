/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PROBE_WORKER_MAIN_H
#define GPUTOPO_PROBE_WORKER_MAIN_H

#include <stdbool.h>
#include <sys/types.h>

/* The main function of a worker process, called right after fork(): serves requests from `fd` until it is
 * closed. */
_Noreturn void gt_worker_main(int fd, pid_t supervisor, const char *name, bool verbose);

#endif
