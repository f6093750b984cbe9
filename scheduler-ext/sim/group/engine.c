/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "scheduler-ext/sim/group/run.h"

enum { PROGRESS_STEP = 512 };

static void run_done(struct group_run *run)
{
    if (run->policy->close && run->state)
        run->policy->close(run->state);
    for (uint32_t i = 0; run->running && i < run->jobs->count; i++)
        free(run->running[i].places);
    free(run->running);
    free(run->left);
    free(run->tenants);
    gt_waiting_done(run);
    free(run->places);
    gt_heap_done(&run->heap);
    gt_meter_done(&run->meter);
    gt_world_free(run->world);
}

static int run_open(struct group_run *run, const struct gt_site *site, struct gt_err **err)
{
    struct gt_group_setup setup = {.chain = run->options->chain.count ? &run->options->chain : NULL,
                                   .seed = run->options->seed,
                                   .pods_max = 1,
                                   .loss_weight = run->options->loss_weight};
    uint32_t count = run->jobs->count, largest = 0, largest_gpus = 1;
    int r = gt_world_new(site, &run->world, err);
    if (r >= 0)
        r = gt_world_track(run->world, 1, err);
    if (r >= 0)
        r = gt_world_track(run->world, gt_site_largest_node(site), err);
    for (uint32_t i = 0; i < count && r >= 0; i++) {
        const struct gt_sim_job *job = &run->jobs->job[i];
        uint32_t size = job->unit * job->gpus;
        setup.pods_max = job->pods > setup.pods_max ? job->pods : setup.pods_max;
        if (size > largest) {
            largest = size;
            largest_gpus = job->gpus;
        }
        r = gt_world_track(run->world, job->gpus, err);
    }
    if (r < 0)
        return r;
    run->running = calloc(count + 1, sizeof(*run->running));
    run->left = calloc(count + 1, sizeof(*run->left));
    run->tenants = calloc((size_t)run->jobs->tenants + 1, sizeof(*run->tenants));
    run->places = calloc(setup.pods_max, sizeof(*run->places));
    run->pods_max = setup.pods_max;
    if (!run->running || !run->left || !run->tenants || !run->places)
        return gt_fail_sys(err, ENOMEM, "simulation of %u jobs", count);
    for (uint32_t i = 0; i < count; i++)
        run->left[i] = run->jobs->job[i].duration;
    r = gt_meter_open(&run->meter, run->world, run->jobs, run->options->warm_up, largest / largest_gpus,
                      largest_gpus, err);
    if (r >= 0 && run->policy->open)
        r = run->policy->open(run->world, &setup, &run->state, err);
    gt_rng_seed(&run->failures, run->options->seed ^ UINT64_C(0xfa11ed));
    for (uint32_t node = 0; node < site->node_count && r >= 0 && run->options->mtbf > 0; node++)
        r = gt_heap_add(&run->heap,
                        (struct gt_event){.time = gt_rng_exponential(&run->failures, run->options->mtbf),
                                          .kind = GT_EVENT_FAIL,
                                          .subject = node},
                        err);
    return r;
}

/* ---- coming and going ---- */

/* Whether the job would fit if the cluster were empty. */
static bool fits_empty(const struct group_run *run, const struct gt_sim_job *job)
{
    const struct gt_site *site = run->world->site;
    uint32_t together = !run->policy->keeps_groups ? 1 : job->atom ? job->atom : job->unit;
    uint64_t held = 0;
    for (uint32_t s = 0; s < site->super_count; s++) {
        uint32_t slots = 0;
        for (uint32_t node = site->first_node[s]; node < site->first_node[s + 1]; node++)
            slots += site->nodes[node].gpus / job->gpus;
        held += slots / together;
    }
    return held * together >= job->pods;
}

/* A job that wants to start or to start again: it starts, waits, or is rejected. */
static int submit(struct group_run *run, uint32_t number, struct gt_err **err)
{
    bool waits = run->options->queue != GT_QUEUE_NONE && fits_empty(run, &run->jobs->job[number]);
    gt_run_come(run, number);
    /* What can never start must not hold up those behind it. */
    int r = waits ? gt_waiting_join(run, number, err) : gt_run_start(run, number, err);
    if (r != 0 || waits)
        return r < 0 ? r : 0;
    gt_run_go_away(run, number);
    gt_meter_rejected(&run->meter);
    return 0;
}

/* ---- failing nodes ---- */

static bool uses(const struct group_run *run, uint32_t number, uint32_t node)
{
    const struct gt_place *places = run->running[number].places;
    for (uint32_t i = 0; places && i < run->jobs->job[number].pods; i++)
        if (places[i].node == node)
            return true;
    return false;
}

