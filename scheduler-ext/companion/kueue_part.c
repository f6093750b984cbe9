/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "base/time_text.h"
#include "kube/informer.h"
#include "kube/writer.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/kueue/admission.h"
#include "scheduler-ext/placement/controller.h"
#include "scheduler-ext/webhook/own_claim.h"

/*
 * The part "kueue": our AdmissionChecks. On the leader it watches Kueue's objects and writes the verdicts of
 * admission.h. It takes the newest version of Kueue's API that is served and known. Where the cluster has no
 * Kueue, it checks again from time to time.
 */

enum {
    KUEUE_SYNC_MS = 200,
    SOON_MS = 100,
    RETRY_MS = 5000,
    ASK_MS = 1000,
    ASK_MAX_MS = 60000,
    WRITES_MAX = 64,
    WRITE_RETRY_MAX_MS = 60000,
    KUEUE_BODY_MAX = 1 << 20
};
enum kueue_kind { KUEUE_FLAVORS, KUEUE_CHECKS, KUEUE_WORKLOADS, KUEUE_KINDS };

/* Its members beside the version, which is that of gt_kueue.version. */
static const struct gt_kube_resource kinds[KUEUE_KINDS] = {
    [KUEUE_FLAVORS] = {GT_KUEUE_GROUP, NULL, GT_PLURAL_RESOURCE_FLAVOR, false},
    [KUEUE_CHECKS] = {GT_KUEUE_GROUP, NULL, GT_PLURAL_ADMISSION_CHECK, false},
    [KUEUE_WORKLOADS] = {GT_KUEUE_GROUP, NULL, GT_PLURAL_WORKLOAD, true},
};

struct gt_kueue {
    const struct gt_part_env *env;
    bool leads;
    struct gt_admission *admission;
    struct gt_source *timer;
    struct kueue_channel {
        struct gt_kueue *kueue;
        enum kueue_kind kind;
        bool synced, failing;
        struct gt_kube_resource resource;
        struct gt_kube_informer *informer;
    } channels[KUEUE_KINDS];
    const char *version;       /* of the API; NULL: not known yet */
    struct gt_kube_call *asks; /* for the versions */
    uint64_t ask_ms;           /* when they are asked for; UINT64_MAX: not */
    unsigned ask_failures;     /* in a row */
    struct gt_write_line checks, workloads;
    uint64_t wake_ms; /* the timer's time; UINT64_MAX: not set */
    uint64_t write_failures;
};

static void kueue_wake(struct gt_kueue *kueue, uint64_t when)
{
    uint64_t now = gt_clock_ms();
    if (when >= kueue->wake_ms)
        return;
    kueue->wake_ms = when;
    gt_source_arm(kueue->timer, when > now ? when - now : 0);
}

static void kueue_on_capacity(void *arg)
{
    struct gt_kueue *kueue = arg;
    if (kueue->leads)
        kueue_wake(kueue, gt_clock_ms() + SOON_MS);
}

/* ---- writes ---- */

/* An older write of the object, from a state of it that is no longer the last. */
static void kueue_drop_write(struct gt_write_line *line, const char *namespace_, const char *name)
{
    struct gt_write_key *key = gt_write_find(line, namespace_, name);
    if (key)
        gt_write_remove(key);
}

/* A Workload is decided again, from its new state; the state of a check stays the same. */
static bool kueue_on_written(struct gt_write_key *key, enum gt_write_outcome outcome,
                             struct gt_kube_answer *answer)
{
    struct gt_kueue *kueue = key->of;
    const struct gt_kube_request *request = gt_write_request(key);
    bool failed = outcome == GT_WRITE_REFUSED || outcome == GT_WRITE_UNKNOWN;
    (void)answer;
    kueue->write_failures += failed;
    if (key->line == &kueue->checks)
        return failed;
    if (outcome != GT_WRITE_DONE) {
        gt_admission_failed(kueue->admission, request->namespace_, request->name, gt_clock_ms());
        kueue_wake(kueue, gt_clock_ms() + RETRY_MS);
    }
    return false;
}

