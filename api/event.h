/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* Event: written as events.k8s.io/v1, read as v1, which can be selected by reason. */
struct gt_event_object {
    const char *api_version, *kind; /* of the object that it is about */
    const char *namespace_; /* NULL for an object without a namespace: the event is put into "default" */
    const char *name, *uid; /* uid may be NULL */
    bool warning;
    const char *reason; /* "LinkDown": one word, at most 128 bytes */
    const char *action; /* what was done: "Publish" */
    const char *note;   /* a sentence; cut after 1,000 bytes */
};

struct gt_event_origin {
    const char *name, *namespace_;     /* of the Event */
    const char *controller, *instance; /* the writer */
    const char *time;                  /* RFC 3339, with microseconds */
};
/* Appends the object. */
void gt_event_write(const struct gt_event_object *event, const struct gt_event_origin *origin,
                    struct gt_buf *to);

/* Reads an Event; texts belong to the object, "" for a missing one. *ret_last_s: when it happened last, as
 * Unix time; 0 not known. */
void gt_event_read(const cJSON *object, struct gt_event_object *ret, uint64_t *ret_last_s);
