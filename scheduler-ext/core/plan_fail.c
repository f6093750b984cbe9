/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/core/plan_work.h"

static uint32_t saturated(uint64_t n)
{
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* The number of pods of this size that do not run, in all units. */
static uint64_t pods_needed(const struct job *job, unsigned gpus)
{
    uint64_t pods = 0;
    for (uint32_t u = 0; u < job->unit_count; u++)
        for (uint32_t i = 0; i < job->units[u].pods && job->units[u].gpus == gpus; i++)
            pods += !job->pods[job->units[u].first + i].running;
    return pods;
}

/* Counts the runs of the unit's size in all units, without those with running pods, and how many of them are
 * placed. Returns whether anything else was placed before. */
static void count_runs(const struct job *job, const struct gt_plan_unit *like, uint32_t *ret_wanted,
                       uint32_t *ret_placed, bool *ret_beside)
{
    uint32_t wanted = 0, placed = 0;
    *ret_beside = false;
    for (uint32_t u = 0; u < job->unit_count; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        uint32_t size = gt_unit_run(unit);
        bool same = unit->gpus == like->gpus && size == gt_unit_run(like);
        for (uint32_t first = unit->first; first < unit->first + unit->pods; first += size) {
            if (job->pods[first].left_out)
                continue;
            bool started = gt_run_has_started(job, first, size),
                 is_placed = gt_run_is_placed(job, first, size);
            wanted += same && !started;
            placed += same && !started && is_placed;
            for (uint32_t i = first; i < first + size && is_placed && (started || !same); i++)
                *ret_beside |= !job->pods[i].running;
        }
    }
    *ret_wanted = wanted;
    *ret_placed = placed;
}

/* Counts the slots for such pods before anything was placed. */
static uint64_t slots_before(struct job *job, unsigned gpus)
{
    uint64_t slots = 0;
    gt_draft_begin(job);
    const struct room *room = gt_draft_room(job, ROOM_OF_PODS, gpus);
    for (uint32_t s = 0; room && s < room->count; s++)
        slots += room->slots[s];
    return slots;
}

/* How many further units fit whose atoms must lie in one supernode of a tier. */
static uint64_t units_within(struct job *job, const struct gt_plan_unit *unit, const struct room *room)
{
    const struct super *supers = job->cluster->supers;
    uint32_t size = gt_unit_run(unit), atoms = unit->pods / size, *fitting = job->cluster->scratch;
    uint64_t units = 0;
    if (!room || !room->count)
        return 0;
    memset(fitting, 0, room->count * sizeof(*fitting));
    for (uint32_t s = 0; s < room->count; s++) {
        uint32_t above = s;
        while (supers[above].parent != GT_NONE && supers[supers[above].parent].tier <= unit->within)
            above = supers[above].parent;
        fitting[above] += room->slots[s] / size;
    }
    for (uint32_t s = 0; s < room->count; s++)
        units += fitting[s] / atoms;
    return units;
}

/* A unit that has begun, and may not leave the domain where its pods are. */
static void fail_begun(const struct job *job, const struct gt_plan_unit *unit, const struct room *room,
                       struct gt_plan_failure *failure)
{
    const struct gt_cluster *cluster = job->cluster;
    uint32_t domain, size = gt_unit_run(unit);
    gt_unit_mark_supernodes(job, unit, &domain);
    if (domain == GT_NONE || cluster->supers[domain].tier > unit->within)
        return;
    for (uint32_t up = domain; up != GT_NONE && cluster->supers[up].tier <= unit->within;
         up = cluster->supers[up].parent)
        domain = up;
    failure->supernode = domain;
    failure->wanted = failure->fitting = 0;
    for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
        failure->wanted += job->pods[i].place.node == GT_NONE;
    for (uint32_t s = 0; room && s < room->count; s++)
        failure->fitting += gt_core_is_below(cluster, s, domain) ? room->slots[s] / size * size : 0;
}

/* The same numbers for units that must lie in one supernode of a tier, where that is what fails. */
static void fail_within(struct job *job, const struct gt_plan_unit *unit, const struct room *room,
                        struct gt_plan_failure *failure)
{
    uint64_t fitting = units_within(job, unit, room);
    failure->reason = GT_PLAN_NO_DOMAIN;
    failure->domains.tier = unit->within;
    failure->domains.each = true;
    failure->atoms = failure->could_fit = false;
    failure->size = saturated((uint64_t)unit->pods * unit->gpus);
    failure->supernode = GT_NONE;
    failure->wanted = 0;
    for (uint32_t u = 0; u < job->unit_count; u++) {
        const struct gt_plan_unit *other = &job->units[u];
        if (!gt_unit_is_kind(other, unit) || job->pods[other->first].left_out)
            continue;
        failure->wanted++;
        fitting += gt_run_is_placed(job, other->first, other->pods);
    }
    failure->fitting = saturated(fitting);
    if (gt_run_has_started(job, unit->first, unit->pods))
        fail_begun(job, unit, room, failure);
}

void gt_plan_fail(struct job *job, uint32_t number, struct gt_plan_failure *ret)
{
    const struct gt_cluster *cluster = job->cluster;
    const struct gt_plan_unit *unit = &job->units[number];
    uint32_t size = gt_unit_run(unit), placed;
    struct gt_plan_failure failure = {
        .reason = GT_PLAN_NO_SUPERNODE,
        .unit = number,
        .size = saturated((uint64_t)size * unit->gpus),
        .atoms = size < unit->pods,
        .gpus = unit->gpus,
        .supernode = GT_NONE,
    };
    count_runs(job, unit, &failure.wanted, &placed, &failure.beside);
    uint64_t needed = pods_needed(job, unit->gpus), fitting = placed, slots;
    const struct room *room = gt_draft_room(job, ROOM_OF_PODS, unit->gpus);
    uint64_t whole_runs = 0, whole_pods = 0;
    uint32_t largest = 0;
    /* Runs that still fit count as held, too; the largest rest is computed after them. */
    for (uint32_t s = 0; room && s < room->count; s++) {
        fitting += room->slots[s] / size;
        whole_runs += room->whole[s] / size;
        whole_pods += room->whole[s];
        if (room->slots[s] % size > largest) {
            largest = room->slots[s] % size;
            failure.supernode = s;
        }
    }
    failure.largest = largest * unit->gpus;
    uint32_t open = unit->first;
    while (open + 1 < unit->first + unit->pods && job->pods[open].running)
        open++;
    const struct gt_numa_pod pod = {unit->gpus, job->pods[open].requests};
    for (uint32_t n = 0; cluster->numa_nodes && unit->gpus && n < cluster->node_count; n++)
        failure.numa_nodes += cluster->count[n] >= unit->gpus && !gt_node_set_has(job->excluded, n) &&
                              !gt_numa_pods(cluster, n, cluster->available[n], pod);
    failure.could_fit = !cluster->numa_nodes && whole_runs >= failure.wanted && whole_pods >= needed;
    failure.fitting = saturated(fitting);
    if (unit->within && fitting >= failure.wanted)
        fail_within(job, unit, room, &failure);
    slots = slots_before(job, unit->gpus);
    failure.available = saturated(slots * unit->gpus);
    failure.needed = saturated(needed * unit->gpus);
    failure.together = saturated(slots / (failure.domains.each ? unit->pods : size));
    if (needed > slots && !(failure.domains.each && failure.supernode != GT_NONE))
        failure.reason = GT_PLAN_TOO_FEW_GPUS;
    *ret = failure;
}

void gt_plan_fail_started(struct job *job, uint32_t number, uint32_t first, uint32_t super,
                          struct gt_plan_failure *ret)
{
    const struct gt_plan_unit *unit = &job->units[number];
    uint32_t size = gt_unit_run(unit);
    struct gt_plan_failure failure = {
        .reason = super == GT_NONE ? GT_PLAN_UNIT_TORN : GT_PLAN_UNIT_STUCK,
        .unit = number,
        .size = saturated((uint64_t)size * unit->gpus),
        .atoms = size < unit->pods,
        .gpus = unit->gpus,
        .supernode = super,
    };
    for (uint32_t i = first; i < first + size; i++) {
        failure.wanted += !job->pods[i].running;
        failure.fitting += !job->pods[i].running && job->pods[i].place.node != GT_NONE;
    }
    for (uint32_t i = 0; i < job->pod_count && super != GT_NONE; i++)
        failure.beside |=
            (i < first || i >= first + size) && !job->pods[i].running && gt_pod_super(job, i) == super;
    failure.needed = saturated((uint64_t)failure.wanted * unit->gpus);
    if (super != GT_NONE)
        failure.largest = failure.fitting * unit->gpus;
    failure.available = saturated(slots_before(job, unit->gpus) * unit->gpus);
    *ret = failure;
}
