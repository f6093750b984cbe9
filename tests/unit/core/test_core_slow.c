/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/plan_rules.h"
#include "scheduler-ext/core/score.h"
#include "tests/unit/core/core_world.h"

/* Slow GPUs: what plans keep off them, against all ways to place a unit. */

enum { GPUS = 4, SUPERS = 4, NODES = 5 };

static unsigned draw(uint64_t *random, unsigned below)
{
    return (unsigned)(random_next(random) % below);
}

static void set_rule(struct gt_cluster *cluster)
{
    const struct gt_chain_sizes chain = {4, {GPUS, 2 * GPUS, 4 * GPUS, 8 * GPUS}};
    gt_cluster_set_rule(cluster, GT_RULE_STATIC);
    assert_int_equal(gt_chain_set(cluster, &chain, NULL), 0);
}

/* Supernodes of some nodes, of which some are full or partly used and some have slow GPUs. */
static struct gt_cluster *make_site(unsigned supers, bool whole, uint64_t *random)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 2);
    set_rule(cluster);
    for (unsigned s = 0; s < supers; s++) {
        char name[16];
        snprintf(name, sizeof(name), "s%u", s);
        uint32_t id = world_super(cluster, name, 1, GT_NONE), first = gt_cluster_nodes(cluster);
        unsigned nodes = 1 + draw(random, NODES);
        world_nodes(cluster, name, nodes, class, id);
        for (unsigned n = first; n < first + nodes; n++) {
            if (draw(random, 3) == 0)
                gt_cluster_set_free(cluster, n, whole ? 0 : world_mask(draw(random, GPUS), GPUS, random));
            if (draw(random, 2))
                gt_cluster_set_slow(cluster, n, world_mask(1 + draw(random, GPUS), GPUS, random));
        }
    }
    return cluster;
}

static bool plan_as(struct gt_cluster *cluster, struct world_job *job, enum gt_slow_use slow)
{
    struct gt_plan_request request = world_request(job);
    request.slow = slow;
    job->placed = gt_plan_job(cluster, &request, &job->failure);
    return job->placed;
}

static unsigned slow_of(const struct gt_cluster *cluster, const struct world_job *job)
{
    unsigned slow = 0;
    uint64_t given[64] = {0};
    for (uint32_t i = 0; i < job->pod_count; i++) {
        struct gt_cluster_node node;
        assert_true(gt_cluster_get_node(cluster, job->pods[i].place.node, &node));
        assert_int_equal(job->pods[i].place.mask & ~node.available, 0);
        assert_int_equal(job->pods[i].place.mask & given[job->pods[i].place.node], 0);
        assert_int_equal(gt_bit_count(job->pods[i].place.mask), job->units[0].gpus);
        given[job->pods[i].place.node] |= job->pods[i].place.mask;
        slow += gt_bit_count(job->pods[i].place.mask & node.slow);
    }
    return slow;
}

/* ---- all ways ---- */

/* How many free GPUs each node has, and how many of them are not slow. */
struct counts {
    unsigned nodes, left[SUPERS * NODES], good[SUPERS * NODES], supers;
    uint32_t super[SUPERS * NODES];
};

static struct counts counts_of(const struct gt_cluster *cluster)
{
    struct counts counts = {.nodes = gt_cluster_nodes(cluster), .supers = gt_cluster_supernodes(cluster)};
    for (unsigned n = 0; n < counts.nodes; n++) {
        struct gt_cluster_node node;
        assert_true(gt_cluster_get_node(cluster, n, &node));
        counts.left[n] = gt_bit_count(node.available);
        counts.good[n] = gt_bit_count(node.available & ~node.slow);
        counts.super[n] = node.supernode;
    }
    return counts;
}

/* Places of each size of the chain in idle nodes. */
static void places_of(const struct counts *counts, unsigned ret[static 4])
{
    for (unsigned i = 0; i < 4; i++) {
        unsigned size = GPUS << i, idle[2 * SUPERS * NODES] = {0};
        ret[i] = 0;
        for (unsigned n = 0; n < counts->nodes; n++)
            idle[counts->super[n]] += counts->left[n] == GPUS ? GPUS : 0;
        for (unsigned s = 0; s < counts->supers; s++)
            ret[i] += idle[s] / size;
    }
}

static bool has_places(const struct counts *counts, const unsigned *at_least)
{
    unsigned places[4];
    bool has = true;
    places_of(counts, places);
    for (unsigned i = 0; i < 4; i++)
        has = has && places[i] >= at_least[i];
    return has;
}

