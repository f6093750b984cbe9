/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
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

enum { GT_EVENT_DEVICES_MAX = 64 };

/* The process that waits for events of the vendor library: its waiting function has no time limit. No other
 * process waits for this one. */
struct gt_event_worker {
    struct gt_worker worker;
    struct gt_library library;               /* the library that it has open */
    uint64_t devices;                        /* mask of the devices whose events it waits for */
    bool wanted;                             /* a client watches */
    int64_t again;                           /* not started before this time in milliseconds */
    unsigned reported[GT_EVENT_DEVICES_MAX]; /* events of each device, by the vendor's number, since the probe
                                            was started */
};

/* Call after a scan: ends a process of another library or of other devices, and starts one if it is wanted
 * and there are devices (a mask of the vendor's numbers); at most one a minute. */
void gt_event_worker_run(struct gt_event_worker *events, const struct gt_library *library, uint64_t devices,
                         bool verbose);

/* A descriptor that is readable when gt_event_worker_take() should be called; -1 if there is no process. */
int gt_event_worker_fd(const struct gt_event_worker *events);

/* Reads what the process has sent; returns whether there was an event. */
bool gt_event_worker_take(struct gt_event_worker *events);

void gt_event_worker_stop(struct gt_event_worker *events);
