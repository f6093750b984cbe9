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
