/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "scheduler-ext/sim/group/run.h"

/*
 * Jobs with places for some of their pods: those that start with a minimum of their units and grow, and those
 * that have lost a node. The attempts and their order are those of the companion (decide/decide.c,
 * decide/decide.c, placement/node_loss.c, cache/cache_spares.c), on the same planner.
 */

int gt_parts_open(struct group_run *run, struct gt_err **err)
{
    const struct gt_site *site = run->world->site;
    struct sim_parts *parts = &run->parts;
    if (!run->policy->plan)
        return gt_fail(err, EINVAL, "policy %s places whole jobs only", run->policy->name);
    parts->wanted = calloc(run->pods_max, sizeof(*parts->wanted));
    parts->places = calloc(run->pods_max, sizeof(*parts->places));
    parts->homes = calloc(site->super_count, sizeof(*parts->homes));
    parts->spare = calloc(site->node_count, sizeof(*parts->spare));
    parts->again = calloc((size_t)run->jobs->count + 1, sizeof(*parts->again));
    GT_NEED(parts->wanted && parts->places && parts->homes && parts->spare && parts->again, err,
            "simulation");
    int r = gt_node_set_add(&parts->excluded, site->node_count - 1, err); /* later no call needs memory */
    parts->on = r >= 0;
    for (uint32_t s = 0; s < site->super_count && r >= 0; s++)
        gt_spares_node_changed(run, site->first_node[s]);
    return r;
}

void gt_parts_done(struct group_run *run)
{
    free(run->parts.wanted);
    free(run->parts.places);
    free(run->parts.homes);
    free(run->parts.spare);
    free(run->parts.again);
    gt_node_set_done(&run->parts.excluded);
}

/* ---- one plan ---- */

static uint32_t run_length(const struct gt_sim_job *job)
{
    return job->atom ? job->atom : job->unit;
}

/* Excludes spare nodes, except where units of the job miss pods, and nodes that are reserved for others. */
static void sim_parts_exclude(struct group_run *run, const struct gt_sim_job *job, bool exclude_reserved)
{
    struct sim_parts *parts = &run->parts;
    const struct gt_site *site = run->world->site;
    const struct gt_node_set *reserved = &run->holder.reserved;
    uint32_t length = run_length(job);
    gt_node_set_clear(&parts->excluded);
    memset(parts->homes, 0, site->super_count * sizeof(*parts->homes));
    for (uint32_t first = 0; first < job->pods; first += length) {
        uint32_t home = GT_NONE;
        bool lacks = false;
        for (uint32_t i = first; i < first + length; i++) {
            lacks = lacks || parts->wanted[i];
            home = parts->places[i].node == GT_NONE ? home : site->nodes[parts->places[i].node].super;
        }
        if (lacks && home != GT_NONE)
            parts->homes[home] = true;
    }
    for (uint32_t n = 0; run->options->spares && n < site->node_count; n++)
        if (parts->spare[n] && !parts->homes[site->nodes[n].super])
            gt_node_set_add(&parts->excluded, n, NULL);
    for (uint32_t n = exclude_reserved ? gt_node_set_next(reserved, 0) : GT_NONE; n != GT_NONE;
         n = gt_node_set_next(reserved, n + 1))
        gt_node_set_add(&parts->excluded, n, NULL);
}

/* Plans the pods of `wanted` into `places` (both scratch); nothing is taken. */
static bool sim_parts_plan(struct group_run *run, const struct gt_sim_job *job, bool exclude_reserved)
{
    const struct gt_sim_watch *watch = &run->options->watch;
    uint64_t begin = watch->nanoseconds ? watch->nanoseconds() : 0;
    sim_parts_exclude(run, job, exclude_reserved);
    bool planned =
        run->policy->plan(run->state, job, run->parts.wanted, &run->parts.excluded, run->parts.places);
    run->meter.nanoseconds += watch->nanoseconds ? watch->nanoseconds() - begin : 0;
    run->meter.decisions++;
    return planned;
}

/* Nodes that are reserved for another job are tried last. */
static bool plan_beside(struct group_run *run, const struct gt_sim_job *job)
{
    bool others = run->holder.job && run->holder.job != job;
    return (others && sim_parts_plan(run, job, true)) || sim_parts_plan(run, job, false);
}

