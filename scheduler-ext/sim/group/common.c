/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/policy.h"

void gt_group_request(const struct gt_sim_job *job, bool keeps_groups, struct gt_plan_unit *units,
                      struct gt_plan_pod *pods, struct gt_plan_request *ret)
{
    uint32_t unit = keeps_groups ? job->unit : 1, count = job->pods / unit;
    for (uint32_t u = 0; u < count; u++)
        units[u] = (struct gt_plan_unit){
            .first = u * unit, .pods = unit, .gpus = job->gpus, .atom = keeps_groups ? job->atom : 0};
    for (uint32_t i = 0; i < job->pods; i++)
        pods[i] = (struct gt_plan_pod){.node = GT_NONE};
    *ret =
        (struct gt_plan_request){.units = units, .unit_count = count, .pods = pods, .pod_count = job->pods};
}

void gt_group_part_request(const struct gt_sim_job *job, const bool *wanted, const struct gt_place *places,
                           struct gt_plan_unit *units, struct gt_plan_pod *pods, struct gt_plan_request *ret)
{
    gt_group_request(job, true, units, pods, ret);
    for (uint32_t i = 0; i < job->pods; i++)
        if (!wanted[i])
            pods[i] = (struct gt_plan_pod){.running = true, .node = places[i].node, .mask = places[i].mask};
}

void gt_group_undo(struct gt_world *world, const struct gt_place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        gt_world_give(world, places[i].node, places[i].mask);
}