static bool decided(void *arg, const struct gt_workload *workload, const char *const checks[],
                    unsigned check_count, const struct gt_check_verdict *verdict)
{
    struct gt_kueue *kueue = arg;
    gt_auto_buf struct gt_buf body = GT_BUF(KUEUE_BODY_MAX);
    if (!kueue->env->is_leading(kueue->env->leading_arg) || gt_write_count(&kueue->workloads) >= WRITES_MAX ||
        gt_write_find(&kueue->workloads, workload->namespace_, workload->name))
        return false;
    gt_workload_write_checks(kueue->version, workload, checks, check_count, verdict, (int64_t)time(NULL),
                             &body);
    const struct gt_kube_request request = {.verb = GT_KUBE_APPLY,
                                            .resource = &kueue->channels[KUEUE_WORKLOADS].resource,
                                            .namespace_ = workload->namespace_,
                                            .name = workload->name,
                                            .body = body.data,
                                            .subresource = "status",
                                            .field_manager = GT_MANAGER_COMPANION,
                                            .force = true,
                                            .no_object = true};
    if (body.failed || !gt_write_post(&kueue->workloads, &request, kueue))
        return false;
    gt_info("Workload decided", GT_STR("namespace", workload->namespace_), GT_STR("name", workload->name),
            GT_STR("state", gt_check_state_name(verdict->state)), GT_STR("why", verdict->message));
    return true;
}

/* ---- AdmissionChecks ---- */

static struct gt_condition active_of(const struct gt_admission_check *check, char *text, size_t size)
{
    struct gt_condition active = {.status = GT_CONDITION_FALSE,
                                  .reason = "BadParametersRef",
                                  .message = "spec.parameters: this check takes none"};
    if (strcmp(check->controller, GT_KUEUE_CONTROLLER) != 0) {
        snprintf(text, size, "spec.controllerName: there is no %.200s, the check is " GT_KUEUE_CONTROLLER,
                 check->controller);
        active.reason = "UnknownController";
        active.message = text;
    } else if (!check->has_parameters)
        active = (struct gt_condition){GT_CONDITION_TRUE, "Active",
                                       "Workloads are checked for supernodes that can take their units", ""};
    return active;
}

/* A server-side apply of an AdmissionCheck fails where Kueue has written it in another API version: v1beta1
 * sets a default in a field that v1beta2 does not have. This is its only condition. */
static void write_check(struct gt_kueue *kueue, const struct gt_admission_check *check,
                        struct gt_condition *condition)
{
    gt_auto_buf struct gt_buf body = GT_BUF(KUEUE_BODY_MAX);
    char since[GT_TIME_TEXT_SIZE];
    gt_time_text((int64_t)time(NULL), since);
    condition->since =
        check->active.status == condition->status && check->active.since[0] ? check->active.since : since;
    gt_admission_check_write(kueue->version, check, condition, &body);
    const struct gt_kube_request request = {.verb = GT_KUBE_MERGE_PATCH,
                                            .resource = &kueue->channels[KUEUE_CHECKS].resource,
                                            .name = check->name,
                                            .body = body.data,
                                            .subresource = "status",
                                            .field_manager = GT_MANAGER_COMPANION,
                                            .no_object = true};
    if (!body.failed)
        gt_write_post(&kueue->checks, &request, kueue);
}

