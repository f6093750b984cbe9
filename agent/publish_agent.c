/* SPDX-License-Identifier: Apache-2.0 */

#include <time.h>

#include "agent/agent_private.h"
#include "agent/publish_text.h"
#include "agent/slice.h"
#include "api/resource_slice.h"
#include "base/log.h"
#include "base/time_text.h"

struct gt_agent_publish {
    struct gt_agent *agent;
    struct gt_publish *engine;
    struct gt_agent_condition conditions[GT_TOPOLOGY_CONDITIONS];
    struct gt_publish_scores scores;
    unsigned labels_left_out; /* somebody else's */
    char slice_name[GT_SLICE_NAME_SIZE], counters_name[GT_SLICE_NAME_SIZE];
};

/* ---- the source: what the agent knows ---- */

static void update_conditions(struct gt_agent_publish *publish)
{
    const struct gt_agent *agent = publish->agent;
    struct gt_plugin_stats stats = {0};
    struct gt_podresources_stats lists;
    const struct gt_usage *usage = gt_usage_now(agent->usage);
    char now[GT_TIME_TEXT_SIZE], asked[GT_TIME_TEXT_SIZE] = "", shared[128];
    struct gt_dra_stats dra = {0};
    bool by_claims = agent->dra_offers;
    if (agent->plugin)
        gt_plugin_stats(agent->plugin, &stats);
    if (by_claims)
        gt_dra_stats(agent->dra, &dra);
    gt_podresources_stats(agent->podresources, &lists);
    if (lists.last_s > 0)
        gt_time_text((int64_t)lists.last_s, asked);
    gt_shares_why(&agent->shares, shared, sizeof(shared));
    const struct gt_condition_facts facts = {
        .inventory = agent->inventory,
        .scan_error = agent->scan_error,
        .has_plugin = agent->plugin != NULL || by_claims,
        .by_claims = by_claims,
        .registered = by_claims ? dra.registered : stats.registration.registered,
        .registration_error = by_claims ? agent->dra_error : agent->registration_error,
        .shared_why = shared[0] ? shared : NULL,
        .usage_known = usage->known,
        .usage_stale = usage->stale,
        .usage_error = agent->usage_error,
        .usage_at = asked,
    };
    gt_time_text(time(NULL), now);
    gt_conditions_update(publish->conditions, &facts, now);
}

/* HAMi counts the same devices as the kubelet: also lost GPUs while they are listed. */
static unsigned capacity_of(const struct gt_inventory *inventory)
{
    unsigned gpus = inventory->node->gpu_count;
    if (gt_node_not_advertised(inventory->node))
        return 0; /* the vendor's plugin has the node, and its annotations */
    return inventory->device_count > gpus ? inventory->device_count : gpus;
}

/* Not before it is known who uses what, and the driver can take claims. */
static bool may_offer(const struct gt_agent *agent)
{
    struct gt_dra_stats stats;
    gt_dra_stats(agent->dra, &stats);
    return gt_usage_now(agent->usage)->known && stats.registered;
}

bool gt_agent_publishes_counters(const struct gt_agent *agent)
{
    return agent->options->composites && agent->dra_offers && agent->dra_counters != GT_COUNTERS_DROPPED &&
           (!agent->inventory || agent->inventory->node->gpu_count <= GT_COMPOSITE_GPUS_MAX);
}

static bool publish_agent_write_counters(const struct gt_agent *agent, const char *uid, struct gt_buf *to)
{
    if (!may_offer(agent) || !gt_agent_publishes_counters(agent))
        return false;
    gt_resource_slice_write_counters(agent->options->node_name, uid, to);
    return true;
}

/* Where there are counters, they have to be kept first. */
static bool write_slice(const struct gt_agent *agent, const char *uid, struct gt_buf *to)
{
    static const char *const effects[] = {
        [GT_TAINT_NONE] = NULL, [GT_TAINT_NO_SCHEDULE] = "NoSchedule", [GT_TAINT_NO_EXECUTE] = "NoExecute"};
    bool composites = gt_agent_publishes_counters(agent);
    if (!may_offer(agent) || (composites && agent->dra_counters != GT_COUNTERS_KEPT))
        return false;
    const struct gt_slice_facts facts = {
        .node_name = agent->options->node_name,
        .node_uid = uid,
        .supernode = agent->supernode,
        .inventory = agent->inventory,
        .usage = gt_usage_now(agent->usage),
        .others = agent->dra_others,
        .taint_effect = effects[agent->options->taint],
        .claims = gt_dra_claims(agent->dra),
        .composites = composites,
    };
    gt_slice_write(&facts, to);
    return true;
}

