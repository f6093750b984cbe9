/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/agent_private.h"
#include "api/meta.h"
#include "api/names.h"
#include "api/pod_claim.h"
#include "api/pod_patch.h"
#include "api/resource_claim.h"
#include "api/resource_slice.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/time_text.h"

/* What the driver needs of the API server: the claims, the node's ResourceSlice, the pods that wait. */

enum {
    DRA_SELECTOR_MAX = 400,
    COLLECT_MS = 30000,
    GONE_MS = 150000, /* the kubelet asks to unprepare claims of pods that are gone every minute */
    RETRY_PODS_MAX = 256,
    DRA_TRIES = 7,
    RETRY_PAUSE_MS = 2000,
};

/* ---- claims that the kubelet asks about ---- */

/* What of the claim is this node's, to the driver. */
static void dra_api_hand_over(struct gt_agent *agent, const struct gt_resource_claim *claim,
                              struct gt_dra_claim_request *claim_request)
{
    struct gt_dra_result results[GT_CLAIM_RESULTS_MAX];
    struct gt_dra_allocation allocation = {claim->uid, results, 0, claim->pods, claim->pod_count};
    for (unsigned i = 0; i < claim->result_count; i++) {
        const struct gt_claim_result *from = &claim->results[i];
        if (strcmp(from->driver, GT_DRA_DRIVER) == 0 && strcmp(from->pool, agent->options->node_name) == 0)
            results[allocation.count++] = (struct gt_dra_result){from->request, from->device, from->admin};
    }
    gt_dra_claim_was_read(claim_request, &allocation, NULL);
}

static void dra_api_on_claim(void *arg, struct gt_kube_answer *answer)
{
    struct gt_dra_claim_request *claim_request = arg;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_resource_claim claim;
    if (answer->error)
        gt_dra_claim_was_read(claim_request, NULL, gt_err_text(answer->error));
    else if (gt_resource_claim_read(answer->object, &claim, &err) < 0)
        gt_dra_claim_was_read(claim_request, NULL, gt_err_text(err));
    else
        dra_api_hand_over(gt_dra_claim_request_arg(claim_request), &claim, claim_request);
}

static void agent_dra_read_claim(void *arg, const struct gt_dra_claim_id *claim,
                                 struct gt_dra_claim_request *claim_request)
{
    struct gt_agent *agent = arg;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_kube_call *call;
    const struct gt_kube_request request = {
        .verb = GT_KUBE_GET,
        .resource = &gt_kube_resource_claims,
        .namespace_ = claim->namespace,
        .name = claim->name,
        .deadline_ms = GT_DRA_READ_MS,
    };
    if (agent->kube)
        gt_kube_start(agent->kube, &request, dra_api_on_claim, claim_request, &call, &err);
    else
        gt_fail(&err, ENOTCONN, "the API server cannot be asked for the claim: %s", agent->no_api_why);
    if (err)
        gt_dra_claim_was_read(claim_request, NULL, gt_err_text(err));
}

/* ---- pods that wait: the kubelet prepares again after a minute, or when anything of the pod changes ---- */

static void retry_pod(struct gt_agent *agent, const cJSON *pod)
{
    gt_auto_buf struct gt_buf body = GT_BUF(1024);
    char now[GT_TIME_TEXT_SIZE];
    gt_time_text(time(NULL), now);
    const struct gt_pair retried = {GT_ANNOTATION_RETRIED, now};
    gt_pod_patch_write(
        &(struct gt_pod_patch){.uid = gt_meta_uid(pod), .annotations = &retried, .annotation_count = 1},
        &body);
    const struct gt_kube_request request = {
        .verb = GT_KUBE_MERGE_PATCH,
        .resource = &gt_kube_pods,
        .namespace_ = gt_meta_namespace(pod),
        .name = gt_meta_name(pod),
        .body = body.data,
        .field_manager = GT_MANAGER_AGENT,
        .no_object = true,
    };
    if (body.data && !body.failed)
        gt_write_post(&agent->dra_writes, &request, agent);
}

static void on_listed_pod(void *arg, cJSON *pod)
{
    struct gt_agent *agent = arg;
    if (!gt_pod_waits_for_claims(pod) || agent->dra_retried >= RETRY_PODS_MAX)
        return;
    agent->dra_retried++;
    retry_pod(agent, pod);
}

