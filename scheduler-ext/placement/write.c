/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "scheduler-ext/placement/write.h"

/* Writes that only report why a job waits come after all others, and never use all parallel requests. */

enum {
    BODY_MAX = 512 << 10,
    PLACEMENT_WRITES_MAX = 16, /* of a line; the client runs as many at a time */
    REPORTS_RUNNING_MAX = 8,
    WRITE_TRIES = 7,
    PLANS_WAITING_MAX = 256,
    REFUSED_MAX_MS = 300000,
};

struct write {
    struct gt_placement *placement;
    struct record *record;           /* NULL: it is for an object */
    struct placement_object *object; /* NULL: it is for a pod */
    struct pjob *job;                /* NULL: for a pod without GPUs, or an object without a job */
    enum write_kind kind;
    bool plans;                 /* LIFT, OBJECT: with a plan */
    bool creates;               /* OBJECT: it is to be created */
    bool before_lift;           /* CONDITION: the gate is removed after it is written */
    uint64_t fence;             /* FENCE: the epoch */
    uint64_t digest, nominated; /* CONDITION: the record's values after the write */
    int64_t waits_s;            /* likewise */
    uint64_t version;           /* digest of the version that it was made from */
    char *claim;                /* of CLAIM_*: its name */
    struct gt_buf body;
    struct gt_write_key key;
    struct write *job_next, *job_previous; /* in the list of the job */
};

static bool only_reports(const struct write *write)
{
    return (write->kind == WRITE_CONDITION && !write->before_lift) ||
           (write->kind == WRITE_OBJECT && !write->plans) || write->kind == WRITE_OBJECT_DELETE;
}

static struct gt_write_line *write_line_of(const struct write *write)
{
    struct gt_placement *placement = write->placement;
    return only_reports(write)                           ? &placement->lines[PLACEMENT_REPORTS]
           : write->kind == WRITE_OBJECT && write->plans ? &placement->lines[PLACEMENT_PLANS]
                                                         : &placement->lines[PLACEMENT_LIFTS];
}

/* The pointer to the waiting or running write of its pod or object. */
static struct write **write_place_of(const struct write *write)
{
    return write->record ? &write->record->write : &write->object->write;
}

static void write_free(struct write *write)
{
    gt_write_remove(&write->key);
    if (write->job_previous)
        write->job_previous->job_next = write->job_next;
    else if (write->job)
        write->job->lift.writes = write->job_next;
    if (write->job_next)
        write->job_next->job_previous = write->job_previous;
    *write_place_of(write) = NULL;
    gt_buf_done(&write->body);
    free(write->claim);
    free(write);
}

/* Its outcome is not known. */
static bool write_was_sent(const struct write *write)
{
    return write->key.state == GT_WRITE_RUNNING || write->key.is_unknown;
}

void gt_write_drop(struct write *write)
{
    if (write->object && write_was_sent(write))
        write->object->is_unknown = true; /* it may still succeed */
    if (write->job)
        gt_placement_mark(write->job);
    write_free(write);
}

/* `what` has its kind and its target. */
static struct write *new_write(const struct write *what)
{
    if (*write_place_of(what))
        return NULL;
    struct write *write = calloc(1, sizeof(*write));
    if (!write)
        return NULL;
    *write = *what;
    write->body.max = write->record ? BODY_MAX : GT_GPU_PLACEMENT_TEXT_MAX;
    write->version = write->record ? gt_digest_keyed(write->record->object.version) : 0;
    write->key = (struct gt_write_key){.line = write_line_of(write), .of = write};
    gt_write_add(&write->key);
    *write_place_of(write) = write;
    if (!write->job)
        return write;
    write->job_next = write->job->lift.writes;
    if (write->job_next)
        write->job_next->job_previous = write;
    write->job->lift.writes = write;
    return write;
}

void gt_write_lift(struct gt_placement *placement, struct pjob *pjob, struct record *record,
                   const struct gt_plan_texts *texts)
{
    struct write *write = new_write(&(struct write){
        .placement = placement, .record = record, .job = pjob, .kind = WRITE_LIFT, .plans = texts});
    if (write)
        gt_patch_lift(&record->object, texts, &write->body);
}

