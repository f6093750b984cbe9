/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan.h"

#include "scheduler-ext/core/plan_work.h"

/* ---- runs with running pods ---- */

/* The supernode of the run's running pods: GT_NONE where none runs; false where they lie in several. */
static bool super_of_running(const struct job *job, uint32_t first, uint32_t count, uint32_t *ret)
{
    *ret = GT_NONE;
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t super = job->pods[i].running ? gt_pod_super(job, i) : GT_NONE;
        if (super == GT_NONE)
            continue;
        if (*ret != GT_NONE && *ret != super)
            return false;
        *ret = super;
    }
    return true;
}

/* They are placed first, so that others do not take the room of their supernode. */
static bool place_started(struct job *job, struct gt_plan_failure *ret_failure)
{
    for (uint32_t u = 0; u < job->unit_count; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        uint32_t size = gt_unit_run(unit);
        for (uint32_t run = 0; run < unit->pods; run += size) {
            uint32_t super, first = unit->first + run;
            if (gt_run_is_placed(job, first, size))
                continue; /* it needs no place, even if torn */
            bool together = super_of_running(job, first, size, &super);
            if (together && (super == GT_NONE || gt_place_in_super(job, super, unit->gpus, first, size)))
                continue;
            gt_plan_fail_started(job, u, first, together ? super : GT_NONE, ret_failure);
            return false;
        }
    }
    return true;
}

/* ---- the whole job ---- */

/* Room for larger ones is rarer, so they are placed first: by GPUs of a run, or by GPUs of a pod. */
enum order { BY_RUN, BY_POD, ORDERS };

static uint64_t plan_rank_of(const struct gt_plan_unit *unit, enum order order)
{
    uint64_t run = (uint64_t)gt_unit_run(unit) * unit->gpus, all = (uint64_t)unit->pods * unit->gpus;
    return order == BY_RUN ? run << 34 | all << 8 | unit->gpus : (uint64_t)unit->gpus << 56 | run << 28 | all;
}

static bool place_kind(struct job *job, const struct gt_plan_unit *kind, uint32_t *ret_failed)
{
    uint32_t number = (uint32_t)(kind - job->units);
    const struct room *room = gt_draft_room(job, ROOM_OF_PODS, kind->gpus);
    *ret_failed = number;
    if (!room)
        return false;
    /* Whole units first, also of soft ones: a whole unit takes the same number of atoms' room in any
     * supernode. */
    if (gt_unit_run(kind) < kind->pods)
        gt_complete_started(job, kind, room);
    /* Units with pods in a domain that they may not leave: others must not take its room. */
    for (uint32_t u = number; kind->within && job->any_running && u < job->unit_count; u++) {
        *ret_failed = u;
        if (gt_unit_is_kind(&job->units[u], kind) && !gt_unit_is_fresh(job, &job->units[u], kind) &&
            !gt_run_is_placed(job, job->units[u].first, kind->pods) &&
            !gt_place_split(job, &job->units[u], room))
            return false;
    }
    gt_place_whole(job, kind, room);
    for (uint32_t u = number; u < job->unit_count; u++) {
        struct gt_plan_unit *unit = &job->units[u];
        if (!gt_unit_is_kind(unit, kind) || gt_run_is_placed(job, unit->first, unit->pods))
            continue;
        *ret_failed = u;
        if (gt_unit_run(unit) == unit->pods || !gt_place_split(job, unit, room))
            return false;
    }
    return true;
}

