/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/core/core_checks.h"
#include "tests/unit/core/core_world.h"

/* Random operations, watched by a second book-keeping, then undone one by one: nothing of them is left. */

enum { NODES = 24, ASSUMED_MAX = 256, STEPS = 400 };

struct reservation {
    struct gt_promise_id id;
    uint32_t node;
    uint64_t mask, owner;
};

enum step_kind { SET_FREE, SET_HEALTHY, SET_ELIGIBLE, ASSUMED, ENDED, REMOVED, ADDED };

struct step {
    enum step_kind kind;
    uint32_t node;
    uint64_t old; /* the mask, or the flag, or free of a node that was removed or confirmed */
    uint64_t healthy;
    bool eligible;
    struct reservation reservation;
    bool confirmed;
    char name[32];
    uint32_t super, class;
};

struct world {
    struct gt_cluster *cluster;
    struct reservation reservations[ASSUMED_MAX];
    unsigned reservation_count;
    struct step steps[STEPS * 4];
    unsigned step_count;
    uint32_t supers[6], classes[3];
    unsigned names;
};

static struct gt_cluster_node node_of(const struct world *world, uint32_t node)
{
    struct gt_cluster_node ret;

    assert_true(gt_cluster_get_node(world->cluster, node, &ret));
    return ret;
}

static void make(struct world *world)
{
    char name[32];

    memset(world, 0, sizeof(*world));
    world->cluster = world_new();
    world->classes[0] = world_class(world->cluster, 8, 4);
    world->classes[1] = world_class(world->cluster, 16, 8);
    world->classes[2] = world_class(world->cluster, 64, 8);
    world->supers[0] = world_super(world->cluster, "zone", 3, GT_NONE);
    for (unsigned s = 1; s < 5; s++) {
        snprintf(name, sizeof(name), "s%u", s);
        world->supers[s] = world_super(world->cluster, name, 1, s < 3 ? world->supers[0] : GT_NONE);
    }
    world->supers[5] = GT_NONE;
    for (unsigned n = 0; n < NODES; n++) {
        snprintf(name, sizeof(name), "n%u", world->names++);
        world_node(world->cluster, name, world->classes[n % 3], world->supers[n % 6]);
    }
}

static void push(struct world *world, struct step step)
{
    assert_true(world->step_count < sizeof(world->steps) / sizeof(*world->steps));
    world->steps[world->step_count++] = step;
}

static void end_reservation(struct world *world, unsigned at)
{
    world->reservations[at] = world->reservations[--world->reservation_count];
}

/* Ends those of the second book that the core must have ended, in the order of its ids. */
static unsigned forget_like(struct world *world, uint64_t owner)
{
    unsigned count = 0;

    for (unsigned i = world->reservation_count; i-- > 0;) {
        struct reservation *reservation = &world->reservations[i];

        if (reservation->owner != owner)
            continue;
        push(world, (struct step){.kind = ENDED, .reservation = *reservation});
        end_reservation(world, i);
        count++;
    }
    return count;
}

static void do_assume(struct world *world, uint32_t node, uint64_t *random)
{
    struct gt_cluster_node at = node_of(world, node);
    uint64_t mask = random_next(random) & random_next(random) & at.all;
    struct reservation reservation = {.node = node, .mask = mask, .owner = random_next(random) % 5};
    int r = gt_cluster_promise(
        world->cluster, &(struct gt_promise){GT_PROMISE_PLANNED, {node, mask}, reservation.owner, 0, 0, 0},
        &reservation.id, NULL);

    assert_int_equal(r == 0, mask != 0 && (mask & ~at.available) == 0);
    if (r < 0)
        return;
    assert_true(world->reservation_count < ASSUMED_MAX);
    world->reservations[world->reservation_count++] = reservation;
    push(world, (struct step){.kind = ASSUMED, .reservation = reservation});
}

