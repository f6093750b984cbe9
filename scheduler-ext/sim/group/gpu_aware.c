/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "scheduler-ext/core/score.h"
#include "scheduler-ext/sim/group/policy.h"

/* gpu-aware of the decision core: each pod alone on the node of the best value. Groups are not known. */
static void close_state(void *cluster)
{
    gt_cluster_free(cluster);
}

static int open_state(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                      struct gt_err **err)
{
    gt_auto_cluster struct gt_cluster *cluster = NULL;
    struct gt_aware_weights weights = GT_AWARE_DEFAULT;
    weights.loss_weight = setup->loss_weight;
    int r = gt_site_model(world->site, &cluster, err);
    if (r >= 0)
        r = gt_score_set_weights(cluster, &weights, err);
    if (r >= 0)
        *ret = gt_steal(cluster);
    return r;
}

static void changed(void *cluster, const struct gt_world *world, uint32_t node)
{
    gt_cluster_set_free(cluster, node, gt_world_available(world, node));
}

static bool place(void *cluster, struct gt_world *world, const struct gt_sim_job *job,
                  struct gt_place *places)
{
    for (uint32_t pod = 0; pod < job->pods; pod++) {
        uint32_t node = gt_score_best(cluster, NULL, job->gpus);
        struct gt_score_parts parts;
        if (node == GT_NONE || !gt_score_one(cluster, node, job->gpus, &parts)) {
            gt_group_undo(world, places, pod);
            while (pod--)
                changed(cluster, world, places[pod].node);
            return false;
        }
        places[pod] = (struct gt_place){node, parts.choice.mask};
        gt_world_take(world, node, parts.choice.mask);
        changed(cluster, world, node);
    }
    return true;
}

const struct gt_group_policy gt_group_gpu_aware = {
    .name = "gpu-aware", .open = open_state, .close = close_state, .place = place, .changed = changed};
