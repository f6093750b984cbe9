/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/volcano/volcano.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/seed.h"
#include "tests/unit/volcano/volcano_world.h"

/* Preempt and reclaim in Volcano's sessions: which pods go for units, and whose places are reserved. */

/* Each rack is full of a job of four pods, "low0" to "low2"; "high" waits for a rack. */
static struct gt_volcano *full_world(void)
{
    struct gt_volcano *volcano = new_world();
    for (unsigned n = 0; n < NODES; n++) {
        char job[8], pod[16];
        snprintf(job, sizeof(job), "low%u", n / NODES_EACH);
        snprintf(pod, sizeof(pod), "%s-%u", job, n % NODES_EACH);
        PUT_POD(volcano, .job = job, .index = n % NODES_EACH, .gpus = 8, .node = n + 1);
        put_user(volcano, n, pod);
    }
    put_job(volcano, "high", 4, 8, "32");
    return volcano;
}

/* low0, low1, ...: one in each rack, a task on each of its nodes. */
static void add_low_jobs(struct session *session)
{
    for (unsigned rack = 0; rack < RACKS; rack++) {
        char job[8];
        uint32_t nodes[NODES_EACH];
        snprintf(job, sizeof(job), "low%u", rack);
        for (unsigned n = 0; n < NODES_EACH; n++)
            nodes[n] = rack * NODES_EACH + n;
        add_group(session, job, NODES_EACH, NODES_EACH, nodes);
    }
}

/* What leaves has a bit in `leaves` by its node, what is gone one in `gone`. Returns the first task of high;
 * task n is that on node n. */
static uint32_t open_full(struct gt_volcano *volcano, struct session *session, unsigned leaves)
{
    begin(session);
    add_low_jobs(session);
    for (unsigned n = 0; n < NODES; n++)
        session->tasks[n].leaves = leaves >> n & 1;
    uint32_t high = add_group(session, "high", 4, 4, NULL);
    open_session(volcano, session);
    return high;
}

/* `ret`: by task, as the steps say. */
static int make_room(struct gt_volcano *volcano, uint32_t task, unsigned may_go, uint32_t *ret)
{
    struct gt_volcano_step steps[TASKS_MAX];
    uint8_t go[TASKS_MAX] = {0}, use[NODES];
    memset(use, 1, sizeof(use));
    for (unsigned n = 0; n < NODES; n++)
        go[n] = may_go >> n & 1;
    int r = gt_volcano_make_room(volcano, task, go, use, 0, steps, volcano_error);
    for (unsigned i = 0; r >= 0 && i < TASKS_MAX; i++)
        ret[i] = GT_VOLCANO_NO_NODE;
    for (int i = 0; i < r; i++) {
        assert_int_equal(ret[steps[i].task], GT_VOLCANO_NO_NODE);
        ret[steps[i].task] = steps[i].node;
        /* the pod that was there is deleted by then; task n was on node n */
        if (steps[i].node != GT_VOLCANO_GOES)
            assert_int_equal(ret[steps[i].node], GT_VOLCANO_GOES);
    }
    return r;
}

static void check_waits(struct gt_volcano *volcano, uint32_t task)
{
    uint32_t node;
    assert_int_equal(gt_volcano_place(volcano, task, &node, volcano_error), -EAGAIN);
    assert_non_null(strstr(volcano_error, "1 unit of 32 GPUs needed"));
}

/* high waits, and the second rack is made free for it; the session goes on. */
static uint32_t begin_room(struct gt_volcano *volcano, struct session *session)
{
    uint32_t ret[TASKS_MAX], node, high = open_full(volcano, session, 0);
    check_waits(volcano, high);
    assert_true(gt_volcano_wants_room(volcano, high));
    assert_int_equal(make_room(volcano, high, 0x0f7, ret), 8);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(ret[n], n / NODES_EACH == 1 ? GT_VOLCANO_GOES : GT_VOLCANO_NO_NODE);
    assert_false(gt_volcano_wants_room(volcano, high));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(ret[high + i] / NODES_EACH, 1);
        assert_int_equal(gt_volcano_place(volcano, high + i, &node, volcano_error), 1);
        assert_int_equal(node, ret[high + i]);
    }
    return high;
}

