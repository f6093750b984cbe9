/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Which job is tried next, and a small cluster in which jobs come and go: how long does a big one wait? */

enum { NODES = 16, NODES_OF_SUPERNODE = 4, JOBS = 4096 };

struct job {
    unsigned nodes; /* whole ones, all in one supernode, or in several where it needs more than one has */
    uint64_t arrived, started, runs;
    unsigned tries;
    const struct job *like;
};

struct space {
    struct gt_queue_share share; /* first */
    uint64_t holds;
    uint32_t weight;
};

struct world {
    struct gt_queue *queue;
    uint64_t now;
    uint64_t busy_until[NODES];
    bool kept[NODES];
    struct job jobs[JOBS];
    unsigned job_count;
    struct job *holder;
    uint64_t turn_end; /* of the holder */
    char order[64];    /* the first letters of those that were tried */
    bool refuse_all;
    const struct job *preempts; /* others leave for it */
    const struct job *never;    /* it would not fit even into the empty cluster */
    struct space spaces[3];     /* jobs are in the first one unless a test says otherwise */
    unsigned looks;             /* at what namespaces hold */
};

static unsigned free_in(const struct world *world, unsigned supernode, bool restricted)
{
    unsigned count = 0;
    for (unsigned n = 0; n < NODES_OF_SUPERNODE; n++) {
        unsigned node = supernode * NODES_OF_SUPERNODE + n;
        count += world->busy_until[node] <= world->now && !(restricted && world->kept[node]);
    }
    return count;
}

static void take(struct world *world, struct job *job, unsigned supernode, unsigned count, bool restricted)
{
    for (unsigned n = 0; n < NODES_OF_SUPERNODE && count; n++) {
        unsigned node = supernode * NODES_OF_SUPERNODE + n;
        if (world->busy_until[node] > world->now || (restricted && world->kept[node]))
            continue;
        world->busy_until[node] = world->now + job->runs;
        count--;
    }
}

static void share(void *arg, struct gt_queue_share *share)
{
    struct world *world = arg;
    const struct space *space = (const struct space *)share;
    share->used = space->holds;
    share->weight = space->weight ? space->weight : 1;
    world->looks++;
}

static enum gt_queue_result try(void *arg, void *what, bool restricted)
{
    struct world *world = arg;
    struct job *job = what;
    job->tries++;
    size_t len = strlen(world->order);
    if (len + 1 < sizeof(world->order))
        world->order[len] = (char)('a' + (job - world->jobs) % 26);
    if (job == world->never)
        return GT_QUEUE_NEVER;
    if (job == world->preempts && !restricted)
        return GT_QUEUE_PREEMPTS;
    if (world->refuse_all)
        return GT_QUEUE_BLOCKED;
    unsigned run = job->nodes < NODES_OF_SUPERNODE ? job->nodes : NODES_OF_SUPERNODE, found = 0;
    for (unsigned s = 0; s < NODES / NODES_OF_SUPERNODE; s++)
        found += free_in(world, s, restricted) / run * run;
    if (found < job->nodes)
        return GT_QUEUE_BLOCKED;
    for (unsigned s = 0, left = job->nodes; left; s++)
        for (; left && free_in(world, s, restricted) >= run; left -= run)
            take(world, job, s, run, restricted);
    job->started = world->now;
    return GT_QUEUE_DONE;
}

static void same(void *arg, void *job, void *like)
{
    (void)arg;
    ((struct job *)job)->like = like;
}

/* The supernodes that run empty first. */
static bool hold(void *arg, void *what, uint64_t turn_end)
{
    struct world *world = arg;
    struct job *job = what;
    world->turn_end = turn_end;
    if (job && job == world->holder)
        return true;
    if (job && job->nodes > NODES)
        return false;
    memset(world->kept, 0, sizeof(world->kept));
    world->holder = job;
    for (unsigned left = job ? job->nodes : 0; left;) {
        unsigned best = 0;
        uint64_t soonest = UINT64_MAX;
        for (unsigned s = 0; s < NODES / NODES_OF_SUPERNODE; s++) {
            uint64_t last = 0;
            for (unsigned n = s * NODES_OF_SUPERNODE; n < (s + 1) * NODES_OF_SUPERNODE; n++)
                last = world->busy_until[n] > last ? world->busy_until[n] : last;
            if (!world->kept[s * NODES_OF_SUPERNODE] && last < soonest) {
                soonest = last;
                best = s;
            }
        }
        for (unsigned n = 0; n < NODES_OF_SUPERNODE; n++)
            world->kept[best * NODES_OF_SUPERNODE + n] = true;
        left -= left < NODES_OF_SUPERNODE ? left : NODES_OF_SUPERNODE;
    }
    return job != NULL;
}

