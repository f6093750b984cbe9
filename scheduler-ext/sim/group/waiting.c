/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "base/digest.h"
#include "scheduler-ext/sim/group/run.h"

/* Waiting jobs in the placement controller's own queue, with nodes reserved for a job that has waited for
 * long. Every policy has the same queue. */

static const double MS = 1000; /* of a second */

static uint32_t sim_waiting_number_of(const struct group_run *run, const void *job)
{
    return (uint32_t)((const struct gt_sim_job *)job - run->jobs->job);
}

/* ---- nodes reserved for the holder ---- */

/* Closes the reserved nodes for a job after the holder, or opens them. */
static void restrict_to_others(struct group_run *run, bool on)
{
    struct sim_holder *holder = &run->holder;
    const struct gt_node_set *reserved = &holder->reserved;
    if (on && gt_node_set_count(&holder->shut))
        return;
    for (uint32_t n = on ? gt_node_set_next(reserved, 0) : GT_NONE; n != GT_NONE;
         n = gt_node_set_next(reserved, n + 1))
        if (gt_world_available(run->world, n)) {
            gt_node_set_add(&holder->shut, n, NULL); /* it has room, see open_holder() */
            gt_run_set_up(run, n, false);
        }
    if (on)
        return;
    for (uint32_t n = gt_node_set_next(&holder->shut, 0); n != GT_NONE;
         n = gt_node_set_next(&holder->shut, n + 1))
        gt_run_set_up(run, n, true);
    gt_node_set_clear(&holder->shut);
}

static int open_holder(struct group_run *run, struct gt_err **err)
{
    struct sim_holder *holder = &run->holder;
    holder->units = calloc(run->pods_max, sizeof(*holder->units));
    holder->pods = calloc(run->pods_max, sizeof(*holder->pods));
    GT_NEED(holder->units && holder->pods, err, "simulation");
    GT_TRY(gt_site_model(run->world->site, &holder->model, err));
    /* so that later no call needs memory */
    GT_TRY(gt_node_set_add(&holder->shut, run->world->site->node_count - 1, err));
    gt_node_set_clear(&holder->shut);
    return 0;
}

/* Chooses the reserved nodes for a job; false: none would help, or they are too many. */
static bool choose_nodes(struct group_run *run, const struct gt_sim_job *job, struct gt_node_set *ret)
{
    struct sim_holder *holder = &run->holder;
    const struct gt_world *world = run->world;
    struct gt_plan_request request;
    gt_group_request(job, run->policy->keeps_groups, holder->units, holder->pods, &request);
    for (uint32_t n = 0; n < world->site->node_count; n++) {
        gt_cluster_set_eligible(holder->model, n, world->up[n] && world->site->nodes[n].gpus);
        gt_cluster_set_free(holder->model, n, world->free[n]);
    }
    if (!gt_drain_plan(holder->model, &request))
        return false;
    uint32_t gpus = 0;
    for (uint32_t i = 0; i < job->pods; i++) {
        uint32_t node = holder->pods[i].place.node;
        gpus += gt_node_set_has(ret, node) ? 0 : world->site->nodes[node].gpus;
        if (gt_node_set_add(ret, node, &run->round.failed) < 0)
            return false;
    }
    uint32_t percent = run->options->reserved_percent;
    return !percent || gt_node_set_count(ret) == 1 ||
           (uint64_t)gpus * 100 <= (uint64_t)world->up_gpus * percent;
}

static bool sim_waiting_on_hold(void *arg, void *job, uint64_t reserved_until_ms)
{
    struct group_run *run = arg;
    struct sim_holder *holder = &run->holder;
    restrict_to_others(run, false);
    if (job && holder->job == job && !holder->changed)
        return true;
    struct gt_node_set chosen = {0};
    bool found = job && choose_nodes(run, job, &chosen);
    if (!found)
        gt_node_set_done(&chosen);
    if (job && !found && holder->job != job)
        return false; /* the current holder goes on */
    gt_node_set_done(&holder->reserved);
    holder->reserved = chosen;
    holder->job = found ? job : NULL;
    holder->reserved_until =
        reserved_until_ms == UINT64_MAX ? (double)INFINITY : (double)reserved_until_ms / MS;
    holder->changed = false;
    return found;
}

