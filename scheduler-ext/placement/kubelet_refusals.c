/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * Pods that the kubelet refuses on the node where the scheduler has bound them: its topology manager finds no
 * place for their GPUs, or other pods have them. Such a pod has failed for good, and its owner makes another
 * one at once. The node is left out for the job for a while, and after some of them its pods wait.
 *
 * The first pods of a job begin together, and so kubelets may refuse all of them before the first refusal is
 * seen. From then on no more may be refused in a while than the limit: those on their way to a kubelet count,
 * unless their scheduler has said that it does not take them. What a PodGroup lacks to start begins all the
 * same.
 */

void gt_kubelet_refusals_see(struct gt_placement *placement, const struct gt_cache_pod *known,
                             const struct gt_pod *pod)
{
    struct backoff_refusal refusal;
    const struct gt_cache_moment now = {.ms = gt_clock_ms(), .unix_s = (int64_t)gt_placement_now_s()};
    /* The cache forgets a pod that has ended. Who leads next counts as well, and says nothing. */
    if (!gt_pod_is_refused_by_kubelet(pod) || !((known && known->job->user) || gt_pod_is_planned(pod)) ||
        !gt_backoff_refusal(&placement->backoffs, placement->spec.cache, known, pod, &now, &refusal))
        return;
    struct pjob *pjob = refusal.job ? refusal.job->user : NULL;
    if (!placement->round.started || !pjob)
        return;
    placement->counters.pods.kubelet_refused++;
    gt_placement_event(pjob, known ? known : refusal.job->pods, true, "RefusedByKubelet", "Report",
                       refusal.text);
    gt_placement_mark(pjob);
}

uint32_t gt_kubelet_refusals_left(const struct reconcile *reconcile)
{
    const struct gt_cache_job *job = reconcile->pjob->job;
    uint64_t last;
    unsigned recent = gt_backoff_refusals(&reconcile->placement->backoffs, job->key, reconcile->now, &last);
    uint32_t seen = 0; /* by its scheduler */
    uint32_t unjudged = 0, together = gt_reconcile_together(reconcile);
    bool taken = false; /* a kubelet has taken one since then */
    if (!last)
        return UINT32_MAX;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        const struct record *record = gt_record_of(reconcile->placement, pod);
        bool runs = pod->started || pod->state == GT_CACHE_RUNNING;
        bool waits = pod->state == GT_CACHE_GATED && !(record && record->lifted);
        bool stays = record && record->unschedulable_ms; /* its scheduler may wait for more of them */
        bool comes = !runs && !waits && !pod->deleting;
        seen += runs || comes;
        unjudged += comes && !stays;
        taken = taken || (runs && (int64_t)pod->created_s >= gt_placement_unix_s(last));
    }
    if (taken && !recent)
        return UINT32_MAX;
    uint32_t lacks = together > seen ? together - seen : 0;
    uint32_t more = recent + unjudged < BACKOFF_REFUSALS ? BACKOFF_REFUSALS - recent - unjudged : 0;
    return lacks > more ? lacks : more;
}

bool gt_kubelet_refusals_wait(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    uint64_t until =
        gt_backoff_refused_until(&reconcile->placement->backoffs, pjob->job->key, reconcile->now);
    char text[BACKOFF_TEXT_SIZE] = "kubelets have refused pods of it: further ones begin when those that are "
                                   "on their way run";
    if (!until && gt_kubelet_refusals_left(reconcile))
        return false;
    if (until)
        gt_backoff_refused_text(gt_placement_unix_s(until), text);
    gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "RefusedByKubelet", text);
    gt_placement_due(pjob, until ? until : reconcile->now + reconcile->placement->times.retry_ms);
    return true;
}
