/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/relocate.h"
#include "tests/unit/core/core_world.h"

/* Relocation against every way to move every pod. */

enum { NODES = 5, GPUS = 4, PODS = 6 };

struct small {
    struct gt_cluster *cluster;
    uint32_t node[NODES];
    struct gt_running_pod pods[PODS];
    uint32_t count;
};

static void make(struct small *small, unsigned supernodes, bool unhealthy)
{
    *small = (struct small){.cluster = world_new()};
    uint32_t class = world_class(small->cluster, GPUS, GPUS), super[NODES];
    char name[16];
    for (unsigned i = 0; i < supernodes; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        super[i] = world_super(small->cluster, name, 1, GT_NONE);
    }
    for (unsigned i = 0; i < NODES; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        small->node[i] = world_node(small->cluster, name, class,
                                    supernodes ? super[(unsigned)rand() % supernodes] : GT_NONE);
    }
    for (unsigned tries = 0; tries < 20 && small->count < PODS; tries++) {
        unsigned size = 1 + (unsigned)rand() % 3, shift = (unsigned)rand() % (GPUS + 1 - size);
        uint32_t at = small->node[(unsigned)rand() % NODES];
        uint64_t mask = ((UINT64_C(1) << size) - 1) << shift;
        struct gt_cluster_node node;
        gt_cluster_get_node(small->cluster, at, &node);
        if ((node.free & mask) != mask)
            continue;
        gt_cluster_set_free(small->cluster, at, node.free & ~mask);
        small->pods[small->count++] =
            (struct gt_running_pod){.node = at,
                                    .mask = mask,
                                    .job = rand() % 3 ? (uint32_t)rand() % 3 : GT_NONE,
                                    .movable = rand() % 5 > 0,
                                    .tied = rand() % 4 == 0};
    }
    if (unhealthy)
        gt_cluster_set_healthy(small->cluster, small->node[(unsigned)rand() % NODES], ~UINT64_C(2));
}

/* ---- the oracle ---- */

struct found {
    bool any;
    unsigned jobs, pods, gpus;
};

static unsigned bits(uint64_t mask)
{
    return (unsigned)__builtin_popcountll(mask);
}

/* Whether pods on nodes places[] leave room for the job; no node takes more than it has. */
static bool is_good(const struct small *small, const struct gt_advise_job *job, const uint32_t *places)
{
    unsigned room[NODES], slots[64] = {0}, runs = 0;
    struct gt_cluster_node node[NODES];
    for (unsigned n = 0; n < NODES; n++) {
        gt_cluster_get_node(small->cluster, small->node[n], &node[n]);
        room[n] = bits(node[n].available);
    }
    for (uint32_t i = 0; i < small->count; i++)
        for (unsigned n = 0; n < NODES; n++)
            if (small->node[n] == small->pods[i].node && places[i] != small->node[n])
                room[n] += bits(small->pods[i].mask & node[n].healthy);
    for (uint32_t i = 0; i < small->count; i++)
        for (unsigned n = 0; n < NODES; n++)
            if (small->node[n] == places[i] && places[i] != small->pods[i].node) {
                if (room[n] < bits(small->pods[i].mask))
                    return false;
                room[n] -= bits(small->pods[i].mask);
            }
    for (unsigned n = 0; n < NODES; n++)
        slots[node[n].supernode] += room[n] / job->gpus;
    for (unsigned s = 0; s < GT_COUNT(slots); s++)
        runs += slots[s] / job->pods;
    return runs >= job->runs;
}

static void cost_of(const struct small *small, const uint32_t *places, struct found *ret)
{
    *ret = (struct found){.any = true};
    for (uint32_t i = 0; i < small->count; i++) {
        if (places[i] == small->pods[i].node)
            continue;
        bool first = true;
        for (uint32_t k = 0; k < i && small->pods[i].job != GT_NONE; k++)
            first &= small->pods[k].job != small->pods[i].job || places[k] == small->pods[k].node;
        ret->jobs += first;
        ret->pods++;
        ret->gpus += bits(small->pods[i].mask);
    }
}