/* A node fails: its jobs are interrupted and submitted again with what they had left to run. */
static int fail_node(struct group_run *run, uint32_t node, struct gt_err **err)
{
    gt_auto_free uint32_t *hit = malloc((run->jobs->count + 1) * sizeof(*hit));
    uint32_t hits = 0;
    if (!hit)
        return gt_fail_sys(err, ENOMEM, "simulation");
    for (uint32_t i = 0; i < run->jobs->count; i++)
        if (uses(run, i, node))
            hit[hits++] = i;
    for (uint32_t i = 0; i < hits; i++) {
        run->left[hit[i]] = run->running[hit[i]].ends - run->now;
        gt_run_release(run, hit[i]);
        gt_meter_interrupted(&run->meter, hit[i], run->left[hit[i]]);
    }
    gt_run_set_up(run, node, false);
    gt_waiting_node_changed(run, node);
    for (uint32_t i = 0; i < hits; i++) {
        int r = submit(run, hit[i], err);
        if (r < 0)
            return r;
    }
    return gt_heap_add(
        &run->heap,
        (struct gt_event){.time = run->now + gt_rng_exponential(&run->failures, run->options->repair),
                          .kind = GT_EVENT_REPAIR,
                          .subject = node},
        err);
}

static int repair_node(struct group_run *run, uint32_t node, struct gt_err **err)
{
    gt_run_set_up(run, node, true);
    gt_waiting_node_changed(run, node);
    return gt_heap_add(
        &run->heap,
        (struct gt_event){.time = run->now + gt_rng_exponential(&run->failures, run->options->mtbf),
                          .kind = GT_EVENT_FAIL,
                          .subject = node},
        err);
}

/* ---- the course of time ---- */

static int handle(struct group_run *run, struct gt_event event, struct gt_err **err)
{
    int r = 0;
    if (event.kind == GT_EVENT_END && event.epoch != run->running[event.subject].epoch)
        return 0;
    run->now = event.time;
    gt_meter_advance(&run->meter, run->now);
    if (event.kind == GT_EVENT_END) {
        gt_meter_finished(&run->meter, event.subject, run->now);
        gt_run_release(run, event.subject);
    } else if (event.kind == GT_EVENT_FAIL) {
        r = fail_node(run, event.subject, err);
    } else {
        r = repair_node(run, event.subject, err);
    }
    return r < 0 || event.kind == GT_EVENT_FAIL || !run->wait_count ? r : gt_waiting_start(run, err);
}

/* All that happens up to a time. */
static int pass(struct group_run *run, double until, struct gt_err **err)
{
    for (;;) {
        double event = run->heap.count ? run->heap.event[0].time : (double)INFINITY;
        double turn = run->holder.job ? run->holder.turn_ends : (double)INFINITY;
        if (event > until && turn > until)
            return 0;
        int r;
        if (turn < event) { /* the nodes that were kept are for all again */
            run->now = turn;
            gt_meter_advance(&run->meter, run->now);
            r = gt_waiting_start(run, err);
        } else {
            r = handle(run, gt_heap_take(&run->heap), err);
        }
        if (r < 0)
            return r;
    }
}

static int go(struct group_run *run, struct gt_err **err)
{
    const struct gt_sim_watch *watch = &run->options->watch;
    int r = 0;
    for (uint32_t i = 0; i < run->jobs->count && r >= 0; i++) {
        const struct gt_sim_job *job = &run->jobs->job[i];
        r = pass(run, job->submit, err);
        if (r < 0)
            return r;
        run->now = job->submit;
        gt_meter_advance(&run->meter, run->now);
        gt_meter_submitted(&run->meter, i, !gt_run_tenant(run, i)->present);
        r = submit(run, i, err);
        if (watch->progress && i % PROGRESS_STEP == 0)
            watch->progress(watch->arg, i, run->jobs->count);
    }
    /* What came waits until it has run, or the largest jobs' waiting would not be seen. */
    while (r >= 0 && !run->meter.lasting && run->options->queue != GT_QUEUE_NONE && run->heap.count &&
           (run->wait_count || run->run_count))
        r = pass(run, run->heap.event[0].time, err);
    for (uint32_t i = 0; i < run->wait_count; i++)
        gt_meter_rejected(&run->meter);
    return r;
}

int gt_group_run(const struct gt_site *site, const struct gt_jobs *jobs, const struct gt_group_policy *policy,
                 const struct gt_group_options *options, struct gt_result *ret, struct gt_err **err)
{
    struct group_run run = {.jobs = jobs, .policy = policy, .options = options};
    int r = run_open(&run, site, err);
    if (r >= 0)
        r = gt_waiting_open(&run, err);
    if (r >= 0)
        r = go(&run, err);
    if (r >= 0 && !gt_world_check(run.world))
        r = gt_fail(err, EUCLEAN, "policy %s left wrong counts", policy->name);
    if (r >= 0)
        gt_meter_result(&run.meter, ret);
    run_done(&run);
    return r;
}