static uint64_t now_of(void *arg)
{
    return ((struct world *)arg)->now;
}

static struct world *new_world_of_turns(uint64_t patience, uint64_t turn)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    const struct gt_queue_spec spec = {.patience_ms = patience,
                                       .reservation_ms = turn,
                                       .share = share,
                                       .try = try,
                                       .same = same,
                                       .hold = hold,
                                       .now_ms = now_of,
                                       .arg = world};
    assert_int_equal(gt_queue_new(&spec, &world->queue, NULL), 0);
    return world;
}

static struct world *new_world(uint64_t patience)
{
    return new_world_of_turns(patience, 0);
}

static void free_world(struct world *world)
{
    gt_queue_free(world->queue);
    free(world);
}

static struct job *add(struct world *world, unsigned nodes, uint64_t runs, int32_t priority, uint64_t created,
                       bool partial, uint64_t shape)
{
    assert_true(world->job_count < JOBS);
    struct job *job = &world->jobs[world->job_count++];
    *job = (struct job){.nodes = nodes, .arrived = world->now, .started = UINT64_MAX, .runs = runs};
    const struct gt_queue_entry entry = {.job = job,
                                         .share = &world->spaces[0].share,
                                         .gpus = nodes,
                                         .partial = partial,
                                         .priority = priority,
                                         .created_s = created,
                                         .number = world->job_count,
                                         .since_ms = world->now,
                                         .shape = shape};
    assert_int_equal(gt_queue_put(world->queue, &entry, NULL), 0);
    return job;
}

static uint32_t waiting_in(const struct world *world)
{
    uint32_t count = 0;
    for (unsigned i = 0; i < world->job_count; i++)
        count += gt_queue_place(world->queue, &world->jobs[i]) != UINT32_MAX;
    return count;
}

static void run(struct world *world)
{
    gt_queue_wake(world->queue);
    for (unsigned rounds = 0; gt_queue_run(world->queue, 1000); rounds++)
        assert_true(rounds < 100);
}

static void test_order(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    world->refuse_all = true;
    add(world, 1, 1, 0, 20, false, 0); /* a */
    add(world, 1, 1, 0, 10, false, 0); /* b: older */
    add(world, 1, 1, 5, 30, false, 0); /* c: higher */
    add(world, 1, 1, -5, 5, true, 0);  /* d: runs in part */
    add(world, 1, 1, 0, 10, false, 0); /* e: as b, but came later */
    run(world);
    assert_string_equal(world->order, "dcbea");
    assert_int_equal(waiting_in(world), 5);
    assert_int_equal(gt_queue_place(world->queue, &world->jobs[3]), 0);
    assert_int_equal(gt_queue_place(world->queue, &world->jobs[0]), 4);
    assert_int_equal(gt_queue_place(world->queue, world), UINT32_MAX);
    free_world(world);
}

static void test_changed_entry_moves(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    world->refuse_all = true;
    add(world, 1, 1, 0, 10, false, 0);
    struct job *late = add(world, 1, 1, 0, 20, false, 0);
    struct gt_queue_entry entry = {
        .job = late, .share = &world->spaces[0].share, .priority = 1, .created_s = 20, .number = 2};
    assert_int_equal(gt_queue_put(world->queue, &entry, NULL), 0);
    assert_int_equal(waiting_in(world), 2);
    assert_int_equal(gt_queue_place(world->queue, late), 0);
    assert_true(gt_queue_remove(world->queue, late));
    assert_false(gt_queue_remove(world->queue, late));
    assert_int_equal(gt_queue_place(world->queue, late), UINT32_MAX);
    free_world(world);
}

