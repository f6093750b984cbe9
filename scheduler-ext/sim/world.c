/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/sim/group/policy.h"

void gt_world_free(struct gt_world *world)
{
    if (!world)
        return;
    for (unsigned g = 0; g <= GT_GPUS_MAX; g++)
        free(world->slots[g]);
    free(world->all);
    free(world->free);
    free(world->up);
    free(world->super_gpus);
    free(world);
}

int gt_world_new(const struct gt_site *site, struct gt_world **ret, struct gt_err **err)
{
    gt_auto_cluster struct gt_cluster *model = NULL;
    GT_TRY(gt_site_model(site, &model, err));
    gt_auto_world struct gt_world *world = calloc(1, sizeof(*world));
    GT_NEED(world, err, "simulated cluster");
    world->site = site;
    world->all = calloc(site->node_count, sizeof(*world->all));
    world->free = calloc(site->node_count, sizeof(*world->free));
    world->up = calloc(site->node_count, sizeof(*world->up));
    world->super_gpus = calloc(site->super_count, sizeof(*world->super_gpus));
    if (!world->all || !world->free || !world->up || !world->super_gpus)
        /* cppcheck-suppress memleak ; gt_auto_world frees it */
        return gt_fail_sys(err, ENOMEM, "simulated cluster");
    for (uint32_t i = 0; i < site->node_count; i++) {
        unsigned gpus = site->nodes[i].gpus;
        struct gt_cluster_node node;
        world->up[i] = true;
        if (!gpus || !gt_cluster_get_node(model, i, &node))
            continue;
        world->all[i] = world->free[i] = node.all;
        world->free_gpus += gpus;
        world->super_gpus[site->nodes[i].super] += gpus;
    }
    world->up_gpus = world->free_gpus;
    *ret = gt_steal(world);
    return 0;
}

static void count_slots(const struct gt_world *world, unsigned gpus, uint32_t *to)
{
    for (uint32_t i = 0; i < world->site->node_count; i++)
        to[world->site->nodes[i].super] += gt_world_count(world, i) / gpus;
}

int gt_world_track(struct gt_world *world, unsigned gpus, struct gt_err **err)
{
    if (gpus == 0 || gpus > GT_GPUS_MAX)
        return gt_fail(err, EINVAL, "pods of %u GPUs, expected 1 to %d", gpus, GT_GPUS_MAX);
    if (world->slots[gpus])
        return 0;
    world->slots[gpus] = calloc(world->site->super_count, sizeof(uint32_t));
    GT_NEED(world->slots[gpus], err, "simulated cluster");
    count_slots(world, gpus, world->slots[gpus]);
    return 0;
}

static void recount(struct gt_world *world, uint32_t node, unsigned before)
{
    unsigned after = gt_world_count(world, node);
    uint32_t super = world->site->nodes[node].super;
    world->free_gpus += after - before;
    for (unsigned g = 1; g <= world->site->nodes[node].gpus; g++)
        if (world->slots[g])
            world->slots[g][super] += after / g - before / g;
}

void gt_world_take(struct gt_world *world, uint32_t node, uint64_t mask)
{
    unsigned before = gt_world_count(world, node);
    world->broken |= (gt_world_available(world, node) & mask) != mask;
    world->free[node] &= ~mask;
    recount(world, node, before);
}

void gt_world_give(struct gt_world *world, uint32_t node, uint64_t mask)
{
    unsigned before = gt_world_count(world, node);
    world->broken |= (world->free[node] & mask) || (mask & ~world->all[node]);
    world->free[node] |= mask & world->all[node];
    recount(world, node, before);
}

void gt_world_set_up(struct gt_world *world, uint32_t node, bool up)
{
    if (world->up[node] == up)
        return;
    unsigned before = gt_world_count(world, node);
    uint32_t gpus = world->site->nodes[node].gpus;
    world->up[node] = up;
    world->up_gpus += up ? gpus : -gpus;
    world->super_gpus[world->site->nodes[node].super] += up ? gpus : -gpus;
    recount(world, node, before);
}

bool gt_world_check(const struct gt_world *world)
{
    const struct gt_site *site = world->site;
    uint32_t free_gpus = 0, up_gpus = 0;
    if (world->broken)
        return false;
    for (uint32_t i = 0; i < site->node_count; i++) {
        if (world->free[i] & ~world->all[i])
            return false;
        free_gpus += gt_world_count(world, i);
        up_gpus += world->up[i] ? site->nodes[i].gpus : 0;
    }
    if (free_gpus != world->free_gpus || up_gpus != world->up_gpus)
        return false;
    for (unsigned g = 1; g <= GT_GPUS_MAX; g++) {
        if (!world->slots[g])
            continue;
        gt_auto_free uint32_t *slots = calloc(site->super_count, sizeof(*slots));
        if (!slots)
            return false;
        count_slots(world, g, slots);
        if (memcmp(slots, world->slots[g], site->super_count * sizeof(*slots)) != 0)
            return false;
    }
    return true;
}

void gt_group_request(const struct gt_sim_job *job, bool keeps_groups, struct gt_plan_unit *units,
                      struct gt_plan_pod *pods, struct gt_plan_request *ret)
{
    uint32_t unit = keeps_groups ? job->unit : 1, count = job->pods / unit;
    for (uint32_t u = 0; u < count; u++)
        units[u] = (struct gt_plan_unit){
            .first = u * unit, .pods = unit, .gpus = job->gpus, .atom = keeps_groups ? job->atom : 0};
    for (uint32_t i = 0; i < job->pods; i++)
        pods[i] = (struct gt_plan_pod){.place.node = GT_NONE};
    *ret =
        (struct gt_plan_request){.units = units, .unit_count = count, .pods = pods, .pod_count = job->pods};
}

void gt_group_undo(struct gt_world *world, const struct gt_place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        gt_world_give(world, places[i].node, places[i].mask);
}
