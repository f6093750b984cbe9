/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "scheduler-ext/decide/part.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * Whether the queue of another scheduler has admitted a job. In Volcano this is the phase of the PodGroup
 * that the pods name. Volcano does not count gated pods, so it admits every job that fits alone. Therefore,
 * in a queue with a limit for GPUs, jobs are only planned as far as they fit together.
 */
enum { ALLOCATED_LAG_MS = 3000 }; /* after so long a pod on a node counts in the queue's status.allocated */

/* The job's GPUs that are not on a node. */
static uint64_t unbound_gpus(const struct reconcile *reconcile, bool planned_alone)
{
    const struct gt_job_view *view = reconcile->view;
    uint64_t gpus = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        enum gt_member_state state = view->members[i].state;
        bool planned = state == GT_MEMBER_LIFTED || state == GT_MEMBER_PLANNED || state == GT_MEMBER_RESERVED;
        bool open = state == GT_MEMBER_TO_PLACE || state == GT_MEMBER_TO_RESERVE;
        if (planned || (open && !planned_alone))
            gpus += view->job->units.units[view->members[i].unit].gpus;
    }
    return gpus;
}

/* A short list, since each waiting job goes through all of it. */
static void set_unbound(struct pjob *pjob, uint64_t gpus)
{
    pjob->place.unbound_gpus = gpus;
    pjob->place.unbound_ms = 0;
    gt_placement_list(pjob, PJOBS_UNBOUND, gpus);
}

void gt_reconcile_enter_queue(struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    uint64_t gpus = 0;
    for (uint32_t i = 0; reconcile->pjob->wait.volcano_queue && i < view->count; i++)
        if (view->members[i].state != GT_MEMBER_ABSENT && view->members[i].state != GT_MEMBER_EARLY)
            gpus += view->job->units.units[view->members[i].unit].gpus;
    gpus -= gpus ? view->left_gpus : 0;
    set_unbound(reconcile->pjob, gpus);
}

/* Counts jobs that another leader planned. */
static void admission_find_queue(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_pod_groups *groups = reconcile->placement->spec.pod_groups;
    if (pjob->wait.volcano_queue || !gt_pod_groups_is_known(groups))
        return;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_cache_pod *pod = reconcile->view->members[i].pod;
        const struct record *record = pod ? gt_record_of(reconcile->placement, pod) : NULL;
        if (!record || !record->object.planned || !record->object.pod_group)
            continue;
        const struct gt_pod_group *group =
            gt_pod_groups_find(groups, GT_KEY_POD_GROUP, pod->meta.namespace_, record->object.pod_group);
        if (group)
            pjob->wait.volcano_queue = strdup(group->queue);
        return;
    }
}

void gt_reconcile_dequeue(struct pjob *pjob)
{
    if (!pjob->place.unbound_gpus)
        return;
    set_unbound(pjob, 0);
    gt_placement_on_pod_group(pjob->placement, NULL);
}

void gt_reconcile_count_unbound(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    admission_find_queue(reconcile);
    uint64_t gpus = pjob->wait.volcano_queue ? unbound_gpus(reconcile, true) : 0;
    if (gpus >= pjob->place.unbound_gpus) {
        set_unbound(pjob, gpus);
        return;
    }
    if (!pjob->place.unbound_ms)
        pjob->place.unbound_ms = reconcile->now + ALLOCATED_LAG_MS;
    if (reconcile->now < pjob->place.unbound_ms) {
        gt_placement_due(pjob, pjob->place.unbound_ms);
        return;
    }
    gt_reconcile_dequeue(pjob); /* waiting jobs may have room now */
    set_unbound(pjob, gpus);
}

/* The GPUs that it needs to begin, or to begin one more unit, with those that are planned already. */
static uint64_t least_gpus(const struct reconcile *reconcile)
{
    return unbound_gpus(reconcile, true) + gt_part_least_gpus(reconcile->view);
}

/* A part that may run without the rest is planned. */
static void plan_within(struct reconcile *reconcile, uint64_t room)
{
    room -= unbound_gpus(reconcile, true);
    if (!reconcile->gpus_max || room < reconcile->gpus_max)
        reconcile->gpus_max = room;
    reconcile->pjob->wait.awaits_admission = true; /* for the rest */
}

