/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

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
