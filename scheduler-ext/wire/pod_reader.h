/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_POD_READER_H
#define GPUTOPO_WIRE_POD_READER_H

#include "scheduler-ext/wire/pod.h"
#include "scheduler-ext/wire/scan.h"

/* The Pod inside a request, from its bytes: a request has one pod, and a tree would cost more than all the
 * rest of it. GPUs are counted as for every other pod (api/pod.h). */

enum { GT_POD_ID_FIRST = 1, GT_POD_ID_LAST = 31 }; /* of its shapes; those of a request are above */

extern const struct gt_scan_shape gt_pod_shape;

struct gt_wire_text { /* "" absent */
    char text[2 * GT_WIRE_NAME_MAX + 2];
};
int gt_wire_text_put(struct gt_wire_text *to, const struct gt_scan_event *event, struct gt_err **err);

struct gt_pod_reader { /* zeroed at the start */
    struct gt_wire_text namespace_, name, uid;
    struct gt_pod_containers containers;
    struct gt_pod_container at;
    bool limited; /* `at`: by its limits */
    bool taken;   /* the resource, in the map at work */
    bool in_init;
    enum gt_pod_amount { GT_POD_CPU, GT_POD_MEMORY, GT_POD_AMOUNTS } which; /* the last: GPUs */
    /* of the container at work; of all that run together; of sidecars so far; the most at one time */
    uint64_t amount[GT_POD_AMOUNTS], sum[GT_POD_AMOUNTS], sidecars[GT_POD_AMOUNTS], most[GT_POD_AMOUNTS];
};

int gt_pod_reader_event(struct gt_pod_reader *reader, const struct gt_scan_event *event, struct gt_err **err);

/* Whether an event belongs to a pod. */
static inline bool gt_pod_has_event(const struct gt_scan_event *event)
{
    return event->id <= GT_POD_ID_LAST;
}

/* 1 where the key of a map of amounts is the resource. The map's owner clears `taken` when it opens. */
int gt_wire_choose_resource(bool *taken, const struct gt_scan_event *event, struct gt_err **err);

/* *ret stands until the next reset. -E2BIG beyond a limit of api/names.h. */
int gt_pod_reader_result(const struct gt_pod_reader *reader, struct gt_wire_pod *ret, struct gt_err **err);
void gt_pod_reader_reset(struct gt_pod_reader *reader);

#endif
