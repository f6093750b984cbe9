/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/kueue/controller.h"
#include "scheduler-ext/placement/controller.h"
#include "scheduler-ext/webhook/own_claim.h"

/* The part "kueue": the AdmissionCheck, on the leader. */

enum { KUEUE_SYNC_MS = 200, KUEUE_AGAIN_MS = 5000 };

struct kueue_part {
    const struct gt_part_env *env;
    struct gt_kueue *kueue; /* while it leads */
    struct gt_source *sync_timer;
    bool leads;
    struct gt_kueue_counters before; /* of earlier terms */
};

static bool kueue_part_may_write(void *arg)
{
    const struct kueue_part *part = arg;
    return part->leads && part->env->is_leading(part->env->leading_arg);
}

/* Claims from ResourceClaimTemplates of users are replaced by the equivalent limits. */
static bool kueue_part_prepare(void *arg, cJSON *workload)
{
    const struct kueue_part *part = arg;
    return part->env->options->placement.claims == GT_CLAIMS_OFF ||
           gt_own_claims_replace(gt_informers_cache(part->env->informers), gt_meta_namespace(workload),
                                 GT_RESOURCE_GPU, workload);
}

static void read_counters(const struct kueue_part *part, struct gt_kueue_counters *ret)
{
    struct gt_kueue_counters now = {0};
    *ret = part->before;
    if (part->kueue)
        gt_kueue_counters(part->kueue, &now);
    for (unsigned i = 0; i < GT_CHECK_STATES; i++)
        ret->admission.decided[i] += now.admission.decided[i];
    ret->admission.workloads = now.admission.workloads;
    ret->admission.held = now.admission.held;
    ret->write_failures += now.write_failures;
}

static void kueue_part_on_sync_timer(void *arg)
{
    struct kueue_part *part = arg;
    gt_auto_err struct gt_err *error = NULL;
    const struct gt_kueue_spec spec = {.loop = part->env->loop,
                                       .kube = part->env->kube,
                                       .cache = gt_informers_cache(part->env->informers),
                                       .owners = gt_placement_owners(part->env->placement),
                                       .may_write = kueue_part_may_write,
                                       .prepare = kueue_part_prepare,
                                       .arg = part};
    if (!part->leads || part->kueue)
        return;
    if (!gt_informers_is_synced(part->env->informers, NULL)) {
        gt_source_arm(part->sync_timer, KUEUE_SYNC_MS);
    } else if (gt_kueue_new(&spec, &part->kueue, &error) < 0) {
        gt_warning("Kueue is not followed", GT_STR("error", gt_err_text(error)));
        gt_source_arm(part->sync_timer, KUEUE_AGAIN_MS);
    }
}

static void kueue_part_lead(void *self, bool leads)
{
    struct kueue_part *part = self;
    part->leads = leads;
    if (leads) {
        gt_source_arm(part->sync_timer, 0);
    } else {
        read_counters(part, &part->before);
        gt_kueue_free(gt_steal(part->kueue));
    }
}

static void kueue_part_on_capacity(void *arg)
{
    struct kueue_part *part = arg;
    if (part->kueue)
        gt_kueue_on_capacity(part->kueue);
}

static void kueue_part_free(void *self)
{
    struct kueue_part *part = self;
    gt_informers_remove_handlers(part->env->informers, part);
    gt_kueue_free(part->kueue);
    gt_source_free(part->sync_timer);
    free(part);
}
GT_DEFINE_CLEANUP(struct kueue_part *, kueue_part_free)

static int kueue_part_new(const struct gt_part_env *env, void **ret, struct gt_err **err)
{
    GT_CLEANUP(kueue_part_free) struct kueue_part *part = calloc(1, sizeof(*part));
    if (!part)
        return gt_fail(err, ENOMEM, "no memory");
    part->env = env;
    GT_TRY(gt_loop_add_timer(env->loop, kueue_part_on_sync_timer, part, &part->sync_timer, err));
    gt_informers_add_handlers(
        env->informers, &(struct gt_cache_handlers){.on_capacity = kueue_part_on_capacity, .arg = part});
    *ret = gt_steal(part);
    return 0;
}

static void kueue_part_metrics(const void *self, struct gt_buf *to)
{
    static const char decided[] = "gputopo_kueue_decisions_total";
    struct gt_kueue_counters counters;
    read_counters(self, &counters);
    gt_prom_head(to, decided, "counter", "Workloads of Kueue whose check got this state.");
    for (enum gt_check_state i = GT_CHECK_READY; i < GT_CHECK_STATES; i++)
        gt_buf_printf(to, "%s{state=\"%s\"} %llu\n", decided, gt_check_state_name(i),
                      (unsigned long long)counters.admission.decided[i]);
    gt_prom_number(to, "gputopo_kueue_held_workloads", "gauge",
                   "Of them, those that are Ready and not planned yet.", counters.admission.held);
    gt_prom_number(to, "gputopo_kueue_write_failures_total", "counter",
                   "Writes to Kueue's objects that failed.", counters.write_failures);
}

const struct gt_part gt_kueue_part = {
    .name = "kueue",
    .help = "Kueue's AdmissionCheck: quota only for jobs that fit (not by default)",
    .kinds = GT_INFORMER_CLUSTER,
    .on_demand = true,
    .new = kueue_part_new,
    .free = kueue_part_free,
    .lead = kueue_part_lead,
    .metrics = kueue_part_metrics,
};
