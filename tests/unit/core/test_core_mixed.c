/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/plan.h"
#include "tests/unit/core/core_world.h"

/* Jobs whose pods ask for different numbers of GPUs, against every way to place them. */

enum { NODES = 6, UNITS = 4, PODS = 12 };

struct mixed {
    struct gt_cluster *cluster;
    unsigned nodes, free[NODES], super[NODES];
    struct gt_plan_unit units[UNITS];
    struct gt_plan_pod pods[PODS];
    unsigned unit_count, pod_count;
};

static void make(struct mixed *mixed, uint64_t *random)
{
    *mixed =
        (struct mixed){.cluster = world_new(), .nodes = 2 + (unsigned)(random_next(random) % (NODES - 1))};
    uint32_t class = world_class(mixed->cluster, 8, 4), supers[3];
    unsigned supernodes = 1 + (unsigned)(random_next(random) % 3);
    char name[16];
    for (unsigned s = 0; s < supernodes; s++) {
        snprintf(name, sizeof(name), "s%u", s);
        supers[s] = world_super(mixed->cluster, name, 1, GT_NONE);
    }
    for (unsigned n = 0; n < mixed->nodes; n++) {
        snprintf(name, sizeof(name), "n%u", n);
        mixed->super[n] = (unsigned)(random_next(random) % supernodes);
        uint32_t node = world_node(mixed->cluster, name, class, supers[mixed->super[n]]);
        mixed->free[n] = (unsigned)(random_next(random) % 9);
        gt_cluster_set_free(mixed->cluster, node, world_mask(mixed->free[n], 8, random));
    }
    mixed->unit_count = 2 + (unsigned)(random_next(random) % (UNITS - 1));
    for (unsigned u = 0; u < mixed->unit_count; u++) {
        unsigned pods = 1 + (unsigned)(random_next(random) % 3),
                 gpus = 1 + (unsigned)(random_next(random) % 5);
        mixed->units[u] = (struct gt_plan_unit){.first = mixed->pod_count, .pods = pods, .gpus = gpus};
        for (unsigned p = 0; p < pods; p++)
            mixed->pods[mixed->pod_count++] = (struct gt_plan_pod){.place.node = GT_NONE};
    }
}

/* The pods of unit u from `pod` on, in its supernode; then the next unit. */
static bool fits(struct mixed *mixed, unsigned u, unsigned pod, unsigned super, unsigned from)
{
    if (u == mixed->unit_count)
        return true;
    const struct gt_plan_unit *unit = &mixed->units[u];
    if (pod == unit->pods) {
        for (unsigned s = 0; s < 3; s++)
            if (fits(mixed, u + 1, 0, s, 0))
                return true;
        return false;
    }
    for (unsigned n = from; n < mixed->nodes; n++) {
        if (mixed->super[n] != super || mixed->free[n] < unit->gpus)
            continue;
        mixed->free[n] -= unit->gpus;
        bool found = fits(mixed, u, pod + 1, super, n); /* pods of a unit are alike */
        mixed->free[n] += unit->gpus;
        if (found)
            return true;
    }
    return false;
}

/* Every pod has its GPUs on a node of its unit's supernode, nobody else's. */
static void check(const struct mixed *mixed)
{
    uint64_t taken[NODES] = {0};
    for (unsigned u = 0; u < mixed->unit_count; u++)
        for (unsigned p = 0; p < mixed->units[u].pods; p++) {
            const struct gt_plan_pod *pod = &mixed->pods[mixed->units[u].first + p];
            struct gt_cluster_node node;
            assert_true(gt_cluster_get_node(mixed->cluster, pod->place.node, &node));
            assert_int_equal(__builtin_popcountll(pod->place.mask), mixed->units[u].gpus);
            assert_int_equal(pod->place.mask & ~(node.available & ~taken[pod->place.node]), 0);
            assert_int_equal(node.supernode, mixed->units[u].supernode);
            taken[pod->place.node] |= pod->place.mask;
        }
}

static void places_what_fits(void **state)
{
    uint64_t random = test_seed();
    unsigned feasible = 0, searched = 0, several = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(20000); round++) {
        struct mixed mixed;
        make(&mixed, &random);
        bool can = false, alike = true;
        for (unsigned s = 0; s < 3 && !can; s++)
            can = fits(&mixed, 0, 0, s, 0);
        for (unsigned u = 1; u < mixed.unit_count; u++)
            alike &= mixed.units[u].gpus == mixed.units[0].gpus;
        struct gt_plan_failure failure;
        bool placed = gt_plan_job(mixed.cluster,
                                  &(struct gt_plan_request){.units = mixed.units,
                                                            .unit_count = mixed.unit_count,
                                                            .pods = mixed.pods,
                                                            .pod_count = mixed.pod_count},
                                  &failure);
        assert_true(can || !placed);
        if (placed)
            check(&mixed);
        for (unsigned u = 0; u < mixed.unit_count && placed; u++)
            searched += mixed.units[u].searched;
        feasible += can;
        several += can && !alike;
        if (!placed) /* so small a job is searched for to the end */
            assert_true(!can && !failure.inexact);
        gt_cluster_free(mixed.cluster);
    }
    printf("%u jobs fit, %u of several sizes; %u units were searched for\n", feasible, several, searched);
    assert_true(several > test_rounds(20000) / 20 && (searched || several < 3000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(places_what_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