static void take(struct counts *counts, const struct world_job *job)
{
    for (uint32_t i = 0; i < job->pod_count; i++)
        counts->left[job->pods[i].place.node] -= job->units[0].gpus;
}

/* The least number of slow GPUs of all ways to place `pods` more pods of whole nodes in a supernode, from
 * node `from` on, that leave so many places. */
static unsigned least_whole(struct counts *counts, uint32_t super, unsigned from, unsigned pods,
                            const unsigned *places)
{
    unsigned least = UINT32_MAX;
    if (!pods)
        return has_places(counts, places) ? 0 : UINT32_MAX;
    for (unsigned n = from; n < counts->nodes; n++) {
        if (counts->super[n] != super || counts->left[n] != GPUS)
            continue;
        counts->left[n] = 0;
        unsigned rest = least_whole(counts, super, n + 1, pods - 1, places);
        counts->left[n] = GPUS;
        if (rest != UINT32_MAX && rest + GPUS - counts->good[n] < least)
            least = rest + GPUS - counts->good[n];
    }
    return least;
}

/* Idle nodes, and nodes in all: supernodes with equally many are alike here. */
static unsigned idle_of(const struct counts *counts, uint32_t super)
{
    unsigned idle = 0;
    for (unsigned n = 0; n < counts->nodes; n++)
        if (counts->super[n] == super)
            idle += counts->left[n] == GPUS ? 1 + 100 : 1;
    return idle;
}

static void whole_nodes_are_chosen_exactly(void **state)
{
    uint64_t random = test_seed();
    unsigned found = 0, avoided = 0;
    (void)state;
    for (unsigned round = 0; round < test_rounds(3000); round++) {
        unsigned places[4], supers = 1 + draw(&random, SUPERS), pods = 1 << draw(&random, 3);
        struct gt_cluster *cluster = make_site(supers, true, &random);
        struct world_job job;
        world_job(&job, 1, pods, GPUS, 0);
        if (plan_as(cluster, &job, GT_SLOW_ANY)) {
            struct counts before = counts_of(cluster), after = before;
            struct gt_cluster_node node;
            unsigned any = slow_of(cluster, &job), anywhere = UINT32_MAX;
            assert_true(gt_cluster_get_node(cluster, job.pods[0].place.node, &node));
            take(&after, &job);
            places_of(&after, places);
            unsigned there = least_whole(&before, node.supernode, 0, pods, places);
            unsigned own = idle_of(&before, node.supernode);
            for (unsigned s = 0; s < before.supers; s++) {
                unsigned least = least_whole(&before, s, 0, pods, places);
                if (least < there && idle_of(&before, s) == own)
                    there = least;
                anywhere = least < anywhere ? least : anywhere;
            }
            assert_true(plan_as(cluster, &job, GT_SLOW_AVOID));
            assert_int_equal(slow_of(cluster, &job), anywhere ? there : 0);
            after = before;
            take(&after, &job);
            assert_true(has_places(&after, places));
            avoided += any > slow_of(cluster, &job);
            found++;
            world_bind(cluster, &job, 1);
        }
        gt_cluster_free(cluster);
    }
    assert_true(avoided > found / 10);
}

