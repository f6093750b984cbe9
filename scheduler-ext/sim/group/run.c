/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"

enum { CHECK_STEP = 64 }; /* decisions */

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

/* ---- checks of the policy's result ---- */

int gt_run_check(const struct group_run *run, const struct gt_sim_job *job, const struct gt_place *places,
                 struct gt_err **err)
{
    const struct gt_site *site = run->world->site;
    uint32_t together = job->atom ? job->atom : job->unit, super = GT_NONE;
    if (run->world->broken)
        return gt_fail(err, EUCLEAN, "policy %s used a GPU twice", run->policy->name);
    for (uint32_t i = 0; i < job->pods; i++) {
        super = i % together ? super : GT_NONE;
        if (gt_bit_count(places[i].mask) != job->gpus)
            return gt_fail(err, EUCLEAN, "policy %s gave a pod the wrong number of GPUs", run->policy->name);
        if (run->policy->keeps_groups && super != GT_NONE && site->nodes[places[i].node].super != super)
            return gt_fail(err, EUCLEAN, "policy %s tore a group", run->policy->name);
        super = site->nodes[places[i].node].super;
    }
    return 0;
}

void gt_run_count(struct group_run *run, uint32_t number)
{
    struct running *running = &run->running[number];
    const struct gt_sim_job *job = &run->jobs->job[number];
    if (run->now > running->since) {
        gt_meter_worked(&run->meter, running->since, run->now, (double)job->pods * job->gpus);
        run->left[number] = running->ends - run->now;
    }
    running->epoch++;
}

int gt_run_go_on(struct group_run *run, uint32_t number, double after, struct gt_err **err)
{
    struct running *running = &run->running[number];
    running->since = run->now + after;
    running->ends = running->since + run->left[number];
    return isfinite(running->ends) ? gt_heap_add(&run->heap,
                                                 (struct gt_event){.time = running->ends,
                                                                   .kind = GT_EVENT_END,
                                                                   .subject = number,
                                                                   .epoch = running->epoch},
                                                 err)
                                   : 0;
}

void gt_run_release(struct group_run *run, uint32_t number)
{
    struct running *running = &run->running[number];
    const struct gt_sim_job *job = &run->jobs->job[number];
    gt_run_count(run, number);
    for (uint32_t i = 0; i < job->pods; i++) {
        gt_world_give(run->world, running->places[i].node, running->places[i].mask);
        gt_run_changed(run, running->places[i].node);
    }
    free(running->places);
    running->places = NULL;
    run->counts.running--;
    gt_run_tenant(run, number)->used -= (uint64_t)job->pods * job->gpus;
    gt_run_go_away(run, number);
}

void gt_run_changed(struct group_run *run, uint32_t node)
{
    if (run->policy->changed)
        run->policy->changed(run->state, run->world, node);
}

void gt_run_set_up(struct group_run *run, uint32_t node, bool up)
{
    gt_world_set_up(run->world, node, up);
    gt_run_changed(run, node);
}

bool gt_run_may_use(const struct group_run *run, uint32_t number, uint64_t gpus)
{
    uint64_t limit = (uint64_t)(run->options->quota * run->world->site->gpus);
    return !limit || gt_run_tenant(run, number)->used + gpus <= limit;
}

/* ---- start ---- */

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
    if (!gt_run_may_use(run, number, (uint64_t)job->pods * job->gpus))
        return 0;
    bool placed = sim_start_place(run, job);
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
    run->counts.running++;
    gt_run_tenant(run, number)->used += (uint64_t)job->pods * job->gpus;
    gt_meter_started(&run->meter, number, run->now, run->left[number], running->places);
    GT_TRY(gt_run_go_on(run, number, 0, err));
    return 1;
}

/* ---- events by time ---- */

static bool heap_before(const struct gt_event *a, const struct gt_event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

int gt_heap_add(struct gt_heap *heap, struct gt_event event, struct gt_err **err)
{
    GT_NEED(GT_GROW(heap->event, heap->count, heap->capacity, 256), err, "events");
    event.order = heap->added++;
    uint32_t i = heap->count++;
    for (; i && heap_before(&event, &heap->event[(i - 1) / 2]); i = (i - 1) / 2)
        heap->event[i] = heap->event[(i - 1) / 2];
    heap->event[i] = event;
    return 0;
}

struct gt_event gt_heap_take(struct gt_heap *heap)
{
    struct gt_event first = heap->event[0], last = heap->event[--heap->count];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap_before(&heap->event[child + 1], &heap->event[child]))
            child++;
        if (!heap_before(&heap->event[child], &last))
            break;
        heap->event[i] = heap->event[child];
        i = child;
    }
    heap->event[i] = last;
    return first;
}
