/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/loop.h"
#include "tests/unit/aborts.h"

struct world {
    struct gt_loop *loop;
    struct gt_source *timer, *fd, *other, *guard;
    int pipe[2];
    unsigned count;
    char order[32];
};

static void give_up(void *arg)
{
    struct world *world = arg;
    gt_loop_stop(world->loop, -ETIMEDOUT);
}

/* Every test runs below a guard, so that a lost event fails and does not hang. */
static int make_world(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    if (!world)
        return -1;
    *state = world;
    world->pipe[0] = world->pipe[1] = -1;
    if (gt_loop_new(&world->loop, NULL) < 0 || pipe(world->pipe) < 0 ||
        gt_loop_add_timer(world->loop, give_up, world, &world->guard, NULL) < 0)
        return -1;
    gt_source_arm(world->guard, 10000);
    return 0;
}

static int free_world(void **state)
{
    struct world *world = *state;
    gt_loop_free(world->loop);
    for (unsigned i = 0; i < 2; i++)
        if (world->pipe[i] >= 0)
            close(world->pipe[i]);
    free(world);
    return 0;
}

static void note(struct world *world, char what)
{
    size_t len = strlen(world->order);
    if (len + 1 < sizeof(world->order))
        world->order[len] = what;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void stop_at_three(void *arg)
{
    struct world *world = arg;
    if (++world->count == 3)
        gt_loop_stop(world->loop, 42);
    else
        gt_source_arm(world->timer, world->count == 1 ? 0 : 20);
}

static void timers(void **state)
{
    struct world *world = *state;
    uint64_t begin = now_ms();
    assert_int_equal(gt_loop_add_timer(world->loop, stop_at_three, world, &world->timer, NULL), 0);
    gt_source_arm(world->timer, 30);
    assert_int_equal(gt_loop_run(world->loop, NULL), 42);
    assert_int_equal(world->count, 3);
    assert_true(now_ms() - begin >= 50);
}

static void note_a(void *arg)
{
    note(arg, 'a');
}

static void note_b_and_stop(void *arg)
{
    struct world *world = arg;
    note(world, 'b');
    gt_loop_stop(world->loop, 0);
}

static void disarmed_and_moved(void **state)
{
    struct world *world = *state;
    struct gt_source *disarmed = NULL;
    assert_int_equal(gt_loop_add_timer(world->loop, note_a, world, &disarmed, NULL), 0);
    assert_int_equal(gt_loop_add_timer(world->loop, note_b_and_stop, world, &world->timer, NULL), 0);
    gt_source_arm(disarmed, 5);
    gt_source_disarm(disarmed);
    gt_source_arm(world->timer, 5000);
    gt_source_arm(world->timer, 30); /* instead */
    assert_int_equal(gt_loop_run(world->loop, NULL), 0);
    assert_string_equal(world->order, "b");
}

/* Two timers are due in one round: whichever comes first disarms both. */
static void disarm_other(void *arg)
{
    struct world *world = arg;
    note(world, 'd');
    gt_source_disarm(world->other);
    gt_source_disarm(world->fd);
}

static void disarmed_in_the_same_round(void **state)
{
    struct world *world = *state;
    assert_int_equal(gt_loop_add_timer(world->loop, disarm_other, world, &world->other, NULL), 0);
    assert_int_equal(gt_loop_add_timer(world->loop, disarm_other, world, &world->fd, NULL), 0);
    assert_int_equal(gt_loop_add_timer(world->loop, note_b_and_stop, world, &world->timer, NULL), 0);
    gt_source_arm(world->other, 1);
    gt_source_arm(world->fd, 1);
    gt_source_arm(world->timer, 1000);
    struct timespec wait = {0, 20000000};
    nanosleep(&wait, NULL); /* both are due before the loop looks */
    assert_int_equal(gt_loop_run(world->loop, NULL), 0);
    assert_string_equal(world->order, "db");
}

static void on_readable(void *arg, uint32_t events)
{
    struct world *world = arg;
    char byte;
    if (events & POLLIN && read(world->pipe[0], &byte, 1) == 1) {
        note(world, byte);
    } else if (events & POLLHUP) {
        note(world, '!');
        gt_loop_stop(world->loop, 0);
    }
}

static void descriptors(void **state)
{
    struct world *world = *state;
    assert_int_equal(
        gt_loop_add_fd(world->loop, world->pipe[0], POLLIN, on_readable, world, &world->fd, NULL), 0);
    assert_int_equal(write(world->pipe[1], "xyz", 3), 3);
    close(world->pipe[1]);
    world->pipe[1] = -1;
    assert_int_equal(gt_loop_run(world->loop, NULL), 0);
    assert_string_equal(world->order, "xyz!");
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_loop_add_fd(world->loop, -1, POLLIN, on_readable, world, NULL, &err), -EBADF);
    assert_non_null(strstr(gt_err_text(err), "watch descriptor -1"));
}

