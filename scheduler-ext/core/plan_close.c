/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/core/crossing.h"

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
                      .slow = cluster->slow_nodes ? request->slow : GT_SLOW_ANY,
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
            job->pods[i].place.node = GT_NONE;
    for (uint32_t u = 0; u < job->unit_count; u++) {
        struct gt_plan_unit *unit = &job->units[u];
        unit->slots_before = unit->feasible = unit->levels_lost = unit->touched = 0;
        unit->next.supernode = unit->with = GT_NONE;
        unit->next.slots = unit->next.levels_lost = unit->next.touched = 0;
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
    if (unit->next.supernode == place->to)
        unit->next.supernode = place->from;
    gt_place_in_super(job, place->to, unit->gpus, unit->first, unit->pods);
}

/* ---- units that are made again ---- */

enum { CLOSE_AGAIN_MAX = 256, CLOSE_AGAIN_STEPS = 1 << 20, CLOSE_RETURNS_MAX = 8 };

/*
 * Which of the noted units gets which of the chosen places where other units of the job have theirs: in rank
 * order the job leaves a domain only once, as far as that is found.
 */
struct close_again {
    const struct job *job;
    uint32_t count;                    /* of noted units, and of places: an opening for each */
    uint32_t super[CLOSE_AGAIN_MAX];   /* [opening] */
    uint32_t of_unit[CLOSE_AGAIN_MAX]; /* [nth] its opening */
    bool taken[CLOSE_AGAIN_MAX];       /* [opening] */
    const struct gt_plan_unit *said;
    uint32_t steps; /* so many are left */
};

/* Where a unit lies already; GT_NONE: nowhere yet. */
static uint32_t close_place_of(const struct close_again *again, uint32_t unit)
{
    const struct job *job = again->job;
    uint32_t first = job->units[unit].first;
    bool lies = again->said[unit].supernode == GT_NONE && job->pods[first].place.node != GT_NONE;
    return lies ? gt_pod_super(job, first) : GT_NONE;
}

/* Whether the job has to come back to that domain for an opening, or for a unit from `unit` on. */
static bool close_must_return(struct close_again *again, uint32_t domain, unsigned tier, uint32_t unit)
{
    const struct gt_cluster *cluster = again->job->cluster;
    bool must = false;
    for (uint32_t opening = 0; opening < again->count && !must; opening++)
        must = !again->taken[opening] && gt_cluster_domain(cluster, again->super[opening], tier) == domain;
    uint32_t cost = again->count;
    for (; unit < again->job->unit_count && !must; unit++, cost++)
        must = gt_cluster_domain(cluster, close_place_of(again, unit), tier) == domain;
    again->steps -= again->steps < cost ? again->steps : cost;
    return must;
}

/* How often it has to come back if unit `unit` lies in `to` and the one before in `from`. */
static unsigned close_returns(struct close_again *again, uint32_t from, uint32_t to, uint32_t unit)
{
    const struct gt_cluster *cluster = again->job->cluster;
    unsigned returns = 0;
    for (unsigned tier = 1; from != GT_NONE && from != to && tier <= GT_TIERS_MAX; tier++) {
        uint32_t left = cluster->tiers[tier] ? gt_cluster_domain(cluster, from, tier) : GT_NONE;
        if (left != GT_NONE && left != gt_cluster_domain(cluster, to, tier))
            returns += close_must_return(again, left, tier, unit);
    }
    return returns;
}

static void close_take_opening(struct close_again *again, uint32_t n, uint32_t opening)
{
    again->taken[opening] = true;
    again->of_unit[n] = opening;
}

static uint32_t close_next_opening(const struct close_again *again, uint32_t opening)
{
    while (opening < again->count && again->taken[opening])
        opening++;
    return opening;
}

/* Gives openings to the units from `unit` on, of which the nth noted one is the next. `from`: where the unit
 * before lies; so often may the job come back to a domain. */
static bool close_give_openings(struct close_again *again, uint32_t unit, uint32_t n, uint32_t from,
                                unsigned returns)
{
    for (; unit < again->job->unit_count; unit++) {
        uint32_t to = close_place_of(again, unit), opening = close_next_opening(again, 0);
        if (again->said[unit].supernode == GT_NONE) {
            unsigned more = to == GT_NONE ? 0 : close_returns(again, from, to, unit);
            if (more > returns || !again->steps)
                return false;
            returns -= more;
            from = to == GT_NONE ? from : to;
            continue;
        }
        while (opening < again->count && again->super[opening] != from)
            opening = close_next_opening(again, opening + 1);
        if (opening < again->count) {
            close_take_opening(again, n++, opening);
            continue;
        }
        for (opening = close_next_opening(again, 0); opening < again->count && again->steps;) {
            bool taken[CLOSE_AGAIN_MAX];
            memcpy(taken, again->taken, sizeof(taken));
            to = again->super[opening];
            close_take_opening(again, n, opening);
            unsigned more = close_returns(again, from, to, unit + 1);
            if (more <= returns && close_give_openings(again, unit + 1, n + 1, to, returns - more))
                return true;
            memcpy(again->taken, taken, sizeof(taken));
            while (opening < again->count && again->super[opening] == to)
                opening = close_next_opening(again, opening + 1);
        }
        return false;
    }
    return true;
}

/* `order`: [opening] the unit that the rule wanted there, along the tree; out: [nth noted unit] likewise. */
static void close_order_again(const struct job *job, const struct gt_plan_unit *said,
                              const struct gt_close_place *places, uint32_t count, uint32_t *order)
{
    struct close_again again = {.job = job, .count = count, .said = said, .steps = CLOSE_AGAIN_STEPS};
    uint32_t along[CLOSE_AGAIN_MAX];
    bool found = false;
    if (!job->any_running || count > CLOSE_AGAIN_MAX)
        return;
    for (uint32_t opening = 0; opening < count; opening++)
        again.super[opening] = places[job->cluster->scratch[said[order[opening]].supernode]].to;
    for (unsigned returns = 0; returns < CLOSE_RETURNS_MAX && again.steps && !found; returns++) {
        memset(again.taken, 0, sizeof(again.taken));
        found = close_give_openings(&again, 0, 0, GT_NONE, returns);
    }
    memcpy(along, order, count * sizeof(*order));
    for (uint32_t n = 0; n < count && found; n++)
        order[n] = along[again.of_unit[n]];
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
    if (equal)
        close_order_again(job, said, places, units, order);
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
