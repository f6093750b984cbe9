/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "scheduler-ext/placement/internal.h"

/* Tells people why a job waits: in a condition of its first pods, in an event, and in the log. */

uint64_t gt_placement_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec;
}

void gt_placement_event(struct pjob *pjob, const struct gt_cache_pod *pod, bool warning, const char *reason,
                        const char *action, const char *text)
{
    struct gt_placement *placement = pjob->placement;
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, warning, pjob->job->key, text);
    if (!placement->spec.recorder || !pod)
        return;
    struct gt_kube_event event = {.api_version = "v1",
                                  .kind = "Pod",
                                  .namespace_ = pod->meta.namespace_,
                                  .name = pod->meta.name,
                                  .uid = pod->uid,
                                  .warning = warning,
                                  .reason = reason,
                                  .action = action,
                                  .note = text};
    gt_kube_record(placement->spec.recorder, &event);
    if (!pod->meta.owner_kind || !pod->meta.owner_name || !pod->owner_api_version)
        return;
    event.api_version = pod->owner_api_version;
    event.kind = pod->meta.owner_kind;
    event.name = pod->meta.owner_name;
    event.uid = pod->owner_uid;
    gt_kube_record(placement->spec.recorder, &event);
}

static bool may_write(const struct record *record, const struct gt_cache_pod *pod)
{
    return !record->write && !record->lifted && !record->deleted && record->stale_until_ms <= gt_clock_ms() &&
           strcmp(record->object.uid, pod->uid) == 0;
}

void gt_placement_report_no_gpus(struct gt_placement *placement, const struct record *record)
{
    const char *text =
        record->unread ? record->unread : "it asks for no GPUs: there is nothing to plan, its gate goes";
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, true, gt_record_name(record), text);
    const struct gt_kube_event event = {.api_version = "v1",
                                        .kind = "Pod",
                                        .namespace_ = gt_record_namespace(record),
                                        .name = gt_record_name(record),
                                        .uid = record->object.uid,
                                        .warning = true,
                                        .reason = record->unread ? "Unreadable" : "NoGPUs",
                                        .action = "Place",
                                        .note = text};
    if (placement->spec.recorder)
        gt_kube_record(placement->spec.recorder, &event);
}

/* `again`: though it says something already. */
static void tell_pod(struct pjob *pjob, const struct gt_cache_pod *pod, bool again)
{
    struct record *record = gt_record_find(pjob->placement, pod->meta.namespace_, pod->meta.name);
    const struct gt_condition_text condition = {.reason = pjob->reason, .message = pjob->text};
    if (record && may_write(record, pod) && (again || !record->object.condition) &&
        record->object.condition != gt_condition_digest(&condition))
        gt_write_condition(pjob, record, &condition);
}

/* `view` NULL: the job has none, since it breaks a rule. */
void gt_placement_report(struct pjob *pjob, const struct gt_job_view *view, bool warning)
{
    uint64_t digest = gt_digest_keyed(pjob->reason), now = gt_clock_ms();
    const struct gt_cache_pod *first = NULL;
    unsigned told = 0;
    bool again = digest != pjob->told_digest || now - pjob->told_ms >= CONDITION_AGAIN_MS;
    for (uint32_t i = 0; view && i < view->count && told < CONDITIONS_MAX; i++) {
        const struct gt_cache_pod *pod = view->members[i].pod;
        if (!pod || pod->state != GT_CACHE_GATED)
            continue;
        first = first ? first : pod;
        told++;
        tell_pod(pjob, pod, again);
    }
    for (const struct gt_cache_pod *pod = pjob->job->pods; !view && pod && told < CONDITIONS_MAX;
         pod = pod->next) {
        if (pod->state != GT_CACHE_GATED || pod->deleting)
            continue;
        first = first ? first : pod;
        told++;
        tell_pod(pjob, pod, again);
    }
    if (digest != pjob->told_digest)
        gt_placement_event(pjob, first, warning, pjob->reason, "Place", pjob->text);
    pjob->told_digest = digest;
    pjob->told_ms = again ? now : pjob->told_ms;
}
