/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "kube/list.h"

/* What the beginning of a watch event shows. A text is "" if it is not in the beginning, or too long. */
struct gt_kube_peek {
    char type[16];
    char namespace_[256], name[256], uid[64], resource_version[64];
};

/* Reads the first `len` bytes of an incomplete event. The API server writes the metadata first. */
void gt_kube_peek(const char *text, size_t len, struct gt_kube_peek *ret);

/* One line without its newline; not NUL-terminated. Returning false stops gt_lines_feed(). */
typedef bool gt_lines_callback(void *arg, const char *line, size_t len);

/* Splits a stream that comes in arbitrary pieces into lines; an incomplete line waits in a buffer with a
 * limit. */
struct gt_lines {
    struct gt_buf rest; /* its max is the longest line */
    gt_lines_callback *on_line;
    /* gets the first rest.max bytes of a longer line; the rest of it is dropped */
    gt_lines_callback *on_long;
    bool dropping; /* up to the end of a line that was too long */
};

/*
 * Calls the callback for each line that `data` completes or makes too long. 0; -ECANCELED if the callback
 * returned false, and then `lines` is not used any more (it may be freed); -ENOMEM.
 */
int gt_lines_feed(struct gt_lines *lines, const char *data, size_t len, void *arg);

/* Drops an incomplete line. */
void gt_lines_reset(struct gt_lines *lines);

/*
 * A watch on its own connection. When it ends, it is resumed from the last resourceVersion (bookmarks
 * included), after a failure with back-off and jitter. It gives up in two cases only: the server no longer
 * knows that resourceVersion (410), or does not know it yet since it was restored from a backup. Then the
 * objects must be listed again. An event larger than line_max is left out: see gt_kube_on_oversize().
 */
struct gt_kube_watch;

enum gt_kube_event_type { GT_KUBE_ADDED, GT_KUBE_MODIFIED, GT_KUBE_DELETED };

enum { GT_KUBE_WATCH_TIMEOUT_S = 300, GT_KUBE_LINE_MAX = 4 << 20 };

struct gt_kube_watch_counters {
    uint64_t connects, events, bookmarks, errors;
    uint64_t last_received_ms; /* a time of CLOCK_MONOTONIC; 0: never */
    bool connected;            /* the server has answered 200 and the answer has not ended */
};

struct gt_kube_watch_spec {
    struct gt_kube_selection selection;
    const char *resource_version; /* of the list; copied */
    /* the server shall end it after 80 to 120 % of this; 0: GT_KUBE_WATCH_TIMEOUT_S */
    unsigned timeout_s;
    size_t line_max; /* bytes of one event, 0: GT_KUBE_LINE_MAX */
    void (*on_event)(void *arg, enum gt_kube_event_type type, cJSON *object); /* freed afterwards */
    /* For an event that is too large, if the object's name is known; may be NULL. */
    void (*on_oversize)(void *arg, bool deleted, const struct gt_kube_peek *object);
    void (*on_error)(void *arg, const struct gt_err *error); /* the watch goes on; may be NULL */
    /* the watch has given up and is freed afterwards */
    void (*on_lost)(void *arg, const struct gt_err *error);
    void *arg;
};

int gt_kube_watch_start(struct gt_kube *kube, const struct gt_kube_watch_spec *spec,
                        struct gt_kube_watch **ret, struct gt_err **err);

/* Ends it without a callback; it may be called within its callbacks. NULL is allowed. */
void gt_kube_watch_free(struct gt_kube_watch *watch);

void gt_kube_watch_counters(const struct gt_kube_watch *watch, struct gt_kube_watch_counters *ret);