void gt_write_condition(struct gt_placement *placement, struct pjob *pjob, struct record *record,
                        const struct gt_condition_text *condition, bool before_lift, const char *node)
{
    struct write *write = new_write(&(struct write){.placement = placement,
                                                    .record = record,
                                                    .job = pjob,
                                                    .kind = WRITE_CONDITION,
                                                    .before_lift = before_lift});
    if (!write)
        return;
    write->digest = gt_condition_digest(condition);
    write->nominated = !node ? record->object.nominated : *node ? gt_digest_keyed(node) : 0;
    /* else it says something about this pod */
    bool state = pjob && strcmp(condition->reason, pjob->report.reason) == 0;
    int64_t since_s = state ? gt_placement_since_s(pjob) : (int64_t)gt_placement_now_s();
    write->waits_s = condition->is_true || !pjob ? 0 : since_s;
    gt_patch_condition(&record->object, condition, node, since_s, &write->body);
}

void gt_write_delete(struct pjob *pjob, struct record *record)
{
    struct write *write = new_write(
        &(struct write){.placement = pjob->placement, .record = record, .job = pjob, .kind = WRITE_DELETE});
    if (write)
        gt_delete_options_write(record->object.uid, record->object.version, &write->body);
}

void gt_write_fence(struct pjob *pjob, struct record *record, uint64_t epoch)
{
    struct write *write = new_write(&(struct write){
        .placement = pjob->placement, .record = record, .job = pjob, .kind = WRITE_FENCE, .fence = epoch});
    if (write)
        gt_patch_fence(&record->object, epoch, &write->body);
}

void gt_write_claim(struct pjob *pjob, struct record *record, enum write_kind kind,
                    const struct gt_cache_claim *claim, const struct gt_claim_allocation *allocation)
{
    const struct gt_claim_version of = {claim->uid, claim->resource_version};
    struct write *write =
        new_write(&(struct write){.placement = pjob->placement, .record = record, .job = pjob, .kind = kind});
    if (!write)
        return;
    write->version = gt_digest_keyed(claim->resource_version);
    write->claim = strdup(claim->name);
    write->body.failed = !write->claim;
    if (kind == WRITE_CLAIM_PROTECTION)
        gt_claim_write_protection(&of, &write->body);
    else if (allocation)
        gt_claim_write_allocation(&of, allocation, &write->body);
    else
        gt_claim_write_no_allocation(&of, &write->body);
}

void gt_write_object(struct pjob *pjob, struct placement_object *object,
                     const struct gt_gpu_placement *placement, bool with_plan)
{
    struct write *write = new_write(&(struct write){.placement = pjob->placement,
                                                    .object = object,
                                                    .job = pjob,
                                                    .kind = WRITE_OBJECT,
                                                    .creates = !placement->uid[0],
                                                    .plans = with_plan});
    if (!write)
        return;
    if (write->creates)
        gt_gpu_placement_write(placement, &write->body);
    else
        gt_gpu_placement_write_patch(placement, with_plan, &write->body);
}

bool gt_write_has_capacity(struct pjob *pjob)
{
    struct gt_placement *placement = pjob->placement;
    if (gt_write_count(&placement->lines[PLACEMENT_PLANS]) < PLANS_WAITING_MAX)
        return true;
    gt_placement_list(pjob, PJOBS_DELAYED, true);
    return false;
}

void gt_writes_resume(struct gt_placement *placement)
{
    for (unsigned i = gt_write_count(&placement->lines[PLACEMENT_PLANS]);
         i < PLANS_WAITING_MAX && placement->jobs.lists[PJOBS_DELAYED].first; i++) {
        struct pjob *pjob = placement->jobs.lists[PJOBS_DELAYED].first;
        gt_placement_list(pjob, PJOBS_DELAYED, false);
        gt_placement_mark(pjob);
    }
}