void gt_waiting_node_changed(struct group_run *run, uint32_t node)
{
    run->holder.changed = run->holder.changed || gt_node_set_has(&run->holder.reserved, node);
}

/* ---- the queue's calls ---- */

static void share_of(void *arg, struct gt_queue_share *share)
{
    (void)arg;
    share->used = ((struct sim_tenant *)share)->used; /* its first member */
    share->weight = 1;
}

static uint64_t sim_waiting_gpus_of(const struct gt_sim_job *job)
{
    return (uint64_t)job->pods * job->gpus;
}

/* As in the companion: for a waiting job, not for moves or for the choice of reserved nodes. */
static int sim_waiting_start(struct group_run *run, uint32_t number, struct gt_err **err)
{
    void (*crowded)(void *, bool) = run->policy->crowded;
    if (crowded)
        crowded(run->state, gt_queue_is_crowded(run->queue, &run->jobs->job[number]));
    int r = gt_run_start(run, number, err);
    if (crowded)
        crowded(run->state, false);
    return r;
}

static enum gt_queue_result try_job(void *arg, void *job, bool restricted)
{
    struct group_run *run = arg;
    if (run->round.stop || run->round.failed)
        return GT_QUEUE_FAILED;
    uint32_t number = sim_waiting_number_of(run, job);
    if (!gt_run_may_use(run, number, sim_waiting_gpus_of(job)))
        return GT_QUEUE_FAILED;
    restrict_to_others(run, restricted);
    int r = sim_waiting_start(run, number, &run->round.failed);
    if (r == 0)
        gt_moving_blocked(run, number);
    run->round.stop = r <= 0 && run->options->queue == GT_QUEUE_FIFO;
    run->counts.waiting -= r > 0;
    return r > 0 ? GT_QUEUE_DONE : r == 0 ? GT_QUEUE_BLOCKED : GT_QUEUE_FAILED;
}

static void same_as(void *arg, void *job, void *like)
{
    (void)arg;
    (void)job;
    (void)like;
}

static uint64_t now_ms(void *arg)
{
    return (uint64_t)(((const struct group_run *)arg)->now * MS +
                      0.5); /* a time converted back must be the same */
}

int gt_waiting_open(struct group_run *run, struct gt_err **err)
{
    const struct gt_group_options *options = run->options;
    bool reserves = options->queue == GT_QUEUE_BACKFILL || options->queue == GT_QUEUE_FAIR;
    const struct gt_queue_spec spec = {.patience_ms = reserves && isfinite(options->patience)
                                                          ? (uint64_t)(options->patience * MS)
                                                          : UINT64_MAX,
                                       .reservation_ms = (uint64_t)(options->reservation * MS),
                                       .share = share_of,
                                       .try = try_job,
                                       .same = same_as,
                                       .hold = sim_waiting_on_hold,
                                       .now_ms = now_ms,
                                       .arg = run};
    GT_TRY(spec.patience_ms == UINT64_MAX ? 0 : open_holder(run, err));
    return gt_queue_new(&spec, &run->queue, err);
}

void gt_waiting_done(struct group_run *run)
{
    if (run->queue)
        gt_queue_free(run->queue);
    gt_node_set_done(&run->holder.reserved);
    gt_node_set_done(&run->holder.shut);
    gt_cluster_free(run->holder.model);
    free(run->holder.units);
    free(run->holder.pods);
    gt_err_free(run->round.failed);
}

/* ---- submission and start ---- */

