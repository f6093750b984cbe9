/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"

#include "api/meta.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/time_text.h"

enum { EVENT_NOTE_MAX = 1000 }; /* the API takes 1,024 */

void gt_event_write(const struct gt_event_object *event, const struct gt_event_origin *origin,
                    struct gt_buf *to)
{
    char note[EVENT_NOTE_MAX + 1];
    gt_text_shorten(note, sizeof(note), event->note);
    gt_json_printf(
        to,
        "{'apiVersion': 'events.k8s.io/v1', 'kind': 'Event', 'metadata': {'name': %s, 'namespace': %s},"
        "'eventTime': %s, 'type': %s, ?'reason': %s, ?'action': %s, ?'note': %s,"
        "?'reportingController': %s, ?'reportingInstance': %s,",
        origin->name, origin->namespace_, origin->time, event->warning ? "Warning" : "Normal", event->reason,
        event->action, note, origin->controller, origin->instance);
    gt_json_printf(
        to, "'regarding': {?'apiVersion': %s, ?'kind': %s, ?'namespace': %s, ?'name': %s, ?'uid': %s}}",
        event->api_version, event->kind, event->namespace_, event->name, event->uid);
}

static uint64_t later(uint64_t time, const cJSON *text)
{
    int64_t other = gt_time_of_text(cJSON_GetStringValue(text));
    return other > 0 && (uint64_t)other > time ? (uint64_t)other : time;
}

void gt_event_read(const cJSON *object, struct gt_event_object *ret, uint64_t *ret_last_s)
{
    const cJSON *about = gt_get(object, "involvedObject");
    *ret = (struct gt_event_object){.api_version = gt_get_string(about, "apiVersion"),
                                    .kind = gt_get_string(about, "kind"),
                                    .namespace_ = gt_meta_namespace(object),
                                    .name = gt_get_string(about, "name"),
                                    .uid = gt_get_string(about, "uid"),
                                    .reason = gt_get_string(object, "reason"),
                                    .action = gt_get_string(object, "action"),
                                    .note = gt_get_string(object, "message")};
    /* Which field tells it depends on the library that wrote it. */
    *ret_last_s = later(0, gt_get(object, "lastTimestamp"));
    *ret_last_s = later(*ret_last_s, gt_get(object, "eventTime"));
    *ret_last_s = later(*ret_last_s, gt_get_at(object, "series", "lastObservedTime"));
}
