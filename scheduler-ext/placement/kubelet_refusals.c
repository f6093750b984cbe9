/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * Pods that the kubelet refuses on the node where the scheduler has bound them: its topology manager finds no
 * place for their GPUs, or other pods have them. Such a pod has failed for good, and its owner makes another
 * one at once. The node is left out for the job for a while, and after some of them its pods wait.
 */

void gt_kubelet_refusals_see(struct gt_placement *placement, const struct gt_cache_pod *known,
                             const struct gt_pod *pod)
{
    /* The cache forgets a pod that has ended: later states of its object do not come here. */
    if (!placement->round.started || !known || !known->job->user || !pod->node_name ||
        !gt_pod_is_refused_by_kubelet(pod))
        return;
    struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    const char *key = known->job->key;
    uint64_t now = gt_clock_ms();
    uint32_t node = gt_cluster_find_node(cluster, pod->node_name);
    char text[640];
    if (node != GT_NONE)
        gt_backoff_node(&placement->backoffs, cluster, key, node, now);
    gt_backoff_refusal(&placement->backoffs, key, now);
    placement->counters.kubelet_refused++;
    bool waits = gt_backoff_refused_until(&placement->backoffs, key, now);
    snprintf(
        text, sizeof(text),
        "the kubelet of node %s refuses pod %s (%s): pods of the job are not planned there for %d minutes%s",
        pod->node_name, pod->meta.name, pod->failed_for, BACKOFF_REFUSALS_MS / 60000,
        waits ? ", and wait meanwhile, since it is not the first one" : "");
    gt_placement_event(known->job->user, known, true, "RefusedByKubelet", "Report", text);
    gt_placement_mark(known->job->user);
}

bool gt_kubelet_refusals_wait(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    uint64_t until =
        gt_backoff_refused_until(&reconcile->placement->backoffs, pjob->job->key, reconcile->now);
    char text[256], when[GT_TIME_TEXT_SIZE];
    if (!until)
        return false;
    gt_placement_time_text(until, when);
    snprintf(
        text, sizeof(text),
        "kubelets have refused %d of its pods within %d minutes, Events RefusedByKubelet say why: further "
        "ones are planned from %s on",
        BACKOFF_REFUSALS, BACKOFF_REFUSALS_MS / 60000, when);
    gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "RefusedByKubelet", text);
    gt_placement_due(pjob, until);
    return true;
}
