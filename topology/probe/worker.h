/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * A forked process that calls the vendor library, for the supervisor. Each request is one packet, each answer
 * is one packet (JSON text), over a socketpair:
 *   open PATH              {"missing":["mxSml..."]} or {"error":"..."}
 *   call NAME [ARG...]     {"rc":0,"value":...}, with "bad":"..." where the answer breaks its own form
 *   events DEVICE...       then {"event":{...}} for each event, or {"error":"..."} at last
 */
struct gt_worker {
    pid_t pid; /* 0: none */
    int fd;
};

enum { GT_WORKER_PACKET_MAX = 65536 };

/* Forks one, with that process name. The vendor library's output is dropped, or goes to stderr if `verbose`.
 */
int gt_worker_start(struct gt_worker *worker, const char *name, bool verbose, struct gt_err **err);

/*
 * Sends a request and waits for the answer; returns its length (>= 0, NUL-terminated in `answer`).
 * -ETIMEDOUT: it missed the deadline. -ECONNRESET: it ended. -EMSGSIZE: the answer is invalid. -ECANCELED:
 * the peer of `owner` (a stream socket, or -1) has closed it. After a failure the worker must be stopped.
 */
int gt_worker_request(struct gt_worker *worker, const char *request, int timeout_ms, int owner,
                      char answer[static GT_WORKER_PACKET_MAX]);

/*
 * Kills it and waits a limited time for its end: a process stuck in the kernel is left and reaped later.
 * Writes how it ended ("crashed (signal 11)", "exited (status 1)") to `why` if it had ended by itself.
 */
void gt_worker_stop(struct gt_worker *worker, char *why, size_t size);

/* Whether there is a worker and it has not ended. */
bool gt_worker_alive(struct gt_worker *worker);

/* Reaps workers that were left; returns how many are still stuck. */
unsigned gt_worker_stuck(void);

/* The main function of a worker process, called right after fork(): serves requests from `fd` until it is
 * closed. */
_Noreturn void gt_worker_main(int fd, pid_t supervisor, const char *name, bool verbose);