static void test_one_of_a_shape_speaks_for_all(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    world->refuse_all = true;
    struct job *first = add(world, 2, 1, 0, 1, false, 77);
    struct job *second = add(world, 2, 1, 0, 2, false, 77);
    struct job *other = add(world, 2, 1, 0, 3, false, 77 + 256); /* the same place in the table */
    struct job *none = add(world, 2, 1, 0, 4, false, 0);
    run(world);
    assert_int_equal(first->tries, 1);
    assert_int_equal(second->tries, 0);
    assert_ptr_equal(second->like, first);
    assert_int_equal(other->tries, 1);
    assert_int_equal(none->tries, 1);
    run(world); /* a new round tries again */
    assert_int_equal(first->tries, 2);
    free_world(world);
}

static void test_crowded_by_others(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    struct gt_queue *queue = world->queue;
    world->refuse_all = true;
    struct job *first = add(world, 2, 1, 0, 1, false, 77);
    assert_false(gt_queue_is_crowded(queue, first)); /* nobody was tried yet */
    run(world);
    assert_false(gt_queue_is_crowded(queue, first)); /* it waits alone */
    struct job *second = add(world, 2, 1, 0, 2, false, 77);
    assert_true(gt_queue_is_crowded(queue, second));
    assert_false(gt_queue_is_crowded(queue, first));
    run(world);
    assert_true(gt_queue_is_crowded(queue, first) && gt_queue_is_crowded(queue, second));
    assert_true(gt_queue_is_crowded(queue, NULL)); /* one that does not wait here */
    gt_queue_remove(queue, first);
    assert_false(gt_queue_is_crowded(queue, second));
    assert_true(gt_queue_is_crowded(queue, NULL));
    world->refuse_all = false;
    run(world);
    assert_int_equal(second->started, world->now);
    assert_false(gt_queue_is_crowded(queue, NULL));
    free_world(world);
}

static void test_nothing_runs_unless_woken(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    world->refuse_all = true;
    struct job *job = add(world, 1, 1, 0, 1, false, 0);
    run(world);
    assert_false(gt_queue_run(world->queue, 1000));
    assert_int_equal(job->tries, 1);
    free_world(world);
}

/* One step of time: small jobs keep coming so that there are always some waiting. */
static void step(struct world *world, unsigned *seed)
{
    while (waiting_in(world) < 12) {
        *seed = *seed * 1103515245 + 12345;
        add(world, 1 + (*seed >> 16) % 2, 5 + (*seed >> 20) % 16, 0, 1000 + world->now, false, 0);
    }
    run(world);
    world->now++;
}

/* How long a job of `nodes` nodes waits among small ones, and how long after its arrival the last of those
 * that were older was placed; UINT64_MAX: longer than the simulation. */
static uint64_t wait_of(uint64_t patience, unsigned nodes, unsigned seed, uint64_t *ret_older)
{
    struct world *world = new_world(patience);
    for (unsigned i = 0; i < 50; i++)
        step(world, &seed);
    struct job *big = add(world, nodes, 10, 0, 1000 + world->now, false, 0);
    for (unsigned i = 0; i < 400 && big->started == UINT64_MAX; i++)
        step(world, &seed);
    uint64_t waited = big->started == UINT64_MAX ? UINT64_MAX : big->started - big->arrived, last = 0;
    for (const struct job *older = world->jobs; older < big; older++)
        if (older->started > big->arrived && older->started - big->arrived > last)
            last = older->started - big->arrived;
    free_world(world);
    *ret_older = last;
    return waited;
}

/* The bound: when all that go before it are placed and its patience is over, a job waits for the longest of
 * the pods on its nodes, here 20 steps, and no longer. */
static void test_big_jobs_wait_no_longer_than_the_bound(void **state)
{
    (void)state;
    enum { PATIENCE = 10, LONGEST = 20 };
    unsigned starved = 0;
    uint64_t older, most = 0;
    for (unsigned seed = 1; seed <= 40; seed++)
        for (unsigned nodes = 4; nodes <= NODES; nodes += 4) {
            uint64_t waited = wait_of(PATIENCE, nodes, seed, &older);
            uint64_t bound = (older > PATIENCE ? older : PATIENCE) + LONGEST + 1;
            if (waited > bound)
                fail_msg("seed %u: a job of %u nodes waited for %llu steps, the bound is %llu", seed, nodes,
                         (unsigned long long)waited, (unsigned long long)bound);
            most = waited > most ? waited : most;
            starved += wait_of(UINT64_MAX, nodes, seed, &older) == UINT64_MAX;
        }
    print_message("the longest wait was %llu steps; without the policy %u of 160 were not placed in 400\n",
                  (unsigned long long)most, starved);
    assert_true(starved > 80); /* else this test shows nothing */
}

