/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/lease.h"
#include "api/meta.h"
#include "api/names.h"
#include "base/clock.h"
#include "scheduler-ext/decide/noted.h"
#include "scheduler-ext/volcano/engine.h"

/*
 * gputopo-scheduler may place jobs in the same cluster. Planned pods of both have annotations; places for
 * future pods, and nodes for waiting jobs, are in one Lease of each scheduler. Ours is in the same namespace
 * as the other one, and is written while there are reservations.
 */
enum { DURATION_S = 30, RENEW_MS = 10000, LEASE_MAX = GT_LEASE_NOTE_MAX + (2 << 10) };

/* ---- the companion's ---- */

void gt_volcano_put_lease(struct gt_volcano *volcano, const cJSON *object)
{
    if (strcmp(gt_meta_namespace(object), volcano->trusted) != 0)
        return;
    gt_noted_read_foreign(volcano->cache, object, gt_clock_ms());
    volcano->has_companion = true;
}

void gt_volcano_remove_lease(struct gt_volcano *volcano, const char *namespace_)
{
    if (strcmp(namespace_, volcano->trusted) != 0)
        return;
    volcano->has_companion = false;
    gt_noted_read_foreign(volcano->cache, NULL, 0);
}

/* ---- ours ---- */

const char *gt_volcano_publish(struct gt_volcano *volcano, const char **ret_namespace)
{
    gt_auto_buf struct gt_buf note = GT_BUF(GT_LEASE_NOTE_MAX);
    const uint64_t now = gt_clock_ms();
    struct gt_lease lease = {.identity = "vc-scheduler", .duration_s = DURATION_S};
    if (!volcano->has_companion)
        return NULL;
    gt_noted_write(gt_cache_cluster(volcano->cache), &note);
    const char *text = note.data ? note.data : "", *before = volcano->note ? volcano->note : "";
    if (note.failed || (strcmp(text, before) == 0 && (!*text || now < volcano->published_ms + RENEW_MS)))
        return NULL;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    gt_time_text_fine(&time, 6, lease.renewed);
    lease.note = text;
    struct gt_buf *body = &volcano->body;
    gt_buf_done(body);
    *body = (struct gt_buf)GT_BUF(LEASE_MAX);
    gt_lease_write(body, volcano->trusted, GT_VC_SCHEDULER_NAME, &lease);
    free(volcano->note);
    volcano->note = body->failed ? NULL : strdup(text);
    volcano->published_ms = now;
    *ret_namespace = volcano->trusted;
    return body->failed ? NULL : body->data;
}
