/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/state.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"

uint64_t gt_placement_now_s(void)
{
    return gt_clock_wall_ms() / 1000;
}

int64_t gt_placement_unix_s(uint64_t when)
{
    return (int64_t)(gt_clock_wall_ms() + when - gt_clock_ms() + 500) / 1000;
}

void gt_placement_time_text(uint64_t when, char to[static GT_TIME_TEXT_SIZE])
{
    gt_time_text(gt_placement_unix_s(when), to);
}

uint64_t gt_placement_time_of_unix(int64_t when)
{
    int64_t ms = (int64_t)gt_clock_ms() + when * 1000 - (int64_t)gt_clock_wall_ms();
    return when <= 0 ? 0 : ms > 0 ? (uint64_t)ms : 1;
}

uint64_t gt_placement_time_of_text(const char *text)
{
    return gt_placement_time_of_unix(gt_time_of_text(text));
}

bool gt_placement_may_write(const struct gt_placement *placement)
{
    const struct gt_placement_spec *spec = &placement->spec;
    return placement->started && (!spec->may_write || spec->may_write(spec->may_write_arg));
}

void gt_placement_wake(struct gt_placement *placement)
{
    if (!placement->in_round)
        gt_source_arm(placement->timer, 0);
}

void gt_placement_mark(struct pjob *pjob)
{
    if (pjob->marked)
        return;
    pjob->marked = true;
    pjob->next_marked = pjob->placement->marked;
    pjob->placement->marked = pjob;
    gt_placement_wake(pjob->placement);
}

void gt_placement_due(struct pjob *pjob, uint64_t when)
{
    if (when < pjob->due_ms)
        pjob->due_ms = when;
    if (when < pjob->placement->next_due_ms)
        pjob->placement->next_due_ms = when;
}

void gt_placement_mark_no_gpus(struct gt_placement *placement)
{
    placement->no_gpus_ms = 0;
    if (placement->started)
        gt_placement_wake(placement);
}

void gt_placement_set_state(struct pjob *pjob, enum gt_placement_state state, const char *reason,
                            const char *text)
{
    if (pjob->state != state)
        pjob->since_ms = gt_clock_ms();
    pjob->state = state;
    pjob->reason = reason;
    if (!pjob->text || strcmp(pjob->text, text) != 0) {
        free(pjob->text);
        pjob->text = strdup(text);
    }
}

void gt_placement_fail(struct pjob *pjob, const char *text)
{
    pjob->placement->counters.failed++;
    gt_placement_set_state(pjob, GT_PLACEMENT_WAITS, "Failed", text);
}

void gt_placement_event(struct pjob *pjob, const struct gt_cache_pod *pod, bool warning, const char *reason,
                        const char *action, const char *text)
{
    struct gt_placement *placement = pjob->placement;
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, warning, pjob->job->key, text);
    if (!placement->spec.recorder || !pod)
        return;
    struct gt_event_object event = {.api_version = "v1",
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

void gt_placement_precedence(const struct gt_cache_job *job, int32_t *ret_priority, uint64_t *ret_created_s)
{
    *ret_priority = INT32_MIN;
    *ret_created_s = UINT64_MAX;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        if (pod->deleting)
            continue;
        *ret_priority = pod->priority > *ret_priority ? pod->priority : *ret_priority;
        *ret_created_s = pod->created_s < *ret_created_s ? pod->created_s : *ret_created_s;
    }
}

void gt_placement_report_no_gpus(struct gt_placement *placement, const struct record *record)
{
    const char *text =
        record->unread ? record->unread : "it asks for no GPUs: there is nothing to plan, its gate goes";
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, true, gt_record_name(record), text);
    const struct gt_event_object event = {.api_version = "v1",
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

bool gt_record_is_newer(const struct record *record, const char *version)
{
    uint64_t known, other;
    return !record->relisted && gt_text_to_unsigned(record->object.version, UINT64_MAX - 1, &known) &&
           gt_text_to_unsigned(version, UINT64_MAX - 1, &other) && known > other;
}
