/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

/* Reports why a job waits: in its GPUPlacement, in a condition of its first pods, in an event, and in
 * the log. */

enum { CONDITIONS_MAX = 16 }; /* pods of a job whose condition says why it waits */

static bool report_may_write(const struct record *record, const struct gt_cache_pod *pod)
{
    return !record->write && !record->lifted && !record->deleted && record->stale_until_ms <= gt_clock_ms() &&
           strcmp(record->object.uid, pod->uid) == 0;
}

/* `digest`: of the condition. */
static void report_pod(struct pjob *pjob, const struct gt_cache_pod *pod,
                       const struct gt_condition_text *condition, uint64_t digest)
{
    struct record *record = gt_record_of(pjob->placement, pod);
    if (!record || record->lifted || record->deleted)
        return;
    if (!report_may_write(record, pod))
        pjob->report.pending = true; /* the write in flight may have another reason */
    else if (record->object.condition != digest || record->object.waits_s != gt_placement_since_s(pjob))
        gt_write_condition(pjob->placement, pjob, record, condition, false, NULL);
}

void gt_placement_report(struct pjob *pjob, const struct gt_job_view *view, const struct gt_owner *owner,
                         bool warning)
{
    const struct gt_condition_text condition = {.reason = pjob->report.reason,
                                                .message = pjob->report.text ? pjob->report.text : ""};
    uint64_t digest = gt_digest_keyed(pjob->report.reason), said = gt_condition_digest(&condition);
    const struct gt_cache_pod *first = NULL;
    unsigned reported = 0;
    if (warning) /* another broken rule counts as another reason */
        digest = gt_digest_number(digest, gt_digest_keyed(pjob->report.text ? pjob->report.text : ""));
    pjob->report.pending = false;
    for (uint32_t i = 0; view && i < view->count && reported < CONDITIONS_MAX; i++) {
        const struct gt_cache_pod *pod = view->members[i].pod;
        if (!pod || pod->state != GT_CACHE_GATED)
            continue;
        first = first ? first : pod;
        reported++;
        report_pod(pjob, pod, &condition, said);
    }
    for (const struct gt_cache_pod *pod = pjob->job->pods;
         (!view || view->job->rest) && pod && reported < CONDITIONS_MAX; pod = pod->next) {
        if (pod->state != GT_CACHE_GATED || pod->deleting)
            continue;
        first = first ? first : pod;
        reported++;
        report_pod(pjob, pod, &condition, said);
    }
    /* While a plan may be missing, an object without one would say that there never was any. */
    if (pjob->lift.offers_end_ms <= gt_clock_ms())
        gt_placement_publish(pjob, view, owner);
    if (digest != pjob->report.said.state)
        gt_placement_event(pjob, first || !warning ? first : pjob->job->pods,
                           warning || pjob->state == GT_PLACEMENT_WAITS, pjob->report.reason, "Place",
                           pjob->report.text);
    pjob->report.said.state = digest;
    gt_placement_set_told(pjob);
}
