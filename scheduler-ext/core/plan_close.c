/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_close.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/core/plan_nodes.h"

/* Begins a plan: the job has only its running pods. */
static void close_begin(struct job *job)
{
    job->any_touched = false;
    if (!job->close)
        return;
    job->touch = gt_close_next_touch(job->cluster);
    for (uint32_t u = 0; u < job->unit_count; u++)
        job->units[u].supernode = GT_NONE;
    for (uint32_t pod = 0; job->any_running && pod < job->pod_count; pod++)
        if (job->pods[pod].running)
            gt_run_touch(job, gt_pod_super(job, pod));
}

/* ---- the start of a plan ---- */

struct job gt_plan_begin(struct gt_cluster *cluster, const struct gt_plan_request *request)
{
    struct job job = {.cluster = cluster,
                      .units = request->units,
                      .unit_count = request->unit_count,
                      .pods = request->pods,
                      .pod_count = request->pod_count,
                      .excluded = request->excluded,
                      .freed = request->freed,
                      .limits = request->limits,
                      .limit_count = request->limit_count,
                      .several = request->several,
                      .close = cluster->uppers && !request->flat};
    for (uint32_t i = 0; i < job.pod_count && !job.any_running; i++)
        job.any_running = job.pods[i].running;
    return job;
}

void gt_plan_clear(struct job *job)
{
    gt_draft_begin(job);
    for (uint32_t i = 0; i < job->pod_count; i++)
        if (!job->pods[i].running)
            job->pods[i].node = GT_NONE;
    for (uint32_t u = 0; u < job->unit_count; u++) {
        struct gt_plan_unit *unit = &job->units[u];
        unit->slots_before = unit->feasible = unit->levels_lost = unit->touched = 0;
        unit->next = unit->with = GT_NONE;
        unit->next_slots = unit->next_lost = unit->next_touched = 0;
        unit->node_in_use = unit->started = unit->searched = false;
        unit->fewest = 1;
    }
    close_begin(job);
}

/* ---- whole units ---- */

/* Those of its pods that have no place yet. */
static uint32_t close_slots(const struct job *job, const struct gt_plan_unit *unit)
{
    uint32_t slots = 0;
    for (uint32_t pod = unit->first; pod < unit->first + unit->pods; pod++)
        slots += !job->pods[pod].running;
    return slots;
}

void gt_close_put(struct job *job, struct gt_plan_unit *unit, uint32_t super, const struct room *room)
{
    if (!job->close) {
        gt_place_in_super(job, super, unit->gpus, unit->first, unit->pods);
        return;
    }
    unit->supernode = super;
    room->slots[super] -= close_slots(job, unit);
}

static uint32_t close_count(const struct job *job, uint32_t from)
{
    uint32_t count = 0;
    for (uint32_t u = from; u < job->unit_count; u++)
        count += job->units[u].supernode != GT_NONE;
    return count;
}

/* One place for each supernode that was noted, and gives its slots back. */
static uint32_t close_gather(struct job *job, uint32_t from, const struct room *room,
                             struct gt_close_place *places)
{
    struct gt_cluster *cluster = job->cluster;
    uint32_t count = 0, stamp = gt_core_stamp(cluster), *index = cluster->scratch;
    for (uint32_t u = from; u < job->unit_count; u++) {
        uint32_t super = job->units[u].supernode;
        if (super == GT_NONE)
            continue;
        if (cluster->mark[super] != stamp) {
            cluster->mark[super] = stamp;
            index[super] = count;
            places[count++] = (struct gt_close_place){.from = super};
        }
        places[index[super]].load++;
        room->slots[super] += close_slots(job, &job->units[u]);
    }
    return count;
}

/* What the rule said of a unit goes with its place. */
static void close_move(struct job *job, struct gt_plan_unit *unit, const struct gt_plan_unit *said,
                       const struct gt_close_place *place, const uint32_t *now)
{
    uint32_t first = unit->first, atom = unit->atom;
    *unit = *said;
    unit->first = first;
    unit->atom = atom;
    unit->supernode = GT_NONE;
    unit->with = said->with == GT_NONE ? GT_NONE : now[said->with];
    if (unit->next == place->to)
        unit->next = place->from;
    gt_place_in_super(job, place->to, unit->gpus, unit->first, unit->pods);
}

void gt_close_whole(struct job *job, const struct gt_plan_unit *kind, const struct room *room)
{
    struct gt_cluster *cluster = job->cluster;
    uint32_t from = (uint32_t)(kind - job->units), end = job->unit_count;
    uint32_t units = job->close ? close_count(job, from) : 0, at = 0;
    if (!units)
        return;
    size_t said_bytes = end * sizeof(struct gt_plan_unit);
    struct gt_close_place *places = gt_close_memory(
        cluster, 0, units * (sizeof(*places) + sizeof(uint32_t)) + end * sizeof(uint32_t) + said_bytes);
    if (!places) { /* as the rule has it */
        for (uint32_t u = from; u < end; u++) {
            struct gt_plan_unit *unit = &job->units[u];
            uint32_t super = unit->supernode;
            if (super == GT_NONE)
                continue;
            room->slots[super] += close_slots(job, unit);
            unit->supernode = GT_NONE;
            gt_place_in_super(job, super, unit->gpus, unit->first, unit->pods);
        }
        return;
    }
    struct gt_plan_unit *said = (struct gt_plan_unit *)(places + units);
    uint32_t *now = (uint32_t *)(said + end), *order = now + end;
    uint32_t count = close_gather(job, from, room, places);
    gt_close_choose(job, room, places, count, NULL);
    memcpy(said, job->units, said_bytes);
    for (uint32_t i = 0; i < count; i++) {
        places[i].first = at;
        at += places[i].load;
        cluster->scratch[places[i].from] = i;
    }
    bool equal = true; /* those with pods on nodes that are gone need fewer slots: they keep their places */
    for (uint32_t u = from; u < end && job->any_running; u++)
        equal &= said[u].supernode == GT_NONE || close_slots(job, &said[u]) == kind->pods;
    at = 0;
    for (uint32_t u = from; u < end; u++)
        if (said[u].supernode != GT_NONE)
            order[equal ? places[cluster->scratch[said[u].supernode]].first++ : at++] = u;
    at = 0;
    for (uint32_t u = from; u < end; u++)
        if (said[u].supernode != GT_NONE)
            now[order[at++]] = u;
    at = 0;
    for (uint32_t u = from; u < end; u++) {
        if (said[u].supernode == GT_NONE)
            continue;
        const struct gt_plan_unit *own = &said[order[at++]];
        close_move(job, &job->units[u], own, &places[cluster->scratch[own->supernode]], now);
    }
}
