/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/placement_private.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "scheduler-ext/cache/audit.h"

/* A step takes less than a millisecond, a round of 100,000 pods one or two seconds. */
enum { AUDIT_PODS = 2000, AUDIT_STEP_MS = 20, AUDIT_ROUND_MS = 5000 };

struct gt_audit_watch {
    const struct gt_part_env *env;
    const struct gt_owners *owners;
    struct gt_audit *audit;
    struct gt_source *timer;
    bool leads;
};

static void add_owner_texts(void *arg, const struct gt_cache_pod *pod, struct gt_job_texts *texts)
{
    const struct gt_audit_watch *watch = arg;
    gt_owners_add_texts(watch->owners, &pod->meta, &pod->identity, pod->owner_api_version, texts);
}

/* Whether the owner has an Event about another pod: one that nobody placed has no other news for each. */
static bool owner_is_told(const struct gt_audit_watch *watch, const struct gt_finding *finding)
{
    for (struct gt_finding *at = NULL; (at = gt_audit_next(watch->audit, at)) && at != finding;)
        if (finding->kind == GT_FINDING_UNPLACED && at->kind == finding->kind && at->owner_uid &&
            finding->owner_uid && strcmp(at->owner_uid, finding->owner_uid) == 0)
            return true;
    return false;
}

static void record(const struct gt_audit_watch *watch, const struct gt_finding *finding)
{
    struct gt_event_object event = {.api_version = finding->api_version,
                                    .kind = finding->object,
                                    .namespace_ = finding->namespace_,
                                    .name = finding->name,
                                    .uid = finding->uid,
                                    .warning = true,
                                    .reason = gt_finding_kind_name(finding->kind),
                                    .action = "Audit",
                                    .note = finding->note};
    gt_warning("a placement is wrong", GT_STR("reason", event.reason), GT_STR("what", finding->note));
    gt_kube_record(watch->env->recorder, &event);
    if (!finding->owner_api_version || !finding->owner_kind || !finding->owner_name ||
        owner_is_told(watch, finding))
        return;
    event.api_version = finding->owner_api_version;
    event.kind = finding->owner_kind;
    event.name = finding->owner_name;
    event.uid = finding->owner_uid;
    gt_kube_record(watch->env->recorder, &event);
}

static void audit_watch_on_timer(void *arg)
{
    struct gt_audit_watch *watch = arg;
    bool done = !gt_informers_is_synced(watch->env->informers, NULL);
    if (!done && gt_audit_step(watch->audit, AUDIT_PODS, gt_clock_ms())) {
        done = true;
        for (struct gt_finding *at = NULL; watch->leads && (at = gt_audit_next(watch->audit, at));) {
            if (!at->reported)
                record(watch, at);
            at->reported = true;
        }
    }
    gt_source_arm(watch->timer, done ? AUDIT_ROUND_MS : AUDIT_STEP_MS);
}

void gt_audit_watch_lead(struct gt_audit_watch *watch, bool leads)
{
    watch->leads = leads;
    for (struct gt_finding *at = NULL; leads && (at = gt_audit_next(watch->audit, at));)
        at->reported = false;
}

void gt_audit_watch_metrics(const struct gt_audit_watch *watch, struct gt_buf *to)
{
    static const char name[] = "gputopo_placement_findings";
    gt_prom_head(to, name, "Placements found to be wrong, by kind.");
    for (unsigned i = 0; i < GT_FINDING_KINDS; i++)
        gt_buf_printf(to, "%s{kind=\"%s\"} %u\n", name, gt_finding_kind_name((enum gt_finding_kind)i),
                      gt_audit_count(watch->audit, (enum gt_finding_kind)i));
}

void gt_audit_watch_free(struct gt_audit_watch *watch)
{
    if (!watch)
        return;
    gt_source_free(watch->timer);
    gt_audit_free(watch->audit);
    free(watch);
}
GT_DEFINE_CLEANUP(struct gt_audit_watch *, gt_audit_watch_free)

int gt_audit_watch_new(const struct gt_part_env *env, const struct gt_owners *owners,
                       struct gt_audit_watch **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_audit_watch_free) struct gt_audit_watch *watch = calloc(1, sizeof(*watch));
    GT_NEED(watch, err, "audit");
    watch->env = env;
    watch->owners = owners;
    const struct gt_audit_spec spec = {
        .cache = gt_informers_cache(env->informers), .add_owner_texts = add_owner_texts, .arg = watch};
    GT_TRY(gt_audit_new(&spec, &watch->audit, err));
    GT_TRY(gt_loop_add_timer(env->loop, audit_watch_on_timer, watch, &watch->timer, err));
    gt_source_arm(watch->timer, AUDIT_ROUND_MS);
    *ret = gt_steal(watch);
    return 0;
}
