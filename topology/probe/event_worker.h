/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PROBE_EVENT_WORKER_H
#define GPUTOPO_PROBE_EVENT_WORKER_H

#include <stdint.h>

#include "topology/probe/locate.h"
#include "topology/probe/worker.h"

enum { GT_EVENT_DEVICES_MAX = 64 };

/* The process that waits for events of the vendor library, which cannot be done with a limit. Nobody waits
 * for it. */
struct gt_event_worker {
    struct gt_worker worker;
    struct gt_library library;               /* what it has open */
    uint64_t devices;                        /* whose events it waits for */
    bool wanted;                             /* somebody watches */
    int64_t again;                           /* milliseconds; not started before */
    unsigned reported[GT_EVENT_DEVICES_MAX]; /* events of each device, by the vendor's number, since the probe
                                            was started */
};

/* After a scan: ends the one of another library or of other devices, and starts one where it is wanted and
 * there are devices (a mask of the vendor's numbers); not more than one a minute. */
void gt_event_worker_run(struct gt_event_worker *events, const struct gt_library *library, uint64_t devices,
                         bool verbose);

/* Readable when gt_event_worker_take() should be called; -1 where there is no process. */
int gt_event_worker_fd(const struct gt_event_worker *events);

/* Takes what it has sent; whether there was an event. */
bool gt_event_worker_take(struct gt_event_worker *events);

void gt_event_worker_stop(struct gt_event_worker *events);

#endif