/* Nodes that no job needs are not reserved: small jobs are placed beside a job that can never fit. */
static void test_infeasible_job_reserves_nothing(void **state)
{
    (void)state;
    struct world *world = new_world(1);
    unsigned seed = 7;
    const struct job *infeasible = add(world, NODES + 4, 10, 100, 1, false, 0);
    for (unsigned i = 0; i < 100; i++) {
        step(world, &seed);
        assert_ptr_not_equal(world->holder, infeasible);
    }
    assert_true(world->job_count > 100);
    free_world(world);
}

/* A job that waits longer or has a higher priority replaces the holder. */
static void test_holder_gives_way_to_who_goes_before(void **state)
{
    (void)state;
    struct world *world = new_world(5);
    for (unsigned n = 0; n < NODES; n++)
        world->busy_until[n] = 100;
    struct job *big = add(world, NODES, 10, 0, 1, false, 0);
    world->now = 6;
    run(world);
    assert_ptr_equal(world->holder, big);
    struct job *high = add(world, 8, 10, 9, 2, false, 0);
    run(world);
    assert_ptr_equal(world->holder, big); /* it has not waited yet */
    world->now = 12;
    run(world);
    assert_ptr_equal(world->holder, high);
    world->now = 100;
    run(world);
    assert_int_equal(high->started, 100);
    assert_int_equal(big->started, UINT64_MAX);
    assert_ptr_equal(world->holder, big);
    gt_queue_remove(world->queue, big);
    assert_null(world->holder);
    free_world(world);
}

/* A job that does not wait, of which some pods run, comes before a holder that has none yet, and behind an
 * older one that has. */
static void test_behind_the_holder(void **state)
{
    (void)state;
    for (unsigned partial = 0; partial < 2; partial++) {
        struct world *world = new_world(0);
        world->refuse_all = true;
        struct gt_queue_entry entry = {.job = world,
                                       .share = &world->spaces[1].share,
                                       .gpus = 1,
                                       .partial = true,
                                       .created_s = 3,
                                       .number = 9};
        assert_false(gt_queue_is_behind_holder(world->queue, &entry));
        struct job *job = add(world, 1, 1, 0, 2, partial, 0);
        run(world);
        assert_ptr_equal(world->holder, job);
        assert_int_equal(gt_queue_is_behind_holder(world->queue, &entry), partial);
        entry.created_s = 1;
        assert_false(gt_queue_is_behind_holder(world->queue, &entry));
        world->spaces[1].holds = 7; /* more than the other namespace */
        assert_int_equal(gt_queue_is_behind_holder(world->queue, &entry), partial);
        entry.priority = 1;
        assert_false(gt_queue_is_behind_holder(world->queue, &entry));
        entry.priority = -1;
        entry.job = job;
        assert_false(gt_queue_is_behind_holder(world->queue, &entry)); /* it is the holder */
        free_world(world);
    }
}

/* Pods leave for a job: it holds its nodes at once, and jobs of lower priority keep off, also those that run
 * in part. */
static void test_who_preempts_holds_at_once(void **state)
{
    (void)state;
    struct world *world = new_world(5);
    for (unsigned n = 0; n < NODES; n++)
        world->busy_until[n] = 100;
    struct job *part = add(world, 1, 10, 0, 1, true, 0);
    struct job *job = add(world, 8, 10, 3, 2, false, 0);
    world->now = 1;
    run(world);
    assert_null(world->holder); /* nobody has waited for long enough */
    world->preempts = job;
    run(world);
    assert_ptr_equal(world->holder, job);
    assert_true(gt_queue_is_crowded(world->queue, part));
    world->now = 6;
    run(world);
    assert_ptr_equal(world->holder, job);
    for (unsigned n = 0; n < NODES_OF_SUPERNODE; n++)
        world->busy_until[n] = 0;
    assert_true(world->kept[0]);
    run(world);
    assert_int_equal(part->started, UINT64_MAX);
    struct job *high = add(world, 8, 10, 9, 3, false, 0);
    world->preempts = high;
    run(world);
    assert_ptr_equal(world->holder, high); /* it comes first */
    world->preempts = job;
    run(world);
    assert_ptr_equal(world->holder, high); /* and it has a reservation */
    gt_queue_remove(world->queue, high);
    run(world);
    assert_ptr_equal(world->holder, job);
    world->preempts = NULL; /* nobody leaves any more: the order counts again */
    run(world);
    run(world);
    assert_int_equal(part->started, 6);
    free_world(world);
}

