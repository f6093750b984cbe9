/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "scheduler-ext/placement/reconcile.h"

/* Whether the queue of another scheduler has let a job in. Volcano says so by the phase of the PodGroup that
 * the pods name. */

/* Volcano's controller makes the PodGroups of pods that name none, and writes the names on the pods. */
static bool names_one_soon(const struct reconcile *reconcile, const struct gt_cache_pod *pod)
{
    uint64_t until = reconcile->pjob->new_pod_ms + reconcile->placement->times.owner_ms;
    if (!pod->scheduler || strcmp(pod->scheduler, GT_SCHEDULER_VOLCANO) != 0 || reconcile->now >= until)
        return false;
    gt_placement_due(reconcile->pjob, until);
    return true;
}

/* True: no; `text` says why. */
static bool waits(const struct reconcile *reconcile, const struct gt_cache_pod *pod, const char *name,
                  char *text, size_t size)
{
    if (!name) {
        snprintf(text, size, "pod %s is in no PodGroup yet", pod->meta.name);
        return names_one_soon(reconcile, pod);
    }
    const struct gt_pod_group *group =
        gt_pod_groups_find(reconcile->placement->spec.pod_groups, pod->meta.namespace_, name);
    if (!group)
        snprintf(text, size, "the PodGroup %s, which pod %s names, does not exist", name, pod->meta.name);
    else if (!group->is_admitted)
        snprintf(text, size, "queue %s has not let its PodGroup %s in", group->queue, name);
    return !group || !group->is_admitted;
}

bool gt_reconcile_is_admitted(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const char *before = NULL;
    pjob->awaits_admission = false;
    if (!gt_pod_groups_is_known(reconcile->placement->spec.pod_groups))
        return true;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        const struct record *record =
            member->state == GT_MEMBER_TO_PLACE
                ? gt_record_find(reconcile->placement, member->pod->meta.namespace_, member->pod->meta.name)
                : NULL;
        const char *name = record ? record->object.pod_group : NULL;
        char text[768];
        if (!record || (name && before && strcmp(name, before) == 0))
            continue;
        if (waits(reconcile, member->pod, name, text, sizeof(text))) {
            pjob->awaits_admission = true;
            gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "NotAdmitted", text);
            return false;
        }
        before = name;
    }
    return true;
}

void gt_placement_on_pod_group(struct gt_placement *placement, const char *namespace_, const char *name)
{
    (void)name; /* a job rarely awaits more than one */
    for (struct pjob *pjob = placement->started ? placement->jobs : NULL; pjob; pjob = pjob->next)
        if (pjob->awaits_admission && strcmp(pjob->tenant->namespace_->name, namespace_) == 0)
            gt_placement_mark(pjob);
}
