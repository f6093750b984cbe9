/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"
#include "scheduler-ext/placement/reconcile.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/digest.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/placement/write.h"

static bool placement_claims_may_write(struct reconcile *reconcile, const struct record *record,
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

/* Writes the planned GPUs in the order of the containers, which is that of the requests; returns their
 * number. */
static unsigned order_gpus(const struct reconcile *reconcile, const struct gt_cache_pod *pod,
                           unsigned to[static GT_CLAIM_RESULTS_MAX])
{
    uint64_t masks[GT_POD_CONTAINERS_MAX] = {0};
    struct gt_cluster_node info;
    unsigned count = 0;
    if (!gt_cluster_get_node(gt_cache_cluster(reconcile->placement->spec.cache), pod->planned.node, &info) ||
        gt_bit_count(pod->planned.mask) != pod->gpus || pod->gpus > GT_CLAIM_RESULTS_MAX ||
        pod->meta.containers > GT_POD_CONTAINERS_MAX)
        return 0;
    gt_plan_split(info.class, pod->planned.mask, pod->meta.gpus, pod->meta.containers, masks);
    for (unsigned c = 0; c < pod->meta.containers; c++)
        for (uint64_t left = masks[c]; left && count < GT_CLAIM_RESULTS_MAX; left &= left - 1)
            to[count++] = gt_bit_first(left);
    return count;
}

/* False where the claim asks for something else than the pod, or the plan's GPUs have no names. */
static bool make_results(const struct reconcile *reconcile, const struct gt_cache_pod *pod, const char *node,
                         const struct gt_cache_claim *claim,
                         struct gt_claim_result to[static GT_CLAIM_RESULTS_MAX], unsigned *ret_count)
{
    unsigned gpus[GT_CLAIM_RESULTS_MAX], count = order_gpus(reconcile, pod, gpus), done = 0;
    for (unsigned i = 0; i < claim->request_count; i++)
        for (unsigned n = 0; n < claim->requests[i].count; n++, done++) {
            const char *device = done < count ? gt_cache_device_name(reconcile->placement->spec.cache,
                                                                     pod->planned.node, gpus[done])
                                              : NULL;
            if (!device || !*device)
                return false;
            to[done] = (struct gt_claim_result){claim->requests[i].name, GT_DRA_DRIVER, node, device, false};
        }
    *ret_count = done;
    return claim->is_plain && count && done == count;
}

static void placement_claims_say(struct reconcile *reconcile, const char *reason,
                                 const struct gt_cache_pod *pod, const char *what)
{
    char text[512];
    snprintf(text, sizeof(text), "the ResourceClaim of pod %.253s %s", pod->meta.name, what);
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_WRITES, reason, text);
}

static void placement_claims_write_next(struct reconcile *reconcile, const struct gt_cache_pod *pod,
                                        struct record *record, const struct gt_cache_claim *claim)
{
    struct gt_claim_result results[GT_CLAIM_RESULTS_MAX];
    struct gt_cluster_node info;
    struct gt_claim_allocation allocation = {.results = results, .now_s = (int64_t)gt_placement_now_s()};
    if (claim->allocated) {
        gt_write_claim(reconcile->pjob, record, WRITE_CLAIM_CLEARED, claim, NULL);
        return;
    }
    if (!gt_cluster_get_node(gt_cache_cluster(reconcile->placement->spec.cache), pod->planned.node, &info) ||
        !make_results(reconcile, pod, info.name, claim, results, &allocation.count)) {
        placement_claims_say(reconcile, "ClaimUnfit", pod, "does not ask for what its limits were");
        return;
    }
    allocation.node = info.name;
    if (claim->is_protected)
        gt_write_claim(reconcile->pjob, record, WRITE_CLAIM_ALLOCATION, claim, &allocation);
    else
        gt_write_claim(reconcile->pjob, record, WRITE_CLAIM_PROTECTION, claim, NULL);
}

/* Whether the claim has been seen with the plan's GPUs for long enough. */
static bool placement_claims_is_settled(struct reconcile *reconcile, const struct gt_cache_pod *pod)
{
    struct record *record = gt_record_of(reconcile->placement, pod);
    if (!record)
        return false;
    if (!record->claim_seen_ms)
        record->claim_seen_ms = reconcile->now;
    uint64_t when = record->claim_seen_ms + reconcile->placement->times.claims_ms;
    if (reconcile->now >= when)
        return true;
    gt_placement_due(reconcile->pjob, when);
    return false;
}

