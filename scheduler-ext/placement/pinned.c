/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "scheduler-ext/placement/reconcile.h"

/* Nodes to which other jobs' pods are pinned. */

/*
 * A pod without its gate is pinned to its node. Where its plan is lost nothing is reserved there, but others
 * should avoid the node, since the pod can only run when that node has room.
 */
int gt_placement_pinned(const struct pjob *pjob, struct gt_node_set *to, struct gt_err **err)
{
    for (const struct pjob *other = pjob->placement->jobs.lists[PJOBS_LOST].first; other;
         other = other->links[PJOBS_LOST].next) {
        if (other == pjob)
            continue;
        for (const struct gt_cache_pod *pod = other->job->pods; pod; pod = pod->next) {
            if (pod->state != GT_CACHE_WAITING || pod->deleting || pod->plan_node == GT_NONE)
                continue;
            GT_TRY(gt_node_set_add(to, pod->plan_node, err));
        }
    }
    return 0;
}

/* The supernodes of the job with that key. */
static int pinned_add_supernodes(const struct gt_cluster *cluster, const struct gt_cache_job *job,
                                 struct gt_node_set *to, struct gt_err **err)
{
    int r = 0;
    for (const struct gt_cache_pod *pod = job->pods; pod && r >= 0; pod = pod->next) {
        uint32_t node = pod->node != GT_NONE ? pod->node : pod->plan_node;
        struct gt_cluster_node info;
        if (!pod->deleting && node != GT_NONE && gt_cluster_get_node(cluster, node, &info))
            r = gt_node_set_add(to, info.supernode, err);
    }
    return r;
}

int gt_placement_spread(const struct reconcile *reconcile, struct gt_node_set *to, struct gt_err **err)
{
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set used = {0};
    struct gt_cache *cache = reconcile->placement->spec.cache;
    const struct gt_cache_job *own = reconcile->pjob->job;
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    bool more = reconcile->view->job->sizes.spread && reconcile->owner && reconcile->owner->jobs;
    int r = 0;
    for (unsigned number = 0; more && r >= 0; number++) {
        gt_auto_buf struct gt_buf key = GT_BUF(2048);
        more = gt_owner_job_key(reconcile->kind, reconcile->owner, own->pods->meta.namespace_,
                                own->pods->identity.owner, number, &key);
        const struct gt_cache_job *other = more && key.data ? gt_cache_find_job(cache, key.data) : NULL;
        if (other && other != own)
            r = pinned_add_supernodes(cluster, other, &used, err);
    }
    for (uint32_t n = 0; r >= 0 && used.nodes && n < gt_cluster_nodes(cluster); n++) {
        struct gt_cluster_node info;
        if (gt_cluster_get_node(cluster, n, &info) && gt_node_set_has(&used, info.supernode))
            r = gt_node_set_add(to, n, err);
    }
    return r;
}

void gt_placement_say_holder(const struct gt_placement *placement, char to[static PLACEMENT_HOLDER_SIZE])
{
    char until[GT_TIME_TEXT_SIZE];
    *to = '\0';
    if (!placement->nodes.holder)
        return;
    gt_time_text(placement->nodes.holder->place.reserved_until_s, until);
    snprintf(to, PLACEMENT_HOLDER_SIZE, "%s until %s", placement->nodes.holder->job->key, until);
}