/* True: no; `text` says why. */
static bool lacks_room(struct reconcile *reconcile, const struct gt_pod_group *group, char *text, size_t size)
{
    const struct gt_volcano_queue *queue =
        gt_pod_groups_find_queue(reconcile->placement->spec.pod_groups, group->queue);
    uint64_t used = queue ? queue->allocated : 0, needed = unbound_gpus(reconcile, false);
    if (!queue || queue->capability == UINT64_MAX)
        return false;
    for (const struct pjob *other = reconcile->placement->jobs.lists[PJOBS_UNBOUND].first; other;
         other = other->links[PJOBS_UNBOUND].next)
        if (other != reconcile->pjob && other->wait.volcano_queue &&
            strcmp(other->wait.volcano_queue, group->queue) == 0)
            used += other->place.unbound_gpus;
    if (used + needed > queue->capability && gt_part_is_allowed(reconcile->view)) {
        needed = least_gpus(reconcile);
        if (used + needed <= queue->capability) {
            plan_within(reconcile, queue->capability - used);
            return false;
        }
    }
    if (needed > queue->capability && group->min_member < reconcile->view->count &&
        !gt_part_suffices(reconcile->view)) /* a part of it may run */
        needed = needed * group->min_member / reconcile->view->count;
    if (used + needed <= queue->capability)
        return false;
    snprintf(
        text, size,
        "queue %s has let its PodGroup %s in, but has %llu of its %llu GPUs left, and the job needs %llu",
        group->queue, group->name,
        (unsigned long long)(queue->capability > used ? queue->capability - used : 0),
        (unsigned long long)queue->capability, (unsigned long long)needed);
    return true;
}

static bool remember_queue(struct pjob *pjob, const char *queue, char *text, size_t size)
{
    if (pjob->wait.volcano_queue && strcmp(pjob->wait.volcano_queue, queue) == 0)
        return true;
    char *copy = strdup(queue);
    if (!copy) {
        snprintf(text, size, "no memory");
        gt_placement_due(pjob, gt_clock_ms() + pjob->placement->times.retry_ms);
        return false;
    }
    free(pjob->wait.volcano_queue);
    pjob->wait.volcano_queue = copy;
    return true;
}

/* For pods that name no PodGroup, Volcano's controller creates one and writes its name on them. Pods of
 * another cluster that a syncer has made here name one that does not come. */
static bool comes_soon(const struct reconcile *reconcile, const struct gt_cache_pod *pod, bool is_named)
{
    uint64_t until = reconcile->pjob->lift.new_pod_ms + reconcile->placement->times.owner_ms;
    bool by_volcano = pod->scheduler && strcmp(pod->scheduler, GT_SCHEDULER_VOLCANO) == 0;
    if (is_named && by_volcano) /* which does not schedule it without */
        return true;
    if (reconcile->now >= until || (!is_named && !by_volcano))
        return false;
    gt_placement_due(reconcile->pjob, until);
    return true;
}

/* True: no; `text` says why. */
static bool admission_waits(struct reconcile *reconcile, const struct gt_cache_pod *pod, const char *name,
                            char *text, size_t size)
{
    if (!name) {
        snprintf(text, size, "pod %s is in no PodGroup yet", pod->meta.name);
        return comes_soon(reconcile, pod, false);
    }
    const struct gt_pod_group *group = gt_pod_groups_find(reconcile->placement->spec.pod_groups,
                                                          GT_KEY_POD_GROUP, pod->meta.namespace_, name);
    snprintf(text, size, "the PodGroup %s, which pod %s names, does not exist", name, pod->meta.name);
    if (!group)
        return comes_soon(reconcile, pod, true);
    if (!group->is_admitted)
        snprintf(text, size, "queue %s has not let its PodGroup %s in", group->queue, name);
    return !group->is_admitted || lacks_room(reconcile, group, text, size) ||
           !remember_queue(reconcile->pjob, group->queue, text, size);
}

bool gt_reconcile_is_admitted(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const char *before = NULL;
    pjob->wait.awaits_admission = false;
    if (!gt_pod_groups_is_known(reconcile->placement->spec.pod_groups))
        return true;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        const struct record *record =
            member->state == GT_MEMBER_TO_PLACE ? gt_record_of(reconcile->placement, member->pod) : NULL;
        const char *name = record ? record->object.pod_group : NULL;
        char text[768];
        if (!record || (name && before && strcmp(name, before) == 0))
            continue;
        if (admission_waits(reconcile, member->pod, name, text, sizeof(text))) {
            pjob->wait.awaits_admission = true;
            gt_placement_due(pjob, reconcile->now + reconcile->placement->times.retry_ms);
            gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "NotAdmitted", text);
            return false;
        }
        before = name;
    }
    return true;
}