/* A job that fails and one that preempts have one shape: who comes behind does not preempt by that. */
static void test_preempting_is_for_one(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    world->refuse_all = true;
    struct job *job = add(world, 1, 1, 0, 1, false, 77);
    struct job *like = add(world, 1, 1, 0, 2, false, 77);
    world->preempts = job;
    run(world);
    assert_ptr_equal(world->holder, job); /* even without patience */
    assert_ptr_equal(like->like, job);
    gt_queue_remove(world->queue, job);
    assert_null(world->holder);
    free_world(world);
}

static void expect_holder(struct world *world, uint64_t now, const struct job *holder, uint64_t turn_end)
{
    world->now = now;
    run(world);
    assert_ptr_equal(world->holder, holder);
    assert_int_equal(world->turn_end, turn_end);
}

/* A reservation ends, and the next job in the queue that has waited gets one; no job gets a second one before
 * all had a first. */
static void test_turns_end(void **state)
{
    (void)state;
    struct world *world = new_world_of_turns(5, 100);
    for (unsigned n = 0; n < NODES; n++)
        world->busy_until[n] = 10000;
    const struct job *first = add(world, NODES, 10, 0, 1, false, 0);
    const struct job *second = add(world, 8, 10, 0, 2, false, 0);
    expect_holder(world, 6, first, 106);
    assert_int_equal(gt_queue_next_ms(world->queue), 106);
    expect_holder(world, 105, first, 106);
    const struct job *third = add(world, 8, 10, 0, 3, false, 0);
    expect_holder(world, 106, second, 206);
    expect_holder(world, 150, second, 206); /* the first has waited again, and goes before it */
    expect_holder(world, 206, third, 306);
    expect_holder(world, 306, first, 406);
    expect_holder(world, 407, second, 507);
    gt_queue_remove(world->queue, second);
    expect_holder(world, 408, third, 508);
    gt_queue_remove(world->queue, third);
    expect_holder(world, 410, NULL, 0); /* its patience begins again */
    expect_holder(world, 412, first, 512);
    free_world(world);
}

/* Data from an earlier leader: one job continues its reservation, another one had it already. */
static void test_turns_of_before(void **state)
{
    (void)state;
    struct world *world = new_world_of_turns(5, 100);
    for (unsigned n = 0; n < NODES; n++)
        world->busy_until[n] = 10000;
    struct job *had = add(world, 8, 10, 0, 1, false, 0), *has = add(world, 8, 10, 0, 2, false, 0);
    struct gt_queue_entry entry = {.job = had,
                                   .share = &world->spaces[0].share,
                                   .gpus = 8,
                                   .created_s = 1,
                                   .number = 1,
                                   .reserved_until_ms = 500};
    assert_int_equal(gt_queue_put(world->queue, &entry, NULL), 0);
    entry = (struct gt_queue_entry){.job = has,
                                    .share = &world->spaces[0].share,
                                    .gpus = 8,
                                    .created_s = 2,
                                    .number = 2,
                                    .reserved_until_ms = 1040};
    assert_int_equal(gt_queue_put(world->queue, &entry, NULL), 0);
    expect_holder(world, 1000, has, 1040);
    expect_holder(world, 1040, had, 1140);
    free_world(world);
}

static uint64_t ticking(void *arg)
{
    return ((struct world *)arg)->now++;
}

/* A long round is cut in pieces, and goes on where it was. */
static void test_budget(void **state)
{
    (void)state;
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    const struct gt_queue_spec spec = {.patience_ms = UINT64_MAX,
                                       .share = share,
                                       .try = try,
                                       .same = same,
                                       .hold = hold,
                                       .now_ms = ticking,
                                       .arg = world};
    assert_int_equal(gt_queue_new(&spec, &world->queue, NULL), 0);
    world->refuse_all = true;
    for (unsigned i = 0; i < 20; i++)
        add(world, 1, 1, 0, i, false, 0);
    unsigned calls = 1;
    while (gt_queue_run(world->queue, 5))
        calls++;
    assert_int_equal(calls, 4);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(world->jobs[i].tries, 1);
    free_world(world);
}

