/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

/* Records of pods that are gated, or planned and not bound. */

struct record *gt_record_writable(struct pjob *pjob, const struct gt_cache_pod *pod, uint64_t now)
{
    struct record *record = gt_record_of(pjob->placement, pod);
    if (!record || record->write || record->deleted || record->unread ||
        strcmp(record->object.uid, pod->uid) != 0)
        return NULL;
    if (record->stale_until_ms > now && record->stale == gt_digest_keyed(record->object.version)) {
        gt_placement_due(pjob, record->stale_until_ms);
        return NULL;
    }
    return record;
}

static struct record *records_make(struct gt_placement *placement, const char *namespace_, const char *name)
{
    struct record *record = calloc(1, sizeof(*record));
    struct gt_index_entry *entry = record ? gt_index_add(&placement->pods, namespace_, name) : NULL;
    if (!entry) {
        free(record);
        return NULL;
    }
    entry->item = record;
    record->entry = entry;
    return record;
}

static void free_record(struct record *record)
{
    if (record->write)
        gt_write_drop(record->write);
    gt_pod_object_done(&record->object);
    free(record);
}

static void remove_record(struct gt_placement *placement, const char *namespace_, const char *name)
{
    struct record *record = gt_record_find(placement, namespace_, name);
    if (!record)
        return;
    gt_write_worked(record->write, WRITE_DELETE);
    struct gt_index_entry *entry = gt_index_take(&placement->pods, namespace_, name);
    free_record(record);
    free(entry);
}

void gt_records_done(struct gt_placement *placement)
{
    size_t slot = 0;
    for (struct record *record; (record = gt_index_next(&placement->pods, &slot));)
        free_record(record);
    gt_ranks_done(&placement->jobs.ranks);
    gt_index_done(&placement->pods);
}

/* Takes over the contents of the object. */
static void put_record(struct gt_placement *placement, const char *namespace_, const char *name,
                       struct gt_pod_object *object)
{
    struct record *record = gt_record_find(placement, namespace_, name);
    if (record && strcmp(record->object.uid, object->uid) != 0) {
        remove_record(placement, namespace_, name);
        record = NULL;
    }
    if (record && gt_record_is_newer(record, object->version)) {
        gt_pod_object_done(object);
        return;
    }
    if (!record && !(record = records_make(placement, namespace_, name))) {
        gt_pod_object_done(object);
        return;
    }
    if (!object->unschedulable)
        record->unschedulable_ms = 0;
    else if (!record->unschedulable_ms)
        record->unschedulable_ms = gt_clock_ms();
    if (!record->object.version || strcmp(record->object.version, object->version) != 0)
        record->lifted = false;
    record->unread = NULL; /* the cache gets the pod after us */
    record->relisted = false;
    gt_pod_object_done(&record->object);
    record->object = *object;
    *object = (struct gt_pod_object){0};
}

/* Templates without GPUs may have our gate, written by a user: only we remove it. */
static void report_no_gpus(struct gt_placement *placement, const struct gt_pod *pod, struct record *record)
{
    if (!record || !record->object.gated)
        return;
    record->no_gpus = !pod->invalid && !pod->gpus.total;
    if (record->no_gpus)
        gt_placement_mark_no_gpus(placement);
}

/* A pod of a job was preempted. */
static void see_eviction(struct gt_placement *placement, const struct gt_cache_pod *known,
                         const struct gt_pod *pod)
{
    const struct gt_condition *disrupted = &pod->conditions[GT_POD_DISRUPTED];
    if (!placement->round.started || !known || !known->job->user || disrupted->status != GT_CONDITION_TRUE ||
        !gt_condition_has(disrupted, "PreemptionByScheduler"))
        return;
    gt_backoff_job(&placement->backoffs, known->job->key, gt_clock_ms() + placement->times.eviction_ms);
    gt_placement_mark(known->job->user);
}

void gt_placement_observe_pod(struct gt_placement *placement, const struct gt_pod *pod)
{
    const char *namespace_ = pod->meta.namespace_, *name = pod->meta.name;
    const struct gt_cache_pod *known = gt_cache_find_pod(placement->spec.cache, namespace_, name);
    struct gt_pod_object object;
    bool planned = gt_pod_is_planned(pod);
    gt_ranks_read(&placement->jobs.ranks, pod);
    see_eviction(placement, known, pod);
    gt_kubelet_refusals_see(placement, known, pod);
    if (planned && !pod->gated && !pod->ended && !known)
        gt_placement_admitted(placement, pod);
    if (!pod->node_name && !pod->ended && (pod->gated || planned) &&
        gt_pod_object_make(pod, &object, NULL) >= 0) {
        put_record(placement, namespace_, name, &object);
        report_no_gpus(placement, pod, gt_record_find(placement, namespace_, name));
        /* The cache reports its own changes; conditions and versions are only stored here. */
        if (placement->round.started && known && known->job->user)
            gt_placement_mark(known->job->user);
    } else {
        /* The scheduler may bind a pod before we get the answer to the write that removed its gate. */
        const struct record *record = pod->gated ? NULL : gt_record_find(placement, namespace_, name);
        if (record)
            gt_write_worked(record->write, WRITE_LIFT);
        remove_record(placement, namespace_, name);
    }
}

void gt_placement_on_refused(struct gt_placement *placement, const char *namespace_, const char *name,
                             const char *why)
{
    struct record *record = gt_record_find(placement, namespace_, name);
    if (!record || !record->object.gated)
        return;
    record->unread = why;
    gt_placement_mark_no_gpus(placement);
}

void gt_placement_observe_pod_deleted(struct gt_placement *placement, const char *namespace_,
                                      const char *name)
{
    remove_record(placement, namespace_, name);
    gt_ranks_remove(&placement->jobs.ranks, namespace_, name);
}
