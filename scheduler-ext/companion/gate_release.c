/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/informer.h"
#include "scheduler-ext/placement/patch.h"

/* The condition first, since the scheduler may be faster once the gate is gone. After a write the watch sends
 * the pod again: the next step follows from its state. After a failure all pods are listed again. */

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

/* One write to a pod. */
struct gate_write {
    struct gt_gate_release *gates;
    struct gate_write *next;
    bool lifts; /* else it writes the condition */
    char *namespace_, *name, *uid;
    char *owner_api_version, *owner_kind, *owner_name, *owner_uid; /* NULL: it has none */
    struct gt_buf body;
    struct gt_kube_call *call; /* NULL: it waits */
};

struct gt_gate_release {
    const struct gt_part_env *env;
    struct gt_kube_informer *informer; /* while this replica leads */
    struct gt_source *timer;           /* to list again */
    struct gate_write *waiting, **last, *running[RELEASES_RUNNING_MAX];
    unsigned count;       /* of both */
    bool missed;          /* pods for whose writes there was no room */
    bool again;           /* the timer is armed after a failure */
    bool lift_at_once;    /* conditions may not be written */
    bool failing, lifted; /* in this term: written to the log */
    unsigned failures;    /* in a row */
};

static void gate_write_free(struct gate_write *write)
{
    gt_kube_cancel(write->call);
    gt_buf_done(&write->body);
    free(write->namespace_);
    free(write->name);
    free(write->uid);
    free(write->owner_api_version);
    free(write->owner_kind);
    free(write->owner_name);
    free(write->owner_uid);
    free(write);
}
GT_DEFINE_CLEANUP(struct gate_write *, gate_write_free)

static void drop_writes(struct gt_gate_release *gates)
{
    for (unsigned i = 0; i < RELEASES_RUNNING_MAX; i++)
        if (gates->running[i])
            gate_write_free(gt_steal(gates->running[i]));
    while (gates->waiting) {
        struct gate_write *write = gates->waiting;
        gates->waiting = write->next;
        gate_write_free(write);
    }
    gates->last = &gates->waiting;
    gates->count = 0;
    gates->missed = false;
}

/* ---- writes ---- */

static void list_again(struct gt_gate_release *gates, const struct gt_err *error)
{
    if (!gates->failing)
        gt_warning("placement is off, and gates of pods cannot be removed",
                   GT_STR("error", gt_err_text(error)));
    gates->failing = true;
    if (gates->again)
        return;
    gates->again = true;
    gt_source_arm(gates->timer, gt_backoff_step(gates->failures++, RELEASE_RETRY_MS, RELEASE_RETRY_MAX_MS));
}

static void tell_lifted(struct gt_gate_release *gates, const struct gate_write *write)
{
    struct gt_event_object event = {.api_version = "v1",
                                    .kind = "Pod",
                                    .namespace_ = write->namespace_,
                                    .name = write->name,
                                    .uid = write->uid,
                                    .warning = true,
                                    .reason = placement_off.reason,
                                    .action = "Place",
                                    .note = placement_off.message};
    gt_log(gates->lifted ? GT_LOG_DEBUG : GT_LOG_WARNING, "placement is off: gates of pods are removed",
           GT_STR("namespace", write->namespace_), GT_STR("pod", write->name));
    gates->lifted = true;
    gt_kube_record(gates->env->recorder, &event);
    if (!write->owner_api_version || !write->owner_kind || !write->owner_name)
        return;
    event.api_version = write->owner_api_version;
    event.kind = write->owner_kind;
    event.name = write->owner_name;
    event.uid = write->owner_uid;
    gt_kube_record(gates->env->recorder, &event);
}

static void send_writes(struct gt_gate_release *gates);

static void on_gate_written(void *arg, struct gt_kube_answer *answer)
{
    struct gate_write *write = arg;
    struct gt_gate_release *gates = write->gates;
    bool refused = answer->status == 403 || answer->status == 422;
    write->call = NULL;
    for (unsigned i = 0; i < RELEASES_RUNNING_MAX; i++)
        if (gates->running[i] == write)
            gates->running[i] = NULL;
    gates->count--;
    if (!answer->error) {
        gates->failures = 0;
        if (write->lifts)
            tell_lifted(gates, write);
    } else if (refused && !write->lifts && !gates->lift_at_once) {
        gates->lift_at_once = true;
        gates->missed = true;
    } else if (answer->status != 404 && answer->status != 409) { /* the watch sends what the pod is now */
        list_again(gates, answer->error);
    }
    gate_write_free(write);
    send_writes(gates);
}

static int send_write(struct gate_write *write, struct gt_err **err)
{
    const struct gt_kube_request request = {.verb = GT_KUBE_MERGE_PATCH,
                                            .resource = &gt_kube_pods,
                                            .namespace_ = write->namespace_,
                                            .name = write->name,
                                            .subresource = write->lifts ? NULL : "status",
                                            .body = write->body.data,
                                            .field_manager = GT_MANAGER_COMPANION,
                                            .metadata_only = true};
    return gt_kube_start(write->gates->env->kube, &request, on_gate_written, write, &write->call, err);
}

