/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/crossing.h"
#include "scheduler-ext/core/relocate.h"
#include "tests/unit/core/core_world.h"

/* Relocation against every way to move every pod and unit. */

enum { NODES = 5, GPUS = 4, PODS = 6 };

struct small {
    struct gt_cluster *cluster;
    uint32_t node[NODES];
    struct gt_running_pod pods[PODS];
    bool denied[PODS][NODES]; /* where it may not go; the same for all pods of a unit */
    uint32_t count;
    unsigned tier; /* the job lies in one supernode of it; 0: anywhere */
};

/* Some pods of one job that are equally large and in one supernode become a unit. */
static void make_units(struct small *small)
{
    for (uint32_t i = 0; i < small->count; i++)
        for (uint32_t k = 0; k < i && rand() % 3; k++) {
            struct gt_running_pod *a = &small->pods[k], *b = &small->pods[i];
            struct gt_cluster_node x, y;
            gt_cluster_get_node(small->cluster, a->place.node, &x);
            gt_cluster_get_node(small->cluster, b->place.node, &y);
            if (a->job == GT_NONE || a->job != b->job || x.supernode != y.supernode ||
                __builtin_popcountll(a->place.mask) != __builtin_popcountll(b->place.mask))
                continue;
            a->unit = a->unit == GT_NONE ? k : a->unit;
            b->unit = a->unit;
            b->movable = a->movable;
            break;
        }
}

/* Whose kubelets refuse pods that are spread over two NUMA nodes. */
static uint32_t judged_class(struct gt_cluster *cluster, bool single)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_weights weights;
    uint32_t id;
    wire_meshes(&weights, GPUS, GPUS / 2, 64, 8);
    weights.numa = (struct gt_numa){.count = 2, .single = single, .gpus = {0x3, 0xc}};
    assert_int_equal(gt_class_new(&weights, &class, NULL), 0);
    assert_int_equal(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    return id;
}

enum verdict { NO_VERDICT, SINGLE, RESTRICTED };

/* With a tier, its supernodes are below two halls, or in none. */
static void make_in(struct small *small, unsigned supernodes, unsigned tier, bool unhealthy,
                    enum verdict verdict)
{
    *small = (struct small){.cluster = world_new(), .tier = tier};
    uint32_t class =
        verdict ? judged_class(small->cluster, verdict == SINGLE) : world_class(small->cluster, GPUS, GPUS),
             super[NODES];
    uint32_t halls[3] = {GT_NONE, GT_NONE, GT_NONE};
    char name[16];
    for (unsigned i = 0; tier && i < 2; i++) {
        snprintf(name, sizeof(name), "h%u", i);
        halls[i] = world_super(small->cluster, name, 2, GT_NONE);
    }
    for (unsigned i = 0; i < supernodes; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        super[i] = world_super(small->cluster, name, 1, tier ? halls[(unsigned)rand() % 3] : GT_NONE);
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
            (struct gt_running_pod){.place = {at, mask},
                                    .job = rand() % 3 ? (uint32_t)rand() % 3 : GT_NONE,
                                    .unit = GT_NONE,
                                    .cost = (uint32_t)rand() % 3,
                                    .movable = rand() % 5 > 0};
    }
    make_units(small);
    if (unhealthy)
        gt_cluster_set_healthy(small->cluster, small->node[(unsigned)rand() % NODES], ~UINT64_C(2));
}

static void make(struct small *small, unsigned supernodes, bool unhealthy, enum verdict verdict)
{
    make_in(small, supernodes, 0, unhealthy, verdict);
}

static void deny(struct small *small)
{
    for (uint32_t i = 0; i < small->count; i++)
        for (unsigned n = 0; n < NODES; n++) {
            small->denied[i][n] = rand() % 3 == 0;
            for (uint32_t k = 0; k < i; k++)
                if (small->pods[k].unit != GT_NONE && small->pods[k].unit == small->pods[i].unit)
                    small->denied[i][n] = small->denied[k][n];
        }
}

/* ---- the oracle ---- */

enum { STAYS = NODES };

struct found {
    bool any;
    unsigned jobs, cost;
};