void gt_write_object_get(struct gt_placement *placement, struct placement_object *object, struct pjob *pjob)
{
    new_write(
        &(struct write){.placement = placement, .object = object, .job = pjob, .kind = WRITE_OBJECT_GET});
}

void gt_write_object_delete(struct gt_placement *placement, struct placement_object *object)
{
    struct write *write =
        new_write(&(struct write){.placement = placement, .object = object, .kind = WRITE_OBJECT_DELETE});
    if (write)
        gt_delete_options_write(object->content->uid, object->content->resource_version, &write->body);
}

/* ---- answers ---- */

static void write_count_done(const struct write *write)
{
    struct gt_placement_counters *counters = &write->placement->counters;
    counters->pods.planned += write->plans;
    counters->pods.lifted += write->kind == WRITE_LIFT;
    counters->pods.recreated += write->kind == WRITE_DELETE;
}

void gt_write_worked(const struct write *write, enum write_kind kind)
{
    if (write && write_was_sent(write) && write->kind == kind)
        write_count_done(write);
}

static bool is_of_claim(const struct write *write)
{
    return write->kind >= WRITE_CLAIM_PROTECTION && write->kind <= WRITE_CLAIM_CLEARED;
}

/* No new try before the pod, or its claim, has changed, or some time has passed. */
static void wait_for_change(const struct write *write, uint64_t ms)
{
    struct record *record = write->record;
    bool of_claim = is_of_claim(write);
    uint64_t until = gt_clock_ms() + ms;
    /* a newer state may have been seen meanwhile */
    *(of_claim ? &record->claim_stale : &record->stale) = write->version;
    *(of_claim ? &record->claim_stale_until_ms : &record->stale_until_ms) = until;
}

static void note_success(struct write *write, const struct gt_kube_answer *answer)
{
    struct record *record = write->record;
    const char *version = answer->object ? gt_meta_version(answer->object) : "";
    record->refusals = 0;
    write_count_done(write);
    if (is_of_claim(write)) { /* its content counts when the watch shows it, after earlier states */
        wait_for_change(write, write->placement->times.retry_ms);
        return;
    }
    if (write->kind == WRITE_DELETE) {
        record->deleted = true;
        return;
    }
    record->hinted = record->hinted || write->nominated;
    if (write->kind == WRITE_FENCE)
        record->own_fence = write->fence;
    if (gt_record_is_newer(record, version))
        return; /* the watch has shown that version and will not show it again: all writes with this version
                   would fail */
    if (write->kind == WRITE_LIFT) {
        record->lifted = true;
    } else if (write->kind == WRITE_FENCE) {
        record->object.fence = write->fence;
    } else {
        record->object.condition = write->digest;
        record->object.waits_s = write->waits_s;
        record->object.nominated = write->nominated;
    }
    char *copy = *version ? strdup(version) : NULL;
    if (!copy)
        return;
    free(record->object.version);
    record->object.version = copy;
}

static void write_report_text(const struct write *write, const char *text)
{
    struct gt_placement *placement = write->placement;
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, true,
                                write->job      ? write->job->job->key
                                : write->record ? gt_record_name(write->record)
                                                : write->object->name,
                                text);
}

static void note_problems(struct write *write, const struct gt_err *error)
{
    struct gt_placement *placement = write->placement;
    placement->counters.writes.failures++;
    if (write->job)
        write->job->lift.retry_ms = gt_clock_ms() + placement->times.retry_ms;
    else
        wait_for_change(write, placement->times.retry_ms);
    write_report_text(write, gt_err_text(error));
}

/* A request that the API server forbids or finds invalid will be refused again: it is reported once, and
 * tried less and less often. */
static uint64_t write_note_refusal(const struct write *write, unsigned *refusals,
                                   const struct gt_cache_pod *pod, const struct gt_err *error)
{
    write->placement->counters.writes.failures++;
    if (write->job)
        gt_placement_write_refused(write->job, pod, "Place", error);
    else if (!*refusals)
        write_report_text(write, gt_err_text(error));
    return gt_backoff_step((*refusals)++, write->placement->times.retry_ms, REFUSED_MAX_MS);
}

