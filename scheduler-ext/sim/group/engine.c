/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/engine.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/digest.h"
#include "scheduler-ext/core/queue.h"
#include "scheduler-ext/sim/group/heap.h"
#include "scheduler-ext/sim/group/meter.h"

enum { PROGRESS_STEP = 512, CHECK_STEP = 64 };

struct running {
    struct gt_place *places; /* NULL: not running */
    uint32_t epoch;
    double ends;
};

struct sim_tenant { /* a namespace */
    struct gt_queue_share share;
    uint64_t holds;   /* GPUs */
    uint32_t present; /* its jobs that run or wait */
};

struct group_run {
    const struct gt_jobs *jobs;
    const struct gt_group_policy *policy;
    const struct gt_group_options *options;
    struct gt_world *world;
    void *state;
    struct gt_heap heap;
    struct running *running; /* [job] */
    double *left;            /* [job] seconds still to run */
    struct sim_tenant
        *tenants; /* [tenant], and one that holds nothing: of all jobs where there are no turns */
    struct gt_queue *queue;
    struct gt_err *failed; /* in the queue's calls */
    uint32_t wait_count;
    uint64_t arrivals;       /* that had to wait */
    bool stop;               /* fifo: the first in line found no room in this round */
    struct gt_place *places; /* of the job that is being placed */
    struct gt_rng failures;
    struct gt_meter meter;
    double now;
    uint32_t decisions;
};

static void run_done(struct group_run *run)
{
    if (run->policy->close && run->state)
        run->policy->close(run->state);
    for (uint32_t i = 0; run->running && i < run->jobs->count; i++)
        free(run->running[i].places);
    free(run->running);
    free(run->left);
    free(run->tenants);
    if (run->queue)
        gt_queue_free(run->queue);
    gt_err_free(run->failed);
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

static struct sim_tenant *tenant_of(const struct group_run *run, uint32_t number)
{
    return &run->tenants[run->jobs->job[number].tenant];
}

/* A job is in the cluster, from when it wants to start until it ends, is interrupted or rejected. */
static void come(struct group_run *run, uint32_t number)
{
    tenant_of(run, number)->present++;
    if (run->policy->came)
        run->policy->came(run->state, &run->jobs->job[number]);
}

static void go_away(struct group_run *run, uint32_t number)
{
    tenant_of(run, number)->present--;
    if (run->policy->gone)
        run->policy->gone(run->state, &run->jobs->job[number]);
}

/* ---- the policy's work, judged ---- */

static int check_units(const struct group_run *run, const struct gt_sim_job *job, struct gt_err **err)
{
    const struct gt_site *site = run->world->site;
    uint32_t together = job->atom ? job->atom : job->unit;
    if (run->world->broken)
        return gt_fail(err, EUCLEAN, "policy %s used a GPU twice", run->policy->name);
    for (uint32_t i = 0; i < job->pods; i++) {
        if (gt_bit_count(run->places[i].mask) != job->gpus)
            return gt_fail(err, EUCLEAN, "policy %s gave a pod the wrong number of GPUs", run->policy->name);
        if (run->policy->keeps_groups && i % together &&
            site->nodes[run->places[i].node].super != site->nodes[run->places[i - 1].node].super)
            return gt_fail(err, EUCLEAN, "policy %s tore a group", run->policy->name);
    }
    return 0;
}

/* Tries to start a job: 1 started, 0 not, or an error. */
static int start(struct group_run *run, uint32_t number, struct gt_err **err)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    const struct gt_sim_watch *watch = &run->options->watch;
    uint64_t begin = watch->nanoseconds ? watch->nanoseconds() : 0;
    bool placed = run->policy->place(run->state, run->world, job, run->places);
    run->meter.nanoseconds += watch->nanoseconds ? watch->nanoseconds() - begin : 0;
    run->meter.decisions++;
    run->decisions++;
    if (run->options->check && run->decisions % CHECK_STEP == 0 && !gt_world_check(run->world))
        return gt_fail(err, EUCLEAN, "policy %s left wrong counts", run->policy->name);
    if (!placed)
        return 0;
    int r = check_units(run, job, err);
    if (r < 0)
        return r;
    struct running *running = &run->running[number];
    running->places = malloc(job->pods * sizeof(*running->places));
    if (!running->places)
        return gt_fail_sys(err, ENOMEM, "simulation");
    memcpy(running->places, run->places, job->pods * sizeof(*running->places));
    running->epoch++;
    running->ends = run->now + run->left[number];
    tenant_of(run, number)->holds += (uint64_t)job->pods * job->gpus;
    gt_meter_started(&run->meter, number, run->now, run->left[number], running->places);
    if (isfinite(running->ends))
        r = gt_heap_add(
            &run->heap,
            (struct gt_event){
                .time = running->ends, .kind = GT_EVENT_END, .subject = number, .epoch = running->epoch},
            err);
    return r < 0 ? r : 1;
}

static void release(struct group_run *run, uint32_t number)
{
    struct running *running = &run->running[number];
    const struct gt_sim_job *job = &run->jobs->job[number];
    for (uint32_t i = 0; i < job->pods; i++) {
        gt_world_give(run->world, running->places[i].node, running->places[i].mask);
        if (run->policy->changed)
            run->policy->changed(run->state, run->world, running->places[i].node);
    }
    free(running->places);
    running->places = NULL;
    running->epoch++;
    tenant_of(run, number)->holds -= (uint64_t)job->pods * job->gpus;
    go_away(run, number);
}

/* ---- the jobs that wait ---- */