static int waiting_put(struct group_run *run, uint32_t number, struct gt_err **err)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    const uint32_t shape[] = {job->pods, job->unit, job->atom, job->gpus};
    uint32_t tenant = run->options->queue == GT_QUEUE_FAIR ? job->tenant : run->jobs->tenants;
    struct gt_queue_entry entry = {.job = (void *)(uintptr_t)job,
                                   .share = &run->tenants[tenant].share,
                                   .gpus = sim_waiting_gpus_of(job),
                                   .since_ms = now_ms(run),
                                   .number = ++run->counts.arrivals};
    for (size_t i = 0; i < GT_COUNT(shape); i++)
        entry.shape = gt_digest_mix(entry.shape, shape[i]);
    GT_TRY(gt_queue_put(run->queue, &entry, err));
    run->counts.waiting++;
    return gt_moving_joined(run, number, err);
}

/* Tries a job out of its turn. 1: it started. */
static int waiting_try_now(struct group_run *run, uint32_t number, struct gt_err **err)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    restrict_to_others(run, run->holder.job && gt_queue_place(run->queue, job) >
                                                   gt_queue_place(run->queue, run->holder.job));
    int r = sim_waiting_start(run, number, err);
    restrict_to_others(run, false);
    if (r > 0)
        run->counts.waiting -= gt_queue_remove(run->queue, job);
    return r;
}

static int waiting_join(struct group_run *run, uint32_t number, struct gt_err **err)
{
    int r = waiting_put(run, number, err);
    if (r < 0 || (run->options->queue == GT_QUEUE_FIFO && run->counts.waiting > 1))
        return r;
    return waiting_try_now(run, number, err);
}

/* Whether the job would fit if the cluster were empty. */
static bool fits_empty(const struct group_run *run, uint32_t number)
{
    const struct gt_sim_job *job = &run->jobs->job[number];
    const struct gt_site *site = run->world->site;
    uint64_t limit = (uint64_t)(run->options->quota * site->gpus);
    uint32_t together = !run->policy->keeps_groups ? 1 : job->atom ? job->atom : job->unit;
    uint64_t held = 0;
    for (uint32_t s = 0; s < site->super_count; s++) {
        uint32_t slots = 0;
        for (uint32_t node = site->first_node[s]; node < site->first_node[s + 1]; node++)
            slots += site->nodes[node].gpus / job->gpus;
        held += slots / together;
    }
    return held * together >= job->pods && (!limit || (uint64_t)job->pods * job->gpus <= limit);
}

int gt_waiting_submit(struct group_run *run, uint32_t number, struct gt_err **err)
{
    bool waits = run->options->queue != GT_QUEUE_NONE && fits_empty(run, number);
    gt_run_come(run, number);
    /* A job that can never start must not delay others. */
    int r = waits ? waiting_join(run, number, err) : gt_run_start(run, number, err);
    if (r != 0 || waits)
        return r < 0 ? r : 0;
    gt_run_go_away(run, number);
    gt_meter_rejected(&run->meter);
    return 0;
}

static int start_round(struct group_run *run, struct gt_err **err)
{
    run->round.stop = false;
    run->moves.waiting = GT_NONE;
    gt_queue_wake(run->queue);
    gt_queue_run(run->queue, UINT64_MAX / 2);
    restrict_to_others(run, false);
    return run->round.failed
               ? gt_fail(err, gt_err_code(run->round.failed), "%s", gt_err_text(run->round.failed))
               : 0;
}

int gt_waiting_start(struct group_run *run, struct gt_err **err)
{
    for (;;) {
        GT_TRY(start_round(run, err));
        uint32_t number = run->moves.waiting;
        int r = gt_moving_make_room(run, err);
        if (r <= 0)
            return r;
        r = waiting_try_now(run, number, err);
        if (r == 0)
            return gt_fail(err, EUCLEAN, "pods moved for a job that did not start");
        if (r < 0)
            return r;
    }
}
