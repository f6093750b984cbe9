/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/agent_private.h"
#include "api/names.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

enum { STALE_S = 60, GPUS_LOGGED = 4096 };

static double now_s(void)
{
    return (double)gt_clock_ns() / 1e9;
}

static bool same_owner(const struct gt_usage_owner *a, const struct gt_usage_owner *b)
{
    if (a->claim[0] && b->claim[0]) /* the kubelet lists the container later than the driver the claim */
        return strcmp(a->claim_namespace, b->claim_namespace) == 0 && strcmp(a->claim, b->claim) == 0;
    return strcmp(a->namespace, b->namespace) == 0 && strcmp(a->pod, b->pod) == 0 &&
           strcmp(a->container, b->container) == 0;
}

/* Whether the same container holds the device there, GPU of the node or not. */
static bool agent_usage_has(const struct gt_usage *usage, const struct gt_usage_owner *owner)
{
    for (unsigned i = 0; i < usage->gpu_count + usage->unknown_devices; i++)
        if (strcmp(usage->owners[i].id, owner->id) == 0 && same_owner(&usage->owners[i], owner))
            return true;
    return false;
}

/* One line for each container that holds GPUs in `usage` which it does not in `other`. */
static void log_owners(const struct gt_usage *usage, const struct gt_usage *other, const char *event)
{
    uint64_t added = 0;
    for (unsigned i = 0; i < usage->gpu_count; i++)
        if (usage->used >> i & 1 && !agent_usage_has(other, &usage->owners[i]))
            added |= 1ULL << i;
    while (added) {
        const struct gt_usage_owner *owner = &usage->owners[gt_bit_first(added)];
        gt_auto_buf struct gt_buf ids = GT_BUF(GPUS_LOGGED);
        unsigned count = 0;
        for (unsigned i = 0; i < usage->gpu_count; i++)
            if (added >> i & 1 && same_owner(&usage->owners[i], owner)) {
                gt_buf_printf(&ids, "%s%s", count++ ? "," : "", usage->owners[i].id);
                added &= ~(1ULL << i);
            }
        gt_info(event, GT_STR("namespace", owner->namespace), GT_STR("pod", owner->pod),
                GT_STR("container", owner->container), GT_INT("gpus", count),
                GT_STR("ids", ids.data ? ids.data : ""));
    }
}

static void log_alarms(struct gt_agent *agent, const struct gt_usage *before, const struct gt_usage *usage)
{
    for (unsigned i = 0; i < usage->gpu_count; i++)
        if (usage->twice & ~before->twice & 1ULL << i) {
            gt_warning("two containers hold one GPU", GT_INT("gpu", i), GT_STR("id", usage->owners[i].id),
                       GT_STR("namespace", usage->owners[i].namespace), GT_STR("pod", usage->owners[i].pod));
            gt_agent_record_event(agent, true, "GPUHeldTwice",
                                  "two containers hold the GPU %s, one of them in pod %s/%s",
                                  usage->owners[i].id, usage->owners[i].namespace, usage->owners[i].pod);
        }
    for (unsigned i = 0; i < usage->unknown_devices; i++) {
        const struct gt_usage_owner *unknown = &usage->owners[usage->gpu_count + i];
        bool was = false;
        for (unsigned k = 0; k < before->unknown_devices; k++)
            was |= strcmp(before->owners[before->gpu_count + k].id, unknown->id) == 0;
        if (!was)
            gt_warning("a container holds a device that is no GPU of this node", GT_STR("id", unknown->id),
                       GT_STR("namespace", unknown->namespace), GT_STR("pod", unknown->pod),
                       GT_STR("container", unknown->container));
    }
}

/* Memory in use is a fault only where it is known that no container holds the GPU. The kubelet lists no
 * ordinary init container: what was allocated counts as held until it has been listed. */
static void agent_usage_tell_scanner(struct gt_agent *agent)
{
    const struct gt_usage *now = gt_usage_now(agent->usage);
    struct gt_gpus_in_use gpus_in_use = {.known = true};
    agent->unlisted &= ~now->used;
    for (unsigned i = 0; i < now->gpu_count; i++) {
        struct gt_gpu_in_use *user = &gpus_in_use.of[gpus_in_use.count];
        if (!((now->used | agent->unlisted) >> i & 1))
            continue;
        gt_text_copy(user->bdf, sizeof(user->bdf), agent->inventory->node->gpus[i].bdf);
        if (now->used >> i & 1)
            snprintf(user->pod, sizeof(user->pod), "%.30s/%.60s", now->owners[i].namespace,
                     now->owners[i].pod);
        gpus_in_use.count++;
    }
    gt_scanner_set_in_use(agent->scanner, &gpus_in_use);
}

