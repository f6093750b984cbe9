/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/private.h"

#include <errno.h>
#include <stdlib.h>

#include "api/names.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/informer.h"
#include "kube/writer.h"
#include "scheduler-ext/placement/patch.h"

/* The condition first, since the scheduler may be faster once the gate is gone. After a write the watch sends
 * the pod again: the next step follows from its state. */

enum {
    RELEASES_MAX = 16384, /* waiting writes; pods beyond come with the next list */
    RELEASES_RUNNING_MAX = 8,
    RELEASE_RETRY_MS = 5000,
    RELEASE_RETRY_MAX_MS = 300000,
    RELEASE_BODY_MAX = 256 << 10,
};

static const struct gt_condition_text placement_off = {
    .reason = "PlacementOff",
    .message = "gputopo's placement is switched off: the gate was removed, and the scheduler places the pod"};

struct gt_gate_release {
    const struct gt_part_env *env;
    struct gt_kube_informer *informer; /* while this replica leads */
    struct gt_source *timer;           /* to list again */
    struct gt_write_line lifts, conditions;
    bool missed;          /* pods for whose writes there was no room */
    bool lift_at_once;    /* conditions may not be written */
    bool failing, lifted; /* in this term: written to the log */
};

static void drop_writes(struct gt_gate_release *gates)
{
    gt_write_clear(&gates->lifts);
    gt_write_clear(&gates->conditions);
    gates->missed = false;
}

static unsigned gate_release_waiting(const struct gt_gate_release *gates)
{
    return gt_write_count(&gates->lifts) + gt_write_count(&gates->conditions);
}

/* ---- writes ---- */

static void gate_release_fail(struct gt_gate_release *gates, const struct gt_err *error)
{
    gt_log(gates->failing ? GT_LOG_DEBUG : GT_LOG_WARNING,
           "placement is off, and gates of pods cannot be removed", GT_STR("error", gt_err_text(error)));
    gates->failing = true;
}

static void gate_release_report(const struct gt_write_key *key, bool again, const struct gt_err *error)
{
    struct gt_gate_release *gates = key->of;
    bool refused = gt_err_code(error) == EACCES || gt_err_code(error) == EINVAL;
    (void)again;
    if (key->line == &gates->lifts || !refused) /* else gates are removed without it */
        gate_release_fail(gates, error);
}

/* `object`: the pod's metadata. */
static void tell_lifted(struct gt_gate_release *gates, const cJSON *object)
{
    struct gt_pod pod;
    gt_pod_read_metadata(object, &pod);
    struct gt_event_object event = {.api_version = "v1",
                                    .kind = "Pod",
                                    .namespace_ = pod.meta.namespace_,
                                    .name = pod.meta.name,
                                    .uid = pod.uid,
                                    .warning = true,
                                    .reason = placement_off.reason,
                                    .action = "Place",
                                    .note = placement_off.message};
    gt_log(gates->lifted ? GT_LOG_DEBUG : GT_LOG_WARNING, "placement is off: gates of pods are removed",
           GT_STR("namespace", pod.meta.namespace_), GT_STR("pod", pod.meta.name));
    gates->lifted = true;
    gt_kube_record(gates->env->recorder, &event);
    if (!pod.owner_api_version || !pod.meta.owner_kind || !pod.meta.owner_name)
        return;
    event.api_version = pod.owner_api_version;
    event.kind = pod.meta.owner_kind;
    event.name = pod.meta.owner_name;
    event.uid = pod.owner_uid;
    gt_kube_record(gates->env->recorder, &event);
}

/* Where the pod has changed, the watch sends what it is now. */
static bool on_gate_written(struct gt_write_key *key, enum gt_write_outcome outcome,
                            struct gt_kube_answer *answer)
{
    struct gt_gate_release *gates = key->of;
    bool lifts = key->line == &gates->lifts;
    bool again = outcome == GT_WRITE_REFUSED || outcome == GT_WRITE_UNKNOWN;
    if (outcome == GT_WRITE_DONE && lifts) {
        tell_lifted(gates, answer->object);
    } else if (!lifts && (answer->status == 403 || answer->status == 422)) {
        gates->lift_at_once = gates->missed = true;
        again = false;
    }
    if (gates->missed && !again && !gate_release_waiting(gates))
        gt_source_arm(gates->timer, 0);
    return again;
}

/* ---- pods ---- */

static void list_again(struct gt_gate_release *gates, const struct gt_err *error)
{
    gate_release_fail(gates, error);
    gt_source_arm(gates->timer, RELEASE_RETRY_MS);
}