static int by_number(const void *a, const void *b)
{
    const unsigned *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* What is left on the nodes, by how many GPUs were free there. */
static void kinds_of(const struct counts *start, const struct counts *counts, unsigned *ret)
{
    for (unsigned n = 0; n < counts->nodes; n++)
        ret[n] = start->left[n] * 100 + counts->left[n];
    qsort(ret, counts->nodes, sizeof(*ret), by_number);
}

/* The least number of slow GPUs of all ways to place the pods so that nodes that are equally full keep these
 * numbers of free GPUs. */
static unsigned least_alike(struct counts *counts, const struct counts *start, unsigned from, unsigned pods,
                            unsigned gpus, const unsigned *wanted)
{
    unsigned least = UINT32_MAX;
    if (from == counts->nodes) {
        unsigned left[SUPERS * NODES];
        kinds_of(start, counts, left);
        return pods || memcmp(left, wanted, counts->nodes * sizeof(*left)) != 0 ? UINT32_MAX : 0;
    }
    for (unsigned here = 0; here <= pods && here * gpus <= start->left[from]; here++) {
        counts->left[from] = start->left[from] - here * gpus;
        unsigned rest = least_alike(counts, start, from + 1, pods - here, gpus, wanted);
        unsigned slow = here * gpus > start->good[from] ? here * gpus - start->good[from] : 0;
        if (rest != UINT32_MAX && rest + slow < least)
            least = rest + slow;
    }
    counts->left[from] = start->left[from];
    return least;
}

static void parts_of_nodes_are_chosen_exactly(void **state)
{
    uint64_t random = test_seed();
    unsigned none = 0, some = 0;
    (void)state;
    for (unsigned round = 0; round < test_rounds(2000); round++) {
        struct gt_cluster *cluster = make_site(1, false, &random);
        struct world_job job;
        world_job(&job, 1, 1 + draw(&random, 6), 1 + draw(&random, 3), 0);
        gt_cluster_set_rule(cluster, draw(&random, 2) ? GT_RULE_CHURN : GT_RULE_STATIC);
        if (plan_as(cluster, &job, GT_SLOW_ANY)) {
            struct counts before = counts_of(cluster), after = before;
            take(&after, &job);
            struct counts scratch = before;
            unsigned wanted[SUPERS * NODES];
            kinds_of(&before, &after, wanted);
            unsigned least = least_alike(&scratch, &before, 0, job.pod_count, job.units[0].gpus, wanted);
            assert_true(plan_as(cluster, &job, GT_SLOW_AVOID));
            unsigned slow = slow_of(cluster, &job);
            assert_true(slow == least || slow == 0);
            none += slow == 0;
            some += slow > 0;
        }
        gt_cluster_free(cluster);
    }
    assert_true(none && some);
}

/* The least number of slow GPUs of all ways to put what the job takes of each supernode into as many others.
 * All nodes are idle, or taken whole. */
static unsigned least_permuted(const unsigned *taken, unsigned supers, unsigned nodes, const unsigned *slow,
                               unsigned from, unsigned used)
{
    unsigned least = UINT32_MAX;
    if (from == supers)
        return 0;
    for (unsigned s = 0; s < supers; s++) {
        if (used >> s & 1)
            continue;
        unsigned rest = least_permuted(taken, supers, nodes, slow, from + 1, used | 1u << s);
        for (unsigned n = 0; n < taken[from]; n++)
            rest += slow[s * nodes + n];
        least = rest < least ? rest : least;
    }
    return least;
}

/* Supernodes that are alike: those with the fewest slow GPUs are taken, also by several units, and where none
 * is without. Exact where the job takes as much of each; else pairs are exchanged, which hardly ever misses
 * it. */
static void alike_supernodes_are_chosen_exactly(void **state)
{
    uint64_t random = test_seed();
    unsigned some = 0, avoided = 0, exact = 0, rounds = test_rounds(3000);
    (void)state;
    for (unsigned round = 0; round < rounds; round++) {
        gt_auto_cluster struct gt_cluster *cluster = world_new();
        uint32_t class = world_class(cluster, GPUS, 2);
        unsigned slow[SUPERS * NODES], taken[SUPERS] = {0}, nodes = 1 + draw(&random, 4);
        unsigned pods = 1 + draw(&random, nodes), units = 1 + draw(&random, SUPERS * (nodes / pods));
        bool below = draw(&random, 2);
        uint32_t leaf = below ? world_super(cluster, "leaf", 2, GT_NONE) : GT_NONE;
        struct world_job job;
        set_rule(cluster);
        for (unsigned s = 0; s < SUPERS; s++) {
            char name[16];
            snprintf(name, sizeof(name), "s%u", s);
            uint32_t id = world_super(cluster, name, 1, leaf), first = gt_cluster_nodes(cluster);
            world_nodes(cluster, name, nodes, class, id);
            for (unsigned n = 0; n < nodes; n++) {
                slow[s * nodes + n] = draw(&random, GPUS + 1);
                gt_cluster_set_slow(cluster, first + n, world_mask(slow[s * nodes + n], GPUS, &random));
            }
            qsort(slow + s * nodes, nodes, sizeof(*slow), by_number);
        }
        world_job(&job, units, pods, GPUS, 0);
        assert_true(plan_as(cluster, &job, GT_SLOW_ANY));
        unsigned any = slow_of(cluster, &job);
        for (uint32_t i = 0; i < job.pod_count; i++)
            taken[job.pods[i].place.node / nodes]++;
        bool unequal = false;
        for (unsigned s = 0; s < SUPERS; s++)
            unequal |= taken[s] && taken[s] != taken[job.pods[0].place.node / nodes];
        assert_true(plan_as(cluster, &job, GT_SLOW_AVOID));
        unsigned least = least_permuted(taken, SUPERS, nodes, slow, 0, 0), given = slow_of(cluster, &job);
        if (given && !unequal)
            assert_int_equal(given, least);
        exact += given <= least;
        assert_true(given <= any);
        for (unsigned u = 0; u < units; u++) {
            assert_int_equal(job.units[u].supernodes, 1);
            assert_int_not_equal(job.units[u].next.supernode, job.units[u].supernode);
        }
        some += given > 0;
        avoided += any > given;
    }
    assert_true(some && avoided > rounds / 10);
    assert_true(exact >= rounds - rounds / 100);
}

/* The supernode of another leaf is as large, and the job would lie in two leaves. */
static void a_job_stays_close_for_it(void **state)
{
    gt_auto_cluster struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 2);
    struct world_job job;
    (void)state;
    set_rule(cluster);
    world_leaf(cluster, "a", 2, 0, class);
    world_leaf(cluster, "b", 3, 0, class);
    for (unsigned n = 0; n < 5; n++)
        gt_cluster_set_slow(cluster, n, n == 4 ? 0 : 1);
    world_job(&job, 2, 1, GPUS, 0);
    assert_true(plan_as(cluster, &job, GT_SLOW_AVOID));
    assert_int_equal(job.pods[0].place.node / 2, 0);
    assert_int_equal(job.pods[1].place.node / 2, 0);
    assert_int_equal(slow_of(cluster, &job), 2);
}