static unsigned bits(uint64_t mask)
{
    return (unsigned)__builtin_popcountll(mask);
}

/* The highest supernode of at most this tier that has the supernode. */
static uint32_t highest_within(const struct gt_cluster *cluster, uint32_t supernode, unsigned tier)
{
    struct gt_cluster_supernode super;
    uint32_t highest = supernode;
    for (uint32_t s = supernode; gt_cluster_get_supernode(cluster, s, &super) && super.tier <= tier;
         s = super.parent)
        highest = s;
    return highest;
}

/* Whether so many places are enough for units whose runs lie in one supernode of at most a tier. */
static bool holds_units(const struct small *small, const struct gt_advise_job *job, const unsigned *slots)
{
    unsigned runs[64] = {0}, units = 0;
    for (uint32_t s = 0; s < gt_cluster_supernodes(small->cluster); s++)
        runs[highest_within(small->cluster, s, job->within)] += slots[s] / job->pods;
    for (uint32_t s = 0; s < GT_COUNT(runs); s++)
        units += runs[s] / job->unit;
    return units >= job->runs / job->unit;
}

/* Whether supernodes with so many places for pods of the job hold it, in one supernode of its tier. */
static bool holds(const struct small *small, const struct gt_advise_job *job, const unsigned *slots)
{
    unsigned runs[64] = {0}, most = 0;
    if (job->unit)
        return holds_units(small, job, slots);
    for (uint32_t s = 0; s < gt_cluster_supernodes(small->cluster); s++) {
        uint32_t domain = small->tier ? gt_cluster_domain(small->cluster, s, small->tier) : 0;
        if (domain == GT_NONE)
            continue;
        runs[domain] += slots[s] / job->pods;
        most = runs[domain] > most ? runs[domain] : most;
    }
    return most >= job->runs;
}

/* Whether pods on nodes places[] leave room for the job; new places are in what is available now. */
static bool is_good(const struct small *small, const struct gt_advise_job *job, const uint32_t *places)
{
    unsigned room[NODES], now[NODES], slots[64] = {0};
    struct gt_cluster_node node[NODES];
    for (unsigned n = 0; n < NODES; n++) {
        gt_cluster_get_node(small->cluster, small->node[n], &node[n]);
        room[n] = now[n] = bits(node[n].available);
    }
    for (uint32_t i = 0; i < small->count; i++) {
        unsigned gpus = bits(small->pods[i].place.mask);
        if (places[i] == STAYS)
            continue;
        if (now[places[i]] < gpus || small->denied[i][places[i]])
            return false;
        now[places[i]] -= gpus;
        room[places[i]] -= gpus;
        for (unsigned n = 0; n < NODES; n++)
            if (small->node[n] == small->pods[i].place.node)
                room[n] += bits(small->pods[i].place.mask & node[n].healthy);
    }
    for (unsigned n = 0; n < NODES; n++)
        slots[node[n].supernode] += room[n] / job->gpus;
    return holds(small, job, slots);
}

/* Whether a unit stays or moves as a whole, into one supernode. */
static bool is_whole(const struct small *small, const uint32_t *places)
{
    for (uint32_t i = 0; i < small->count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct gt_running_pod *a = &small->pods[k], *b = &small->pods[i];
            struct gt_cluster_node x, y;
            if (a->unit == GT_NONE || a->unit != b->unit)
                continue;
            if ((places[k] == STAYS) != (places[i] == STAYS))
                return false;
            if (places[i] == STAYS)
                continue;
            gt_cluster_get_node(small->cluster, small->node[places[k]], &x);
            gt_cluster_get_node(small->cluster, small->node[places[i]], &y);
            if (x.supernode != y.supernode)
                return false;
        }
    return true;
}

static void cost_of(const struct small *small, const uint32_t *places, struct found *ret)
{
    *ret = (struct found){.any = true};
    for (uint32_t i = 0; i < small->count; i++) {
        if (places[i] == STAYS)
            continue;
        bool first = true, begins = true;
        for (uint32_t k = 0; k < i && small->pods[i].job != GT_NONE; k++) {
            first &= small->pods[k].job != small->pods[i].job || places[k] == STAYS;
            begins &= small->pods[i].unit == GT_NONE || small->pods[k].unit != small->pods[i].unit;
        }
        ret->jobs += first;
        ret->cost += begins ? GT_RELOCATE_MOVE : 0;
        ret->cost += bits(small->pods[i].place.mask) * (small->pods[i].cost ? small->pods[i].cost : 1);
    }
}

