/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/relocate.h"
#include "scheduler-ext/sim/group/run.h"

/*
 * Moves for a waiting job, as the companion makes them with --rebalance=evict (placement/rebalance.c), found
 * by the same search: for the first job in the queue that has waited for the patience while enough GPUs are
 * free in all. A unit or a single pod takes its new place at once; its job stands still while it starts
 * again.
 */

static const double DAY_S = 86400;

int gt_moving_joined(struct group_run *run, uint32_t number, struct gt_err **err)
{
    run->running[number].joined = run->now;
    return run->options->moves_a_day
               ? gt_heap_add(&run->heap,
                             (struct gt_event){.time = run->now + run->options->patience,
                                               .kind = GT_EVENT_PATIENCE,
                                               .subject = number},
                             err)
               : 0;
}

void gt_moving_blocked(struct group_run *run, uint32_t number)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    if (run->options->moves_a_day && run->moves.waiting == GT_NONE && !run->running[number].places &&
        run->now >= run->running[number].joined + run->options->patience &&
        (uint64_t)job->pods * job->gpus <= run->world->free_gpus)
        run->moves.waiting = number;
}

/* Not where it stands still, since a unit of it has just moved. */
static bool moving_may_move(const struct group_run *run, uint32_t number)
{
    return run->running[number].places && run->running[number].since <= run->now;
}

/* The pods that may move; `*ret_of` is the number of each among those of its job. The caller frees both. */
static int moving_collect(const struct group_run *run, struct gt_running_pod **ret, uint32_t **ret_of,
                          uint32_t *ret_count, struct gt_err **err)
{
    uint32_t count = 0, at = 0;
    for (uint32_t n = 0; n < run->jobs->count; n++)
        count += moving_may_move(run, n) ? run->jobs->job[n].pods : 0;
    gt_auto_free struct gt_running_pod *pods = calloc((size_t)count + 1, sizeof(*pods));
    gt_auto_free uint32_t *of = calloc((size_t)count + 1, sizeof(*of));
    GT_NEED(pods && of, err, "moves");
    for (uint32_t n = 0; n < run->jobs->count; n++) {
        const struct gt_sim_job *job = &run->jobs->job[n];
        for (uint32_t i = 0; i < job->pods && moving_may_move(run, n); i++, at++) {
            pods[at] = (struct gt_running_pod){.place = run->running[n].places[i],
                                               .job = n,
                                               .unit = job->unit > 1 ? i / job->unit : GT_NONE,
                                               .movable = true};
            of[at] = i;
        }
    }
    *ret = gt_steal(pods);
    *ret_of = gt_steal(of);
    *ret_count = count;
    return 0;
}

static bool is_first_of_unit(const struct gt_relocation *found, const struct gt_running_pod *pods, uint32_t i)
{
    const struct gt_running_pod *pod = &pods[found->moves[i].pod];
    const struct gt_running_pod *last = i ? &pods[found->moves[i - 1].pod] : NULL;
    return !last || pod->unit == GT_NONE || pod->job != last->job || pod->unit != last->unit;
}

/* How many units more may move today. */
static uint32_t moves_left(struct group_run *run)
{
    struct sim_moves *moves = &run->moves;
    while (moves->first < moves->made && moves->times[moves->first] + DAY_S <= run->now)
        moves->first++;
    uint32_t today = moves->made - moves->first;
    return today < run->options->moves_a_day ? run->options->moves_a_day - today : 0;
}

/* Moves all of them: each new place is free now, the old ones are freed afterwards. */
static int moving_apply(struct group_run *run, const struct gt_relocation *found,
                        const struct gt_running_pod *pods, const uint32_t *of, struct gt_err **err)
{
    struct sim_moves *moves = &run->moves;
    for (uint32_t i = 0; i < found->count; i++) {
        gt_world_take(run->world, found->moves[i].node, found->moves[i].mask);
        gt_run_changed(run, found->moves[i].node);
    }
    for (uint32_t i = 0; i < found->count; i++) {
        const struct gt_running_pod *pod = &pods[found->moves[i].pod];
        struct running *running = &run->running[pod->job];
        running->places[of[found->moves[i].pod]] =
            (struct gt_place){found->moves[i].node, found->moves[i].mask};
        gt_world_give(run->world, pod->place.node, pod->place.mask);
        gt_run_changed(run, pod->place.node);
        if (is_first_of_unit(found, pods, i)) {
            GT_NEED(GT_GROW(moves->times, moves->made, moves->capacity, 256), err, "moves");
            moves->times[moves->made++] = run->now;
            gt_meter_moved(&run->meter, pod->job);
        }
        if (i + 1 < found->count && pods[found->moves[i + 1].pod].job == pod->job)
            continue;
        GT_TRY(gt_run_check(run, &run->jobs->job[pod->job], running->places, err));
        gt_run_count(run, pod->job);
        GT_TRY(gt_run_go_on(run, pod->job, run->options->restart, err));
    }
    return 0;
}

int gt_moving_make_room(struct group_run *run, struct gt_err **err)
{
    uint32_t number = run->moves.waiting, count = 0, units = 0;
    if (number == GT_NONE || (run->holder.job && run->holder.job != &run->jobs->job[number]) ||
        !moves_left(run))
        return 0;
    const struct gt_sim_job *job = &run->jobs->job[number];
    uint32_t together = job->atom ? job->atom : job->unit;
    const struct gt_relocate_spec spec = {
        .job = {.runs = job->pods / together, .pods = together, .gpus = job->gpus},
        .work = GT_RELOCATE_WORK_BRIEF};
    gt_auto_free struct gt_running_pod *pods = NULL;
    gt_auto_free uint32_t *of = NULL;
    GT_TRY(moving_collect(run, &pods, &of, &count, err));
    struct gt_relocation found = {0};
    GT_TRY(gt_relocate(run->policy->model(run->state), pods, count, &spec, &found, err));
    for (uint32_t i = 0; i < found.count; i++)
        units += is_first_of_unit(&found, pods, i);
    bool may = units && units <= moves_left(run);
    int r = may ? moving_apply(run, &found, pods, of, err) : 0;
    free(found.moves);
    return r < 0 ? r : may;
}