/* Random leaves below two spines, some nodes slow and some full: the job is in no more domains of any tier.
 */
static void many_jobs_stay_close_for_it(void **state)
{
    uint64_t random = test_seed();
    unsigned avoided = 0;
    (void)state;
    for (unsigned round = 0; round < test_rounds(300); round++) {
        gt_auto_cluster struct gt_cluster *cluster = world_new();
        uint32_t class = world_class(cluster, GPUS, 2), spine[2];
        struct world_job any, avoid;
        char name[16];
        set_rule(cluster);
        for (unsigned s = 0; s < 2; s++)
            spine[s] = world_super(cluster, s ? "y" : "x", 3, GT_NONE);
        for (unsigned l = 0; l < 6; l++) {
            snprintf(name, sizeof(name), "l%u", l);
            uint32_t leaf = world_super(cluster, name, 2, spine[l / 3]);
            for (unsigned s = 0; s < 4; s++) {
                snprintf(name, sizeof(name), "l%u-s%u", l, s);
                uint32_t first = gt_cluster_nodes(cluster), super = world_super(cluster, name, 1, leaf);
                bool full = draw(&random, 2);
                world_nodes(cluster, name, 2, class, super);
                for (unsigned n = first; n < first + 2; n++) {
                    if (full)
                        gt_cluster_set_free(cluster, n, 0);
                    gt_cluster_set_slow(cluster, n, draw(&random, 4) ? 0 : 1);
                }
            }
        }
        unsigned units = 1 + draw(&random, 5), pods = 2 << draw(&random, 2), atom = draw(&random, 2) * 2;
        world_job(&any, units, pods, GPUS, atom);
        world_job(&avoid, units, pods, GPUS, atom);
        assert_int_equal(plan_as(cluster, &any, GT_SLOW_ANY), plan_as(cluster, &avoid, GT_SLOW_AVOID));
        for (unsigned tier = 2; tier <= 3 && any.placed; tier++)
            assert_true(world_domains(cluster, &avoid, tier, NULL) <=
                        world_domains(cluster, &any, tier, NULL));
        avoided += any.placed && slow_of(cluster, &avoid) < slow_of(cluster, &any);
    }
    assert_true(avoided > 5);
}

/* ---- what it costs ---- */