static void write_note_pod_refusal(const struct write *write, const struct gt_err *error)
{
    struct record *record = write->record;
    const struct gt_cache_pod *pod =
        gt_cache_find_pod(write->placement->spec.cache, gt_record_namespace(record), gt_record_name(record));
    wait_for_change(write, write_note_refusal(write, &record->refusals, pod, error));
}

static void note_failure(struct write *write, const struct gt_kube_answer *answer)
{
    switch (answer->status) {
    case 404: /* it has changed, or was deleted: the watch will show it */
    case 409:
        write->placement->counters.writes.conflicts++;
        wait_for_change(write, write->placement->times.retry_ms);
        break;
    case 400:
    case 403:
    case 422:
        write_note_pod_refusal(write, answer->error);
        break;
    default:
        note_problems(write, answer->error);
    }
}

/* ---- answers about an object ---- */

/* The state in the API server is not known: it is read before the next write. */
static void object_unknown(struct write *write, uint64_t rest_ms)
{
    write->object->is_unknown = true;
    write->object->rest_ms = rest_ms ? gt_clock_ms() + rest_ms : 0;
}

static void note_object(struct write *write, const struct gt_kube_answer *answer)
{
    struct placement_object *object = write->object;
    struct gt_gpu_placement *content = NULL;
    gt_auto_err struct gt_err *error = NULL;
    bool gone = write->kind == WRITE_OBJECT_DELETE;
    if (!gone && gt_gpu_placement_read(answer->object, &content, &error) < 0) {
        write_report_text(write, gt_err_text(error));
        object_unknown(write, write->placement->times.retry_ms);
        return;
    }
    object->rest_ms = 0;
    if (write->kind != WRITE_OBJECT_GET)
        gt_placement_object_clear_refusal(object);
    if (gone)
        object->epoch = 0; /* no earlier write can reach the pods of another job */
    gt_placement_object_answered(object, content,
                                 write->kind == WRITE_OBJECT && (write->plans || object->acknowledged),
                                 gt_clock_ms());
}

/* A refused write has changed nothing. */
static void note_object_refusal(struct write *write, const struct gt_err *error)
{
    struct placement_object *object = write->object;
    const struct gt_cache_pod *pod = write->job ? write->job->job->pods : NULL;
    object->is_unknown = object->is_unknown || write->kind == WRITE_OBJECT_GET;
    object->rest_ms = gt_clock_ms() + write_note_refusal(write, &object->refusals, pod, error);
    free(object->refusal);
    object->refusal = strdup(gt_err_text(error));
}

static void note_object_failure(struct write *write, const struct gt_kube_answer *answer)
{
    bool reads = write->kind == WRITE_OBJECT_GET;
    switch (answer->status) {
    case 404:
        if (reads || write->kind == WRITE_OBJECT_DELETE)
            gt_placement_object_answered(write->object, NULL, false, gt_clock_ms());
        else
            object_unknown(write, write->creates ? write->placement->times.retry_ms : 0);
        break;
    case 409:
        write->placement->counters.writes.conflicts++;
        object_unknown(write, 0);
        break;
    case 400:
    case 403:
    case 413:
    case 422:
        note_object_refusal(write, answer->error);
        break;
    default:
        write->placement->counters.writes.failures++;
        object_unknown(write, write->placement->times.retry_ms);
        write_report_text(write, gt_err_text(answer->error));
    }
}

static bool write_on_answer(struct gt_write_key *key, enum gt_write_outcome outcome,
                            struct gt_kube_answer *answer)
{
    struct write *write = key->of;
    struct gt_placement *placement = write->placement;
    struct placement_object *object = write->object;
    struct pjob *pjob = write->job;
    if (object && outcome == GT_WRITE_REFUSED && !answer->status)
        note_object_refusal(write, answer->error); /* it could not be sent */
    else if (object && answer->error)
        note_object_failure(write, answer);
    else if (object)
        note_object(write, answer);
    else if (answer->error)
        note_failure(write, answer);
    else
        note_success(write, answer);
    write_free(write);
    if (!pjob && object)
        pjob = object->job; /* a job that came while the object of an earlier job of the same name was being
                               deleted waits for that */
    if (pjob && !pjob->lift.writes)
        gt_placement_mark(pjob);
    gt_writes_resume(placement);
    return false;
}

