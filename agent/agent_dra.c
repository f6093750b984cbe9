/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/agent_private.h"
#include "api/names.h"
#include "base/log.h"

/*
 * The driver of Dynamic Resource Allocation in the daemon. A GPU is offered by the device plugin or by the
 * driver, never by both: --advertise selects which. GPUs that containers hold by the other one are not
 * offered until these end. If the plugin offers the GPUs again, the driver runs as long as claims are
 * prepared.
 */

static const char uuid_variable[] = "METAX_GPU_UUIDS", nic_variable[] = "METAX_GPU_NICS";
static const char given_back[] =
    "this node offers its GPUs by the device plugin, not by Dynamic Resource Allocation";

/* The GPUs in use have changed, by the kubelet's list or by the driver. */
void gt_agent_dra_used(struct gt_agent *agent)
{
    const struct gt_usage *usage = gt_usage_now(agent->usage);
    if (!agent->dra || !agent->inventory)
        return;
    agent->dra_others =
        usage->known ? gt_usage_others(usage, gt_dra_claims(agent->dra), agent->inventory) : UINT64_MAX;
    gt_dra_others(agent->dra, agent->dra_others);
}

struct gt_inventory *gt_agent_dra_check(struct gt_agent *agent, struct gt_inventory *inventory)
{
    static const char reason[] = "in use by a ResourceClaim until its pod ends";
    struct gt_inventory *withheld = NULL;
    if (!agent->dra)
        return inventory;
    gt_dra_publish(agent->dra, inventory);
    if (agent->dra_refused && agent->inventory && !gt_inventory_same_list(agent->inventory, inventory)) {
        gt_agent_dra_retry_pods(agent); /* the GPU may be healthy again */
        agent->dra_refused = false;
    }
    if (agent->dra_offers || !gt_dra_held(agent->dra))
        return inventory;
    if (gt_inventory_withhold_some(inventory, gt_dra_held(agent->dra), reason, &withheld, NULL) < 0)
        return inventory;
    gt_inventory_unref(inventory);
    return withheld;
}

static void dra_on_registered(void *arg)
{
    struct gt_agent *agent = arg;
    agent->dra_error[0] = '\0';
    gt_info("registered for Dynamic Resource Allocation", GT_STR("driver", GT_DRA_DRIVER));
    gt_agent_dra_retry_pods(agent);
    gt_podresources_soon(agent->podresources);
    gt_agent_publish_changed(agent->publish);
}

static void dra_on_registration_failed(void *arg, const char *why)
{
    struct gt_agent *agent = arg;
    bool again = strncmp(agent->dra_error, why, sizeof(agent->dra_error) - 1) == 0;
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "registration for Dynamic Resource Allocation failed",
           GT_STR("why", why));
    snprintf(agent->dra_error, sizeof(agent->dra_error), "%s", why);
    gt_agent_publish_changed(agent->publish);
}

static void on_prepared(void *arg, const struct gt_dra_claim_id *claim, unsigned device_count,
                        const char *error)
{
    struct gt_agent *agent = arg;
    if (error)
        gt_warning("claim refused", GT_STR("namespace", claim->namespace), GT_STR("claim", claim->name),
                   GT_STR("why", error));
    else
        gt_info("claim prepared", GT_STR("namespace", claim->namespace), GT_STR("claim", claim->name),
                GT_INT("gpus", device_count));
    agent->dra_refused |= error != NULL;
    gt_podresources_soon(agent->podresources);
}

static void on_unprepared(void *arg, const struct gt_dra_claim_id *claim, const char *error)
{
    struct gt_agent *agent = arg;
    if (error)
        gt_warning("claim cannot be given back", GT_STR("namespace", claim->namespace),
                   GT_STR("claim", claim->name), GT_STR("why", error));
    else
        gt_info("claim given back", GT_STR("namespace", claim->namespace), GT_STR("claim", claim->name));
    gt_podresources_soon(agent->podresources);
    if (agent->dra_refused &&
        !error) /* one of those may get its GPU now, and the kubelet asks again after a minute only */
        gt_agent_dra_retry_pods(agent);
    agent->dra_refused = false;
}

static void on_specs(void *arg, const char *error)
{
    struct gt_agent *agent = arg;
    bool failed = agent->dra_spec_error[0];
    bool again = error && strncmp(agent->dra_spec_error, error, sizeof(agent->dra_spec_error) - 1) == 0;
    if (error)
        gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "CDI spec of a claim not written",
               GT_STR("why", error));
    if (error && !failed)
        gt_agent_record_event(agent, true, "CDISpecNotWritten",
                              "containers of a claim may not start again, since its CDI spec cannot be "
                              "written: %.600s",
                              error);
    if (!error && failed)
        gt_agent_record_event(agent, false, "CDISpecWritten",
                              "the CDI specs of all claims are written again");
    snprintf(agent->dra_spec_error, sizeof(agent->dra_spec_error), "%s", error ? error : "");
}

/* Not at once: the driver is at work. */
static void dra_on_changed(void *arg)
{
    struct gt_agent *agent = arg;
    gt_source_arm(agent->dra_changed, 1);
}

static void on_state_lost(void *arg, const char *why)
{
    struct gt_agent *agent = arg;
    gt_error("the prepared claims on disk cannot be read, going on with what the kubelet lists",
             GT_STR("why", why));
    gt_agent_record_event(agent, true, "ClaimsLost",
                          "the file of prepared claims could not be read and was put aside: %.600s", why);
}

int gt_agent_dra_start(struct gt_agent *agent, gt_timer_callback *on_change, struct gt_err **err)
{
    const struct gt_agent_options *options = agent->options;
    const struct gt_dra_options dra = {
        .driver = GT_DRA_DRIVER,
        .node_name = options->node_name,
        .kubelet_dir = options->kubelet_dir,
        .cdi = {options->cdi_dir, options->resource, options->dev_root, uuid_variable, nic_variable},
    };
    const struct gt_dra_events events = {gt_agent_dra_read_claim,
                                         dra_on_registered,
                                         dra_on_registration_failed,
                                         on_prepared,
                                         on_unprepared,
                                         on_specs,
                                         dra_on_changed,
                                         on_state_lost,
                                         agent};
    bool offers = options->advertise == GT_ADVERTISE_DRA;
    if (!options->device_plugin || (!offers && !gt_dra_is_left(options->kubelet_dir, GT_DRA_DRIVER)))
        return 0;
    int r = gt_loop_add_timer(agent->loop, on_change, agent, &agent->dra_changed, err);
    if (r >= 0)
        r = gt_dra_new(agent->loop, &dra, &events, &agent->dra, err);
    agent->dra_offers = r >= 0 && offers;
    if (r >= 0 && !offers)
        gt_dra_refuse(agent->dra, given_back);
    return r;
}

void gt_agent_dra_stop(struct gt_agent *agent)
{
    gt_dra_free(gt_steal(agent->dra));
    gt_source_free(gt_steal(agent->dra_changed));
}
