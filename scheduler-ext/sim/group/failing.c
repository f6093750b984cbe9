/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

/* Nodes that fail and are repaired, and the effect on the jobs on them. */

int gt_failing_open(struct group_run *run, struct gt_err **err)
{
    uint32_t nodes = run->world->site->node_count;
    int r = 0;
    run->dead = calloc((size_t)nodes + 1, sizeof(*run->dead));
    run->failed_times = calloc((size_t)nodes + 1, sizeof(*run->failed_times));
    GT_NEED(run->dead && run->failed_times, err, "simulation");
    gt_rng_seed(&run->failures, run->options->seed ^ UINT64_C(0xfa11ed));
    for (uint32_t node = 0; node < nodes && r >= 0 && run->options->mtbf > 0; node++)
        r = gt_heap_add(&run->heap,
                        (struct gt_event){.time = gt_rng_exponential(&run->failures, run->options->mtbf),
                                          .kind = GT_EVENT_FAIL,
                                          .subject = node},
                        err);
    for (uint32_t i = 0; i < run->options->outage_count && r >= 0; i++) {
        const struct gt_sim_outage *outage = &run->options->outages[i];
        struct gt_event event = {.time = outage->from, .kind = GT_EVENT_FAIL, .subject = outage->node};
        r = gt_heap_add(&run->heap, event, err);
        event.time = outage->until;
        event.kind = GT_EVENT_REPAIR;
        r = r < 0 ? r : gt_heap_add(&run->heap, event, err);
    }
    return r;
}

/* Draws when a failed node is repaired, or a node fails. */
static int draw_next(struct group_run *run, uint32_t node, enum gt_event_kind kind, double mean,
                     struct gt_err **err)
{
    struct gt_event event = {.kind = kind, .subject = node};
    if (run->options->mtbf <= 0)
        return 0;
    event.time = run->now + gt_rng_exponential(&run->failures, mean);
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
        gt_waiting_remove(run, hit[i]);
        gt_run_release(run, hit[i]);
        gt_meter_interrupted(&run->meter, hit[i], run->left[hit[i]]);
    }
    gt_run_set_up(run, node, false);
    gt_waiting_node_changed(run, node);
    for (uint32_t i = 0; i < hits; i++) {
        GT_TRY(gt_run_submit(run, hit[i], err));
    }
    return 0;
}

/* The jobs on it, or their units there, make no progress. */
static int stop_jobs(struct group_run *run, uint32_t node, struct gt_err **err)
{
    int r = 0;
    gt_run_set_up(run, node, false);
    gt_waiting_node_changed(run, node);
    for (uint32_t i = 0; i < run->jobs->count && r >= 0; i++)
        if (uses(run, i, node)) {
            gt_meter_stopped(&run->meter);
            r = gt_run_set_rate(run, i, gt_parts_rate(run, i), 0, err);
        }
    return r < 0 ? r
                 : gt_heap_add(&run->heap,
                               (struct gt_event){.time = run->now + run->options->lost_after,
                                                 .kind = GT_EVENT_LOST,
                                                 .subject = node,
                                                 .epoch = run->failed_times[node]},
                               err);
}

int gt_failing_fail(struct group_run *run, uint32_t node, struct gt_err **err)
{
    run->dead[node] = true;
    run->failed_times[node]++;
    GT_TRY(run->options->node_loss == GT_SIM_LOSS_RESTART ? restart_jobs(run, node, err)
                                                          : stop_jobs(run, node, err));
    return draw_next(run, node, GT_EVENT_REPAIR, run->options->repair, err);
}

/* Takes the places from the pods on it. */
static void failing_give_up(struct group_run *run, uint32_t number, uint32_t node)
{
    struct running *running = &run->running[number];
    const struct gt_sim_job *job = &run->jobs->job[number];
    for (uint32_t i = 0; i < job->pods; i++) {
        struct gt_place *place = &running->places[i];
        if (place->node != node)
            continue;
        gt_world_give(run->world, node, place->mask);
        *place = (struct gt_place){.node = GT_NONE};
        running->held--;
        gt_run_tenant(run, number)->holds -= job->gpus;
    }
    gt_run_changed(run, node);
}

int gt_failing_lose(struct group_run *run, uint32_t node, uint32_t epoch, struct gt_err **err)
{
    int r = 0;
    if (!run->dead[node] || run->failed_times[node] != epoch)
        return 0;
    for (uint32_t i = 0; i < run->jobs->count && r >= 0; i++)
        if (uses(run, i, node)) {
            failing_give_up(run, i, node);
            r = gt_waiting_put(run, i, err);
        }
    return r;
}

int gt_failing_repair(struct group_run *run, uint32_t node, struct gt_err **err)
{
    run->dead[node] = false;
    gt_run_set_up(run, node, true);
    gt_waiting_node_changed(run, node);
    for (uint32_t i = 0; run->parts.on && i < run->jobs->count; i++)
        if (uses(run, i, node)) { /* it was repaired in time */
            GT_TRY(gt_run_set_rate(run, i, gt_parts_rate(run, i), 0, err));
        }
    return draw_next(run, node, GT_EVENT_FAIL, run->options->mtbf, err);
}