static void saw_check(struct gt_kueue *kueue, const cJSON *object)
{
    struct gt_admission_check check;
    char text[400];
    kueue_drop_write(&kueue->checks, NULL, gt_meta_name(object));
    if (gt_admission_check_read(object, &check, NULL) < 0 ||
        strncmp(check.controller, GT_KUEUE_CONTROLLER_DOMAIN, strlen(GT_KUEUE_CONTROLLER_DOMAIN)) != 0) {
        gt_admission_remove_check(kueue->admission, gt_meta_name(object));
        return;
    }
    struct gt_condition active = active_of(&check, text, sizeof(text));
    if (active.status == GT_CONDITION_TRUE)
        gt_admission_add_check(kueue->admission, check.name);
    else
        gt_admission_remove_check(kueue->admission, check.name);
    if (check.active.status != active.status || check.observed != check.generation ||
        strcmp(check.active.reason, active.reason) != 0)
        write_check(kueue, &check, &active);
}

/* ---- informers ---- */

static void ask_later(struct gt_kueue *kueue, uint64_t after_ms)
{
    uint64_t when = gt_clock_ms() + after_ms;
    if (kueue->asks || kueue->ask_ms <= when)
        return;
    kueue->ask_ms = when;
    kueue_wake(kueue, when);
}

/* Claims from ResourceClaimTemplates of users are replaced by the equivalent limits. False: what one asks for
 * is not known. */
static bool kueue_prepare(const struct gt_kueue *kueue, cJSON *workload)
{
    return kueue->env->options->placement.claims == GT_CLAIMS_OFF ||
           gt_own_claims_replace(gt_informers_cache(kueue->env->informers), gt_meta_namespace(workload),
                                 GT_RESOURCE_GPU, workload);
}

static void kueue_came(void *arg, cJSON *object)
{
    struct kueue_channel *channel = arg;
    struct gt_kueue *kueue = channel->kueue;
    gt_auto_err struct gt_err *error = NULL;
    bool whole = channel->kind != KUEUE_WORKLOADS || kueue_prepare(kueue, object);
    if (channel->kind == KUEUE_FLAVORS)
        gt_admission_put_flavor(kueue->admission, object);
    else if (channel->kind == KUEUE_CHECKS)
        saw_check(kueue, object);
    else if (gt_admission_put(kueue->admission, object, whole, &error) < 0)
        gt_warning("a Workload cannot be read", GT_STR("error", gt_err_text(error)));
    kueue_on_capacity(kueue);
}

static void kueue_went(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct kueue_channel *channel = arg;
    struct gt_kueue *kueue = channel->kueue;
    (void)object;
    if (channel->kind == KUEUE_FLAVORS) {
        gt_admission_remove_flavor(kueue->admission, name);
    } else if (channel->kind == KUEUE_CHECKS) {
        kueue_drop_write(&kueue->checks, NULL, name);
        gt_admission_remove_check(kueue->admission, name);
    } else {
        kueue_drop_write(&kueue->workloads, namespace_, name);
        gt_admission_remove(kueue->admission, namespace_, name);
    }
    kueue_on_capacity(kueue);
}

static void kueue_synced(void *arg)
{
    struct kueue_channel *channel = arg;
    channel->synced = true;
    channel->failing = false;
    kueue_on_capacity(channel->kueue);
}

static void kueue_failed(void *arg, const struct gt_err *error)
{
    struct kueue_channel *channel = arg;
    gt_log(channel->failing ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot watch",
           GT_STR("resource", channel->resource.plural), GT_STR("error", gt_err_text(error)));
    channel->failing = true;
    if (gt_err_code(error) == ENOENT)
        ask_later(channel->kueue, 0); /* Kueue may have been replaced by one without this version */
}

static bool kueue_is_synced(const struct gt_kueue *kueue)
{
    for (unsigned i = 0; i < KUEUE_KINDS; i++)
        if (!kueue->channels[i].synced)
            return false;
    return true;
}

/* ---- the version of the API ---- */

