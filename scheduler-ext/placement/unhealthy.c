/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/digest.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * With --on-unhealthy-gpu=evict: evicts pods of which a GPU is unhealthy or gone. Only pods that have GPUs by
 * limits: for claims Kubernetes does this, by the taint NoExecute of a device. In case the reports are wrong,
 * one node after the other loses its pods, and none while most GPUs of the cluster are unhealthy.
 */

/* *ret_due_ms: when to ask again. */
static bool has_lost_gpu(const struct gt_placement *placement, const struct gt_cache_pod *pod, uint64_t now,
                         uint64_t *ret_due_ms)
{
    *ret_due_ms = UINT64_MAX;
    return !pod->deleting && !pod->claim_template && pod->state >= GT_CACHE_BOUND &&
           gt_cache_pod_lost_gpu(placement->spec.cache, pod, placement->spec.options.node_loss_ms, now,
                                 ret_due_ms);
}

bool gt_unhealthy_concerns(const struct gt_placement *placement, const struct gt_cache_pod *pod)
{
    uint64_t due;
    return placement->spec.options.unhealthy_gpu == GT_UNHEALTHY_EVICT &&
           (has_lost_gpu(placement, pod, gt_clock_ms(), &due) || due != UINT64_MAX);
}

static bool most_are_unhealthy(const struct gt_cluster *cluster)
{
    struct gt_cluster_node node;
    uint64_t all = 0, unhealthy = 0;
    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++)
        if (gt_cluster_get_node(cluster, id, &node)) {
            all += gt_bit_count(node.all);
            unhealthy += gt_bit_count(node.all & ~node.healthy);
        }
    return 2 * unhealthy > all;
}

/* NULL: it does not stay. */
static const char *why_it_stays(struct reconcile *reconcile, const struct gt_cache_pod *pod)
{
    char said[GT_BRAKE_WHY_SIZE];
    const char *loss = gt_pod_annotation(&pod->meta, GT_KEY_LOSS);
    if (loss && strcmp(loss, "wait") == 0)
        return "its annotation on-node-loss is wait";
    if (!pod->meta.owner_controls || strcmp(pod->meta.owner_kind, "Node") == 0)
        return "it has no owner that would make it again";
    if (!most_are_unhealthy(gt_cache_cluster(reconcile->placement->spec.cache)))
        return gt_placement_brake_keeps(reconcile, pod, said)
                   ? "more nodes than --brake lets go at once are not Ready, or have lost their pods of late"
                   : NULL;
    gt_placement_due(reconcile->pjob, reconcile->now + reconcile->placement->times.retry_ms);
    return "more than half of the cluster's GPUs are unhealthy, which may be an error of the reports";
}

/* Whether it is the turn of the pod's node. */
static bool unhealthy_has_turn(struct reconcile *reconcile, const struct gt_cache_pod *pod)
{
    struct gt_placement *placement = reconcile->placement;
    bool waits = reconcile->now < placement->nodes.unhealthy_next_ms;
    if (waits && pod->node != placement->nodes.unhealthy) {
        gt_placement_due(reconcile->pjob, placement->nodes.unhealthy_next_ms);
        return false;
    }
    if (!waits)
        placement->nodes.unhealthy_next_ms = reconcile->now + placement->times.node_turn_ms;
    placement->nodes.unhealthy = pod->node;
    return true;
}

static void say_of_gpu(struct pjob *pjob, const struct gt_cache_pod *pod, const char *what, const char *why)
{
    char text[1024];
    snprintf(text, sizeof(text), "a GPU of it on node %s is unhealthy or gone: %s%.512s", pod->node_name,
             what, why);
    gt_placement_event(pjob, pod, true, "GPUUnhealthy", "Evict", text);
}

/* Of each job each reason once. */
static void say_it_stays(struct pjob *pjob, const struct gt_cache_pod *pod, const char *what, const char *why)
{
    uint64_t digest = gt_digest_keyed(why);
    if (pjob->move.unhealthy_digest != digest)
        say_of_gpu(pjob, pod, what, why);
    pjob->move.unhealthy_digest = digest;
}

void gt_unhealthy_evict(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    const struct gt_job_view *view = reconcile->view;
    const struct gt_cache_pod *leaves = NULL;
    if (reconcile->placement->spec.options.unhealthy_gpu != GT_UNHEALTHY_EVICT ||
        (view->grouped && view->job->sizes.loss != GT_ON_NODE_LOSS_WAIT)) /* then node_loss.c moves it */
        return;
    for (const struct gt_cache_pod *pod = pjob->job->pods; pod; pod = pod->next) {
        bool begun = gt_evict_has_begun(pjob, pod);
        const char *why = NULL;
        uint64_t due;
        bool has = has_lost_gpu(reconcile->placement, pod, reconcile->now, &due);
        gt_placement_due(pjob, due);
        if (!has)
            continue;
        if (!begun && (why = why_it_stays(reconcile, pod)))
            say_it_stays(pjob, pod, "it stays, since ", why);
        if (!begun && (why || !unhealthy_has_turn(reconcile, pod)))
            continue;
        if (!begun) {
            gt_placement_brake_take(reconcile);
            say_of_gpu(pjob, pod, "it is evicted", "");
        }
        gt_evict_pod(reconcile, pod);
        leaves = pod;
    }
    const char *refusal = leaves ? gt_evict_refusal(pjob, NULL) : NULL;
    if (refusal)
        say_it_stays(pjob, leaves, "its eviction is refused: ", refusal);
}