static bool is_less(const struct found *a, const struct found *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->jobs < b->jobs;
}

static void try_all(const struct small *small, const struct gt_advise_job *job, uint32_t *places, uint32_t at,
                    struct found *best)
{
    if (at == small->count) {
        struct found now;
        cost_of(small, places, &now);
        if ((!best->any || is_less(&now, best)) && is_whole(small, places) && is_good(small, job, places))
            *best = now;
        return;
    }
    for (places[at] = 0; places[at] <= STAYS; places[at]++)
        if (places[at] == STAYS || small->pods[at].movable)
            try_all(small, job, places, at + 1, best);
}

/* ---- tests ---- */

static unsigned number_of(const struct small *small, uint32_t node)
{
    unsigned n = 0;
    while (small->node[n] != node)
        n++;
    return n;
}

static bool small_may_go(const void *arg, uint32_t pod, uint32_t node)
{
    const struct small *small = arg;
    return !small->denied[pod][number_of(small, node)];
}

static void relocate(const struct small *small, const struct gt_advise_job *job, uint64_t work,
                     struct gt_relocation *ret)
{
    const struct gt_relocate_spec spec = {
        .job = *job, .work = work, .may_go = small_may_go, .arg = small, .tier = small->tier};
    assert_int_equal(gt_relocate_within(small->cluster, small->pods, small->count, &spec, ret, NULL), 0);
}

/* The new GPUs are available, and each is given once. */
static void check_places(const struct small *small, const struct gt_relocation *got)
{
    uint64_t taken[NODES] = {0};
    for (uint32_t i = 0; i < got->count; i++) {
        const struct gt_relocate_move *move = &got->moves[i];
        struct gt_cluster_node node;
        unsigned n = number_of(small, move->node);
        assert_true(gt_cluster_get_node(small->cluster, move->node, &node));
        assert_true(i == 0 || move->pod > got->moves[i - 1].pod);
        assert_true(small->pods[move->pod].movable);
        assert_int_equal(bits(move->mask), bits(small->pods[move->pod].place.mask));
        assert_int_equal(move->mask & ~(node.available & ~taken[n]), 0);
        taken[n] |= move->mask;
    }
}

enum job_tier { NO_TIER, JOB_TIER, UNIT_TIER };

static void check_all_ways(bool denies, enum job_tier tiers)
{
    srand(11);
    unsigned possible = 0, moved = 0, units = 0, rounds = test_rounds(tiers ? 500 : 1500);
    for (unsigned round = 0; round < rounds; round++) {
        struct small small;
        unsigned supernodes = (unsigned)rand() % 4, tier = tiers ? 1 + (unsigned)rand() % 2 : 0;
        make_in(&small, supernodes, tier, rand() % 3 == 0, NO_VERDICT);
        if (denies)
            deny(&small);
        struct gt_advise_job job = {.runs = 1 + (unsigned)rand() % 2,
                                    .pods = 1 + (unsigned)rand() % 2,
                                    .gpus = 2 + (unsigned)rand() % 3};
        uint32_t places[PODS];
        struct found best = {0};
        if (tiers == UNIT_TIER) {
            job.within = small.tier;
            job.unit = 2 + (unsigned)rand() % 2;
            job.pods = 1 + (rand() % 4 == 0);
            job.runs *= job.unit;
            small.tier = 0;
        }
        struct gt_relocation got = {0};
        try_all(&small, &job, places, 0, &best);
        relocate(&small, &job, 0, &got);
        assert_true(got.exact);
        if (got.possible != best.any || got.jobs != best.jobs || got.cost != best.cost)
            fail_msg("round %u: possible %d, cost %u, %u jobs; expected %d, %u, %u", round, got.possible,
                     (unsigned)got.cost, got.jobs, best.any, best.cost, best.jobs);
        for (uint32_t i = 0; i < small.count; i++)
            places[i] = STAYS;
        check_places(&small, &got);
        bool unit = false;
        for (uint32_t i = 0; i < got.count; i++) {
            unit = unit || small.pods[got.moves[i].pod].unit != GT_NONE;
            places[got.moves[i].pod] = number_of(&small, got.moves[i].node);
        }
        assert_true(!got.possible || (is_whole(&small, places) && is_good(&small, &job, places)));
        possible += got.possible;
        moved += got.count > 0;
        units += unit;
        free(got.moves);
        gt_cluster_free(small.cluster);
    }
    print_message("%u clusters: %u possible, %u by moves, %u of these move a unit\n", rounds, possible, moved,
                  units);
    assert_true(possible > rounds / (tiers ? 20 : 5) && moved > rounds / (denies || tiers ? 40 : 20) &&
                (denies || tiers || rounds < 1000 || units > rounds / 200)); /* few rounds may move no unit */
}