static int kueue_follow(struct gt_kueue *kueue, enum kueue_kind kind, struct gt_err **err)
{
    struct kueue_channel *channel = &kueue->channels[kind];
    *channel = (struct kueue_channel){.kueue = kueue, .kind = kind, .resource = kinds[kind]};
    channel->resource.version = kueue->version;
    const struct gt_kube_informer_spec spec = {
        .selection = {.resource = &channel->resource},
        .on_add = kueue_came,
        .on_update = kueue_came,
        .on_delete = kueue_went,
        .on_synced = kueue_synced,
        .on_error = kueue_failed,
        .arg = channel,
    };
    return gt_kube_informer_start(kueue->env->kube, &spec, &channel->informer, err);
}

static void unfollow(struct gt_kueue *kueue)
{
    for (unsigned i = 0; i < KUEUE_KINDS; i++) {
        gt_kube_informer_free(gt_steal(kueue->channels[i].informer));
        kueue->channels[i].synced = false;
    }
    gt_write_clear(&kueue->checks);
    gt_write_clear(&kueue->workloads);
    kueue->version = NULL;
    gt_admission_clear(kueue->admission);
}

static int kueue_choose_version(struct gt_kueue *kueue, const cJSON *group, struct gt_err **err)
{
    const char *version = gt_kueue_version(group);
    int r = 0;
    if (!version)
        return gt_fail(err, ENOTSUP, GT_KUEUE_GROUP ": no version that is known here is served");
    if (version == kueue->version)
        return 0;
    unfollow(kueue);
    kueue->version = version;
    gt_info("following Kueue", GT_STR("version", version));
    if (kueue->env->options->placement.preempt)
        gt_warning(
            "Kueue preempts by its own queues and priorities: turn --preempt off where it admits the jobs",
            GT_STR("version", version));
    for (enum kueue_kind kind = 0; r >= 0 && kind < KUEUE_KINDS; kind++)
        r = kueue_follow(kueue, kind, err);
    if (r < 0)
        unfollow(kueue);
    return r;
}

static void on_versions(void *arg, struct gt_kube_answer *answer)
{
    struct gt_kueue *kueue = arg;
    gt_auto_err struct gt_err *error = NULL;
    kueue->asks = NULL;
    if (!answer->error && kueue_choose_version(kueue, answer->object, &error) >= 0) {
        kueue->ask_failures = 0;
        return;
    }
    gt_log(kueue->ask_failures ? GT_LOG_DEBUG : GT_LOG_WARNING, "Kueue is not followed",
           GT_STR("error", gt_err_text(answer->error ? answer->error : error)));
    ask_later(kueue, gt_backoff_step(kueue->ask_failures++, ASK_MS, ASK_MAX_MS));
}

static void kueue_ask(struct gt_kueue *kueue)
{
    static const struct gt_kube_resource group = {.group = GT_KUEUE_GROUP};
    const struct gt_kube_request request = {.verb = GT_KUBE_GET, .resource = &group};
    kueue->ask_ms = UINT64_MAX;
    if (gt_kube_start(kueue->env->kube, &request, on_versions, kueue, &kueue->asks, NULL) < 0)
        ask_later(kueue, RETRY_MS);
}

/* ---- creation and end ---- */

static void kueue_on_timer(void *arg)
{
    struct gt_kueue *kueue = arg;
    uint64_t now = gt_clock_ms();
    kueue->wake_ms = UINT64_MAX;
    if (!gt_informers_is_synced(kueue->env->informers, NULL)) {
        kueue_wake(kueue, now + KUEUE_SYNC_MS);
        return;
    }
    if (now >= kueue->ask_ms)
        kueue_ask(kueue);
    else if (kueue->ask_ms != UINT64_MAX)
        kueue_wake(kueue, kueue->ask_ms);
    if (!kueue_is_synced(kueue))
        return;
    uint64_t due = gt_admission_decide(kueue->admission, now, (int64_t)time(NULL));
    if (due != UINT64_MAX)
        kueue_wake(kueue, due);
}

