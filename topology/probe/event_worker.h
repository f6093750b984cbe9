/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "topology/probe/worker.h"

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