static bool is_less(const struct found *a, const struct found *b)
{
    return a->jobs != b->jobs   ? a->jobs < b->jobs
           : a->pods != b->pods ? a->pods < b->pods
                                : a->gpus < b->gpus;
}

static void try_all(const struct small *small, const struct gt_advise_job *job, uint32_t *places, uint32_t at,
                    struct found *best)
{
    if (at == small->count) {
        struct found now;
        cost_of(small, places, &now);
        if ((!best->any || is_less(&now, best)) && is_good(small, job, places))
            *best = now;
        return;
    }
    const struct gt_running_pod *pod = &small->pods[at];
    struct gt_cluster_node from, to;
    gt_cluster_get_node(small->cluster, pod->node, &from);
    for (unsigned n = 0; n < NODES; n++) {
        gt_cluster_get_node(small->cluster, small->node[n], &to);
        places[at] = small->node[n];
        bool stays = small->node[n] == pod->node;
        if (stays || (pod->movable && (!pod->tied || to.supernode == from.supernode)))
            try_all(small, job, places, at + 1, best);
    }
}

/* ---- tests ---- */

static void agrees_with_all_ways(void **state)
{
    (void)state;
    srand(11);
    unsigned possible = 0, moved = 0;
    for (unsigned round = 0; round < test_rounds(1500); round++) {
        struct small small;
        make(&small, (unsigned)rand() % 4, rand() % 3 == 0);
        struct gt_advise_job job = {.runs = 1 + (unsigned)rand() % 2,
                                    .pods = 1 + (unsigned)rand() % 2,
                                    .gpus = 2 + (unsigned)rand() % 3};
        uint32_t places[PODS];
        struct found best = {0};
        struct gt_relocation got = {0};
        try_all(&small, &job, places, 0, &best);
        assert_int_equal(gt_relocate(small.cluster, small.pods, small.count, &job, 0, &got, NULL), 0);
        assert_true(got.exact);
        if (got.possible != best.any || got.jobs != best.jobs || got.count != best.pods ||
            got.gpus != best.gpus)
            fail_msg("round %u: possible %d, %u jobs, %u pods, %u GPUs; expected %d, %u, %u, %u", round,
                     got.possible, got.jobs, got.count, got.gpus, best.any, best.jobs, best.pods, best.gpus);
        for (uint32_t i = 0; i < small.count; i++)
            places[i] = small.pods[i].node;
        for (uint32_t i = 0; i < got.count; i++) {
            assert_true(i == 0 || got.moves[i].pod > got.moves[i - 1].pod);
            assert_true(small.pods[got.moves[i].pod].movable);
            places[got.moves[i].pod] = got.moves[i].node;
        }
        assert_true(!got.possible || is_good(&small, &job, places));
        possible += got.possible;
        moved += got.count > 0;
        free(got.moves);
        gt_cluster_free(small.cluster);
    }
    assert_true(possible > test_rounds(1500) / 5 && moved > test_rounds(1500) / 20);
}

/* Cut short anywhere, what is said is true. */
static void is_honest_when_cut_short(void **state)
{
    (void)state;
    srand(12);
    for (unsigned round = 0; round < test_rounds(500); round++) {
        struct small small;
        make(&small, (unsigned)rand() % 4, false);
        const struct gt_advise_job job = {.runs = 1, .pods = 1 + (unsigned)rand() % 2, .gpus = 4};
        struct gt_relocation whole = {0}, cut = {0};
        assert_int_equal(gt_relocate(small.cluster, small.pods, small.count, &job, 0, &whole, NULL), 0);
        assert_int_equal(
            gt_relocate(small.cluster, small.pods, small.count, &job, 1 + (unsigned)rand() % 200, &cut, NULL),
            0);
        if (cut.exact) {
            assert_int_equal(cut.possible, whole.possible);
            assert_true(cut.jobs == whole.jobs && cut.count == whole.count && cut.gpus == whole.gpus);
        }
        assert_true(!cut.possible || whole.possible);
        assert_true(!cut.possible || cut.jobs > whole.jobs ||
                    (cut.jobs == whole.jobs && cut.count >= whole.count));
        free(whole.moves);
        free(cut.moves);
        gt_cluster_free(small.cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_all_ways),
        cmocka_unit_test(is_honest_when_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