/* As Volcano tells of a statement that is committed. */
static void evict_room(struct gt_volcano *volcano, uint32_t high)
{
    for (uint32_t i = 0; i < 4; i++) {
        gt_volcano_deallocated(volcano, 4 + i);
        gt_volcano_allocated(volcano, high + i, place(volcano, high + i));
        assert_int_equal(gt_volcano_is_whole(volcano, high), i == 3);
    }
    assert_false(gt_volcano_is_ready(volcano, high));
}

static void remove_victim(struct gt_volcano *volcano, unsigned node, bool reported)
{
    char name[16];
    snprintf(name, sizeof(name), "low1-%u", node % NODES_EACH);
    gt_volcano_remove(volcano, number_of("pods"), "ns", name);
    if (reported)
        put_user(volcano, node, NULL);
}

static void test_a_rack_is_freed(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t nodes[4], node;
    char annotations[GT_VOLCANO_ANNOTATIONS_SIZE];
    uint32_t high = begin_room(volcano, &session);
    evict_room(volcano, high);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(gt_volcano_annotations(volcano, high + i, annotations), 0);
    gt_volcano_close(volcano);

    /* They end one after the other, and no other pod gets their places. */
    put_job(volcano, "rival", 4, 8, "32");
    PUT_POD(volcano, .job = "lone", .gpus = 1);
    for (unsigned gone = 0; gone <= 4; gone++) {
        uint8_t may[NODES];
        high = open_full(volcano, &session, 0x0f0);
        gt_volcano_close(volcano);
        uint32_t conflict = add_group(&session, "rival", 4, 4, NULL);
        uint32_t lone = add_group(&session, "lone", 1, 1, NULL);
        open_session(volcano, &session);
        assert_int_equal(gt_volcano_place(volcano, conflict, &node, volcano_error), -EAGAIN);
        assert_false(gt_volcano_wants_room(volcano, high));
        gt_volcano_may_use(volcano, lone, may, NODES);
        for (unsigned n = 0; n < NODES; n++)
            assert_int_equal(may[n], n / NODES_EACH != 1);
        for (unsigned i = 0; i < 4; i++) {
            nodes[i] = place(volcano, high + i);
            assert_int_equal(nodes[i] / NODES_EACH, 1);
            gt_volcano_allocated(volcano, high + i, nodes[i]);
        }
        assert_true(gt_volcano_is_whole(volcano, high));
        assert_int_equal(gt_volcano_is_ready(volcano, high), gone == 4);
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(gt_volcano_annotations(volcano, high + i, annotations) > 0, gone == 4);
        if (gone == 4)
            break;
        gt_volcano_close(volcano);
        /* The agent reports it later than the API server. */
        remove_victim(volcano, 4 + gone, false);
        high = open_full(volcano, &session, 0x0f0);
        assert_int_equal(gt_volcano_place(volcano, high, &node, volcano_error), 1);
        assert_false(gt_volcano_is_ready(volcano, high) && gt_volcano_wants_room(volcano, high));
        gt_volcano_close(volcano);
        remove_victim(volcano, 4 + gone, true);
    }
    gt_volcano_free(volcano);
}

static void test_nothing_is_kept_where_nobody_is_evicted(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t ret[TASKS_MAX];
    uint32_t high = begin_room(volcano, &session);
    evict_room(volcano, high);
    for (unsigned i = 0; i < 4; i++) { /* the statement is discarded, except for one of them */
        gt_volcano_deallocated(volcano, high + i);
        if (i)
            gt_volcano_allocated(volcano, 4 + i, 4 + i);
    }
    gt_volcano_close(volcano);
    high = open_full(volcano, &session, 0);
    check_waits(volcano, high);
    assert_true(gt_volcano_wants_room(volcano, high));
    assert_int_equal(make_room(volcano, high, 0x0f0, ret), 8);
    gt_volcano_give_up_room(volcano, high);
    check_waits(volcano, high);
    assert_false(gt_volcano_wants_room(volcano, high)); /* for a while */
    gt_volcano_free(volcano);
}

