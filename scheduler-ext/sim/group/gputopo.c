/* SPDX-License-Identifier: Apache-2.0 */

#include "base/err.h"
#include "scheduler-ext/sim/group/policy.h"

/* Ours: the decision core of the product, with its own model of the cluster, and with each of its rules. */
struct group_core {
    struct gt_cluster *cluster;
    struct gt_plan_unit *units;
    struct gt_plan_pod *pods;
};

static void group_gputopo_close_state(void *p)
{
    struct group_core *state = p;
    gt_cluster_free(state->cluster);
    free(state->units);
    free(state->pods);
    free(state);
}
GT_DEFINE_CLEANUP(struct group_core *, group_gputopo_close_state)

static int open_with(enum gt_rule rule, const struct gt_world *world, const struct gt_group_setup *setup,
                     void **ret, struct gt_err **err)
{
    GT_CLEANUP(group_gputopo_close_state) struct group_core *state = calloc(1, sizeof(*state));
    GT_NEED(state, err, "policy gputopo");
    state->units = calloc(setup->pods_max, sizeof(*state->units));
    state->pods = calloc(setup->pods_max, sizeof(*state->pods));
    GT_NEED(state->units && state->pods, err, "policy gputopo");
    GT_TRY(gt_site_model(world->site, &state->cluster, err));
    if (setup->chain)
        GT_TRY(gt_chain_set(state->cluster, setup->chain, err));
    gt_cluster_set_rule(state->cluster, rule);
    gt_cluster_set_prefers_close(state->cluster, setup->close);
    *ret = gt_steal(state);
    return 0;
}

static int open_churn(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                      struct gt_err **err)
{
    return open_with(GT_RULE_CHURN, world, setup, ret, err);
}

static int open_static(const struct gt_world *world, const struct gt_group_setup *setup, void **ret,
                       struct gt_err **err)
{
    return open_with(GT_RULE_STATIC, world, setup, ret, err);
}

static void group_gputopo_changed(void *p, const struct gt_world *world, uint32_t node)
{
    struct group_core *state = p;
    gt_cluster_set_eligible(state->cluster, node, world->up[node]);
    gt_cluster_set_free(state->cluster, node, world->free[node]);
}

/* It learns sizes like the companion's cache (scheduler-ext/cache/cache_jobs.c). */
static void group_gputopo_came(void *p, const struct gt_sim_job *job)
{
    struct group_core *state = p;
    uint64_t gpus = (uint64_t)job->pods * job->gpus;
    gt_chain_came(state->cluster, job->unit * job->gpus, gpus);
    gt_chain_came(state->cluster, job->atom * job->gpus, gpus);
}

static void gone(void *p, const struct gt_sim_job *job)
{
    struct group_core *state = p;
    uint64_t gpus = (uint64_t)job->pods * job->gpus;
    gt_chain_gone(state->cluster, job->unit * job->gpus, gpus);
    gt_chain_gone(state->cluster, job->atom * job->gpus, gpus);
}

static void crowded(void *p, bool crowded)
{
    gt_cluster_set_crowded(((struct group_core *)p)->cluster, crowded);
}

static struct gt_cluster *group_gputopo_model(void *p)
{
    return ((struct group_core *)p)->cluster;
}

static bool group_gputopo_place(void *p, struct gt_world *world, const struct gt_sim_job *job,
                                struct gt_place *places)
{
    struct group_core *state = p;
    struct gt_plan_request request;
    gt_group_request(job, true, state->units, state->pods, &request);
    struct gt_plan_failure failure;
    if (!gt_plan_job(state->cluster, &request, &failure))
        return false;
    for (uint32_t i = 0; i < job->pods; i++) {
        places[i] = (struct gt_place){state->pods[i].place.node, state->pods[i].place.mask};
        gt_world_take(world, places[i].node, places[i].mask);
        group_gputopo_changed(state, world, places[i].node);
    }
    return true;
}

#define GPUTOPO                                                                                              \
    .keeps_groups = true, .close = group_gputopo_close_state, .place = group_gputopo_place,                  \
    .model = group_gputopo_model, .came = group_gputopo_came, .gone = gone, .crowded = crowded,              \
    .changed = group_gputopo_changed

const struct gt_group_policy gt_group_gputopo = {.name = "gputopo", .open = open_churn, GPUTOPO};
const struct gt_group_policy gt_group_gputopo_static = {
    .name = "gputopo-static", .open = open_static, GPUTOPO};