static void copy_places(struct group_run *run, uint32_t number)
{
    const struct gt_place *places = run->running[number].places;
    for (uint32_t i = 0; i < run->jobs->job[number].pods; i++)
        run->parts.places[i] = places ? places[i] : (struct gt_place){.node = GT_NONE};
}

static bool has_begun(const struct gt_sim_job *job, const struct gt_place *places, uint32_t unit)
{
    for (uint32_t i = unit * job->unit; i < (unit + 1) * job->unit; i++)
        if (places[i].node != GT_NONE)
            return true;
    return false;
}

static bool is_whole(const struct gt_sim_job *job, const struct gt_place *places, uint32_t unit)
{
    for (uint32_t i = unit * job->unit; i < (unit + 1) * job->unit; i++)
        if (places[i].node == GT_NONE)
            return false;
    return true;
}

/* ---- a part of the units ---- */

uint32_t gt_parts_least(const struct group_run *run, const struct gt_sim_job *job)
{
    uint32_t units = job->pods / job->unit, least = units;
    if (run->options->minimum > 0 && run->options->minimum < 1)
        least = (uint32_t)ceil(run->options->minimum * units);
    return least ? least : 1;
}

/* Marks the first `count` units without any place as wanted. */
static void want_fresh(struct group_run *run, const struct gt_sim_job *job, uint32_t count)
{
    struct sim_parts *parts = &run->parts;
    memset(parts->wanted, 0, job->pods * sizeof(*parts->wanted));
    for (uint32_t u = 0; u < job->pods / job->unit && count; u++)
        if (!has_begun(job, parts->places, u)) {
            memset(&parts->wanted[u * job->unit], true, job->unit * sizeof(*parts->wanted));
            count--;
        }
}

static bool sim_parts_fits(struct group_run *run, uint32_t number, uint32_t count)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    copy_places(run, number);
    want_fresh(run, job, count);
    return gt_run_may_hold(run, number, (uint64_t)count * job->unit * job->gpus) && plan_beside(run, job);
}

/* Plans as many units without a place as possible, `least` or more, in the scratch. */
static bool sim_parts_find_most(struct group_run *run, uint32_t number, uint32_t least, uint32_t most)
{
    uint32_t low = least, high = most; /* it fits with `low`, not with `high` */
    if (!most || least > most)
        return false;
    if (sim_parts_fits(run, number, high))
        return true;
    if (least == high || !sim_parts_fits(run, number, least))
        return false;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (sim_parts_fits(run, number, middle))
            low = middle;
        else
            high = middle;
    }
    return sim_parts_fits(run, number, low);
}

static void sim_parts_take(struct group_run *run, const struct gt_place *place)
{
    gt_world_take(run->world, place->node, place->mask);
    gt_run_changed(run, place->node);
}

bool gt_parts_start(struct group_run *run, uint32_t number)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    if (!sim_parts_find_most(run, number, gt_parts_least(run, job), job->pods / job->unit))
        return false;
    for (uint32_t i = 0; i < job->pods; i++) {
        run->places[i] = run->parts.places[i];
        if (run->places[i].node != GT_NONE)
            sim_parts_take(run, &run->places[i]);
    }
    return true;
}

/* ---- missing pods of a job ---- */

/* Takes the planned places for the job, and frees the places that its pods leave. */
static void sim_parts_commit(struct group_run *run, uint32_t number)
{
    struct running *running = &run->running[number];
    const struct gt_sim_job *job = &run->jobs->job[number];
    for (uint32_t i = 0; i < job->pods; i++) {
        if (!run->parts.wanted[i])
            continue;
        struct gt_place left = running->places[i];
        running->places[i] = run->parts.places[i];
        sim_parts_take(run, &running->places[i]);
        running->held += left.node == GT_NONE;
        gt_run_tenant(run, number)->holds += left.node == GT_NONE ? job->gpus : 0;
        if (left.node == GT_NONE)
            continue;
        gt_world_give(run->world, left.node, left.mask);
        gt_run_changed(run, left.node);
    }
}

/* Marks the missing pods of started units in [first, end) as wanted. */
static bool want_missing(struct group_run *run, uint32_t number, uint32_t first, uint32_t end)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    bool all = gt_parts_least(run, job) == job->pods / job->unit, any = false;
    copy_places(run, number);
    for (uint32_t i = 0; i < job->pods; i++) {
        bool begun = all || has_begun(job, run->parts.places, i / job->unit);
        run->parts.wanted[i] = i >= first && i < end && begun && run->parts.places[i].node == GT_NONE;
        any = any || run->parts.wanted[i];
    }
    return any;
}