static void test_an_eviction_that_fails(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t high = begin_room(volcano, &session);
    evict_room(volcano, high);
    gt_volcano_close(volcano);
    high = open_full(volcano, &session, 0x0e0); /* the API server refused one */
    check_waits(volcano, high);
    assert_true(gt_volcano_wants_room(volcano, high));
    gt_volcano_close(volcano);
    gt_volcano_free(volcano);
}

static void test_a_planned_node_is_lost(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t high = begin_room(volcano, &session), node;
    evict_room(volcano, high);
    gt_volcano_close(volcano);
    put(volcano, "nodes", world_node(NODE(.name = node_name(5), .not_ready = true)));
    high = open_full(volcano, &session, 0x0f0);
    assert_int_equal(gt_volcano_place(volcano, high, &node, volcano_error), -EAGAIN);
    assert_true(gt_volcano_wants_room(volcano, high));
    gt_volcano_free(volcano);
}

/* Each rack is full of a unit; "high" wants a node. */
static void test_a_unit_goes_as_a_whole(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t ret[TASKS_MAX];
    for (unsigned n = 0; n < NODES; n++) {
        char job[8], pod[16];
        snprintf(job, sizeof(job), "low%u", n / NODES_EACH);
        snprintf(pod, sizeof(pod), "%s-%u", job, n % NODES_EACH);
        PUT_POD(volcano, .job = job, .index = n % NODES_EACH, .gpus = 8, .node = n + 1, .group = "32",
                .plan_node = node_name(n));
        put_user(volcano, n, pod);
    }
    put_job(volcano, "high", 1, 8, "8");
    begin(&session);
    add_low_jobs(&session);
    uint32_t node, high = add_group(&session, "high", 1, 1, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_place(volcano, high, &node, volcano_error), -EAGAIN);
    assert_int_equal(make_room(volcano, high, 0x777, ret), -EAGAIN); /* one of each unit may not go */
    assert_int_equal(make_room(volcano, high, 0x7f7, ret), 5);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(ret[n], n / NODES_EACH == 1 ? GT_VOLCANO_GOES : GT_VOLCANO_NO_NODE);
    gt_volcano_free(volcano);
}

static void test_nobody_goes_where_it_would_not_do(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t ret[TASKS_MAX], high = open_full(volcano, &session, 0);
    assert_false(gt_volcano_wants_room(volcano, high)); /* it has not been asked about */
    check_waits(volcano, high);
    assert_int_equal(make_room(volcano, high, 0x777, ret), -EAGAIN); /* three of each rack */
    assert_string_equal(volcano_error, "it would not fit without the pods that may go either");
    check_waits(volcano, high);
    assert_false(gt_volcano_wants_room(volcano, high));
    assert_int_equal(make_room(volcano, 0, 0xfff, ret), -EINVAL); /* no job with units */
    assert_int_equal(make_room(volcano, 99, 0xfff, ret), -EINVAL);
    gt_volcano_free(volcano);
}

/* Evictions would be in vain there. */
static void test_no_room_on_a_node_that_refuses(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    const struct pod bound = {.job = "high", .gpus = 8, .group = "32", .node = 5},
                     next = {.job = "high", .gpus = 8, .group = "32"};
    uint32_t ret[TASKS_MAX], high = open_full(volcano, &session, 0);
    check_waits(volcano, high);
    gt_volcano_close(volcano);
    assert_int_equal(refuse_pod(volcano, &bound), 1);
    put_pod(volcano, &next);
    high = open_full(volcano, &session, 0);
    check_waits(volcano, high);
    assert_true(gt_volcano_wants_room(volcano, high));
    assert_int_equal(make_room(volcano, high, 0x0f7, ret), -EAGAIN);
    assert_int_equal(make_room(volcano, high, 0xfff, ret), 8);
    assert_int_not_equal(ret[high] / NODES_EACH, 1);
    gt_volcano_free(volcano);
}