/* Jobs one after the other, none ends: as many are accepted as by a cluster that does not mind. */
static void nothing_is_refused_for_it(void **state)
{
    uint64_t random = test_seed();
    unsigned accepted = 0, slow[2] = {0};
    (void)state;
    for (unsigned round = 0; round < test_rounds(300); round++) {
        uint64_t seed = random_next(&random), other = seed;
        struct gt_cluster *clusters[] = {make_site(SUPERS, true, &seed), make_site(SUPERS, true, &other)};
        for (unsigned j = 0; j < 12; j++) {
            unsigned pods = 1 << draw(&random, 4);
            bool fits[2];
            for (unsigned i = 0; i < 2; i++) {
                struct world_job job;
                world_job(&job, 1, pods, GPUS, 0);
                fits[i] = plan_as(clusters[i], &job, i ? GT_SLOW_AVOID : GT_SLOW_ANY);
                slow[i] += fits[i] ? slow_of(clusters[i], &job) : 0;
                if (fits[i])
                    world_bind(clusters[i], &job, j);
            }
            assert_int_equal(fits[0], fits[1]);
            accepted += fits[0];
        }
        gt_cluster_free(clusters[0]);
        gt_cluster_free(clusters[1]);
    }
    print_message(
        "%u jobs accepted with avoid and with any, cost to acceptance 0; slow GPUs in them %u and %u\n",
        accepted, slow[1], slow[0]);
    assert_true(slow[1] <= slow[0]);
}

static void never_is_never(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 2), super = world_super(cluster, "s", 1, GT_NONE);
    struct world_job job;
    gt_auto_buf struct gt_buf text = GT_BUF(1000);
    (void)state;
    world_nodes(cluster, "n", 3, class, super);
    gt_cluster_set_slow(cluster, 0, 1);
    world_job(&job, 1, 2, GPUS, 0);
    assert_true(plan_as(cluster, &job, GT_SLOW_NEVER));
    assert_int_equal(slow_of(cluster, &job), 0);
    world_job(&job, 1, 3, GPUS, 0);
    assert_false(plan_as(cluster, &job, GT_SLOW_NEVER));
    assert_true(job.failure.keeps_off && !job.failure.could_fit);
    gt_plan_failure_text(cluster, &job.failure, &text);
    assert_non_null(
        strstr(text.data, "; it would fit with GPUs that are slow or suspect, which it never takes"));
    assert_true(plan_as(cluster, &job, GT_SLOW_AVOID));
    assert_int_equal(slow_of(cluster, &job), 1);
    world_job(&job, 1, 3, GPUS - 1, 0);
    assert_true(plan_as(cluster, &job, GT_SLOW_NEVER));
    assert_int_equal(slow_of(cluster, &job), 0);
    world_job(&job, 1, 4, GPUS, 0);
    assert_false(plan_as(cluster, &job, GT_SLOW_NEVER));
    assert_false(job.failure.keeps_off);
    gt_cluster_remove_node(cluster, 0);
    world_job(&job, 1, 2, GPUS, 0);
    assert_true(plan_as(cluster, &job, GT_SLOW_NEVER));
    gt_cluster_free(cluster);
}

/* A job that has to lie in one domain looks for one of the others, and says what it keeps off. */
static void within_a_domain(void **state)
{
    gt_auto_cluster struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 2);
    struct world_job job;
    (void)state;
    for (unsigned s = 0; s < 2; s++) {
        uint32_t super = world_super(cluster, s ? "b" : "a", 1, GT_NONE);
        world_nodes(cluster, s ? "b" : "a", 4, class, super);
        for (unsigned n = 0; n < 3; n++)
            gt_cluster_set_slow(cluster, 4 * s + n, 1);
    }
    world_job(&job, 1, 2, GPUS, 0);
    struct gt_plan_request request = world_request(&job);
    request.within = 1;
    request.slow = GT_SLOW_NEVER;
    assert_false(gt_plan_ruled(cluster, &request, &job.failure));
    assert_int_equal(job.failure.reason, GT_PLAN_NO_DOMAIN);
    assert_true(job.failure.keeps_off);
    world_job(&job, 1, 2, GPUS, 0);
    request = world_request(&job);
    request.within = 1;
    gt_cluster_set_slow(cluster, 6, 0);
    assert_true(gt_plan_ruled(cluster, &request, &job.failure));
    assert_int_equal(slow_of(cluster, &job), 0);
}

/* Units of several supernodes, and pods that run, keep their places. */
static void running_pods_stay(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 2), super = world_super(cluster, "s", 1, GT_NONE);
    struct world_job job;
    (void)state;
    world_nodes(cluster, "n", 4, class, super);
    gt_cluster_set_slow(cluster, 0, 3);
    gt_cluster_set_free(cluster, 0, 0);
    gt_cluster_set_slow(cluster, 1, 1);
    world_job(&job, 1, 3, GPUS, 0);
    job.pods[0] = (struct gt_plan_pod){.running = true, .place = {0, 15}};
    assert_true(plan_as(cluster, &job, GT_SLOW_AVOID));
    assert_int_equal(job.pods[0].place.node, 0);
    assert_true(job.pods[1].place.node > 1 && job.pods[2].place.node > 1);
    gt_cluster_free(cluster);
}

