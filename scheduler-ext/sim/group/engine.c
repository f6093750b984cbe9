/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/sim/group/policy.h"
#include "scheduler-ext/sim/group/run.h"

const struct gt_group_policy *const gt_group_policies[] = {
    &gt_group_gputopo,
    &gt_group_gputopo_static,
    &gt_group_gpu_aware,
    NULL,
};

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
    free(run->moves.times);
    free(run->places);
    gt_heap_done(&run->heap);
    gt_meter_done(&run->meter);
    gt_world_free(run->world);
}

static int run_open(struct group_run *run, const struct gt_site *site, struct gt_err **err)
{
    struct gt_group_setup setup = {.seed = run->options->seed,
                                   .pods_max = 1,
                                   .loss_weight = run->options->loss_weight,
                                   .close = run->options->close};
    uint32_t count = run->jobs->count, largest = 0, largest_gpus = 1;
    GT_TRY(gt_world_new(site, &run->world, err));
    GT_TRY(gt_world_track(run->world, 1, err));
    GT_TRY(gt_world_track(run->world, gt_site_largest_node(site), err));
    for (uint32_t i = 0; i < count; i++) {
        const struct gt_sim_job *job = &run->jobs->job[i];
        uint32_t size = job->unit * job->gpus;
        setup.pods_max = job->pods > setup.pods_max ? job->pods : setup.pods_max;
        if (size > largest) {
            largest = size;
            largest_gpus = job->gpus;
        }
        GT_TRY(gt_world_track(run->world, job->gpus, err));
    }
    run->running = calloc(count + 1, sizeof(*run->running));
    run->left = calloc(count + 1, sizeof(*run->left));
    run->tenants = calloc((size_t)run->jobs->tenants + 1, sizeof(*run->tenants));
    run->places = calloc(setup.pods_max, sizeof(*run->places));
    run->pods_max = setup.pods_max;
    GT_NEED(run->running && run->left && run->tenants && run->places, err, "simulation of %u jobs", count);
    for (uint32_t i = 0; i < count; i++)
        run->left[i] = run->jobs->job[i].duration;
    GT_TRY(gt_meter_open(run, largest / largest_gpus, largest_gpus, err));
    if (run->policy->open)
        GT_TRY(run->policy->open(run->world, &setup, &run->state, err));
    if (run->options->moves_a_day && !run->policy->model)
        return gt_fail(err, EINVAL, "policy %s moves no pods", run->policy->name);
    return gt_failing_open(run, err);
}

/* ---- simulated time ---- */

static int handle(struct group_run *run, struct gt_event event, struct gt_err **err)
{
    int r = 0;
    if ((event.kind == GT_EVENT_END && event.epoch != run->running[event.subject].epoch) ||
        (event.kind == GT_EVENT_PATIENCE && run->running[event.subject].places))
        return 0;
    run->now = event.time;
    gt_meter_advance(&run->meter, run->now);
    if (event.kind == GT_EVENT_END) {
        gt_meter_finished(&run->meter, event.subject, run->now);
        gt_run_release(run, event.subject);
    } else if (event.kind == GT_EVENT_FAIL) {
        r = gt_failing_fail(run, event.subject, err);
    } else if (event.kind == GT_EVENT_REPAIR) {
        r = gt_failing_repair(run, event.subject, err);
    }
    return r < 0 || event.kind == GT_EVENT_FAIL || !run->counts.waiting ? r : gt_waiting_start(run, err);
}

