/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "scheduler-ext/sim/group/run.h"

/* Starts a job where the policy finds room for it. */

enum { CHECK_STEP = 64 }; /* decisions */

static bool sim_start_place(struct group_run *run, const struct gt_sim_job *job)
{
    const struct gt_sim_watch *watch = &run->options->watch;
    uint64_t begin = watch->nanoseconds ? watch->nanoseconds() : 0;
    bool placed = run->policy->place(run->state, run->world, job, run->places);
    run->meter.nanoseconds += watch->nanoseconds ? watch->nanoseconds() - begin : 0;
    run->meter.decisions++;
    return placed;
}

int gt_run_start(struct group_run *run, uint32_t number, struct gt_err **err)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    if (!gt_run_may_hold(run, number, (uint64_t)job->pods * job->gpus))
        return 0;
    bool placed = run->parts.on ? gt_parts_start(run, number) : sim_start_place(run, job);
    run->decisions++;
    if (run->options->check && run->decisions % CHECK_STEP == 0 && !gt_world_check(run->world))
        return gt_fail(err, EUCLEAN, "policy %s left wrong counts", run->policy->name);
    if (!placed)
        return 0;
    GT_TRY(gt_run_check(run, job, run->places, err));
    struct running *running = &run->running[number];
    running->places = malloc(job->pods * sizeof(*running->places));
    GT_NEED(running->places, err, "simulation");
    memcpy(running->places, run->places, job->pods * sizeof(*running->places));
    running->held = 0;
    for (uint32_t i = 0; i < job->pods; i++)
        running->held += running->places[i].node != GT_NONE;
    run->run_count++;
    gt_run_tenant(run, number)->holds += (uint64_t)running->held * job->gpus;
    gt_meter_started(&run->meter, number, run->now, run->left[number], running->places);
    GT_TRY(gt_run_set_rate(run, number, run->parts.on ? gt_parts_rate(run, number) : 1, 0, err));
    return 1;
}

/* Whether the job would fit if the cluster were empty. */
static bool fits_empty(const struct group_run *run, uint32_t number)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    const struct gt_site *site = run->world->site;
    uint32_t least = run->parts.on ? gt_parts_least(run, job) * job->unit : job->pods;
    uint64_t limit = (uint64_t)(run->options->quota * site->gpus);
    uint32_t together = !run->policy->keeps_groups ? 1 : job->atom ? job->atom : job->unit;
    uint64_t held = 0;
    for (uint32_t s = 0; s < site->super_count; s++) {
        uint32_t slots = 0;
        uint32_t end = site->first_node[s + 1], nodes = end - site->first_node[s];
        if (run->parts.on && run->options->spares <= nodes)
            end -= run->options->spares; /* they are never its first place */
        for (uint32_t node = site->first_node[s]; node < end; node++)
            slots += site->nodes[node].gpus / job->gpus;
        held += slots / together;
    }
    return held * together >= least && (!limit || (uint64_t)job->pods * job->gpus <= limit);
}

int gt_run_submit(struct group_run *run, uint32_t number, struct gt_err **err)
{
    bool waits = run->options->queue != GT_QUEUE_NONE && fits_empty(run, number);
    gt_run_come(run, number);
    /* A job that can never start must not delay others. */
    int r = waits ? gt_waiting_join(run, number, err) : gt_run_start(run, number, err);
    if (r != 0 || waits)
        return r < 0 ? r : 0;
    gt_run_go_away(run, number);
    gt_meter_rejected(&run->meter);
    return 0;
}