/* A round that found no room is not followed by the next one at once, whatever happens meanwhile: it rests
 * for four times as long as it took. One that placed what it tried does not. */
static void test_rounds_in_vain_rest(void **state)
{
    (void)state;
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    const struct gt_queue_spec spec = {.patience_ms = UINT64_MAX,
                                       .share = share,
                                       .try = try,
                                       .same = same,
                                       .hold = hold,
                                       .now_ms = ticking,
                                       .arg = world};
    assert_int_equal(gt_queue_new(&spec, &world->queue, NULL), 0);
    struct job *small = add(world, 1, 1000000, 0, 1, false, 0);
    assert_false(gt_queue_run(world->queue, 1000));
    assert_int_equal(small->tries, 1);
    assert_int_equal(gt_queue_next_ms(world->queue), UINT64_MAX);
    for (unsigned i = 0; i < 10; i++)
        add(world, NODES + 1, 1, 0, i, false, 0);
    assert_true(gt_queue_next_ms(world->queue) <= world->now);
    uint64_t began = world->now;
    assert_false(gt_queue_run(world->queue, 1000));
    uint64_t took = world->now - began;
    assert_true(took >= 10);
    gt_queue_wake(world->queue);
    assert_false(gt_queue_run(world->queue, 1000));
    assert_int_equal(world->jobs[1].tries, 1);
    assert_in_range(gt_queue_next_ms(world->queue), world->now + 2 * took, world->now + 4 * took);
    world->now = gt_queue_next_ms(world->queue);
    gt_queue_run(world->queue, 1000);
    assert_int_equal(world->jobs[1].tries, 2);
    free_world(world);
}

static double cpu_of(uint32_t count, unsigned spaces)
{
    struct timespec from, to;
    struct world *world = new_world(60000);
    char *jobs = calloc(count, 1); /* places for names, nobody reads them */
    assert_non_null(jobs);
    world->now = 1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < count; i++) {
            const struct gt_queue_entry entry = {.job = jobs + i,
                                                 .share = &world->spaces[i % spaces].share,
                                                 .gpus = 1,
                                                 .created_s = i,
                                                 .number = i + 1,
                                                 .since_ms = 1};
            assert_int_equal(gt_queue_put(world->queue, &entry, NULL), 0);
        }
    for (uint32_t i = 0; i < count; i++)
        assert_true(gt_queue_place(world->queue, jobs + i) < count &&
                    gt_queue_remove(world->queue, jobs + i));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    free(jobs);
    free_world(world);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}

/* Eight times as many jobs take some ten times as long, and not sixty-four. */
static void test_many_jobs(void **state)
{
    double few = 1e9, many = 1e9; /* the least of three: the machine may be busy */
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        double took = cpu_of(5000, 1);
        few = took < few ? took : few;
        took = cpu_of(40000, 1);
        many = took < many ? took : many;
    }
    assert_true(many < 40 * few);
}

/* ---- fairness between namespaces ---- */

static struct job *add_in(struct world *world, unsigned space, unsigned gpus, uint64_t created)
{
    struct job *job = &world->jobs[world->job_count++];
    *job = (struct job){.nodes = gpus, .started = UINT64_MAX, .runs = 100};
    const struct gt_queue_entry entry = {.job = job,
                                         .share = &world->spaces[space].share,
                                         .gpus = gpus,
                                         .created_s = created,
                                         .number = world->job_count,
                                         .since_ms = world->now};
    assert_int_equal(gt_queue_put(world->queue, &entry, NULL), 0);
    return job;
}

/* The order after a round in which nobody found room, by letters. */
static const char *order_of(struct world *world)
{
    world->refuse_all = true;
    memset(world->order, 0, sizeof(world->order));
    run(world);
    return world->order;
}