static int post_gate_write(struct gt_gate_release *gates, const struct gt_pod *pod, struct gt_err **err)
{
    struct gt_pod_object object;
    gt_auto_buf struct gt_buf body = GT_BUF(RELEASE_BODY_MAX);
    GT_TRY(gt_pod_object_make(pod, &object, err));
    bool lifts = gates->lift_at_once || object.condition == gt_condition_digest(&placement_off);
    if (lifts)
        gt_patch_lift(&object, NULL, &body);
    else
        gt_patch_condition(&object, &placement_off, NULL, gt_clock_wall_ms() / 1000, &body);
    gt_pod_object_done(&object);
    GT_TRY(gt_buf_check(&body, "patch", err));
    const struct gt_kube_request request = {.verb = GT_KUBE_MERGE_PATCH,
                                            .resource = &gt_kube_pods,
                                            .namespace_ = pod->meta.namespace_,
                                            .name = pod->meta.name,
                                            .subresource = lifts ? NULL : "status",
                                            .body = body.data,
                                            .field_manager = GT_MANAGER_COMPANION,
                                            .metadata_only = true};
    return gt_write_post(lifts ? &gates->lifts : &gates->conditions, &request, gates)
               ? 0
               : gt_fail_sys(err, ENOMEM, "pod");
}

static void on_pending_pod(void *arg, cJSON *json)
{
    struct gt_gate_release *gates = arg;
    gt_auto_err struct gt_err *error = NULL;
    struct gt_pod pod;
    gt_pod_read(json, GT_RESOURCE_GPU, &pod);
    if (!pod.gated || pod.deleting)
        return;
    gates->missed = gates->missed || gate_release_waiting(gates) >= RELEASES_MAX;
    if (!gates->missed && post_gate_write(gates, &pod, &error) < 0)
        list_again(gates, error);
}

static void on_pending_error(void *arg, const struct gt_err *error)
{
    struct gt_gate_release *gates = arg;
    gt_log(gates->failing ? GT_LOG_DEBUG : GT_LOG_WARNING,
           "placement is off, and pods with its gate cannot be found", GT_STR("error", gt_err_text(error)));
    gates->failing = true;
}

static void on_release_timer(void *arg)
{
    struct gt_gate_release *gates = arg;
    gt_auto_err struct gt_err *error = NULL;
    const struct gt_kube_informer_spec spec = {
        .selection = {.resource = &gt_kube_pods, .field_selector = "status.phase=Pending"},
        .on_add = on_pending_pod,
        .on_update = on_pending_pod,
        .on_error = on_pending_error,
        .arg = gates};
    drop_writes(gates);
    gt_kube_informer_free(gt_steal(gates->informer));
    if (gt_kube_informer_start(gates->env->kube, &spec, &gates->informer, &error) < 0)
        list_again(gates, error);
}

/* ---- creation and end ---- */

void gt_gate_release_lead(struct gt_gate_release *gates, bool leads)
{
    gt_source_disarm(gates->timer);
    drop_writes(gates);
    gt_kube_informer_free(gt_steal(gates->informer));
    gates->lift_at_once = gates->failing = gates->lifted = false;
    if (leads)
        gt_source_arm(gates->timer, 0);
}

void gt_gate_release_free(struct gt_gate_release *gates)
{
    if (!gates)
        return;
    gt_write_close(&gates->lifts);
    gt_write_close(&gates->conditions);
    gt_kube_informer_free(gates->informer);
    gt_source_free(gates->timer);
    free(gates);
}

int gt_gate_release_new(const struct gt_part_env *env, struct gt_gate_release **ret, struct gt_err **err)
{
    struct gt_gate_release *gates = calloc(1, sizeof(*gates));
    GT_NEED(gates, err, "gates");
    gates->env = env;
    gates->lifts = gates->conditions = (struct gt_write_line){.name = "gates",
                                                              .running_max = RELEASES_RUNNING_MAX,
                                                              .body_max = RELEASE_BODY_MAX,
                                                              .retry_ms = RELEASE_RETRY_MS,
                                                              .retry_max_ms = RELEASE_RETRY_MAX_MS,
                                                              .may_send = env->is_leading,
                                                              .arg = env->leading_arg,
                                                              .answered = on_gate_written,
                                                              .report = gate_release_report};
    gates->conditions.name = "gateconditions";
    gt_write_open(gt_kube_writer(env->kube), &gates->lifts);
    gt_write_open(gt_kube_writer(env->kube), &gates->conditions);
    int r = gt_loop_add_timer(env->loop, on_release_timer, gates, &gates->timer, err);
    if (r < 0)
        gt_gate_release_free(gates);
    else
        *ret = gates;
    return r;
}