/* A single pod comes to the worst node before it gets a slow GPU on the best. */
static void single_pods_get_them_last(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 2), super = world_super(cluster, "s", 1, GT_NONE);
    double values[2];
    (void)state;
    world_nodes(cluster, "n", 2, class, super);
    gt_cluster_set_free(cluster, 0, 12); /* an exact fit, which comes first */
    gt_cluster_set_slow(cluster, 0, 4);
    assert_int_equal(gt_score_all(cluster, 2, values), 2);
    assert_true(values[0] > values[1]);
    assert_true(gt_score_slow(cluster, 0, UINT64_MAX, (struct gt_numa_pod){2, 0}, GT_SLOW_ANY, values[0]) >
                values[1]);
    assert_true(gt_score_slow(cluster, 0, UINT64_MAX, (struct gt_numa_pod){2, 0}, GT_SLOW_AVOID, values[0]) <
                values[1]);
    assert_true(
        isnan(gt_score_slow(cluster, 0, UINT64_MAX, (struct gt_numa_pod){2, 0}, GT_SLOW_NEVER, values[0])));
    assert_int_equal(gt_score_all(cluster, 1, values), 2);
    double one = gt_score_slow(cluster, 0, UINT64_MAX, (struct gt_numa_pod){1, 0}, GT_SLOW_NEVER, values[0]);
    assert_true(!isnan(one) && one > values[1]);
    gt_cluster_free(cluster);
}

/* The kubelet of such a node chooses the NUMA nodes, among all its free GPUs. */
static void numa_nodes_are_not_ours_to_choose(void **state)
{
    static const struct {
        unsigned pods, gpus;
        uint64_t free, slow, all; /* of all pods */
    } cases[] = {{1, 4, 0xff, 0x33, 0x0f}, {1, 2, 0xff, 0x03, 0x0c}, {1, 3, 0xff, 0x07, 0x0b},
                 {1, 2, 0xf3, 0x03, 0x03}, {2, 2, 0xff, 0x33, 0x0f}, {1, 8, 0xff, 0x33, 0xff}};
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_cluster struct gt_cluster *cluster = world_new();
        gt_auto_class struct gt_class *class = NULL;
        struct gt_weights weights;
        struct world_job job;
        uint64_t all = 0;
        uint32_t id;
        wire_meshes(&weights, 8, 4, 64, 8);
        weights.numa = (struct gt_numa){.count = 2, .by_pod = true, .gpus = {0x0f, 0xf0}};
        assert_return_code(gt_class_new(&weights, &class, NULL), 0);
        assert_return_code(gt_cluster_add_class(cluster, class, &id, NULL), 0);
        world_nodes(cluster, "n", 1, id, GT_NONE);
        gt_cluster_set_free(cluster, 0, cases[i].free);
        gt_cluster_set_slow(cluster, 0, cases[i].slow);
        world_job(&job, cases[i].pods, 1, cases[i].gpus, 0);
        assert_true(plan_as(cluster, &job, GT_SLOW_AVOID));
        for (unsigned p = 0; p < cases[i].pods; p++)
            all |= job.pods[p].place.mask;
        assert_int_equal(all, cases[i].all);
        assert_false(plan_as(cluster, &job, GT_SLOW_NEVER));
        assert_true(isnan(
            gt_score_slow(cluster, 0, UINT64_MAX, (struct gt_numa_pod){cases[i].gpus, 0}, GT_SLOW_NEVER, 1)));
        gt_cluster_set_free(cluster, 0, cases[i].free & ~cases[i].slow);
        assert_int_equal(plan_as(cluster, &job, GT_SLOW_NEVER), cases[i].gpus <= 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_nodes_are_chosen_exactly),
        cmocka_unit_test(parts_of_nodes_are_chosen_exactly),
        cmocka_unit_test(alike_supernodes_are_chosen_exactly),
        cmocka_unit_test(a_job_stays_close_for_it),
        cmocka_unit_test(many_jobs_stay_close_for_it),
        cmocka_unit_test(nothing_is_refused_for_it),
        cmocka_unit_test(never_is_never),
        cmocka_unit_test(within_a_domain),
        cmocka_unit_test(running_pods_stay),
        cmocka_unit_test(single_pods_get_them_last),
        cmocka_unit_test(numa_nodes_are_not_ours_to_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