static void test_thousand_jobs_delay_nobody_else(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    for (unsigned i = 0; i < 1000; i++)
        add_in(world, 0, 1, i);
    const struct job *first = add_in(world, 1, 1, 5000), *second = add_in(world, 1, 1, 5001);
    order_of(world);
    assert_int_equal(gt_queue_place(world->queue, first), 1); /* the oldest of all has the same start */
    assert_int_equal(gt_queue_place(world->queue, second), 3);
    world->spaces[0].holds = 1;
    order_of(world);
    assert_int_equal(gt_queue_place(world->queue, first), 0);
    assert_int_equal(gt_queue_place(world->queue, second), 2);
    world->spaces[1].holds = 500;
    order_of(world);
    assert_int_equal(gt_queue_place(world->queue, first), 500);
    free_world(world);
}

static void test_weights(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    for (unsigned i = 0; i < 4; i++)
        add_in(world, 0, 1, i); /* abcd */
    for (unsigned i = 0; i < 6; i++)
        add_in(world, 1, 1, 10 + i); /* efghij */
    world->spaces[1].weight = 3;
    assert_string_equal(order_of(world), "aefgbhijcd");
    world->spaces[1].weight = 1;
    assert_string_equal(order_of(world), "aebfcgdhij");
    free_world(world);
}

/* A big job takes as large a share of its namespace as many small ones. */
static void test_jobs_count_by_their_gpus(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    add_in(world, 0, 8, 0);
    add_in(world, 0, 1, 1);
    for (unsigned i = 0; i < 10; i++)
        add_in(world, 1, 1, 10 + i); /* c.. */
    assert_string_equal(order_of(world), "acdefghijbkl");
    free_world(world);
}

static void test_priority_and_partial_go_before_turns(void **state)
{
    (void)state;
    struct world *world = new_world(UINT64_MAX);
    world->spaces[0].holds = 1000;
    add(world, 1, 1, 0, 30, false, 0); /* a */
    add(world, 1, 1, 9, 20, false, 0); /* b */
    add(world, 1, 1, -1, 10, true, 0); /* c */
    add_in(world, 1, 1, 40);           /* d */
    assert_string_equal(order_of(world), "cbda");
    free_world(world);
}

/* A job that only grows goes behind all of its priority, however old it is, and gets no nodes. */
static void test_growth_goes_last(void **state)
{
    (void)state;
    struct world *world = new_world(0);
    world->refuse_all = true;
    struct job *grown = add(world, 1, 1, 0, 1, false, 0); /* a */
    const struct gt_queue_entry entry = {.job = grown,
                                         .share = &world->spaces[0].share,
                                         .gpus = 1,
                                         .grows = true,
                                         .created_s = 1,
                                         .number = 1};
    assert_int_equal(gt_queue_put(world->queue, &entry, NULL), 0);
    run(world);
    assert_null(world->holder);
    add(world, 1, 1, 0, 20, false, 0);  /* b */
    add(world, 1, 1, -1, 10, false, 0); /* c: lower */
    memset(world->order, 0, sizeof(world->order));
    run(world);
    assert_string_equal(world->order, "bac");
    free_world(world);
}

/* A job that arrives during a round is put behind those of its namespace; the next round corrects that. */
static void test_who_comes_in_a_round(void **state)
{
    (void)state;
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    const struct gt_queue_spec spec = {.patience_ms = UINT64_MAX,
                                       .share = share,
                                       .try = try,
                                       .same = same,
                                       .hold = hold,
                                       .now_ms = ticking,
                                       .arg = world};
    assert_int_equal(gt_queue_new(&spec, &world->queue, NULL), 0);
    world->refuse_all = true;
    for (unsigned i = 0; i < 6; i++)
        add_in(world, 0, 1, 10 + i); /* abcdef */
    assert_true(gt_queue_run(world->queue, 2));
    assert_string_equal(world->order, "ab");
    struct job *older = add_in(world, 0, 1, 1), *other = add_in(world, 1, 1, 20);
    assert_int_equal(gt_queue_place(world->queue, older), 7);
    assert_int_equal(gt_queue_place(world->queue, other), 1); /* as a, and younger */
    unsigned looks = world->looks;
    while (gt_queue_run(world->queue, 1000))
        continue;
    assert_string_equal(world->order, "abhcdefg");
    assert_int_equal(world->looks, looks);
    world->now += 1000000;
    order_of(world);
    assert_string_equal(world->order, "ghabcdef");
    assert_int_equal(world->looks, looks + 2); /* once for each namespace */
    assert_true(gt_queue_remove(world->queue, other));
    world->now += 1000000;
    order_of(world);
    assert_int_equal(world->looks, looks + 3);
    free_world(world);
}