static void do_end(struct world *world, bool confirm, uint64_t *random)
{
    unsigned at = (unsigned)(random_next(random) % (world->reservation_count + 1));

    if (at == world->reservation_count)
        return;
    struct reservation reservation = world->reservations[at];
    uint64_t free = node_of(world, reservation.node).free;
    if (confirm)
        gt_cluster_confirm(world->cluster, reservation.id);
    else
        gt_cluster_end_promise(world->cluster, reservation.id);
    assert_int_equal(node_of(world, reservation.node).free, confirm ? free & ~reservation.mask : free);
    push(world, (struct step){.kind = ENDED, .old = free, .reservation = reservation, .confirmed = confirm});
    end_reservation(world, at);
}

static void do_remove(struct world *world, uint32_t node)
{
    struct gt_cluster_node at = node_of(world, node);
    struct gt_cluster_supernode super;

    for (unsigned i = 0; i < world->reservation_count; i++)
        if (world->reservations[i].node == node)
            return; /* its reservations would have to be made again on the way back */
    assert_true(gt_cluster_get_supernode(world->cluster, at.supernode, &super));
    struct step step = {.kind = REMOVED,
                        .node = node,
                        .old = at.free,
                        .healthy = at.healthy,
                        .eligible = at.eligible,
                        .super = super.is_node ? super.parent : at.supernode};
    snprintf(step.name, sizeof(step.name), "%s", at.name);
    assert_int_equal(gt_cluster_add_class(world->cluster, at.class, &step.class, NULL), 0);
    push(world, step);
    gt_cluster_remove_node(world->cluster, node);
    assert_int_equal(gt_cluster_find_node(world->cluster, step.name), GT_NONE);
}

static void do_step(struct world *world, uint64_t *random)
{
    uint32_t node = (uint32_t)(random_next(random) % gt_cluster_nodes(world->cluster));
    struct gt_cluster_node at;
    struct step step = {.node = node};
    uint64_t mask = random_next(random);
    unsigned kind = (unsigned)(random_next(random) % 12);

    if (!gt_cluster_get_node(world->cluster, node, &at)) {
        gt_cluster_set_free(world->cluster, node, mask); /* a node that is gone: nothing happens */
        gt_cluster_remove_node(world->cluster, node);
        return;
    }
    switch (kind) {
    case 0:
        push(world, (struct step){.kind = SET_FREE, .node = node, .old = at.free});
        gt_cluster_set_free(world->cluster, node, mask);
        break;
    case 1:
        push(world, (struct step){.kind = SET_HEALTHY, .node = node, .old = at.healthy});
        gt_cluster_set_healthy(world->cluster, node, mask | random_next(random));
        break;
    case 2:
        push(world, (struct step){.kind = SET_ELIGIBLE, .node = node, .old = at.eligible});
        gt_cluster_set_eligible(world->cluster, node, mask & 1);
        break;
    case 3:
        if (random_next(random) % 3 == 0)
            do_remove(world, node);
        break;
    case 4:
        snprintf(step.name, sizeof(step.name), "n%u", world->names++);
        step.kind = ADDED;
        step.node = world_node(world->cluster, step.name, world->classes[mask % 3], world->supers[mask % 6]);
        push(world, step);
        break;
    case 6:
        if (mask % 4 == 0)
            assert_int_equal(gt_cluster_end_promises(world->cluster, GT_PROMISE_PLANNED, mask % 5),
                             forget_like(world, mask % 5));
        break;
    case 7:
    case 8:
        do_end(world, kind == 7, random);
        break;
    default:
        do_assume(world, node, random);
    }
}