static bool source_write(void *arg, enum gt_publish_lane lane, const char *uid, const char *at,
                         struct gt_buf *to)
{
    struct gt_agent_publish *publish = arg;
    const struct gt_agent *agent = publish->agent;
    const struct gt_inventory *inventory = agent->inventory;
    const char *name = agent->options->node_name;
    const struct gt_usage *usage = gt_usage_now(agent->usage);
    if (lane == GT_PUBLISH_USAGE || lane == GT_PUBLISH_ANNOTATIONS)
        gt_publish_scores_update(&publish->scores, inventory, usage);
    switch (lane) {
    case GT_PUBLISH_OBJECT:
        gt_node_gpu_topology_write_object(name, uid, to);
        return true;
    case GT_PUBLISH_WIRING:
        update_conditions(publish);
        gt_publish_write_wiring(name, inventory->node, publish->conditions, at, to);
        return true;
    case GT_PUBLISH_USAGE:
        return gt_publish_write_usage(name, usage, &publish->scores, to);
    case GT_PUBLISH_ANNOTATIONS:
        gt_publish_write_annotations(name, uid, &publish->scores, capacity_of(inventory), to);
        return true;
    case GT_PUBLISH_LABELS:
        gt_publish_write_labels(name, uid, inventory->node, publish->labels_left_out, to);
        return true;
    case GT_PUBLISH_CONDITION:
        update_conditions(publish);
        gt_publish_write_condition(name, uid, &publish->conditions[GT_TOPOLOGY_GPUS_HEALTHY], to);
        return true;
    case GT_PUBLISH_COUNTERS:
        return publish_agent_write_counters(agent, uid, to);
    case GT_PUBLISH_SLICE:
        return write_slice(agent, uid, to);
    case GT_PUBLISH_OWNER:
    case GT_PUBLISH_LANES:
        break;
    }
    return false;
}

static bool source_wanted(void *arg)
{
    const struct gt_agent_publish *publish = arg;
    const struct gt_inventory *inventory = publish->agent->inventory;
    return inventory->node->gpu_count || inventory->device_count;
}

static void source_found(void *arg, const cJSON *object)
{
    struct gt_agent_publish *publish = arg;
    gt_conditions_adopt(publish->conditions, object);
}

static bool source_conflict(void *arg, enum gt_publish_lane lane, const cJSON *status)
{
    struct gt_agent_publish *publish = arg;
    unsigned all = (1U << GT_PUBLISH_LABELS_COUNT) - 1;
    unsigned refused = gt_publish_labels_in_conflict(status) & ~publish->labels_left_out;
    if (lane != GT_PUBLISH_LABELS || publish->labels_left_out == all)
        return false;
    if (!refused)
        refused = all & ~publish->labels_left_out; /* it names no label of ours: leave all of them */
    for (unsigned i = 0; i < GT_PUBLISH_LABELS_COUNT; i++)
        if (refused >> i & 1)
            gt_info("a label of the Node is somebody else's, left to them",
                    GT_STR("label", gt_publish_label_key((enum gt_publish_label)i)));
    publish->labels_left_out |= refused;
    return true;
}

/* ---- the daemon's side ---- */

/* The published state is better than one that is found without the vendor library. */
static bool publish_agent_is_changed(const struct gt_agent_publish *publish)
{
    return publish && publish->agent->inventory && !publish->agent->early;
}

void gt_agent_publish_changed(struct gt_agent_publish *publish)
{
    if (!publish_agent_is_changed(publish))
        return;
    gt_publish_begin(publish->engine);
    gt_publish_changed(publish->engine);
}

void gt_agent_publish_refresh(struct gt_agent_publish *publish)
{
    if (!publish_agent_is_changed(publish))
        return;
    publish->labels_left_out = 0;
    gt_publish_refresh(publish->engine);
}

void gt_agent_publish_again(struct gt_agent_publish *publish, enum gt_publish_lane lane)
{
    if (publish)
        gt_publish_again(publish->engine, lane);
}

void gt_agent_publish_stop(struct gt_agent_publish *publish)
{
    if (!publish)
        return;
    gt_publish_free(publish->engine);
    gt_publish_scores_done(&publish->scores);
    free(publish);
}
GT_DEFINE_CLEANUP(struct gt_agent_publish *, gt_agent_publish_stop)

static int make_engine(struct gt_agent_publish *publish, struct gt_err **err)
{
    const struct gt_agent_options *options = publish->agent->options;
    bool by_claims = options->advertise == GT_ADVERTISE_DRA;
    gt_resource_slice_name(options->node_name, publish->slice_name);
    gt_resource_slice_counters_name(options->node_name, publish->counters_name);
    struct gt_publish_options engine = {
        .node_name = options->node_name,
        .heartbeat_ms = (uint64_t)options->heartbeat_s * 1000,
        .force_annotations = options->device_plugin,
        .slice_name = by_claims ? publish->slice_name : NULL,
        .counters_name = by_claims && options->composites ? publish->counters_name : NULL,
        .node_only = options->publish == GT_PUBLISH_NODE_ONLY,
    };
    const struct gt_publish_source source = {source_write, source_wanted, source_found, source_conflict,
                                             publish};
    gt_jitter_seed(&engine.jitter);
    return gt_publish_new(&engine, &source, gt_kube_writer(publish->agent->kube), &publish->engine, err);
}

int gt_agent_publish_start(struct gt_agent *agent, struct gt_agent_publish **ret, struct gt_err **err)
{
    __attribute__((cleanup(gt_agent_publish_stop_p))) struct gt_agent_publish *publish =
        calloc(1, sizeof(*publish));
    GT_NEED(publish, err, "publisher");
    publish->agent = agent;
    GT_TRY(make_engine(publish, err));
    *ret = gt_steal(publish);
    return 0;
}

bool gt_agent_publish_stats(const struct gt_agent_publish *publish, struct gt_publish_stats *ret,
                            struct gt_kube_counters *ret_client)
{
    if (!publish)
        return false;
    gt_publish_stats(publish->engine, ret);
    gt_kube_counters(publish->agent->kube, ret_client);
    return true;
}