/* No pod is evicted if pods end by themselves; the first job gets their places, for this session. */
static void test_pods_that_leave_of_themselves(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t high = open_full(volcano, &session, 0xf00), node;
    gt_volcano_close(volcano);
    put_job(volcano, "rival", 4, 8, "32");
    uint32_t conflict = add_group(&session, "rival", 4, 4, NULL);
    open_session(volcano, &session);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(place(volcano, high + i) / NODES_EACH, 2);
    assert_false(gt_volcano_wants_room(volcano, high));
    assert_int_equal(gt_volcano_place(volcano, conflict, &node, volcano_error), -EAGAIN);
    assert_true(gt_volcano_wants_room(volcano, conflict));
    gt_volcano_close(volcano);
    open_session(volcano, &session);
    assert_int_equal(place(volcano, conflict) / NODES_EACH, 2);
    assert_int_equal(gt_volcano_place(volcano, high, &node, volcano_error), -EAGAIN);
    gt_volcano_free(volcano);
}

/* Jobs come, evict others of lower priority or do not, and go, in many sessions. */
enum { JOBS = 5 };

struct random_job {
    char name[16], group[8];
    unsigned pods;
    int priority;
    uint32_t first; /* task of the session */
    bool lives, runs, makes_room;
    struct {
        uint32_t node; /* GT_VOLCANO_NO_NODE: it waits */
        bool leaves, gone;
    } pod[NODES_EACH];
};

struct random_world {
    struct gt_volcano *volcano;
    struct random_job jobs[JOBS];
    struct session session;
    int kept[NODES]; /* job whose evictions free it, -1 */
    unsigned number, evictions, bound;
};

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

static void random_come(struct random_world *world, struct random_job *job)
{
    *job = (struct random_job){.pods = 1 + below(NODES_EACH), .priority = (int)below(4), .lives = true};
    snprintf(job->name, sizeof(job->name), "job%u", world->number++);
    snprintf(job->group, sizeof(job->group), "%u", 8 * job->pods);
    for (unsigned i = 0; i < job->pods; i++) {
        job->pod[i].node = GT_VOLCANO_NO_NODE;
        PUT_POD(world->volcano, .job = job->name, .index = i, .gpus = 8, .group = job->group,
                .priority = job->priority);
    }
}

/* Pods that leave go, the agents tell of it now or later; who lost a pod ends. */
static void random_go(struct random_world *world, struct random_job *job)
{
    bool any = false, hurt = below(20) == 0;
    for (unsigned i = 0; i < job->pods; i++)
        hurt = hurt || job->pod[i].leaves || job->pod[i].gone;
    for (unsigned i = 0; job->runs && i < job->pods; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s-%u", job->name, i);
        job->pod[i].leaves = job->pod[i].leaves || hurt;
        if (job->pod[i].leaves && !job->pod[i].gone && below(3) == 0) {
            gt_volcano_remove(world->volcano, number_of("pods"), "ns", name);
            job->pod[i].gone = true;
        } else if (job->pod[i].gone && job->pod[i].node != GT_VOLCANO_NO_NODE && below(2)) {
            put_user(world->volcano, job->pod[i].node, NULL);
            job->pod[i].node = GT_VOLCANO_NO_NODE;
        }
        any = any || job->pod[i].node != GT_VOLCANO_NO_NODE;
    }
    job->lives = any || !job->runs;
}

static void random_open(struct random_world *world)
{
    begin(&world->session);
    for (unsigned j = 0; j < JOBS; j++) {
        struct random_job *job = &world->jobs[j];
        uint32_t nodes[NODES_EACH], count = 0;
        for (unsigned i = 0; i < job->pods && !job->pod[i].gone; i++)
            nodes[count++] = job->pod[i].node;
        job->first = world->session.task_count;
        if (!job->lives ||
            count < job->pods) { /* pods that are left over are known to nobody but the cache */
            job->first = GT_VOLCANO_NO_NODE;
            continue;
        }
        add_group(&world->session, job->name, job->pods, job->pods, nodes);
        for (unsigned i = 0; i < job->pods; i++)
            world->session.tasks[job->first + i].leaves = job->pod[i].leaves;
    }
    open_session(world->volcano, &world->session);
}

