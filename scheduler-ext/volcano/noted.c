/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kube/lease.h"
#include "scheduler-ext/volcano/engine.h"

/*
 * What gputopo-scheduler keeps where it places jobs in the same cluster. Its planned pods say so themselves;
 * the places of pods to come, and nodes for jobs that wait, stand in its Lease. They are assumed during a
 * session alone: between two of them pods come that have just these places.
 */

#define NOTED_OWNER UINT64_MAX /* no job's */

void gt_volcano_put_lease(struct gt_volcano *volcano, const cJSON *object)
{
    struct gt_kube_lease lease;
    gt_volcano_remove_lease(volcano);
    if (gt_kube_lease_read(object, &lease, NULL) < 0)
        return;
    /* Clocks of other machines are never compared: it is renewed now, since it has changed. */
    volcano->noted_until = gt_clock_ms() + (uint64_t)lease.duration_s * 1000;
    volcano->note = strdup(gt_kube_lease_note(object));
}

void gt_volcano_remove_lease(struct gt_volcano *volcano)
{
    free(volcano->note);
    volcano->note = NULL;
}

static void assume(struct gt_cluster *cluster, uint32_t node, uint64_t mask)
{
    struct gt_cluster_node info;
    uint32_t id;
    if (gt_cluster_get_node(cluster, node, &info) && (mask & info.available))
        gt_cluster_assume(cluster, node, mask & info.available, NOTED_OWNER, UINT64_MAX, &id, NULL);
}

void gt_volcano_assume_noted(struct gt_volcano *volcano)
{
    struct gt_cluster *cluster = gt_cache_cluster(volcano->cache);
    struct gt_noted noted = {0};
    if (!volcano->note || gt_clock_ms() >= volcano->noted_until)
        return;
    gt_noted_read(&noted, cluster, volcano->note);
    for (uint32_t i = 0; i < noted.count; i++)
        assume(cluster, noted.places[i].node, noted.places[i].mask);
    for (uint32_t n = gt_node_set_next(&noted.nodes, 0); n != GT_NONE;
         n = gt_node_set_next(&noted.nodes, n + 1))
        assume(cluster, n, UINT64_MAX);
    gt_noted_done(&noted);
}

void gt_volcano_forget_noted(struct gt_volcano *volcano)
{
    gt_cluster_forget_owner(gt_cache_cluster(volcano->cache), NOTED_OWNER);
}
