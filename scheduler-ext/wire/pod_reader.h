/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_POD_READER_H
#define GPUTOPO_WIRE_POD_READER_H

#include "scheduler-ext/wire/pod.h"

/* The Pod inside a request, for the readers of both extenders. */

enum { GT_POD_ID_FIRST = 1, GT_POD_ID_LAST = 31 }; /* of its shapes; those of a request are above */

extern const struct gt_scan_shape gt_pod_shape;

/* A place in the arena, plus 1; 0: absent. The arena moves while it grows. */
typedef uint32_t gt_pod_text;

struct gt_pod_container {
    gt_pod_text name;
    uint32_t index;
    uint64_t request, limit;
    bool has_request, init, sidecar;
};

struct gt_pod_reader {
    const char *resource;
    const char *const *annotation_keys, *const *label_keys;
    struct gt_buf text;
    gt_pod_text namespace_, name, uid, node_name, owner_kind, owner_name, owner_uid;
    gt_pod_text annotations[GT_WIRE_WANTED_MAX], labels[GT_WIRE_WANTED_MAX], gates[GT_WIRE_GATES_MAX];
    unsigned wanted; /* the key just chosen */
    bool taken;      /* the resource, in the map at work */
    bool in_init;
    uint32_t containers, init_containers; /* seen */
    struct gt_pod_container list[GT_WIRE_CONTAINERS_MAX], at;
    uint32_t count, gates_seen;
    gt_pod_text an_owner_kind, an_owner_name, an_owner_uid; /* of the reference at work */
    bool an_owner_controls, has_owner;

    struct gt_wire_container result_containers[GT_WIRE_CONTAINERS_MAX];
    const char *result_annotations[GT_WIRE_WANTED_MAX], *result_labels[GT_WIRE_WANTED_MAX];
    const char *result_gates[GT_WIRE_GATES_MAX];
};

void gt_pod_reader_init(struct gt_pod_reader *reader, const struct gt_wire_wanted *wanted);
int gt_pod_reader_event(struct gt_pod_reader *reader, const struct gt_scan_event *event, struct gt_err **err);

/* Whether an event belongs to a pod. */
static inline bool gt_pod_has_event(const struct gt_scan_event *event)
{
    return event->id <= GT_POD_ID_LAST;
}

/* 1 where the key of a map of amounts is the resource. The map's owner clears `taken` when it opens. */
int gt_pod_reader_choose_resource(struct gt_pod_reader *reader, const struct gt_scan_event *event,
                                  struct gt_err **err);

/* Stores a text in the arena, for the readers around this one too. */
int gt_pod_reader_store(struct gt_pod_reader *reader, const struct gt_scan_event *event, gt_pod_text *to,
                        struct gt_err **err);
const char *gt_pod_reader_text(const struct gt_pod_reader *reader, gt_pod_text text);

/* *ret stands until the next reset. */
void gt_pod_reader_result(struct gt_pod_reader *reader, struct gt_wire_pod *ret);
void gt_pod_reader_reset(struct gt_pod_reader *reader);
void gt_pod_reader_done(struct gt_pod_reader *reader);

#endif