static void on_pods_listed(void *arg, const char *resource_version, const struct gt_err *error)
{
    struct gt_agent *agent = arg;
    (void)resource_version;
    agent->dra_pods = NULL;
    if (error)
        gt_warning("cannot list the pods that wait for their claims", GT_STR("why", gt_err_text(error)));
    else if (agent->dra_retried)
        gt_info("pods that wait for their claims are tried again", GT_INT("pods", agent->dra_retried));
}

static void list_waiting_pods(void *arg)
{
    struct gt_agent *agent = arg;
    char selector[DRA_SELECTOR_MAX];
    if (agent->dra_pods)
        return;
    snprintf(selector, sizeof(selector), "spec.nodeName=%s,status.phase=Pending", agent->options->node_name);
    const struct gt_kube_list_spec spec = {
        .selection = {.resource = &gt_kube_pods, .field_selector = selector},
        .on_object = on_listed_pod,
        .on_done = on_pods_listed,
        .arg = agent,
    };
    agent->dra_retried = 0;
    gt_kube_list_start(agent->kube, &spec, &agent->dra_pods, NULL);
}

/* Makes the kubelet handle the pods of this node that wait for claims again, soon. */
static void agent_dra_retry_pods(struct gt_agent *agent)
{
    if (agent->dra_retry)
        gt_source_arm(agent->dra_retry, RETRY_PAUSE_MS);
}

/* ---- the ResourceSlice: the kubelet deletes it at its start, and while no driver is there ---- */

static void remove_slice(struct gt_agent *agent, const char *name)
{
    const struct gt_kube_request request = {
        .verb = GT_KUBE_DELETE, .resource = &gt_kube_resource_slices, .name = name, .no_object = true};
    gt_info("a ResourceSlice that offers GPUs of this node is removed", GT_STR("slice", name));
    gt_write_post(&agent->dra_writes, &request, agent);
}

/* An API server that does not know counters drops them without an error. */
static void on_counters(struct gt_agent *agent, const struct gt_resource_slice_head *head)
{
    static const char why[] = "composites are not offered: this Kubernetes keeps no counters in "
                              "ResourceSlices (feature gate DRAPartitionableDevices, on from 1.36)";
    bool known = agent->dra_counters == GT_COUNTERS_KEPT;
    agent->dra_counters = head->counter_set_count ? GT_COUNTERS_KEPT : GT_COUNTERS_DROPPED;
    if (!head->counter_set_count) {
        gt_warning(why);
        gt_agent_record_event(agent, true, "CompositesNotOffered", "%s", why);
        remove_slice(agent, head->name);
    }
    if (!known || !head->counter_set_count)
        gt_agent_publish_changed(agent->publish);
}

static void on_slice(void *arg, cJSON *object)
{
    struct gt_agent *agent = arg;
    struct gt_resource_slice_head head;
    char own[GT_SLICE_NAME_SIZE], counters[GT_SLICE_NAME_SIZE];
    gt_resource_slice_name(agent->options->node_name, own);
    gt_resource_slice_counters_name(agent->options->node_name, counters);
    if (gt_resource_slice_read(object, &head, NULL) < 0)
        return;
    if (gt_agent_publishes_counters(agent) && strcmp(head.name, counters) == 0)
        on_counters(agent, &head);
    else if (!agent->dra_offers || strcmp(head.name, own) != 0)
        remove_slice(agent, head.name);
}

static void on_slice_gone(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct gt_agent *agent = arg;
    char own[GT_SLICE_NAME_SIZE], counters[GT_SLICE_NAME_SIZE];
    (void)namespace_, (void)object;
    gt_resource_slice_name(agent->options->node_name, own);
    gt_resource_slice_counters_name(agent->options->node_name, counters);
    bool is_own = agent->dra_offers && strcmp(name, own) == 0;
    if (!is_own && !(gt_agent_publishes_counters(agent) && strcmp(name, counters) == 0))
        return;
    gt_info("the ResourceSlice was deleted, made again", GT_STR("slice", name));
    gt_agent_publish_again(agent->publish, is_own ? GT_PUBLISH_SLICE : GT_PUBLISH_COUNTERS);
}

static void on_slices_failed(void *arg, const struct gt_err *error)
{
    struct gt_agent *agent = arg;
    gt_log(gt_log_level_of_code(&agent->dra_slices_error, gt_err_code(error)),
           "cannot watch the node's ResourceSlices", GT_STR("why", gt_err_text(error)));
}