static void agrees_with_all_ways(void **state)
{
    (void)state;
    check_all_ways(false, NO_TIER);
}

static void agrees_with_all_ways_into_one_supernode_of_a_tier(void **state)
{
    (void)state;
    check_all_ways(false, JOB_TIER);
}

static void agrees_with_all_ways_with_units_in_a_tier(void **state)
{
    (void)state;
    check_all_ways(false, UNIT_TIER);
}

static void keeps_off_nodes_where_pods_may_not_go(void **state)
{
    (void)state;
    check_all_ways(true, NO_TIER);
}

/* A job whose other pods run in the last of many supernodes may go there alone. Pods of all could move. */
static void looks_only_where_the_job_may_go(void **state)
{
    enum { SUPERNODES = 50 };
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, GPUS), own = GT_NONE, spare, aside;
    struct gt_running_pod pods[SUPERNODES];
    struct gt_node_set avoids = {0};
    struct gt_relocation found = {0};
    char name[16];
    (void)state;
    for (uint32_t i = 0; i < SUPERNODES; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        own = world_node(cluster, name, class, world_super(cluster, name, 1, GT_NONE));
        gt_cluster_set_free(cluster, own, 0);
        pods[i] =
            (struct gt_running_pod){.place = {own, 0xf}, .job = GT_NONE, .unit = GT_NONE, .movable = true};
        if (i + 1 < SUPERNODES)
            assert_int_equal(gt_node_set_add(&avoids, own, NULL), 0);
    }
    spare = world_node(cluster, "spare", class, GT_NONE);
    aside = world_node(cluster, "aside", class, GT_NONE);
    assert_int_equal(gt_node_set_add(&avoids, spare, NULL), 0);
    assert_int_equal(gt_node_set_add(&avoids, aside, NULL), 0);
    const struct gt_relocate_spec spec = {
        .job = {.runs = 1, .pods = 1, .gpus = GPUS}, .job_avoids = &avoids, .tier = 1};
    struct gt_promise_id others; /* stay, whoever has them */
    assert_int_equal(
        gt_cluster_promise(
            cluster,
            &(struct gt_promise){.kind = GT_PROMISE_RESERVED, .place = {aside, 1}, .owner = UINT64_MAX},
            &others, NULL),
        0);
    assert_int_equal(gt_relocate_within(cluster, pods, SUPERNODES, &spec, &found, NULL), 0);
    assert_non_null(gt_cluster_find_promise(cluster, others));
    assert_true(found.possible && found.exact);
    assert_int_equal(found.count, 1);
    assert_int_equal(pods[found.moves[0].pod].place.node, own);
    assert_int_equal(found.moves[0].node, spare);
    free(found.moves);
    gt_node_set_done(&avoids);
    gt_cluster_free(cluster);
}

/* Whether the planner places the job as the cluster is. */
static bool is_placed(const struct small *small, const struct gt_advise_job *job)
{
    struct gt_plan_unit units[2];
    struct gt_plan_pod pods[4] = {0};
    struct gt_plan_failure failure;
    for (uint32_t i = 0; i < GT_COUNT(pods); i++)
        pods[i].requests = job->requests;
    for (uint32_t u = 0; u < job->runs; u++)
        units[u] = (struct gt_plan_unit){.first = u * job->pods, .pods = job->pods, .gpus = job->gpus};
    return gt_plan_job(
        small->cluster,
        &(struct gt_plan_request){
            .units = units, .unit_count = job->runs, .pods = pods, .pod_count = job->runs * job->pods},
        &failure);
}