static struct gate_write *next_gate_write(struct gt_gate_release *gates)
{
    struct gate_write *write = gates->waiting;
    gates->waiting = write->next;
    if (!gates->waiting)
        gates->last = &gates->waiting;
    return write;
}

static void send_writes(struct gt_gate_release *gates)
{
    if (!gates->informer)
        return;
    for (unsigned i = 0; gates->waiting && i < RELEASES_RUNNING_MAX; i++) {
        gt_auto_err struct gt_err *error = NULL;
        if (gates->running[i])
            continue;
        if (!gates->env->is_leading(gates->env->leading_arg)) {
            gt_source_arm(gates->timer, RELEASE_RETRY_MS);
            return;
        }
        struct gate_write *write = next_gate_write(gates);
        if (send_write(write, &error) >= 0) {
            gates->running[i] = write;
        } else {
            gates->count--;
            gate_write_free(write);
            list_again(gates, error);
            return;
        }
    }
    if (!gates->count && gates->missed && !gates->again)
        gt_source_arm(gates->timer, 0);
}

/* ---- pods ---- */

static bool gate_release_copy_text(const char *text, char **ret)
{
    *ret = text && *text ? strdup(text) : NULL;
    return *ret || !text || !*text;
}

static int make_gate_write(struct gt_gate_release *gates, const struct gt_pod *pod, struct gate_write **ret,
                           struct gt_err **err)
{
    struct gt_pod_object object;
    GT_CLEANUP(gate_write_free) struct gate_write *write = calloc(1, sizeof(*write));
    if (!write)
        return gt_fail_sys(err, ENOMEM, "pod");
    write->gates = gates;
    write->body.max = RELEASE_BODY_MAX;
    if (!gate_release_copy_text(pod->meta.namespace_, &write->namespace_) ||
        !gate_release_copy_text(pod->meta.name, &write->name) ||
        !gate_release_copy_text(pod->uid, &write->uid) ||
        !gate_release_copy_text(pod->owner_api_version, &write->owner_api_version) ||
        !gate_release_copy_text(pod->meta.owner_kind, &write->owner_kind) ||
        !gate_release_copy_text(pod->meta.owner_name, &write->owner_name) ||
        !gate_release_copy_text(pod->owner_uid, &write->owner_uid))
        return gt_fail_sys(err, ENOMEM, "pod");
    int r = gt_pod_object_make(pod, &object, err);
    if (r < 0)
        return r;
    write->lifts = gates->lift_at_once || object.condition == gt_condition_digest(&placement_off);
    if (write->lifts)
        gt_patch_lift(&object, NULL, &write->body);
    else
        gt_patch_condition(&object, &placement_off, NULL, gt_clock_wall_ms() / 1000, &write->body);
    gt_pod_object_done(&object);
    r = gt_buf_check(&write->body, "patch", err);
    if (r >= 0)
        *ret = gt_steal(write);
    return r;
}

static void on_pending_pod(void *arg, cJSON *json)
{
    struct gt_gate_release *gates = arg;
    gt_auto_err struct gt_err *error = NULL;
    struct gate_write *write = NULL;
    struct gt_pod pod;
    gt_pod_read(json, GT_RESOURCE_GPU, &pod);
    if (!pod.gated || pod.deleting)
        return;
    if (gates->count == RELEASES_MAX) {
        gates->missed = true;
    } else if (make_gate_write(gates, &pod, &write, &error) < 0) {
        list_again(gates, error);
    } else {
        *gates->last = write;
        gates->last = &write->next;
        gates->count++;
        send_writes(gates);
    }
}

static void on_pending_pod_deleted(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    (void)arg;
    (void)namespace_;
    (void)name;
    (void)object;
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
        .on_delete = on_pending_pod_deleted,
        .on_error = on_pending_error,
        .arg = gates};
    gates->again = false;
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
    gates->lift_at_once = gates->failing = gates->lifted = gates->again = false;
    gates->failures = 0;
    if (leads)
        gt_source_arm(gates->timer, 0);
}

void gt_gate_release_free(struct gt_gate_release *gates)
{
    if (!gates)
        return;
    drop_writes(gates);
    gt_kube_informer_free(gates->informer);
    gt_source_free(gates->timer);
    free(gates);
}

int gt_gate_release_new(const struct gt_part_env *env, struct gt_gate_release **ret, struct gt_err **err)
{
    struct gt_gate_release *gates = calloc(1, sizeof(*gates));
    if (!gates)
        return gt_fail_sys(err, ENOMEM, "gates");
    gates->env = env;
    gates->last = &gates->waiting;
    int r = gt_loop_add_timer(env->loop, on_release_timer, gates, &gates->timer, err);
    if (r < 0)
        free(gates);
    else
        *ret = gates;
    return r;
}
