/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/claims.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/digest.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/placement/write.h"

static bool may_write(struct reconcile *reconcile, const struct record *record,
                      const struct gt_cache_claim *claim)
{
    if (!record || record->write || record->deleted || claim->deleting)
        return false;
    if (record->claim_stale_until_ms <= reconcile->now ||
        record->claim_stale != gt_digest_keyed(claim->resource_version))
        return true;
    gt_placement_due(reconcile->pjob, record->claim_stale_until_ms);
    return false;
}

/* The planned GPUs in the order of the containers, as the requests have them; their number. */
static unsigned order_gpus(const struct reconcile *reconcile, const struct gt_cache_pod *pod,
                           unsigned to[static GT_CLAIM_RESULTS_MAX])
{
    uint64_t masks[GT_POD_CONTAINERS_MAX] = {0};
    struct gt_cluster_node info;
    unsigned count = 0;
    if (!gt_cluster_get_node(gt_cache_cluster(reconcile->placement->spec.cache), pod->plan_node, &info) ||
        gt_bit_count(pod->plan_mask) != pod->gpus || pod->gpus > GT_CLAIM_RESULTS_MAX ||
        pod->meta.containers > GT_POD_CONTAINERS_MAX)
        return 0;
    gt_plan_split(info.class, pod->plan_mask, pod->meta.gpus, pod->meta.containers, masks);
    for (unsigned c = 0; c < pod->meta.containers; c++)
        for (uint64_t left = masks[c]; left && count < GT_CLAIM_RESULTS_MAX; left &= left - 1)
            to[count++] = gt_bit_first(left);
    return count;
}

/* False where the claim does not ask for what the pod asks for, or the plan's GPUs have no names. */
static bool make_results(const struct reconcile *reconcile, const struct gt_cache_pod *pod, const char *node,
                         const struct gt_cache_claim *claim,
                         struct gt_claim_result to[static GT_CLAIM_RESULTS_MAX], unsigned *ret_count)
{
    unsigned gpus[GT_CLAIM_RESULTS_MAX], count = order_gpus(reconcile, pod, gpus), done = 0;
    for (unsigned i = 0; i < claim->request_count; i++)
        for (unsigned n = 0; n < claim->requests[i].count; n++, done++) {
            const char *device = done < count ? gt_cache_device_name(reconcile->placement->spec.cache,
                                                                     pod->plan_node, gpus[done])
                                              : NULL;
            if (!device || !*device)
                return false;
            to[done] = (struct gt_claim_result){claim->requests[i].name, GT_DRA_DRIVER, node, device, false};
        }
    *ret_count = done;
    return claim->is_plain && count && done == count;
}

static void say(struct reconcile *reconcile, const char *reason, const struct gt_cache_pod *pod,
                const char *what)
{
    char text[512];
    snprintf(text, sizeof(text), "the ResourceClaim of pod %.253s %s", pod->meta.name, what);
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_WRITES, reason, text);
}

static void write_next(struct reconcile *reconcile, const struct gt_cache_pod *pod, struct record *record,
                       const struct gt_cache_claim *claim)
{
    struct gt_claim_result results[GT_CLAIM_RESULTS_MAX];
    struct gt_cluster_node info;
    struct gt_claim_allocation allocation = {.results = results, .now_s = (int64_t)gt_placement_now_s()};
    if (claim->allocated) {
        gt_write_claim(reconcile->pjob, record, WRITE_CLAIM_CLEARED, claim, NULL);
        return;
    }
    if (!gt_cluster_get_node(gt_cache_cluster(reconcile->placement->spec.cache), pod->plan_node, &info) ||
        !make_results(reconcile, pod, info.name, claim, results, &allocation.count)) {
        say(reconcile, "ClaimUnfit", pod, "does not ask for what its limits were");
        return;
    }
    allocation.node = info.name;
    if (claim->is_protected)
        gt_write_claim(reconcile->pjob, record, WRITE_CLAIM_ALLOCATION, claim, &allocation);
    else
        gt_write_claim(reconcile->pjob, record, WRITE_CLAIM_PROTECTION, claim, NULL);
}

bool gt_claim_is_ready(struct reconcile *reconcile, const struct gt_cache_pod *pod, struct record *record)
{
    const struct gt_cache_claim *claim =
        pod->claim_template ? gt_cache_claim_of(reconcile->placement->spec.cache, pod) : NULL;
    if (!pod->claim_template)
        return true;
    if (!claim)
        say(reconcile, "ClaimMissing", pod, "is not there yet");
    else if (gt_cache_claim_holds(claim, pod->plan_node, pod->plan_mask))
        return true;
    else if (may_write(reconcile, record, claim))
        write_next(reconcile, pod, record, claim);
    return false;
}

void gt_claims_clear(struct reconcile *reconcile)
{
    const struct gt_placement *placement = reconcile->placement;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        const struct gt_cache_pod *pod = member->pod;
        if (!pod || !pod->claim_template || pod->deleting ||
            (member->state != GT_MEMBER_TO_PLACE && member->state != GT_MEMBER_LOST))
            continue;
        const struct gt_cache_claim *claim = gt_cache_claim_of(placement->spec.cache, pod);
        struct record *record = gt_record_find(placement, pod->meta.namespace_, pod->meta.name);
        if (claim && claim->allocated && !claim->is_reserved && may_write(reconcile, record, claim))
            gt_write_claim(reconcile->pjob, record, WRITE_CLAIM_CLEARED, claim, NULL);
    }
}
