/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

/* Nodes that fail and are repaired, and the effect on the jobs on them. */

int gt_failing_open(struct group_run *run, struct gt_err **err)
{
    uint32_t nodes = run->world->site->node_count;
    gt_rng_seed(&run->failures, run->options->seed ^ UINT64_C(0xfa11ed));
    for (uint32_t node = 0; node < nodes && run->options->mtbf > 0; node++)
        GT_TRY(gt_heap_add(&run->heap,
                           (struct gt_event){.time = gt_rng_exponential(&run->failures, run->options->mtbf),
                                             .kind = GT_EVENT_FAIL,
                                             .subject = node},
                           err));
    return 0;
}

/* Draws when a failed node is repaired, or a node fails. */
static int draw_next(struct group_run *run, uint32_t node, enum gt_event_kind kind, double mean,
                     struct gt_err **err)
{
    const struct gt_event event = {
        .time = run->now + gt_rng_exponential(&run->failures, mean), .kind = kind, .subject = node};
    return gt_heap_add(&run->heap, event, err);
}

static bool uses(const struct group_run *run, uint32_t number, uint32_t node)
{
    const struct gt_place *places = run->running[number].places;
    for (uint32_t i = 0; places && i < run->jobs->job[number].pods; i++)
        if (places[i].node == node)
            return true;
    return false;
}

/* Its jobs are interrupted and submitted again with their remaining time. */
static int restart_jobs(struct group_run *run, uint32_t node, struct gt_err **err)
{
    gt_auto_free uint32_t *hit = malloc((run->jobs->count + 1) * sizeof(*hit));
    uint32_t hits = 0;
    GT_NEED(hit, err, "simulation");
    for (uint32_t i = 0; i < run->jobs->count; i++)
        if (uses(run, i, node))
            hit[hits++] = i;
    for (uint32_t i = 0; i < hits; i++) {
        gt_run_release(run, hit[i]);
        gt_meter_interrupted(&run->meter, hit[i], run->left[hit[i]]);
    }
    gt_run_set_up(run, node, false);
    gt_waiting_node_changed(run, node);
    for (uint32_t i = 0; i < hits; i++) {
        GT_TRY(gt_waiting_submit(run, hit[i], err));
    }
    return 0;
}

int gt_failing_fail(struct group_run *run, uint32_t node, struct gt_err **err)
{
    GT_TRY(restart_jobs(run, node, err));
    return draw_next(run, node, GT_EVENT_REPAIR, run->options->repair, err);
}

int gt_failing_repair(struct group_run *run, uint32_t node, struct gt_err **err)
{
    gt_run_set_up(run, node, true);
    gt_waiting_node_changed(run, node);
    return draw_next(run, node, GT_EVENT_FAIL, run->options->mtbf, err);
}
