/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "cli/plan.h"

/* ---- names and figures for the writers ---- */

const char *cli_plan_node(const struct cli_plan *plan, uint32_t node)
{
    struct gt_cluster_node n;
    return gt_cluster_get_node(plan->cluster, node, &n) ? n.name : "";
}

const char *cli_plan_supernode(const struct cli_plan *plan, uint32_t supernode)
{
    struct gt_cluster_supernode s;
    return gt_cluster_get_supernode(plan->cluster, supernode, &s) ? s.name : "the cluster";
}

const char *cli_plan_supernode_of(const struct cli_plan *plan, uint32_t pod)
{
    struct gt_cluster_node n;
    return gt_cluster_get_node(plan->cluster, plan->pods[pod].node, &n)
               ? cli_plan_supernode(plan, n.supernode)
               : "";
}

uint32_t cli_plan_score(const struct cli_plan *plan, uint32_t pod)
{
    struct gt_cluster_node n;
    return gt_cluster_get_node(plan->cluster, plan->pods[pod].node, &n)
               ? gt_class_sum(n.class, plan->pods[pod].mask)
               : 0;
}

/* ---- room and bounds ---- */

static int by_room(const void *a, const void *b)
{
    const struct cli_plan_capacity *x = a, *y = b;
    if (x->pods != y->pods)
        return x->pods > y->pods ? -1 : 1;
    return (x->supernode > y->supernode) - (x->supernode < y->supernode);
}

static int list_room(struct cli_plan *plan, const uint32_t *room, struct gt_err **err)
{
    uint32_t count = gt_cluster_supernodes(plan->cluster);
    plan->room = calloc((size_t)count + 1, sizeof(*plan->room));
    if (!plan->room)
        return gt_fail_sys(err, ENOMEM, "plan");
    struct gt_cluster_supernode supernode;
    for (uint32_t s = 0; s < count; s++)
        if (gt_cluster_get_supernode(plan->cluster, s, &supernode) && supernode.tier == 1)
            plan->room[plan->room_count++] = (struct cli_plan_capacity){s, room[s]};
    qsort(plan->room, plan->room_count, sizeof(*plan->room), by_room);
    return 0;
}

int cli_plan_bounds(struct cli_plan *plan, struct gt_err **err)
{
    gt_auto_free uint32_t *room = NULL;
    uint32_t supernodes = gt_cluster_supernodes(plan->cluster);
    struct gt_chain_sizes chain;
    gt_chain_get(plan->cluster, &chain);
    int r = gt_capacity_of(plan->cluster, plan->gpus, &room, err);
    for (unsigned i = 0; i < chain.count && r >= 0; i++) {
        struct gt_bounds places;
        if (chain.size[i] % plan->gpus)
            continue;
        r = gt_bounds_of(room, supernodes, chain.size[i] / plan->gpus, 0, &places, err);
        if (r < 0)
            break;
        plan->chain.size[plan->chain.count] = chain.size[i];
        plan->places[plan->chain.count++] = places.whole;
    }
    if (r >= 0)
        r = list_room(plan, room, err);
    if (r < 0)
        return r;
    return gt_bounds_of(room, supernodes, plan->units[0].pods, plan->units[0].atom, &plan->bounds, err);
}
