/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/bits.h"
#include "base/digest.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * Whether a job may have reservations for missing pods: by the limit of its namespace here, and by the
 * ResourceQuotas that its pods will be charged to.
 *
 * A quota's status says how much existing pods use. Quotas and pods have different watches, so a new pod may
 * be in one and not yet in the other, and its place stays reserved until the pod is seen. Therefore, for new
 * reservations, the larger of the status and the sum of the seen pods counts as used: for a moment this may
 * be too much, but never too little. For existing reservations the smaller one counts, and they must exceed
 * the quota for a while.
 */

/* What limits a job's reservations. */
struct bound {
    const struct gt_resource_quota *quota; /* NULL: what its pods run on, and --reserve-gpus */
    uint64_t allowed, used, reserved;
};

static uint64_t room_in(const struct bound *bound)
{
    uint64_t taken = bound->used + bound->reserved;
    return bound->allowed > taken ? bound->allowed - taken : 0;
}

/* ---- quotas ---- */

void gt_placement_note_error(const struct gt_placement *placement, const char *name,
                             const struct gt_err *error)
{
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, true, name, gt_err_text(error));
}

void gt_placement_observe_quota(struct gt_placement *placement, const cJSON *object)
{
    gt_auto_free struct gt_resource_quota *quota = NULL;
    gt_auto_err struct gt_err *error = NULL;
    if (gt_resource_quota_read(object, GT_RESOURCE_GPU, &quota, &error) < 0) {
        gt_placement_note_error(placement, gt_meta_name(object), error);
        return;
    }
    if (!quota) {
        gt_placement_observe_quota_deleted(placement, gt_meta_namespace(object), gt_meta_name(object));
        return;
    }
    if (gt_quotas_put(&placement->quotas, gt_steal(quota), &error) < 0)
        gt_placement_note_error(placement, "quotas", error);
    else if (placement->jobs.lacking)
        gt_placement_wake(placement);
}

void gt_placement_observe_quota_deleted(struct gt_placement *placement, const char *namespace_,
                                        const char *name)
{
    gt_quotas_remove(&placement->quotas, namespace_, name);
    if (placement->jobs.lacking)
        gt_placement_wake(placement);
}

/* Pods of a job are equal in what scopes check, so any of them is checked. */
static bool is_charged(const struct pjob *pjob, const struct gt_resource_quota *quota)
{
    const struct gt_cache_pod *pod = pjob->job->pods;
    const struct gt_quota_pod asked = {.priority_class = pod->priority_class,
                                       .has_deadline = pod->has_deadline,
                                       .best_effort = pod->best_effort};
    return gt_resource_quota_matches(quota, &asked);
}

/* Whether a job is another one or comes before it, in the order in which reservations are served. */
static bool charge_is_before(const struct pjob *a, const struct pjob *b)
{
    int32_t priority[2];
    uint64_t created[2];
    gt_placement_precedence(a->job, &priority[0], &created[0]);
    gt_placement_precedence(b->job, &priority[1], &created[1]);
    if (priority[0] != priority[1])
        return priority[0] > priority[1];
    return created[0] != created[1] ? created[0] < created[1] : a->job->number <= b->job->number;
}

/* The GPUs reserved for jobs that a quota charges; with `last` only for this job and those before it. */
static uint64_t reserved_for(const struct pjob *pjob, const struct gt_resource_quota *quota,
                             const struct pjob *last)
{
    uint64_t gpus = 0;
    if (!quota->scope_count && !last)
        return pjob->tenant->reserved;
    for (const struct pjob *other = pjob->placement->jobs.first; other; other = other->next)
        if (other->tenant == pjob->tenant && gt_reservations_charged(&other->place.reservations) &&
            is_charged(other, quota) && (!last || charge_is_before(other, last)))
            gpus += gt_reservations_charged(&other->place.reservations);
    return gpus;
}

/* A tenant has to show that it uses what it has reserved. */
static uint64_t own_limit(const struct pjob *pjob)
{
    const struct tenant *tenant = pjob->tenant;
    return tenant->yielded
               ? 0
               : tenant->namespace_->bound + pjob->placement->spec.options.reserve.gpus_per_namespace;
}