static void kueue_lead(void *self, bool leads)
{
    struct gt_kueue *kueue = self;
    kueue->leads = leads;
    if (leads) {
        ask_later(kueue, 0);
        return;
    }
    gt_source_disarm(kueue->timer);
    gt_kube_cancel(gt_steal(kueue->asks));
    kueue->wake_ms = kueue->ask_ms = UINT64_MAX;
    kueue->ask_failures = 0;
    unfollow(kueue);
}

static void kueue_free(void *self)
{
    struct gt_kueue *kueue = self;
    gt_informers_remove_handlers(kueue->env->informers, kueue);
    if (kueue->admission)
        kueue_lead(kueue, false);
    gt_write_close(&kueue->checks);
    gt_write_close(&kueue->workloads);
    gt_source_free(kueue->timer);
    gt_admission_free(kueue->admission);
    free(kueue);
}
GT_DEFINE_CLEANUP(struct gt_kueue *, kueue_free)

static int kueue_new(const struct gt_part_env *env, void **ret, struct gt_err **err)
{
    struct gt_admission_spec spec = {.cache = gt_informers_cache(env->informers),
                                     .resource = GT_RESOURCE_GPU,
                                     .owners = gt_placement_owners(env->placement),
                                     .decided = decided};
    GT_CLEANUP(kueue_free) struct gt_kueue *kueue = calloc(1, sizeof(*kueue));
    GT_NEED(kueue, err, "Kueue");
    spec.arg = kueue;
    kueue->env = env;
    kueue->checks = kueue->workloads = (struct gt_write_line){.name = GT_PLURAL_WORKLOAD,
                                                              .running_max = WRITES_MAX,
                                                              .body_max = KUEUE_BODY_MAX,
                                                              .retry_ms = RETRY_MS,
                                                              .retry_max_ms = WRITE_RETRY_MAX_MS,
                                                              .may_send = env->is_leading,
                                                              .arg = env->leading_arg,
                                                              .answered = kueue_on_written,
                                                              .report = gt_write_log_posted};
    kueue->checks.name = GT_PLURAL_ADMISSION_CHECK;
    gt_write_open(gt_kube_writer(env->kube), &kueue->workloads);
    gt_write_open(gt_kube_writer(env->kube), &kueue->checks);
    kueue->wake_ms = kueue->ask_ms = UINT64_MAX;
    GT_TRY(gt_loop_add_timer(env->loop, kueue_on_timer, kueue, &kueue->timer, err));
    GT_TRY(gt_admission_new(&spec, &kueue->admission, err));
    gt_informers_add_handlers(env->informers,
                              &(struct gt_cache_handlers){.on_capacity = kueue_on_capacity, .arg = kueue});
    *ret = gt_steal(kueue);
    return 0;
}

static void kueue_metrics(const void *self, struct gt_buf *to)
{
    static const char states[] = "gputopo_kueue_decisions_total";
    const struct gt_kueue *kueue = self;
    struct gt_admission_counters counters;
    gt_admission_counters(kueue->admission, &counters);
    gt_prom_head(to, states, "Workloads of Kueue whose check got this state.");
    for (enum gt_check_state i = GT_CHECK_READY; i < GT_CHECK_STATES; i++)
        gt_buf_printf(to, "%s{state=\"%s\"} %llu\n", states, gt_check_state_name(i),
                      (unsigned long long)counters.decided[i]);
    gt_prom_number(to, "gputopo_kueue_held_workloads", "Of them, those that are Ready and not planned yet.",
                   counters.held);
    gt_prom_number(to, "gputopo_kueue_write_failures_total", "Writes to Kueue's objects that failed.",
                   kueue->write_failures);
}

const struct gt_part gt_kueue_part = {
    .name = "kueue",
    .help = "Kueue's AdmissionCheck: quota only for jobs that fit (not by default)",
    .kinds = GT_INFORMER_CLUSTER,
    .on_demand = true,
    .new = kueue_new,
    .free = kueue_free,
    .lead = kueue_lead,
    .metrics = kueue_metrics,
};