bool gt_claim_is_ready(struct reconcile *reconcile, const struct gt_cache_pod *pod, struct record *record)
{
    const struct gt_cache_claim *claim =
        pod->claim_template ? gt_cache_claim_of(reconcile->placement->spec.cache, pod) : NULL;
    if (!pod->claim_template)
        return true;
    if (claim && gt_cache_claim_has_gpus(claim, pod->planned.node, pod->planned.mask))
        return placement_claims_is_settled(reconcile, pod);
    if (record)
        record->claim_seen_ms = 0;
    if (!claim)
        placement_claims_say(reconcile, "ClaimMissing", pod, "is not there yet");
    else if (placement_claims_may_write(reconcile, record, claim))
        placement_claims_write_next(reconcile, pod, record, claim);
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
        struct record *record = gt_record_of(placement, pod);
        if (claim && claim->allocated && !claim->is_reserved &&
            placement_claims_may_write(reconcile, record, claim))
            gt_write_claim(reconcile->pjob, record, WRITE_CLAIM_CLEARED, claim, NULL);
    }
}

/* ---- pods that are refused by the agent of their node ---- */

/* The claim that got the GPU first. */
static const struct gt_cache_claim *placement_claims_first_of(const struct reconcile *reconcile,
                                                              const struct gt_cache_pod *pod)
{
    if (!pod || !pod->claim_template || pod->deleting || pod->state != GT_CACHE_BOUND ||
        pod->plan != GT_CACHE_PLAN_LOST)
        return NULL;
    const struct gt_cache_claim *claim = gt_cache_claim_of(reconcile->placement->spec.cache, pod);
    return claim ? gt_cache_claim_conflict(claim) : NULL;
}

static void handle_refused(struct reconcile *reconcile, const struct gt_cache_pod *pod,
                           const struct gt_cache_claim *first)
{
    struct pjob *pjob = reconcile->pjob;
    bool again = reconcile->placement->spec.options.lost_plan == GT_LOST_RECREATE && pod->meta.owner_name;
    char text[1024 + GT_BRAKE_WHY_SIZE], braked[GT_BRAKE_WHY_SIZE];
    bool begins = again && !gt_evict_has_begun(pjob, pod);
    bool kept = begins && gt_placement_brake_keeps(reconcile, pod, braked);
    snprintf(
        text, sizeof(text),
        "a GPU of pod %.253s is in the ResourceClaim %.63s/%.253s, too, which was first: its node's agent "
        "refuses the pod until that claim is given back%s%s",
        pod->meta.name, first->namespace_, first->name, kept ? "; it is not evicted: " : "",
        kept ? braked : "");
    reconcile->lost++;
    if (!reconcile->view->states[GT_MEMBER_TO_PLACE] && !reconcile->view->states[GT_MEMBER_PLANNED])
        gt_placement_set_state(pjob, GT_PLACEMENT_LOST, "ClaimRefused", text);
    if (begins && !kept)
        gt_placement_brake_take(reconcile);
    if (again && !kept)
        gt_evict_pod(reconcile, pod);
    if (pjob->report.refused_ms == UINT64_MAX)
        return;
    reconcile->placement->counters.pods.lost++;
    gt_placement_event(pjob, pod, true, "ClaimRefused", again ? "Recreate" : "Report", text);
}

void gt_claims_handle_refused(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    uint64_t limit = reconcile->placement->spec.options.unschedulable_ms;
    bool any = false;
    for (uint32_t i = 0; i < reconcile->view->count; i++)
        any = any || placement_claims_first_of(reconcile, reconcile->view->members[i].pod);
    if (!any) {
        pjob->report.refused_ms = 0;
        return;
    }
    if (!pjob->report.refused_ms)
        pjob->report.refused_ms = reconcile->now;
    if (pjob->report.refused_ms != UINT64_MAX && reconcile->now < pjob->report.refused_ms + limit) {
        gt_placement_due(pjob, pjob->report.refused_ms + limit);
        return;
    }
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_cache_pod *pod = reconcile->view->members[i].pod;
        const struct gt_cache_claim *first = placement_claims_first_of(reconcile, pod);
        if (first)
            handle_refused(reconcile, pod, first);
    }
    pjob->report.refused_ms = UINT64_MAX;
}