/* Moves a unit, or an atom, to where all of it has room; its old places are freed when it has new ones. */
static bool sim_parts_move(struct group_run *run, uint32_t number, uint32_t first, uint32_t end)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    copy_places(run, number);
    for (uint32_t i = 0; i < job->pods; i++) {
        run->parts.wanted[i] = i >= first && i < end;
        if (run->parts.wanted[i])
            run->parts.places[i] = (struct gt_place){.node = GT_NONE};
    }
    if (!plan_beside(run, job))
        return false;
    gt_meter_moved(&run->meter, (uint32_t)(job - run->jobs->job));
    return true;
}

/* True: some pods were placed. */
static bool sim_parts_replace(struct group_run *run, uint32_t number)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    uint32_t length = run_length(job);
    bool any = false;
    if (!want_missing(run, number, 0, job->pods))
        return false;
    if (plan_beside(run, job)) {
        sim_parts_commit(run, number);
        return true;
    }
    for (uint32_t first = 0; run->options->node_loss == GT_SIM_LOSS_UNIT && first < job->pods;
         first += length) {
        bool placed = want_missing(run, number, first, first + length) &&
                      (plan_beside(run, job) || sim_parts_move(run, number, first, first + length));
        if (placed)
            sim_parts_commit(run, number);
        any = any || placed;
    }
    return any;
}

static uint32_t count_whole(const struct group_run *run, uint32_t number)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    uint32_t whole = 0;
    for (uint32_t u = 0; u < job->pods / job->unit; u++)
        whole += is_whole(job, run->running[number].places, u);
    return whole;
}

static bool sim_parts_grow(struct group_run *run, uint32_t number)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    uint32_t least = gt_parts_least(run, job), fresh = 0;
    for (uint32_t u = 0; u < job->pods / job->unit; u++)
        fresh += !has_begun(job, run->running[number].places, u);
    uint32_t whole = count_whole(run, number);
    if (least == job->pods / job->unit ||
        !sim_parts_find_most(run, number, whole < least ? least - whole : 1, fresh))
        return false;
    sim_parts_commit(run, number);
    return true;
}

int gt_parts_complete(struct group_run *run, uint32_t number, struct gt_err **err)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    const struct running *running = &run->running[number];
    bool replaced = sim_parts_replace(run, number), grown = sim_parts_grow(run, number);
    int r = 0;
    if (replaced || grown) {
        r = gt_run_check(run, job, running->places, err);
        if (r >= 0)
            r = gt_run_set_rate(run, number, gt_parts_rate(run, number), run->options->restart, err);
    }
    return r < 0 ? r : running->held == job->pods;
}

/* ---- questions ---- */

double gt_parts_rate(const struct group_run *run, uint32_t number)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    const struct gt_place *places = run->running[number].places;
    uint32_t units = job->pods / job->unit, running = 0;
    for (uint32_t u = 0; u < units; u++) {
        bool runs = is_whole(job, places, u);
        for (uint32_t i = u * job->unit; runs && i < (u + 1) * job->unit; i++)
            runs = !run->dead[places[i].node];
        running += runs;
    }
    return running < gt_parts_least(run, job) ? 0 : (double)running / units;
}

bool gt_parts_is_torn(const struct group_run *run, uint32_t number)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    const struct gt_place *places = run->running[number].places;
    for (uint32_t u = 0; u < job->pods / job->unit; u++)
        if (has_begun(job, places, u) && !is_whole(job, places, u))
            return true;
    return count_whole(run, number) < gt_parts_least(run, job);
}

void gt_parts_request(struct group_run *run, uint32_t number, struct gt_plan_request *ret)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    if (!run->running[number].places || !want_missing(run, number, 0, job->pods)) {
        copy_places(run, number);
        want_fresh(run, job, gt_parts_least(run, job));
    }
    sim_parts_exclude(run, job, false);
    gt_group_part_request(job, run->parts.wanted, run->parts.places, run->holder.units, run->holder.pods,
                          ret);
    ret->excluded = &run->parts.excluded;
}
