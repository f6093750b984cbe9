/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan.h"

/* Names and figures for the writers. */

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