/* The moved pods run on their new GPUs, by the verdict of the kubelets, which got them one after the other.
 */
static void carry_out(const struct small *small, const struct gt_relocation *got)
{
    for (uint32_t i = 0; i < got->count; i++) {
        const struct gt_relocate_move *move = &got->moves[i];
        struct gt_cluster_node node;
        uint64_t from;
        gt_cluster_get_node(small->cluster, move->node, &node);
        assert_true(gt_numa_admits(gt_class_numa(node.class), move->mask, 0, bits(move->mask), &from));
        gt_cluster_set_free(small->cluster, move->node, node.free & ~move->mask);
    }
    for (uint32_t i = 0; i < got->count; i++) {
        const struct gt_running_pod *pod = &small->pods[got->moves[i].pod];
        struct gt_cluster_node node;
        gt_cluster_get_node(small->cluster, pod->place.node, &node);
        gt_cluster_set_free(small->cluster, pod->place.node, node.free | pod->place.mask);
    }
}

/* What is found where kubelets refuse pods holds, and what they would refuse is no way. */
static void knows_the_verdict_of_kubelets(void **state)
{
    (void)state;
    srand(13);
    unsigned moved = 0, whole = 0, rounds = test_rounds(1500);
    for (unsigned round = 0; round < rounds; round++) {
        struct small small;
        make(&small, (unsigned)rand() % 4, rand() % 3 == 0, rand() % 2 ? SINGLE : RESTRICTED);
        struct gt_advise_job job = {.runs = 1 + (unsigned)rand() % 2,
                                    .pods = 1 + (unsigned)rand() % 2,
                                    .gpus = 1 + (unsigned)rand() % 4};
        if (job.gpus > 1 && rand() % 2) /* two containers */
            job.requests = (job.gpus - job.gpus / 2) | (job.gpus / 2) << 8;
        struct gt_relocation got = {0};
        relocate(&small, &job, 0, &got);
        check_places(&small, &got);
        carry_out(&small, &got);
        if (got.possible != is_placed(&small, &job) && (got.possible || got.exact))
            fail_msg("round %u: possible %d by %u moves", round, got.possible, got.count);
        moved += got.count > 0;
        whole += got.count > 0 && job.gpus == GPUS && job.requests;
        free(got.moves);
        gt_cluster_free(small.cluster);
    }
    assert_true(moved > rounds / 20 && whole > rounds / 100);
}

/* Cut short anywhere, what is said is true. */
static void is_honest_when_cut_short(void **state)
{
    (void)state;
    srand(12);
    for (unsigned round = 0; round < test_rounds(500); round++) {
        struct small small;
        make(&small, (unsigned)rand() % 4, false, NO_VERDICT);
        const struct gt_advise_job job = {.runs = 1, .pods = 1 + (unsigned)rand() % 2, .gpus = 4};
        struct gt_relocation whole = {0}, cut = {0};
        relocate(&small, &job, 0, &whole);
        relocate(&small, &job, 1 + (unsigned)rand() % 200, &cut);
        assert_true(!cut.exact || (cut.possible == whole.possible && cut.cost == whole.cost));
        assert_true(!cut.possible || (whole.possible && cut.cost >= whole.cost));
        check_places(&small, &cut);
        free(whole.moves);
        free(cut.moves);
        gt_cluster_free(small.cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_all_ways),
        cmocka_unit_test(agrees_with_all_ways_into_one_supernode_of_a_tier),
        cmocka_unit_test(agrees_with_all_ways_with_units_in_a_tier),
        cmocka_unit_test(keeps_off_nodes_where_pods_may_not_go),
        cmocka_unit_test(looks_only_where_the_job_may_go),
        cmocka_unit_test(knows_the_verdict_of_kubelets),
        cmocka_unit_test(is_honest_when_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