/* The strictest limit. */
static void find_bound(const struct pjob *pjob, struct bound *ret)
{
    const struct gt_placement *placement = pjob->placement;
    const struct gt_cache_namespace *namespace_ = pjob->tenant->namespace_;
    uint32_t count;
    struct gt_resource_quota *const *quotas = gt_quotas_of(&placement->quotas, namespace_->name, &count);
    *ret = (struct bound){.allowed = own_limit(pjob), .reserved = pjob->tenant->reserved};
    for (uint32_t i = 0; i < count; i++) {
        const struct gt_resource_quota *quota = quotas[i];
        /* This includes pods of other scopes. */
        uint64_t seen = quota->scope_count ? 0 : namespace_->asked;
        if (!is_charged(pjob, quota))
            continue;
        const struct bound bound = {.quota = quota,
                                    .allowed = quota->hard,
                                    .used = quota->used > seen ? quota->used : seen,
                                    .reserved = reserved_for(pjob, quota, NULL)};
        if (room_in(&bound) < room_in(ret))
            *ret = bound;
    }
}

/* ---- before a reservation ---- */

static uint64_t wanted_gpus(const struct gt_job_view *view)
{
    uint64_t gpus = 0;
    for (uint32_t i = 0; view->states[GT_MEMBER_TO_RESERVE] && i < view->count; i++)
        if (view->members[i].state == GT_MEMBER_TO_RESERVE)
            gpus += view->job->units.units[view->members[i].unit].gpus;
    return gpus;
}

/* GPUs reserved for pods that exist now and are planned next. */
static uint64_t arrived_gpus(const struct reconcile *reconcile)
{
    const struct gt_job_view *view = reconcile->view;
    const struct gt_reservations *reservations =
        &reconcile->pjob->place.reservations; /* none without units */
    uint64_t gpus = 0;
    for (uint32_t i = 0; i < view->count && i < reservations->count; i++) {
        const struct gt_reservation *reservation = &reservations->reservations[i];
        if (view->members[i].state == GT_MEMBER_TO_PLACE && reservation->state == GT_RESERVATION_HELD &&
            !reservation->moves)
            gpus += gt_bit_count(reservation->promise.place.mask);
    }
    return gpus;
}

uint64_t gt_placement_missing_room(const struct pjob *pjob)
{
    struct bound bound;
    find_bound(pjob, &bound);
    bound.reserved -= gt_reservations_charged(&pjob->place.reservations);
    return room_in(&bound);
}

/* A digest of everything that limits its reservations. */
static uint64_t charge_digest_of(const struct pjob *pjob)
{
    const uint64_t parts[] = {pjob->tenant->reserved, pjob->tenant->namespace_->asked, own_limit(pjob),
                              pjob->placement->quotas.version};
    uint64_t digest = GT_DIGEST_EMPTY;
    for (unsigned i = 0; i < GT_COUNT(parts); i++)
        digest = gt_digest_number(digest, parts[i]);
    return digest;
}

static void set_lacking(struct pjob *pjob, uint64_t gpus)
{
    pjob->placement->jobs.lacking += (gpus != 0) - (pjob->wait.lacking_gpus != 0);
    pjob->wait.lacking_gpus = gpus;
    pjob->wait.lacking_digest = charge_digest_of(pjob);
}

static void charge_report(const struct reconcile *reconcile, const struct bound *bound, uint64_t wanted)
{
    const struct gt_job_view *view = reconcile->view;
    char text[512];
    if (bound->quota)
        snprintf(text, sizeof(text),
                 "quota %s of its namespace allows %llu GPUs: %llu are used, %llu are reserved for pods to "
                 "come; it would need %llu more",
                 bound->quota->name, (unsigned long long)bound->allowed, (unsigned long long)bound->used,
                 (unsigned long long)bound->reserved, (unsigned long long)wanted);
    else if (reconcile->pjob->tenant->yielded)
        snprintf(text, sizeof(text),
                 "%u of its %u pods are there, and no places are reserved for the others for %llu seconds: "
                 "those of its namespace were reserved for too long, and others needed them",
                 view->count - view->missing, view->count,
                 (unsigned long long)reconcile->pjob->tenant->silent_ms / 1000 + 1);
    else
        snprintf(text, sizeof(text),
                 "%u of its %u pods are there, and %llu GPUs would be reserved for the others; its namespace "
                 "may have %llu GPUs reserved for pods that do not exist, and has %llu",
                 view->count - view->missing, view->count, (unsigned long long)wanted,
                 (unsigned long long)bound->allowed, (unsigned long long)bound->reserved);
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_GATHERS,
                           bound->quota ? "QuotaExceeded" : "ReserveLimit", text);
}

