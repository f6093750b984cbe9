/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_POD_READER_H
#define GPUTOPO_WIRE_POD_READER_H

#include "scheduler-ext/wire/pod.h"
#include "scheduler-ext/wire/scan.h"

/* Reads the Pod of a request from events of the scanner; building a JSON tree would cost more than all the
 * rest. GPUs are counted as for every other pod (api/pod.h). */

enum { GT_POD_ID_FIRST = 1, GT_POD_ID_LAST = 31 }; /* ids of the pod's shapes; those of a request are above */

extern const struct gt_scan_shape gt_pod_shape;

struct gt_wire_text { /* "": absent */
    char text[2 * GT_WIRE_NAME_MAX + 2];
};
int gt_wire_text_put(struct gt_wire_text *to, const struct gt_scan_event *event, struct gt_err **err);

struct gt_pod_reader { /* zeroed at the start */
    struct gt_wire_text namespace_, name, uid;
    struct gt_pod_containers containers;
    struct gt_pod_container at;
    bool limited; /* `at`: by its limits */
    bool taken;   /* the resource was found in the current map */
    bool in_init;
    enum gt_pod_amount { GT_POD_CPU, GT_POD_MEMORY, GT_POD_AMOUNTS } which; /* the last: GPUs */
    /* of the current container; of all that run together; of sidecars so far; the most at one time */
    uint64_t amount[GT_POD_AMOUNTS], sum[GT_POD_AMOUNTS], sidecars[GT_POD_AMOUNTS], most[GT_POD_AMOUNTS];
};

int gt_pod_reader_event(struct gt_pod_reader *reader, const struct gt_scan_event *event, struct gt_err **err);

/* Whether an event belongs to a pod. */
static inline bool gt_pod_has_event(const struct gt_scan_event *event)
{
    return event->id <= GT_POD_ID_LAST;
}

/* 1 where the key of a map of amounts is the resource. The caller clears `taken` when the map opens. */
int gt_wire_choose_resource(bool *taken, const struct gt_scan_event *event, struct gt_err **err);

/* *ret is valid until the next reset. -E2BIG: beyond a limit of api/names.h. */
int gt_pod_reader_result(const struct gt_pod_reader *reader, struct gt_wire_pod *ret, struct gt_err **err);
void gt_pod_reader_reset(struct gt_pod_reader *reader);

#endif