static void on_slices_known(void *arg)
{
    struct gt_agent *agent = arg;
    agent->dra_slices_error = 0;
}

/* ---- claims that the kubelet does not unprepare, since it has lost its state ---- */

/* Since when a claim is gone; a place in the table for one that is not there, NULL for none. */
static struct gt_dra_gone *find_gone(struct gt_agent *agent, const char *uid)
{
    struct gt_dra_gone *empty = NULL;
    for (unsigned i = 0; i < GT_COUNT(agent->dra_gone); i++) {
        if (strcmp(agent->dra_gone[i].uid, uid) == 0)
            return &agent->dra_gone[i];
        if (!empty && !agent->dra_gone[i].uid[0])
            empty = &agent->dra_gone[i];
    }
    return empty;
}

static void forget_gone(struct gt_agent *agent, const char *uid)
{
    struct gt_dra_gone *gone = find_gone(agent, uid);
    if (gone)
        *gone = (struct gt_dra_gone){0};
}

static bool dra_api_is_listed(const struct gt_agent *agent, const struct gt_dra_claim_id *id)
{
    const struct gt_usage *usage = gt_usage_now(agent->usage);
    return !usage->known || usage->stale || gt_usage_lists_claim(agent->usage, id->namespace, id->name);
}

static void ask_next(struct gt_agent *agent);

static void on_collected(void *arg, struct gt_kube_answer *answer)
{
    struct gt_agent *agent = arg;
    const struct gt_dra_claim_id *id = &agent->dra_asked;
    struct gt_dra_gone *gone = find_gone(agent, id->uid);
    bool is_gone =
        answer->status == 404 || (!answer->error && strcmp(gt_meta_uid(answer->object), id->uid) != 0);
    agent->dra_asking = NULL;
    if (!is_gone || dra_api_is_listed(agent, id))
        forget_gone(agent, id->uid);
    else if (gone && !gone->uid[0]) {
        memcpy(gone->uid, id->uid, sizeof(gone->uid));
        gone->since_ms = gt_clock_ms();
    } else if (gone && gt_clock_ms() - gone->since_ms >= GONE_MS) {
        forget_gone(agent, id->uid);
        gt_warning("a prepared claim is gone, and the kubelet does not know it: its GPUs are free again",
                   GT_STR("namespace", id->namespace), GT_STR("claim", id->name));
        gt_dra_forget(agent->dra, id->uid);
    }
    ask_next(agent);
}

/* About one claim after the other that the kubelet does not list. */
static void ask_next(struct gt_agent *agent)
{
    const struct gt_dra_claims *claims = gt_dra_claims(agent->dra);
    while (!agent->dra_asking && agent->dra_next < claims->count) {
        agent->dra_asked = claims->list[agent->dra_next++].id;
        if (dra_api_is_listed(agent, &agent->dra_asked)) { /* also while the kubelet does not answer */
            forget_gone(agent, agent->dra_asked.uid);
            continue;
        }
        const struct gt_kube_request request = {
            .verb = GT_KUBE_GET,
            .resource = &gt_kube_resource_claims,
            .namespace_ = agent->dra_asked.namespace,
            .name = agent->dra_asked.name,
            .metadata_only = true,
            .once = true,
        };
        if (gt_kube_start(agent->kube, &request, on_collected, agent, &agent->dra_asking, NULL) < 0)
            return;
    }
}

static void dra_api_collect(void *arg)
{
    struct gt_agent *agent = arg;
    struct gt_kube_informer_counters slices;
    gt_source_arm(agent->dra_collect, COLLECT_MS);
    gt_kube_informer_counters(agent->dra_slices, &slices);
    if (!agent->dra_offers && slices.synced && !slices.objects && !gt_dra_claims(agent->dra)->count)
        gt_dra_retire(agent->dra);
    if (agent->dra_asking)
        return;
    for (unsigned i = 0; i < GT_COUNT(agent->dra_gone); i++)
        if (!gt_dra_claims_find(gt_dra_claims(agent->dra), agent->dra_gone[i].uid))
            agent->dra_gone[i] = (struct gt_dra_gone){0};
    agent->dra_next = 0;
    ask_next(agent);
}

/* ---- begin and end ---- */

