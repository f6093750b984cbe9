/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/agent_private.h"
#include "base/log.h"

/*
 * The CDI spec of the node's GPUs: it is checked with every inventory and by a timer, because somebody may
 * have removed it. While it cannot be written and containers would get only names, no GPU is offered.
 */
enum { CDI_CHECK_MS = 5000 };

static bool agent_cdi_is_used(const struct gt_agent *agent)
{
    const struct gt_agent_options *options = agent->options;
    return options->device_plugin && options->advertise == GT_ADVERTISE_PLUGIN &&
           options->strategy != GT_STRATEGY_DEVICES;
}

static void say_failed(struct gt_agent *agent, const char *why)
{
    bool first = !agent->cdi_error[0];
    gt_log(gt_log_level_of(agent->cdi_error, sizeof(agent->cdi_error), why), "CDI spec not written",
           GT_STR("why", why));
    if (first)
        gt_agent_record_event(agent, true, "CDISpecNotWritten", "%s: %.600s",
                              agent->options->strategy == GT_STRATEGY_CDI
                                  ? "no GPU is offered, since the CDI spec cannot be written"
                                  : "containers get device nodes alone, since the CDI spec cannot be written",
                              why);
}

static void agent_cdi_refresh(struct gt_agent *agent, const struct gt_inventory *inventory)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_cdi_stats before, after;
    gt_cdi_stats(agent->cdi, &before);
    int r = gt_cdi_refresh(agent->cdi, inventory, &err);
    gt_cdi_stats(agent->cdi, &after);
    if (r < 0) {
        say_failed(agent, gt_err_text(err));
        return;
    }
    if (after.writes != before.writes)
        gt_info("CDI spec written", GT_STR("file", gt_cdi_path(agent->cdi)));
    if (agent->cdi_error[0])
        gt_agent_record_event(agent, false, "CDISpecWritten", "the CDI spec is written again");
    agent->cdi_error[0] = '\0';
}

/* A spec of an earlier strategy of this node: containers from then need it to restart. */
static void remove_left_over(struct gt_agent *agent)
{
    gt_auto_err struct gt_err *err = NULL;
    const struct gt_usage *usage = gt_usage_now(agent->usage);
    if (!usage->known || usage->stale || usage->used || usage->unknown_devices) {
        gt_source_arm(agent->cdi_timer, CDI_CHECK_MS);
        return;
    }
    if (gt_cdi_remove(agent->cdi, &err) < 0)
        gt_warning("CDI spec of before not removed", GT_STR("why", gt_err_text(err)));
    else
        gt_info("CDI spec of before removed", GT_STR("file", gt_cdi_path(agent->cdi)));
}

bool gt_agent_cdi_timer(struct gt_agent *agent)
{
    if (!agent_cdi_is_used(agent)) {
        remove_left_over(agent);
        return false;
    }
    gt_source_arm(agent->cdi_timer, CDI_CHECK_MS);
    if (!agent->scanned)
        return false;
    bool failed = agent->cdi_error[0];
    agent_cdi_refresh(agent, agent->scanned);
    return failed != (agent->cdi_error[0] != '\0') && agent->options->strategy == GT_STRATEGY_CDI;
}

struct gt_inventory *gt_agent_cdi_check(struct gt_agent *agent, struct gt_inventory *inventory)
{
    struct gt_inventory *withheld = NULL;
    char reason[sizeof(inventory->devices[0].reason)];
    if (!agent_cdi_is_used(agent))
        return inventory;
    agent_cdi_refresh(agent, inventory);
    snprintf(reason, sizeof(reason), "no CDI spec: %.100s", agent->cdi_error);
    if (agent->cdi_error[0] && agent->options->strategy == GT_STRATEGY_CDI &&
        gt_inventory_withhold(inventory, UINT64_MAX, reason, &withheld, NULL) == 0) {
        gt_inventory_unref(inventory);
        return withheld;
    }
    return inventory;
}

int gt_agent_cdi_start(struct gt_agent *agent, gt_timer_callback *on_timer, struct gt_err **err)
{
    const struct gt_agent_options *options = agent->options;
    const struct gt_cdi_options cdi = {options->cdi_dir, options->resource, options->dev_root};
    if (!agent_cdi_is_used(agent) && gt_cdi_check(&cdi, NULL) < 0)
        return 0; /* it never had one */
    GT_TRY(gt_cdi_new(&cdi, &agent->cdi, err));
    if (!agent_cdi_is_used(agent) && !gt_cdi_exists(agent->cdi))
        return 0;
    GT_TRY(gt_loop_add_timer(agent->loop, on_timer, agent, &agent->cdi_timer, err));
    gt_source_arm(agent->cdi_timer, CDI_CHECK_MS);
    return 0;
}