static void agent_usage_on_changed(void *arg, const struct gt_usage *before, const struct gt_usage *usage)
{
    struct gt_agent *agent = arg;
    log_owners(before, usage, "GPUs freed");
    log_owners(usage, before, "GPUs in use");
    log_alarms(agent, before, usage);
    if (usage->stale && !before->stale) {
        gt_warning("the kubelet does not say who uses the GPUs, the state before is kept");
        gt_agent_record_event(agent, true, "GPUUsageUnknown",
                              "the kubelet has not said for a minute who uses the GPUs: %s",
                              agent->usage_error);
    }
    gt_agent_dra_used(agent);
    gt_agent_publish_changed(agent->publish);
}

/* What is served depends on what is in use only where something is lost or unknown. */
static bool matters(const struct gt_inventory *inventory, const struct gt_in_use *in_use)
{
    for (unsigned i = 0; i < inventory->device_count; i++)
        if (inventory->devices[i].gpu < 0)
            return true;
    for (unsigned i = 0; inventory->device_count && i < in_use->count; i++)
        if (!gt_inventory_find(inventory, in_use->ids[i]))
            return true;
    return false;
}

/* GPUs without known UUID are served by their PCI address. They get their UUID as ID when it is known and no
 * container holds them. True: there is one. */
static bool retire_temporary_ids(struct gt_agent *agent, struct gt_in_use *in_use)
{
    const struct gt_inventory *inventory = agent->inventory;
    bool some = false;
    for (unsigned i = 0; agent->plugin && in_use->complete && inventory && i < inventory->device_count; i++) {
        const struct gt_device *device = &inventory->devices[i];
        if (gt_inventory_has_temporary_id(inventory, device) && !gt_in_use_has(in_use, device->id) &&
            gt_plugin_retire(agent->plugin, device->id))
            some = true;
    }
    if (agent->plugin)
        gt_plugin_retired(agent->plugin, in_use);
    return some;
}

static void update_scanner(struct gt_agent *agent)
{
    struct gt_in_use in_use;
    gt_usage_in_use(agent->usage, &in_use);
    bool retired = retire_temporary_ids(agent, &in_use);
    bool changed = gt_scanner_in_use(agent->scanner, &in_use);
    if (retired || (changed && agent->inventory && matters(agent->inventory, &in_use)))
        gt_scanner_request(agent->scanner, GT_SCAN_IDS);
}

static void agent_usage_on_listed(void *arg, const struct gt_device_uses *uses)
{
    struct gt_agent *agent = arg;
    if (agent->usage_error[0])
        gt_info("the kubelet says again who uses the GPUs");
    agent->usage_error[0] = '\0';
    agent->listed_s = now_s();
    gt_usage_listed(agent->usage, uses);
    if (gt_usage_now(agent->usage)->known && !uses->settling)
        agent_usage_tell_scanner(agent);
    agent->given = 0;
    update_scanner(agent);
    gt_agent_plans_listed(agent, uses);
    gt_agent_shares_in_use(agent, uses->others);
    gt_agent_synced(agent, GT_SYNC_IN_USE);
}

static void agent_usage_on_offered(void *arg, int others)
{
    struct gt_agent *agent = arg;
    gt_agent_shares_offered(agent, others);
    gt_agent_synced(agent, GT_SYNC_OFFERED);
}

static void agent_usage_on_failed(void *arg, const char *why, unsigned retry_ms)
{
    struct gt_agent *agent = arg;
    gt_agent_synced(agent, GT_SYNC_IN_USE | GT_SYNC_OFFERED);
    if (!agent->inventory)
        return; /* an agent that cannot scan ends with one line; the next failure is logged */
    bool again = agent->usage_error[0] != '\0';
    /* While a kubelet restarts the reason changes: that it does not answer is logged once. */
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot ask the kubelet who uses the GPUs",
           GT_STR("why", why), GT_INT("retry_ms", retry_ms));
    snprintf(agent->usage_error, sizeof(agent->usage_error), "%s", why);
    if (now_s() - agent->listed_s > STALE_S)
        gt_usage_stale(agent->usage, true);
}

int gt_agent_usage_start(struct gt_agent *agent, struct gt_err **err)
{
    const struct gt_podresources_options options = {
        .kubelet_dir = agent->options->kubelet_dir,
        .resource = agent->options->resource,
        .other = GT_RESOURCE_SGPU,
        .driver = GT_DRA_DRIVER,
        .plugin = agent->plugin,
    };
    const struct gt_podresources_events events = {agent_usage_on_listed, agent_usage_on_failed,
                                                  agent_usage_on_offered, agent};
    GT_TRY(gt_usage_table_new(agent_usage_on_changed, agent, &agent->usage, err));
    GT_TRY(gt_agent_sync_start(agent, err));
    GT_TRY(gt_podresources_new(agent->loop, &options, &events, &agent->podresources, err));
    /* The probe may wait for its device nodes, and the whole scan for the probe. */
    gt_scanner_request(agent->scanner, GT_SCAN_FULL | (agent->nodes_plugin ? GT_SCAN_BARE : 0U));
    return 0;
}

void gt_agent_usage_stop(struct gt_agent *agent)
{
    gt_podresources_free(gt_steal(agent->podresources));
    gt_source_free(gt_steal(agent->sync_timer));
    gt_usage_table_free(gt_steal(agent->usage));
}