static void undo(struct world *world, const struct step *step)
{
    const struct reservation *reservation = &step->reservation;
    uint32_t id;

    switch (step->kind) {
    case SET_FREE:
        gt_cluster_set_free(world->cluster, step->node, step->old);
        break;
    case SET_HEALTHY:
        gt_cluster_set_healthy(world->cluster, step->node, step->old);
        break;
    case SET_ELIGIBLE:
        gt_cluster_set_eligible(world->cluster, step->node, step->old);
        break;
    case ASSUMED: /* its id may be another one by now: an end was undone */
        for (unsigned i = 0; i < world->reservation_count; i++)
            if (world->reservations[i].node == reservation->node &&
                world->reservations[i].mask == reservation->mask) {
                gt_cluster_end_promise(world->cluster, world->reservations[i].id);
                end_reservation(world, i);
                return;
            }
        fail_msg("the promise to undo is not there");
        break;
    case ENDED: {
        struct gt_cluster_node at = node_of(world, reservation->node);
        struct reservation again = *reservation;

        /* The GPUs may have stopped being available while they were reserved: lend them for a moment. */
        gt_cluster_set_free(world->cluster, reservation->node, UINT64_MAX);
        gt_cluster_set_healthy(world->cluster, reservation->node, UINT64_MAX);
        gt_cluster_set_eligible(world->cluster, reservation->node, true);
        assert_int_equal(
            gt_cluster_promise(
                world->cluster,
                &(struct gt_promise){
                    GT_PROMISE_PLANNED, {reservation->node, reservation->mask}, reservation->owner, 0, 0, 0},
                &again.id, NULL),
            0);
        gt_cluster_set_free(world->cluster, reservation->node, step->confirmed ? step->old : at.free);
        gt_cluster_set_healthy(world->cluster, reservation->node, at.healthy);
        gt_cluster_set_eligible(world->cluster, reservation->node, at.eligible);
        world->reservations[world->reservation_count++] = again;
        break;
    }
    case REMOVED:
        id = world_node(world->cluster, step->name, step->class, step->super);
        assert_int_equal(id, step->node);
        gt_cluster_set_free(world->cluster, id, step->old);
        gt_cluster_set_healthy(world->cluster, id, step->healthy);
        gt_cluster_set_eligible(world->cluster, id, step->eligible);
        break;
    case ADDED:
        gt_cluster_remove_node(world->cluster, step->node);
        break;
    }
}

/* The second book and the core must agree on every node. */
static void compare(const struct world *world)
{
    struct gt_cluster_node at;

    assert_int_equal(gt_cluster_assumptions(world->cluster), world->reservation_count);
    for (uint32_t node = 0; node < gt_cluster_nodes(world->cluster); node++) {
        uint64_t assumed = 0;

        if (!gt_cluster_get_node(world->cluster, node, &at))
            continue;
        for (unsigned i = 0; i < world->reservation_count; i++)
            assumed |= world->reservations[i].node == node ? world->reservations[i].mask : 0;
        assert_int_equal(at.assumed, assumed);
        assert_int_equal(at.available, at.eligible ? at.free & at.healthy & ~assumed : 0);
    }
}

static void nothing_is_left(void **state)
{
    uint64_t random = test_seed();
    static struct world world;
    (void)state;

    for (unsigned round = 0; round < test_rounds(50); round++) {
        gt_auto_buf struct gt_buf before = GT_BUF(1 << 20), after = GT_BUF(1 << 20);
        struct world_job job;

        make(&world);
        world_dump(world.cluster, &before);
        for (unsigned i = 0; i < STEPS; i++) {
            do_step(&world, &random);
            compare(&world);
            world_check(world.cluster);
            if (i % 8 == 0) { /* plans count further pod sizes, more than are kept */
                world_job(&job, 2, 2, 1 + (unsigned)(random_next(&random) % 12), i % 16 ? 1 : 0);
                world_plan(world.cluster, &job);
            }
        }
        while (world.step_count) {
            undo(&world, &world.steps[--world.step_count]);
            world_check(world.cluster);
            compare(&world);
        }
        world_dump(world.cluster, &after);
        /* Nodes that were added for good ids beyond: gone again, so the dumps are equal line by line. */
        assert_string_equal(before.data, after.data);
        gt_cluster_free(world.cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_left)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