/* Nodes are reserved for the first one in this order, and the turns of others do not wait for a job that
 * nothing would help. */
static void test_holder_by_turns(void **state)
{
    (void)state;
    struct world *world = new_world(5);
    world->spaces[0].holds = 10;
    const struct job *old = add_in(world, 0, 4, 1), *young = add_in(world, 1, 4, 2);
    world->now = 6;
    order_of(world);
    assert_ptr_equal(world->holder, young);
    world->spaces[1].holds = 20;
    order_of(world);
    assert_ptr_equal(world->holder, old);
    free_world(world);
}

static void test_infeasible_job_delays_none_of_its_namespace(void **state)
{
    (void)state;
    struct world *world = new_world(5);
    add_in(world, 0, NODES + 1, 1); /* a */
    add_in(world, 0, 1, 2);         /* b */
    add_in(world, 1, 1, 3);         /* c */
    assert_string_equal(order_of(world), "acb");
    world->now = 6;
    order_of(world);
    assert_string_equal(order_of(world), "abc");
    free_world(world);
}

/* No nodes are reserved for it, it comes after all others, and it is no crowd for them. */
static void test_who_never_fits_hinders_nobody(void **state)
{
    (void)state;
    struct world *world = new_world(5);
    struct job *never = add(world, 4, 10, 100, 1, false, 77); /* a */
    struct job *alike = add(world, 4, 10, 100, 2, false, 77); /* b, which is not tried */
    world->never = never;
    world->now = 10;
    run(world);
    assert_null(world->holder);
    assert_ptr_equal(alike->like, never);
    assert_false(gt_queue_is_crowded(world->queue, NULL));
    world->refuse_all = true;
    struct job *other = add(world, 4, 10, 0, 3, false, 0); /* c */
    assert_int_equal(gt_queue_place(world->queue, other), 0);
    assert_int_equal(gt_queue_place(world->queue, never), 1);
    assert_int_equal(gt_queue_place(world->queue, alike), 2);
    assert_string_equal(order_of(world), "ca");
    /* other hardware came: it has its place, and its patience begins */
    world->never = NULL;
    world->now = 12;
    order_of(world);
    assert_int_equal(gt_queue_place(world->queue, never), 0);
    assert_int_equal(gt_queue_place(world->queue, alike), 1);
    assert_null(world->holder);
    world->now = 16;
    order_of(world);
    assert_ptr_equal(world->holder, never);
    /* it went: they are reserved for the next one that has waited */
    world->never = never;
    order_of(world);
    assert_ptr_equal(world->holder, other);
    assert_int_equal(gt_queue_place(world->queue, other), 0);
    free_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_changed_entry_moves),
        cmocka_unit_test(test_one_of_a_shape_speaks_for_all),
        cmocka_unit_test(test_crowded_by_others),
        cmocka_unit_test(test_nothing_runs_unless_woken),
        cmocka_unit_test(test_big_jobs_wait_no_longer_than_the_bound),
        cmocka_unit_test(test_infeasible_job_reserves_nothing),
        cmocka_unit_test(test_holder_gives_way_to_who_goes_before),
        cmocka_unit_test(test_who_preempts_holds_at_once),
        cmocka_unit_test(test_preempting_is_for_one),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_rounds_in_vain_rest),
        cmocka_unit_test(test_many_jobs),
        cmocka_unit_test(test_thousand_jobs_delay_nobody_else),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_jobs_count_by_their_gpus),
        cmocka_unit_test(test_priority_and_partial_go_before_turns),
        cmocka_unit_test(test_growth_goes_last),
        cmocka_unit_test(test_who_comes_in_a_round),
        cmocka_unit_test(test_holder_by_turns),
        cmocka_unit_test(test_behind_the_holder),
        cmocka_unit_test(test_turns_end),
        cmocka_unit_test(test_turns_of_before),
        cmocka_unit_test(test_infeasible_job_delays_none_of_its_namespace),
        cmocka_unit_test(test_who_never_fits_hinders_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