static bool is_in_use(const struct random_world *world, uint32_t node)
{
    for (unsigned j = 0; j < JOBS; j++)
        for (unsigned i = 0; world->jobs[j].lives && i < world->jobs[j].pods; i++)
            if (world->jobs[j].pod[i].node == node)
                return true;
    return false;
}

/* Binds the job if it may be. */
static bool random_allocate(struct random_world *world, unsigned j)
{
    struct random_job *job = &world->jobs[j];
    uint32_t nodes[NODES_EACH];
    for (unsigned i = 0; i < job->pods; i++) {
        int r = gt_volcano_place(world->volcano, job->first + i, &nodes[i], volcano_error);
        assert_true(r == 1 || (r == -EAGAIN && !i));
        if (r < 0)
            return false;
        assert_true(world->kept[nodes[i]] < 0 || world->kept[nodes[i]] == (int)j);
        gt_volcano_allocated(world->volcano, job->first + i, nodes[i]);
    }
    check_units(nodes, job->pods, job->pods, 8);
    assert_true(gt_volcano_is_whole(world->volcano, job->first));
    if (!gt_volcano_is_ready(world->volcano, job->first))
        return true;
    job->runs = true;
    job->makes_room = false;
    world->bound++;
    for (unsigned i = 0; i < job->pods; i++) {
        assert_false(is_in_use(world, nodes[i]));
        job->pod[i].node = nodes[i];
    }
    for (unsigned n = 0; n < NODES; n++)
        world->kept[n] = world->kept[n] == (int)j ? -1 : world->kept[n];
    return true;
}

static void random_evict(struct random_world *world, unsigned j)
{
    struct random_job *job = &world->jobs[j];
    struct gt_volcano_step steps[TASKS_MAX];
    uint8_t go[TASKS_MAX] = {0}, use[NODES];
    if (!gt_volcano_wants_room(world->volcano, job->first))
        return;
    assert_false(job->makes_room); /* no further pod is evicted for it */
    for (unsigned n = 0; n < NODES; n++)
        use[n] = below(8) != 0;
    for (unsigned k = 0; k < JOBS; k++)
        for (unsigned i = 0; i < world->jobs[k].pods; i++)
            if (world->jobs[k].runs && world->jobs[k].first != GT_VOLCANO_NO_NODE)
                go[world->jobs[k].first + i] = world->jobs[k].priority < job->priority;
    int count = gt_volcano_make_room(world->volcano, job->first, go, use, 0, steps, volcano_error);
    if (count < 0)
        return;
    bool commits = below(3) != 0;
    unsigned places = 0, added = 0;
    uint32_t rack = GT_VOLCANO_NO_NODE;
    for (int s = 0; s < count; s++) {
        if (steps[s].node == GT_VOLCANO_GOES) {
            assert_true(go[steps[s].task]);
            added++;
            gt_volcano_deallocated(world->volcano, steps[s].task);
            continue;
        }
        assert_in_range(steps[s].task, job->first, job->first + job->pods - 1);
        assert_true(use[steps[s].node] && world->kept[steps[s].node] < 0);
        assert_true(rack == GT_VOLCANO_NO_NODE || rack == steps[s].node / NODES_EACH);
        rack = steps[s].node / NODES_EACH;
        gt_volcano_allocated(world->volcano, steps[s].task, steps[s].node);
        places++;
    }
    assert_int_equal(places, job->pods);
    assert_true(gt_volcano_is_whole(world->volcano, job->first));
    for (int s = count; s-- > 0 && !commits;)
        if (steps[s].node == GT_VOLCANO_GOES)
            gt_volcano_allocated(world->volcano, steps[s].task, 0);
        else
            gt_volcano_deallocated(world->volcano, steps[s].task);
    if (!commits) {
        gt_volcano_give_up_room(world->volcano, job->first);
        return;
    }
    if (!added) /* others that leave are enough, and these places are reserved for one session */
        return;
    world->evictions++;
    job->makes_room = true;
    for (int s = 0; s < count; s++)
        if (steps[s].node != GT_VOLCANO_GOES)
            world->kept[steps[s].node] = (int)j;
    for (unsigned k = 0; k < JOBS; k++)
        for (int s = 0; s < count; s++)
            if (steps[s].node == GT_VOLCANO_GOES &&
                steps[s].task - world->jobs[k].first < world->jobs[k].pods)
                world->jobs[k].pod[steps[s].task - world->jobs[k].first].leaves = true;
}

