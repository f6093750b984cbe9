/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"

enum { CHECK_STEP = 64 };

void gt_run_come(struct group_run *run, uint32_t number)
{
    gt_run_tenant(run, number)->present++;
    if (run->policy->came)
        run->policy->came(run->state, &run->jobs->job[number]);
}

void gt_run_go_away(struct group_run *run, uint32_t number)
{
    gt_run_tenant(run, number)->present--;
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

int gt_run_start(struct group_run *run, uint32_t number, struct gt_err **err)
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
    run->run_count++;
    gt_run_tenant(run, number)->holds += (uint64_t)job->pods * job->gpus;
    gt_meter_started(&run->meter, number, run->now, run->left[number], running->places);
    if (isfinite(running->ends))
        r = gt_heap_add(
            &run->heap,
            (struct gt_event){
                .time = running->ends, .kind = GT_EVENT_END, .subject = number, .epoch = running->epoch},
            err);
    return r < 0 ? r : 1;
}

void gt_run_release(struct group_run *run, uint32_t number)
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
    run->run_count--;
    gt_run_tenant(run, number)->holds -= (uint64_t)job->pods * job->gpus;
    gt_run_go_away(run, number);
}

void gt_run_set_up(struct group_run *run, uint32_t node, bool up)
{
    gt_world_set_up(run->world, node, up);
    if (run->policy->changed)
        run->policy->changed(run->state, run->world, node);
}