/* By the annotation of Volcano, which is not kept for each pod, or the key of another API. */
static const struct gt_pod_group *pod_group_of(const struct reconcile *reconcile,
                                               const struct gt_cache_pod *pod, const char *of_volcano)
{
    const struct gt_pod_group *found = NULL;
    for (unsigned i = 0; i < GT_VOLCANO_QUEUE && !found; i++) {
        enum gt_pod_key key = gt_pod_group_types[i].key;
        const char *name = key == GT_KEY_POD_GROUP ? of_volcano : gt_pod_label(&pod->meta, key);
        if (name && (name != of_volcano || !gt_pod_group_is_made_for_pods(name)))
            found =
                gt_pod_groups_find(reconcile->placement->spec.pod_groups, key, pod->meta.namespace_, name);
    }
    return found;
}

uint32_t gt_reconcile_minimum(const struct reconcile *reconcile)
{
    const struct gt_placement *placement = reconcile->placement;
    for (const struct gt_cache_pod *pod = reconcile->pjob->job->pods; pod; pod = pod->next) {
        const struct record *record = pod->state < GT_CACHE_BOUND ? gt_record_of(placement, pod) : NULL;
        if (!record)
            continue;
        const struct gt_pod_group *group = pod_group_of(reconcile, pod, record->object.pod_group);
        return group ? group->min_member : 0;
    }
    return 0;
}

/* kube-scheduler takes no pod of a PodGroup of Kubernetes while another one has a gate: all that are there
 * begin together. */
uint32_t gt_reconcile_together(const struct reconcile *reconcile)
{
    const struct gt_cache_pod *pods = reconcile->pjob->job->pods;
    return pods && gt_pod_label(&pods->meta, GT_KEY_SCHEDULING_GROUP) ? UINT32_MAX
                                                                      : gt_reconcile_minimum(reconcile);
}

bool gt_reconcile_awaits_scheduler(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_cache_pod *pod = NULL;
    char text[512];
    for (uint32_t i = 0; i < reconcile->view->count && !pod; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        if (member->state == GT_MEMBER_LIFTED &&
            !gt_cache_knows_scheduler(reconcile->placement->spec.cache, member->pod->scheduler))
            pod = member->pod;
    }
    if (!pod) {
        pjob->lift.scheduler_ms = 0;
        pjob->lift.scheduler_told = false;
        return false;
    }
    pjob->lift.scheduler_ms = pjob->lift.scheduler_ms ? pjob->lift.scheduler_ms : reconcile->now;
    gt_placement_due(pjob, reconcile->now + reconcile->placement->times.retry_ms);
    /* In a new cluster the first pods are bound soon: what is said at once would be two more writes a job. */
    if (reconcile->now < pjob->lift.scheduler_ms + reconcile->placement->times.retry_ms)
        return false;
    snprintf(
        text, sizeof(text),
        "its pods wait for the scheduler %.253s (schedulerName), by which no pod of this cluster was bound",
        pod->scheduler);
    gt_placement_set_state(pjob, GT_PLACEMENT_LOST, GT_REASON_SCHEDULER_UNKNOWN, text);
    if (!pjob->lift.scheduler_told &&
        reconcile->now - pjob->lift.scheduler_ms >= reconcile->placement->spec.options.unschedulable_ms) {
        gt_placement_event(pjob, pod, true, GT_REASON_SCHEDULER_UNKNOWN, "Report", text);
        pjob->lift.scheduler_told = true;
    }
    return true;
}

void gt_placement_on_pod_group(struct gt_placement *placement, const char *namespace_)
{
    if (placement->round.started)
        gt_queue_wake(placement->queue);
    for (struct pjob *pjob = placement->round.started ? placement->jobs.first : NULL; pjob; pjob = pjob->next)
        if (pjob->wait.awaits_admission &&
            (!namespace_ || strcmp(pjob->tenant->namespace_->name, namespace_) == 0))
            gt_placement_mark(pjob);
}