/* Handles all events up to a time. */
static int pass(struct group_run *run, double until, struct gt_err **err)
{
    for (;;) {
        double event = run->heap.count ? run->heap.event[0].time : (double)INFINITY;
        double end = run->holder.job ? run->holder.reserved_until : (double)INFINITY;
        if (event > until && end > until)
            return 0;
        int r;
        if (end < event) { /* the reserved nodes are available to all again */
            run->now = end;
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
    for (uint32_t i = 0; i < run->jobs->count; i++) {
        const struct gt_sim_job *job = &run->jobs->job[i];
        GT_TRY(pass(run, job->submit, err));
        run->now = job->submit;
        gt_meter_advance(&run->meter, run->now);
        gt_meter_submitted(&run->meter, i, !gt_run_tenant(run, i)->present);
        GT_TRY(gt_waiting_submit(run, i, err));
        if (watch->progress && i % PROGRESS_STEP == 0)
            watch->progress(watch->arg, i, run->jobs->count);
    }
    /* The run continues until all submitted jobs have ended; otherwise the waits of the largest jobs would be
     * missing. */
    while (!run->meter.lasting && run->options->queue != GT_QUEUE_NONE && run->heap.count &&
           (run->counts.waiting || run->counts.running))
        GT_TRY(pass(run, run->heap.event[0].time, err));
    for (uint32_t i = 0; i < run->counts.waiting; i++)
        gt_meter_rejected(&run->meter);
    for (uint32_t i = 0; i < run->jobs->count; i++)
        if (run->running[i].places)
            gt_run_count(run, i);
    return 0;
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

/* Progress over all runs. */
struct progress {
    const struct gt_experiment *experiment;
    uint32_t done; /* runs */
};

enum { PROGRESS_PER_RUN = 1000 };

static void progress(void *arg, uint32_t done, uint32_t total)
{
    struct progress *p = arg;
    const struct gt_sim_watch *watch = &p->experiment->watch;
    uint32_t part = total ? (uint32_t)((uint64_t)done * PROGRESS_PER_RUN / total) : 0;
    watch->progress(watch->arg, p->done * PROGRESS_PER_RUN + part,
                    p->experiment->seeds * p->experiment->policy_count * PROGRESS_PER_RUN);
}

/* Runs all policies with the jobs of one seed. */
static int run_seed(const struct gt_experiment *experiment, uint32_t number, struct progress *state,
                    struct gt_report *reports, struct gt_err **err)
{
    uint64_t seed = experiment->seed + number;
    struct gt_sim_watch watch = {.nanoseconds = experiment->watch.nanoseconds,
                                 .progress = experiment->watch.progress ? progress : NULL,
                                 .arg = state};
    gt_auto_jobs struct gt_jobs jobs = {0};
    struct gt_draw draw = experiment->draw;
    draw.seed = seed;
    int r = gt_trace_draw(experiment->trace, experiment->site, &draw, &jobs, err);
    for (uint32_t p = 0; p < experiment->policy_count && r >= 0; p++, state->done++) {
        struct gt_group_options options = experiment->group;
        options.seed = seed;
        options.watch = watch;
        r = gt_group_run(experiment->site, &jobs, experiment->policies[p], &options, &reports[p].run[number],
                         err);
    }
    return r;
}

int gt_experiment_run(const struct gt_experiment *experiment, struct gt_report **ret, struct gt_err **err)
{
    uint32_t count = experiment->policy_count;
    struct gt_report *reports = calloc(count, sizeof(*reports));
    GT_NEED(reports, err, "experiment");
    int r = 0;
    for (uint32_t p = 0; p < count && r >= 0; p++) {
        reports[p] = (struct gt_report){.policy = experiment->policies[p]->name,
                                        .seed = experiment->seed,
                                        .runs = experiment->seeds,
                                        .run = calloc(experiment->seeds, sizeof(struct gt_result))};
        if (!reports[p].run)
            r = gt_fail_sys(err, ENOMEM, "experiment");
    }
    struct progress state = {.experiment = experiment};
    for (uint32_t number = 0; number < experiment->seeds && r >= 0; number++)
        r = run_seed(experiment, number, &state, reports, err);
    if (r < 0) {
        gt_experiment_done(reports, count);
        return r;
    }
    *ret = reports;
    return 0;
}

void gt_experiment_done(struct gt_report *reports, uint32_t count)
{
    for (uint32_t p = 0; p < count && reports; p++)
        free(reports[p].run);
    free(reports);
}