static void share_of(void *arg, struct gt_queue_share *share)
{
    (void)arg;
    share->holds = ((struct sim_tenant *)share)->holds; /* its first member */
    share->weight = 1;
}

static enum gt_queue_result try_job(void *arg, void *job, bool restricted)
{
    (void)restricted; /* nobody holds nodes here */
    struct group_run *run = arg;
    if (run->stop || run->failed)
        return GT_QUEUE_FAILED;
    int r = start(run, (uint32_t)((const struct gt_sim_job *)job - run->jobs->job), &run->failed);
    run->stop = r <= 0 && run->options->queue == GT_QUEUE_FIFO;
    run->wait_count -= r > 0;
    return r > 0 ? GT_QUEUE_DONE : r == 0 ? GT_QUEUE_BLOCKED : GT_QUEUE_FAILED;
}

static void same_as(void *arg, void *job, void *like)
{
    (void)arg;
    (void)job;
    (void)like;
}

/* Its times are of the machine it runs on, and here a round takes none. */
static uint64_t no_time(void *arg)
{
    (void)arg;
    return 0;
}

static int queue_open(struct group_run *run, struct gt_err **err)
{
    const struct gt_queue_spec spec = {.patience_ms = UINT64_MAX,
                                       .share = share_of,
                                       .try = try_job,
                                       .same = same_as,
                                       .now_ms = no_time,
                                       .arg = run};
    return gt_queue_new(&spec, &run->queue, err);
}

static int wait_in_line(struct group_run *run, uint32_t number, struct gt_err **err)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    const uint32_t shape[] = {job->pods, job->unit, job->atom, job->gpus};
    uint32_t tenant = run->options->queue == GT_QUEUE_TURNS ? job->tenant : run->jobs->tenants;
    struct gt_queue_entry entry = {.job = (void *)(uintptr_t)job,
                                   .share = &run->tenants[tenant].share,
                                   .gpus = (uint64_t)job->pods * job->gpus,
                                   .number = ++run->arrivals};
    for (size_t i = 0; i < GT_COUNT(shape); i++)
        entry.shape = gt_digest_mix(entry.shape, shape[i]);
    run->wait_count++;
    return gt_queue_put(run->queue, &entry, err);
}

/* Starts of the waiting jobs what now fits. A job like one that just failed is not tried again. */
static int start_waiting(struct group_run *run, struct gt_err **err)
{
    run->stop = false;
    gt_queue_wake(run->queue);
    gt_queue_run(run->queue, UINT64_MAX);
    return run->failed ? gt_fail(err, gt_err_code(run->failed), "%s", gt_err_text(run->failed)) : 0;
}

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

/* A job that wants to start or to start again. */
static int submit(struct group_run *run, uint32_t number, struct gt_err **err)
{
    bool must_wait = run->options->queue == GT_QUEUE_FIFO && run->wait_count;
    come(run, number);
    int r = must_wait ? 0 : start(run, number, err);
    if (r != 0)
        return r < 0 ? r : 0;
    /* What can never start must not hold up those behind it. */
    if (run->options->queue != GT_QUEUE_NONE && fits_empty(run, &run->jobs->job[number]))
        return wait_in_line(run, number, err);
    go_away(run, number);
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
        release(run, hit[i]);
        gt_meter_interrupted(&run->meter, hit[i], run->left[hit[i]]);
    }
    gt_world_set_up(run->world, node, false);
    if (run->policy->changed)
        run->policy->changed(run->state, run->world, node);
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
    gt_world_set_up(run->world, node, true);
    if (run->policy->changed)
        run->policy->changed(run->state, run->world, node);
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
    if (event.kind == GT_EVENT_END)
        release(run, event.subject);
    else if (event.kind == GT_EVENT_FAIL)
        r = fail_node(run, event.subject, err);
    else
        r = repair_node(run, event.subject, err);
    return r < 0 || event.kind == GT_EVENT_FAIL || !run->wait_count ? r : start_waiting(run, err);
}

static int go(struct group_run *run, struct gt_err **err)
{
    const struct gt_sim_watch *watch = &run->options->watch;
    for (uint32_t i = 0; i < run->jobs->count; i++) {
        const struct gt_sim_job *job = &run->jobs->job[i];
        while (run->heap.count && run->heap.event[0].time <= job->submit) {
            int r = handle(run, gt_heap_take(&run->heap), err);
            if (r < 0)
                return r;
        }
        run->now = job->submit;
        gt_meter_advance(&run->meter, run->now);
        gt_meter_submitted(&run->meter, i, !tenant_of(run, i)->present);
        int r = submit(run, i, err);
        if (r < 0)
            return r;
        if (watch->progress && i % PROGRESS_STEP == 0)
            watch->progress(watch->arg, i, run->jobs->count);
    }
    for (uint32_t i = 0; i < run->wait_count; i++)
        gt_meter_rejected(&run->meter); /* still waiting when the last job came */
    return 0;
}

int gt_group_run(const struct gt_site *site, const struct gt_jobs *jobs, const struct gt_group_policy *policy,
                 const struct gt_group_options *options, struct gt_result *ret, struct gt_err **err)
{
    struct group_run run = {.jobs = jobs, .policy = policy, .options = options};
    int r = run_open(&run, site, err);
    if (r >= 0)
        r = queue_open(&run, err);
    if (r >= 0)
        r = go(&run, err);
    if (r >= 0 && !gt_world_check(run.world))
        r = gt_fail(err, EUCLEAN, "policy %s left wrong counts", policy->name);
    if (r >= 0)
        gt_meter_result(&run.meter, ret);
    run_done(&run);
    return r;
}