static bool place_all(struct job *job, enum order order, struct gt_plan_failure *ret_failure)
{
    gt_plan_clear(job);
    for (uint32_t u = 0; u < job->unit_count; u++)
        if (job->units[u].gpus == 0 || job->units[u].gpus > GT_GPUS_MAX) { /* no node holds such a pod */
            gt_plan_fail(job, u, ret_failure);
            return false;
        }
    if (job->any_running && !place_started(job, ret_failure))
        return false;
    for (uint64_t done = UINT64_MAX, rank;; done = rank) {
        rank = 0;
        for (uint32_t u = 0; u < job->unit_count; u++) {
            uint64_t own = plan_rank_of(&job->units[u], order);
            rank = own < done && own > rank ? own : rank;
        }
        if (!rank)
            return true;
        uint32_t u = 0, failed;
        while (plan_rank_of(&job->units[u], order) != rank)
            u++;
        if (!place_kind(job, &job->units[u], &failed)) {
            gt_plan_fail(job, failed, ret_failure);
            return false;
        }
    }
}

/* Sets the lowest supernode that contains all pods of the unit, and the number of tier-1 supernodes that they
 * touch. */
static void describe_unit(const struct job *job, struct gt_plan_unit *unit)
{
    uint32_t shared;
    unit->supernodes = gt_unit_mark_supernodes(job, unit, &shared);
    unit->supernode = shared;
    unit->tier = shared == GT_NONE ? GT_TIERS_MAX + 1 : job->cluster->supers[shared].tier;
}

void gt_plan_finish(struct job *job)
{
    if (job->any_open)
        gt_give_gpus(job);
    for (uint32_t u = 0; u < job->unit_count; u++)
        describe_unit(job, &job->units[u]);
}

bool gt_plan_job(struct gt_cluster *cluster, const struct gt_plan_request *request,
                 struct gt_plan_failure *ret_failure)
{
    if (gt_plan_minds_slow(cluster, request))
        return gt_plan_slow(cluster, request, gt_plan_job, ret_failure);
    if (gt_plan_has_tier(cluster, request))
        return gt_plan_within(cluster, request, gt_plan_job, ret_failure);
    struct job job = gt_plan_begin(cluster, request);
    bool mixed = false, unequal = job.any_running;
    for (uint32_t u = 1; u < job.unit_count; u++) {
        mixed |= job.units[u].gpus != job.units[0].gpus || job.units[u].pods != job.units[0].pods;
        unequal |= !gt_unit_is_kind(&job.units[u], &job.units[0]);
    }
    if (!place_all(&job, BY_RUN, ret_failure)) {
        /* Units of several sizes share supernodes, and pods of several sizes share nodes. Where larger units
         * were placed first and took the room that larger pods need, the other order may still succeed. And
         * supernodes that are equal for units of one size need not be so for later ones: then the job is
         * placed without regard to the tiers above them. */
        struct gt_plan_failure other;
        enum gt_plan_reason reason = ret_failure->reason;
        unsigned orders = mixed ? ORDERS : 1, ways = job.close && unequal ? 2 * orders : orders;
        bool exact = false, placed = false;
        bool no_room = reason == GT_PLAN_NO_SUPERNODE || reason == GT_PLAN_NO_DOMAIN;
        ret_failure->inexact = mixed && (no_room || reason == GT_PLAN_UNIT_STUCK);
        if (!no_room)
            return false;
        for (unsigned way = 1; way < ways && !placed; way++) {
            job.close &= way < orders;
            placed = place_all(&job, way % orders ? BY_POD : BY_RUN, &other);
        }
        if (!placed && !(mixed && gt_place_mixed(&job, &exact))) {
            ret_failure->inexact = mixed && !exact;
            return false;
        }
    }
    if (!request->rules)
        gt_plan_order(&job);
    if (job.slow == GT_SLOW_AVOID && !request->rules)
        gt_slow_trade(&job);
    gt_plan_finish(&job);
    return true;
}

void gt_plan_split(const struct gt_class *class, uint64_t mask, const unsigned *counts, unsigned containers,
                   uint64_t *ret_masks)
{
    for (unsigned i = 0; i < containers; i++) {
        struct gt_choice choice = {.mask = gt_core_lowest(mask, counts[i])};
        gt_choose(class, mask, 0, counts[i], 0, &choice);
        ret_masks[i] = choice.mask;
        mask &= ~choice.mask;
    }
}