bool gt_placement_may_reserve(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    uint64_t wanted = wanted_gpus(reconcile->view);
    struct bound bound;
    set_lacking(pjob, 0);
    find_bound(pjob, &bound);
    bound.reserved -= arrived_gpus(reconcile);
    if (wanted <= room_in(&bound))
        return true;
    charge_report(reconcile, &bound, wanted);
    set_lacking(pjob, wanted);
    gt_placement_due(pjob, reconcile->now + (pjob->tenant->yielded ? pjob->tenant->silent_ms
                                                                   : reconcile->placement->times.retry_ms));
    return false;
}

void gt_placement_forget_lacking(struct pjob *pjob)
{
    set_lacking(pjob, 0);
}

void gt_placement_retry_lacking(struct gt_placement *placement)
{
    for (struct pjob *pjob = placement->jobs.first; pjob && placement->jobs.lacking; pjob = pjob->next) {
        struct bound bound;
        uint64_t digest = pjob->wait.lacking_gpus ? charge_digest_of(pjob) : 0;
        if (!pjob->wait.lacking_gpus || digest == pjob->wait.lacking_digest)
            continue;
        pjob->wait.lacking_digest = digest;
        find_bound(pjob, &bound);
        if (pjob->wait.lacking_gpus > room_in(&bound))
            continue;
        set_lacking(pjob, 0);
        gt_placement_mark(pjob);
    }
}

/* ---- after a reservation ---- */

/* Finds a quota that has become too small for all reservations, and for this job's. */
static const struct gt_resource_quota *too_small(const struct pjob *pjob)
{
    const struct gt_cache_namespace *namespace_ = pjob->tenant->namespace_;
    uint32_t count;
    struct gt_resource_quota *const *quotas =
        gt_quotas_of(&pjob->placement->quotas, namespace_->name, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t used = quotas[i]->used < namespace_->asked ? quotas[i]->used : namespace_->asked;
        if (is_charged(pjob, quotas[i]) && used + reserved_for(pjob, quotas[i], NULL) > quotas[i]->hard &&
            used + reserved_for(pjob, quotas[i], pjob) > quotas[i]->hard)
            return quotas[i];
    }
    return NULL;
}

bool gt_placement_give_back(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    uint32_t gpus = gt_reservations_charged(&pjob->place.reservations);
    const struct gt_resource_quota *quota = gpus ? too_small(pjob) : NULL;
    char text[512];
    if (!quota) {
        pjob->place.over_limit_ms = 0;
        return false;
    }
    if (!pjob->place.over_limit_ms)
        pjob->place.over_limit_ms = reconcile->now;
    uint64_t end = pjob->place.over_limit_ms + reconcile->placement->times.retry_ms;
    if (reconcile->now < end) {
        gt_placement_due(pjob, end);
        return false;
    }
    if (!gt_placement_may_give_up(reconcile))
        return true;
    pjob->place.over_limit_ms = 0; /* the rest is checked again */
    gt_decide_give_back(reconcile->view);
    if (gt_reservations_charged(&pjob->place.reservations) == gpus)
        return false; /* their pods exist, and will take them soon */
    snprintf(text, sizeof(text),
             "%u GPUs are no longer reserved for pods to come: quota %s of its namespace allows %llu",
             gpus - gt_reservations_charged(&pjob->place.reservations), quota->name,
             (unsigned long long)quota->hard);
    gt_placement_event(pjob, pjob->job->pods, true, "QuotaExceeded", "Place", text);
    reconcile->placement->round.more_room = true;
    gt_placement_mark(pjob);
    return true;
}