static void random_session(struct random_world *world)
{
    bool placed[JOBS] = {false};
    for (unsigned j = 0; j < JOBS; j++) {
        struct random_job *job = &world->jobs[j];
        if (job->lives)
            random_go(world, job);
        if (!job->lives && below(3) == 0)
            random_come(world, job);
    }
    random_open(world);
    for (int priority = 3; priority >= 0; priority--)
        for (unsigned j = 0; j < JOBS; j++) {
            const struct random_job *job = &world->jobs[j];
            if (job->lives && !job->runs && job->priority == priority)
                placed[j] = random_allocate(world, j);
        }
    for (int priority = 3; priority >= 0; priority--)
        for (unsigned j = 0; j < JOBS; j++) {
            const struct random_job *job = &world->jobs[j];
            if (job->lives && !job->runs && job->priority == priority && !placed[j])
                random_evict(world, j);
        }
    gt_volcano_close(world->volcano);
    for (unsigned j = 0; j < JOBS; j++)
        for (unsigned i = 0; world->jobs[j].runs && i < world->jobs[j].pods; i++) {
            const struct random_job *job = &world->jobs[j];
            char name[32];
            if (job->pod[i].gone)
                continue;
            snprintf(name, sizeof(name), "%s-%u", job->name, i);
            PUT_POD(world->volcano, .job = job->name, .index = i, .gpus = 8, .group = job->group,
                    .priority = job->priority, .node = job->pod[i].node + 1, .deleting = job->pod[i].leaves);
            put_user(world->volcano, job->pod[i].node, name);
        }
}

static void test_random_evictions(void **state)
{
    (void)state;
    struct random_world world = {.volcano = new_world()};
    bool is_short = getenv("GPUTOPO_UNDER_VALGRIND") != NULL; /* too short to be sure of an eviction */
    seed = test_seed();
    for (unsigned n = 0; n < NODES; n++)
        world.kept[n] = -1;
    for (unsigned round = 0; round < (is_short ? 50U : 1000U); round++)
        random_session(&world);
    printf("%u jobs evicted others, %u were bound\n", world.evictions, world.bound);
    assert_true(world.bound && (is_short || (world.evictions && world.bound > world.evictions)));
    gt_volcano_free(world.volcano);
}

/* As are places that pods have to leave first. */
static void test_room_is_published(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    put_lease(volcano, 300, "");
    uint32_t high = begin_room(volcano, &session);
    evict_room(volcano, high);
    gt_volcano_close(volcano);
    char *note = published(volcano);
    assert_non_null(note);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(strstr(note, node_name(n)) != NULL, n / NODES_EACH == 1);
    free(note);
    gt_volcano_free(volcano);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rack_is_freed),
        cmocka_unit_test(test_nothing_is_kept_where_nobody_is_evicted),
        cmocka_unit_test(test_an_eviction_that_fails),
        cmocka_unit_test(test_a_planned_node_is_lost),
        cmocka_unit_test(test_a_unit_goes_as_a_whole),
        cmocka_unit_test(test_nobody_goes_where_it_would_not_do),
        cmocka_unit_test(test_no_room_on_a_node_that_refuses),
        cmocka_unit_test(test_pods_that_leave_of_themselves),
        cmocka_unit_test(test_random_evictions),
        cmocka_unit_test(test_room_is_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