static struct gt_kube_request write_request(const struct write *write)
{
    static const struct {
        enum gt_kube_verb verb;
        const struct gt_kube_resource *resource;
        const char *subresource;
    } of[] = {[WRITE_LIFT] = {GT_KUBE_MERGE_PATCH, &gt_kube_pods, NULL},
              [WRITE_CONDITION] = {GT_KUBE_MERGE_PATCH, &gt_kube_pods, "status"},
              [WRITE_FENCE] = {GT_KUBE_MERGE_PATCH, &gt_kube_pods, NULL},
              [WRITE_DELETE] = {GT_KUBE_DELETE, &gt_kube_pods, NULL},
              [WRITE_CLAIM_PROTECTION] = {GT_KUBE_MERGE_PATCH, &gt_kube_resource_claims, NULL},
              [WRITE_CLAIM_ALLOCATION] = {GT_KUBE_MERGE_PATCH, &gt_kube_resource_claims, "status"},
              [WRITE_CLAIM_CLEARED] = {GT_KUBE_MERGE_PATCH, &gt_kube_resource_claims, "status"},
              [WRITE_OBJECT] = {GT_KUBE_MERGE_PATCH, &gt_kube_gpu_placements, NULL},
              [WRITE_OBJECT_GET] = {GT_KUBE_GET, &gt_kube_gpu_placements, NULL},
              [WRITE_OBJECT_DELETE] = {GT_KUBE_DELETE, &gt_kube_gpu_placements, NULL}};
    const struct record *record = write->record;
    bool patches = of[write->kind].verb == GT_KUBE_MERGE_PATCH;
    return (struct gt_kube_request){
        .verb = write->creates ? GT_KUBE_CREATE : of[write->kind].verb,
        .resource = of[write->kind].resource,
        .namespace_ = record ? gt_record_namespace(record) : write->object->namespace_,
        .name = write->creates ? NULL
                : write->claim ? write->claim
                : record       ? gt_record_name(record)
                               : write->object->name,
        .subresource = of[write->kind].subresource,
        .field_manager = patches ? GT_MANAGER_COMPANION : NULL,
        .metadata_only = record && patches,
    };
}

static int write_make(struct gt_write_key *key, struct gt_kube_request *ret, struct gt_buf *body,
                      struct gt_err **err)
{
    struct write *write = key->of;
    GT_TRY(gt_buf_check(&write->body, "patch", err));
    if (write->body.data)
        gt_buf_add(body, write->body.data, write->body.len);
    *ret = write_request(write);
    write->placement->counters.writes.done++;
    return GT_WRITE_SEND;
}

void gt_writes_open(struct gt_placement *placement)
{
    struct gt_write_line line = {.running_max = PLACEMENT_WRITES_MAX,
                                 .body_max = GT_GPU_PLACEMENT_TEXT_MAX,
                                 .retry_ms = GT_BACKOFF_FIRST_MS,
                                 .retry_max_ms = GT_BACKOFF_MAX_MS,
                                 .quiet_tries = WRITE_TRIES,
                                 .make = write_make,
                                 .answered = write_on_answer};
    placement->lines[PLACEMENT_LIFTS] = placement->lines[PLACEMENT_PLANS] =
        placement->lines[PLACEMENT_REPORTS] = line;
    placement->lines[PLACEMENT_LIFTS].name = "pods";
    placement->lines[PLACEMENT_PLANS].name = "plans";
    placement->lines[PLACEMENT_REPORTS].name = "reports";
    placement->lines[PLACEMENT_REPORTS].order = GT_WRITE_LAST;
    placement->lines[PLACEMENT_REPORTS].running_max = REPORTS_RUNNING_MAX;
}