int gt_agent_dra_api_start(struct gt_agent *agent, struct gt_err **err)
{
    char selector[DRA_SELECTOR_MAX];
    if (!agent->dra)
        return 0;
    snprintf(selector, sizeof(selector), "spec.nodeName=%s,spec.driver=" GT_DRA_DRIVER,
             agent->options->node_name);
    const struct gt_kube_informer_spec spec = {
        .selection = {.resource = &gt_kube_resource_slices, .field_selector = selector},
        .on_add = on_slice,
        .on_update = on_slice,
        .on_delete = on_slice_gone,
        .on_synced = on_slices_known,
        .on_error = on_slices_failed,
        .arg = agent,
    };
    agent->dra_writes = (struct gt_write_line){.name = "dra",
                                               .running_max = 2,
                                               .body_max = 1024,
                                               .retry_ms = GT_BACKOFF_FIRST_MS,
                                               .retry_max_ms = GT_BACKOFF_MAX_MS,
                                               .quiet_tries = DRA_TRIES,
                                               .report = gt_write_log_posted};
    gt_write_open(gt_kube_writer(agent->kube), &agent->dra_writes);
    GT_TRY(gt_loop_add_timer(agent->loop, list_waiting_pods, agent, &agent->dra_retry, err));
    GT_TRY(gt_loop_add_timer(agent->loop, dra_api_collect, agent, &agent->dra_collect, err));
    GT_TRY(gt_kube_informer_start(agent->kube, &spec, &agent->dra_slices, err));
    gt_source_arm(agent->dra_collect, COLLECT_MS);
    return 0;
}

void gt_agent_dra_api_stop(struct gt_agent *agent)
{
    gt_write_close(&agent->dra_writes);
    gt_kube_list_cancel(gt_steal(agent->dra_pods));
    gt_kube_cancel(gt_steal(agent->dra_asking));
    gt_kube_informer_free(gt_steal(agent->dra_slices));
    gt_source_free(gt_steal(agent->dra_retry));
    gt_source_free(gt_steal(agent->dra_collect));
}

/*
 * The driver of Dynamic Resource Allocation in the daemon. A GPU is offered by the device plugin or by the
 * driver, never by both: --advertise selects which. GPUs that containers hold by the other one are not
 * offered until these end. If the plugin offers the GPUs again, the driver runs as long as claims are
 * prepared.
 */

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
        agent_dra_retry_pods(agent); /* the GPU may be healthy again */
        agent->dra_refused = false;
    }
    if (agent->dra_offers || !gt_dra_prepared_gpus(agent->dra))
        return inventory;
    if (gt_inventory_withhold(inventory, gt_dra_prepared_gpus(agent->dra), reason, &withheld, NULL) < 0)
        return inventory;
    gt_inventory_unref(inventory);
    return withheld;
}

static void dra_on_registered(void *arg)
{
    struct gt_agent *agent = arg;
    agent->dra_error[0] = '\0';
    gt_info("registered for Dynamic Resource Allocation", GT_STR("driver", GT_DRA_DRIVER));
    agent_dra_retry_pods(agent);
    gt_podresources_soon(agent->podresources);
    gt_agent_publish_changed(agent->publish);
}

static void dra_on_registration_failed(void *arg, const char *why)
{
    struct gt_agent *agent = arg;
    gt_log(gt_log_level_of(agent->dra_error, sizeof(agent->dra_error), why),
           "registration for Dynamic Resource Allocation failed", GT_STR("why", why));
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
        agent_dra_retry_pods(agent);
    agent->dra_refused = false;
}

static void on_specs(void *arg, const char *error)
{
    struct gt_agent *agent = arg;
    bool failed = agent->dra_spec_error[0];
    if (error)
        gt_log(gt_log_level_of(agent->dra_spec_error, sizeof(agent->dra_spec_error), error),
               "CDI spec of a claim not written", GT_STR("why", error));
    if (error && !failed)
        gt_agent_record_event(agent, true, "CDISpecNotWritten",
                              "containers of a claim may not start again, since its CDI spec cannot be "
                              "written: %.600s",
                              error);
    if (!error && failed)
        gt_agent_record_event(agent, false, "CDISpecWritten",
                              "the CDI specs of all claims are written again");
    if (!error)
        agent->dra_spec_error[0] = '\0';
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
        .cdi = {options->cdi_dir, options->resource, options->dev_root},
    };
    const struct gt_dra_events events = {agent_dra_read_claim, dra_on_registered, dra_on_registration_failed,
                                         on_prepared,          on_unprepared,     on_specs,
                                         dra_on_changed,       on_state_lost,     agent};
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
