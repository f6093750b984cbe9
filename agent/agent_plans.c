/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent_private.h"
#include "api/names.h"
#include "api/pod.h"
#include "base/clock.h"
#include "base/log.h"

/* What is planned for the pods of this node: their annotations, followed; handed to the plugin as they
 * change, and compared with what the kubelet lists. */

enum { START_JITTER_MS = 2000, SELECTOR_MAX = 300, PLANS_CHECK_MS = 1000 };

static bool is_current(const struct gt_agent *agent)
{
    struct gt_kube_informer_counters counters;
    gt_kube_informer_counters(agent->pods, &counters);
    return counters.synced && (!agent->pods_error || counters.watch.last_received_ms > agent->pods_error_ms);
}

/* gRPC's thread gets a copy, which nobody changes. */
static void agent_plans_hand_over(struct gt_agent *agent)
{
    gt_auto_plans struct gt_plans *plans = NULL;
    gt_auto_err struct gt_err *err = NULL;
    agent->plans_handed_current = is_current(agent);
    if (agent->plans_handed_current)
        gt_source_disarm(agent->plans_timer);
    else
        gt_source_arm(agent->plans_timer, PLANS_CHECK_MS);
    int r = gt_plan_table_snapshot(agent->plans, agent->plans_handed_current, &plans, &err);
    if (r >= 0)
        r = gt_plugin_plan(agent->plugin, plans, &err);
    if (r < 0)
        gt_warning("plans cannot be honoured", GT_STR("why", gt_err_text(err)));
}

static void agent_plans_on_pod(void *arg, cJSON *object)
{
    struct gt_agent *agent = arg;
    struct gt_pod pod;
    gt_auto_err struct gt_err *err = NULL;
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    int r = gt_plan_table_set(agent->plans, pod.meta.namespace_, pod.meta.name, pod.uid ? pod.uid : "",
                              pod.plan_gpus, &err);
    if (r < 0)
        gt_warning("a plan cannot be honoured", GT_STR("why", gt_err_text(err)));
    if (r != 0)
        agent_plans_hand_over(agent);
}

static void agent_plans_on_deleted(void *arg, const char *namespace_, const char *name, cJSON *pod)
{
    struct gt_agent *agent = arg;
    (void)pod;
    if (!gt_plan_table_drop(agent->plans, namespace_, name))
        return;
    agent_plans_hand_over(agent);
}

static void agent_plans_on_synced(void *arg)
{
    struct gt_agent *agent = arg;
    if (agent->pods_error)
        gt_info("the API server says again what is planned for this node's pods");
    agent->pods_error = 0;
    agent_plans_hand_over(agent);
}

static void agent_plans_on_error(void *arg, const struct gt_err *error)
{
    struct gt_agent *agent = arg;
    agent->pods_error_ms = gt_clock_ms();
    gt_log(gt_log_level_of_code(&agent->pods_error, gt_err_code(error)),
           "cannot ask what is planned for this node's pods", GT_STR("why", gt_err_text(error)));
    if (agent->plans_handed_current)
        agent_plans_hand_over(agent); /* so that no pod waits for a plan that cannot come */
}

/* A watch that resumes sends nothing until a pod changes. */
static void on_check(void *arg)
{
    struct gt_agent *agent = arg;
    if (is_current(agent))
        agent_plans_on_synced(agent);
    else
        gt_source_arm(agent->plans_timer, PLANS_CHECK_MS);
}

int gt_agent_plans_start(struct gt_agent *agent, struct gt_err **err)
{
    char selector[SELECTOR_MAX];
    snprintf(selector, sizeof(selector), "spec.nodeName=%s", agent->options->node_name);
    const struct gt_kube_informer_spec spec = {
        .selection = {.resource = &gt_kube_pods, .field_selector = selector, .metadata_only = true},
        .start_jitter_ms = START_JITTER_MS,
        .on_add = agent_plans_on_pod,
        .on_update = agent_plans_on_pod,
        .on_delete = agent_plans_on_deleted,
        .on_synced = agent_plans_on_synced,
        .on_error = agent_plans_on_error,
        .arg = agent,
    };
    GT_TRY(gt_plan_table_new(&agent->plans, err));
    GT_TRY(gt_loop_add_timer(agent->loop, on_check, agent, &agent->plans_timer, err));
    return gt_kube_informer_start(agent->kube, &spec, &agent->pods, err);
}

void gt_agent_plans_stop(struct gt_agent *agent)
{
    gt_kube_informer_free(gt_steal(agent->pods));
    gt_source_free(gt_steal(agent->plans_timer));
    gt_plan_table_free(gt_steal(agent->plans));
}

/* ---- what came of them ---- */

static void on_mismatch(void *arg, const struct gt_plan_mismatch *mismatch)
{
    struct gt_agent *agent = arg;
    gt_warning("a container has other GPUs than planned", GT_STR("namespace", mismatch->namespace),
               GT_STR("pod", mismatch->pod), GT_STR("container", mismatch->container),
               GT_STR("planned", mismatch->planned), GT_STR("actual", mismatch->actual));
    gt_agent_record_event(
        agent, true, "PlanNotHonoured",
        "container %s of pod %s/%s has the GPUs %.300s, and not those that were planned for it, %.300s",
        mismatch->container, mismatch->namespace, mismatch->pod, mismatch->actual, mismatch->planned);
}

void gt_agent_plans_listed(struct gt_agent *agent, const struct gt_device_uses *uses)
{
    if (agent->plans)
        gt_plan_table_compare(agent->plans, uses, on_mismatch, agent);
}

bool gt_agent_plans_stats(const struct gt_agent *agent, struct gt_plan_counts *ret, bool *ret_current)
{
    if (!agent->plans)
        return false;
    gt_plan_table_counts(agent->plans, ret);
    *ret_current = is_current(agent);
    return true;
}