static void free_everything(void *arg, uint32_t events)
{
    struct world *world = arg;
    (void)events;
    note(world, 'f');
    gt_source_free(world->fd);    /* itself */
    gt_source_free(world->other); /* its event may be handled in the same round */
    gt_source_arm(world->timer, 20);
}

static void free_self(void *arg)
{
    struct world *world = arg;
    note(world, 't');
    gt_source_free(world->timer);
    world->timer = NULL;
    gt_loop_stop(world->loop, 0);
}

/* Two watchers of one pipe through two descriptors: whichever comes first frees both. */
static void freed_in_a_callback(void **state)
{
    struct world *world = *state;
    gt_auto_close int twin = dup(world->pipe[0]);
    assert_int_equal(
        gt_loop_add_fd(world->loop, world->pipe[0], POLLIN, free_everything, world, &world->fd, NULL), 0);
    assert_int_equal(gt_loop_add_fd(world->loop, twin, POLLIN, free_everything, world, &world->other, NULL),
                     0);
    assert_int_equal(gt_loop_add_timer(world->loop, free_self, world, &world->timer, NULL), 0);
    assert_int_equal(write(world->pipe[1], "x", 1), 1);
    assert_int_equal(gt_loop_run(world->loop, NULL), 0);
    assert_string_equal(world->order, "ft");
    gt_source_free(NULL);
}

/* A stop that comes before the run, from a failed start for example, is not lost; the loop runs again after
 * it. */
static void stopped_before(void **state)
{
    struct world *world = *state;
    gt_loop_stop(world->loop, -EIO);
    assert_int_equal(gt_loop_run(world->loop, NULL), -EIO);
    assert_int_equal(gt_loop_add_timer(world->loop, note_b_and_stop, world, &world->timer, NULL), 0);
    gt_source_arm(world->timer, 1);
    assert_int_equal(gt_loop_run(world->loop, NULL), 0);
    assert_string_equal(world->order, "b");
}

#ifndef NDEBUG
static void *arm_elsewhere(void *timer)
{
    gt_source_arm(timer, 1);
    return NULL;
}

static void arm_and_join(void *arg)
{
    struct world *world = arg;
    pthread_t thread;
    if (pthread_create(&thread, NULL, arm_elsewhere, world->timer) == 0)
        pthread_join(thread, NULL);
}

static void call_from_another_thread(void)
{
    struct world world = {0};
    if (gt_loop_new(&world.loop, NULL) < 0 ||
        gt_loop_add_timer(world.loop, arm_and_join, &world, &world.timer, NULL) < 0)
        return;
    gt_source_arm(world.timer, 1);
    gt_loop_run(world.loop, NULL);
}

static void free_twice(void)
{
    struct gt_loop *loop;
    struct gt_source *timer;
    if (gt_loop_new(&loop, NULL) < 0 || gt_loop_add_timer(loop, give_up, NULL, &timer, NULL) < 0)
        return;
    gt_source_free(timer);
    gt_source_free(timer);
}

static void misuse(void **state)
{
    (void)state;
    assert_true(aborts(call_from_another_thread));
    assert_true(aborts(free_twice));
}
#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_world, free_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(timers),      TEST(disarmed_and_moved),  TEST(disarmed_in_the_same_round),
        TEST(descriptors), TEST(freed_in_a_callback), TEST(stopped_before),
#ifndef NDEBUG
        TEST(misuse),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
