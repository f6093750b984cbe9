/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "scheduler-ext/placement/reconcile.h"

/* How long jobs wait, for the metrics. */

const uint32_t gt_wait_bucket_s[GT_WAIT_BUCKETS - 1] = {1,    5,     15,    60,    300,   900,
                                                        3600, 14400, 43200, 86400, 259200};

const char *const gt_wait_size_names[GT_WAIT_SIZES] = {"1-8", "9-32", "33-128", "129-512", "513+"};

const char *const gt_fits_reason_names[GT_FITS_REASONS] = {
    [GT_FITS_RESERVED] = "reserved",           [GT_FITS_NOT_TRIED] = "not_tried", [GT_FITS_FAILED] = "failed",
    [GT_FITS_WRITE_REFUSED] = "write_refused", [GT_FITS_PLANNED] = "planned",
};

/* ---- the histogram ---- */

static unsigned wait_size(const struct gt_job_view *view)
{
    static const uint64_t most[GT_WAIT_SIZES - 1] = {8, 32, 128, 512};
    unsigned size = 0;
    uint64_t gpus = 0;
    for (uint32_t i = 0; i < view->count; i++)
        gpus += view->job->units.units[view->members[i].unit].gpus;
    while (size < GT_WAIT_SIZES - 1 && gpus > most[size])
        size++;
    return size;
}

void gt_wait_count(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_placement_counters *counters = &pjob->placement->counters;
    if (!pjob->wait.ended)
        return;
    pjob->wait.ended = false;
    int64_t waited_ms = (int64_t)gt_clock_ms() - pjob->wait.start_ms;
    unsigned bucket = 0, size = wait_size(reconcile->view);
    while (bucket < GT_WAIT_BUCKETS - 1 && waited_ms > gt_wait_bucket_s[bucket] * INT64_C(1000))
        bucket++;
    counters->waits[size][bucket]++;
    counters->waited_s[size] += (double)waited_ms * 1e-3;
}

/* ---- those that wait now ---- */

static bool reason_is(const struct pjob *pjob, const char *reason)
{
    return strcmp(pjob->report.reason, reason) == 0;
}

enum gt_fits_reason gt_waits_for(const struct pjob *pjob)
{
    if (pjob->wait.ended && pjob->object && pjob->object->refusal)
        return GT_FITS_WRITE_REFUSED; /* also while it is tried again */
    switch (pjob->state) {
    case GT_PLACEMENT_WAITS:
        return reason_is(pjob, "Reserved")   ? GT_FITS_RESERVED
               : reason_is(pjob, "NotTried") ? GT_FITS_NOT_TRIED
               : reason_is(pjob, "Failed")   ? GT_FITS_FAILED
                                             : GT_FITS_REASONS;
    case GT_PLACEMENT_WRITES: /* it may also wait for its other pods */
        return reason_is(pjob, "Planned") ? GT_FITS_PLANNED : GT_FITS_REASONS;
    default:
        return GT_FITS_REASONS;
    }
}

uint64_t gt_wait_age_s(const struct pjob *pjob)
{
    if (gt_waits_for(pjob) == GT_FITS_WRITE_REFUSED)
        return (uint64_t)((int64_t)gt_clock_ms() - pjob->wait.start_ms) / 1000;
    int64_t since_s = gt_placement_since_s(pjob), now_s = (int64_t)gt_placement_now_s();
    return since_s && since_s < now_s ? (uint64_t)(now_s - since_s) : 0;
}

/* Keeps the oldest ones, and of the others the oldest as the last entry. */
static void keep_oldest(const struct tenant *tenant, struct gt_placement_waits *to)
{
    unsigned at = to->count;
    while (at > 0 && to->oldest[at - 1].age_s < tenant->oldest_wait_s)
        at--;
    if (at > GT_WAIT_NAMESPACES)
        return;
    to->count += to->count <= GT_WAIT_NAMESPACES;
    memmove(&to->oldest[at + 1], &to->oldest[at], (to->count - 1 - at) * sizeof(*to->oldest));
    to->oldest[at] = (struct gt_oldest_wait){tenant->namespace_->name, tenant->oldest_wait_s};
}

void gt_placement_waits(const struct gt_placement *placement, struct gt_placement_waits *ret)
{
    *ret = (struct gt_placement_waits){0};
    for (const struct pjob *pjob = placement->jobs.first; pjob; pjob = pjob->next) {
        enum gt_fits_reason reason = gt_waits_for(pjob);
        uint64_t age_s = gt_wait_age_s(pjob), *oldest_s = &pjob->tenant->oldest_wait_s;
        bool waits = pjob->state == GT_PLACEMENT_WAITS || reason == GT_FITS_WRITE_REFUSED,
             fits = pjob->wait.fits || reason == GT_FITS_RESERVED || reason == GT_FITS_PLANNED;
        if (waits && age_s > *oldest_s)
            *oldest_s = age_s;
        if (reason != GT_FITS_REASONS && fits && age_s > ret->fitting_s[reason])
            ret->fitting_s[reason] = age_s;
    }
    for (const struct pjob *pjob = placement->jobs.first; pjob; pjob = pjob->next) {
        if (pjob->tenant->oldest_wait_s)
            keep_oldest(pjob->tenant, ret);
        pjob->tenant->oldest_wait_s = 0; /* each namespace once */
    }
}
