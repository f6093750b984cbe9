/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/core/core_oracle.h"
#include "tests/unit/core/core_world.h"

/* Units that may be split, against search: fewest units split, then for one unit the lowest tier and the
 * fewest supernodes. */

enum { GPUS = 8, POD = 2, A_NODE = GPUS / POD, NODES = 4 };

/* A random forest: supernodes of tier 1 and nodes that stand for themselves, below domains of tiers 2 to 5.
 */
struct forest {
    struct gt_cluster *cluster;
    struct oracle_tree tree;
    uint32_t id[ORACLE_SUPERS * 3];       /* of the core */
    uint32_t first[ORACLE_SUPERS];        /* first node of a supernode */
    unsigned nodes[ORACLE_SUPERS];        /* nodes in it */
    unsigned places[ORACLE_SUPERS], atom; /* atoms that it holds */
};

static void make_domains(struct forest *forest, uint64_t *random)
{
    struct oracle_tree *tree = &forest->tree;
    unsigned domains = (unsigned)(random_next(random) % 6);
    char name[16];

    tree->domains = tree->supers + domains;
    for (unsigned d = tree->domains; d-- > tree->supers;) { /* parents first */
        unsigned above = d + 1 + (unsigned)(random_next(random) % (tree->domains - d));

        tree->tier[d] = 2 + (d - tree->supers) / 2;
        while (above < tree->domains && tree->tier[above] <= tree->tier[d])
            above++;
        tree->parent[d] = above < tree->domains ? (int)above : -1;
        snprintf(name, sizeof(name), "d%u", d);
        forest->id[d] = world_super(forest->cluster, name, tree->tier[d],
                                    tree->parent[d] < 0 ? GT_NONE : forest->id[tree->parent[d]]);
    }
}

static void make_supers(struct forest *forest, uint32_t class, uint64_t *random)
{
    struct oracle_tree *tree = &forest->tree;
    char name[16];

    for (unsigned s = 0; s < tree->supers; s++) {
        unsigned above = tree->supers + (unsigned)(random_next(random) % (tree->domains - tree->supers + 1));
        uint32_t parent = above < tree->domains ? forest->id[above] : GT_NONE;
        bool alone = random_next(random) % 4 == 0;

        tree->tier[s] = 1;
        tree->parent[s] = above < tree->domains ? (int)above : -1;
        forest->nodes[s] = alone ? 1 : NODES;
        forest->first[s] = gt_cluster_nodes(forest->cluster);
        snprintf(name, sizeof(name), "s%u", s);
        if (!alone)
            forest->id[s] = parent = world_super(forest->cluster, name, 1, parent);
        world_nodes(forest->cluster, name, forest->nodes[s], class, parent);
    }
}

static void make(struct forest *forest, unsigned supers, uint64_t *random)
{
    memset(forest, 0, sizeof(*forest));
    forest->cluster = world_new();
    forest->tree.supers = supers;
    forest->atom = 1 + (unsigned)(random_next(random) % 3);
    make_domains(forest, random);
    make_supers(forest, world_class(forest->cluster, GPUS, 4), random);
    for (unsigned s = 0; s < supers; s++) {
        unsigned pods = 0;

        for (unsigned n = 0; n < forest->nodes[s]; n++) {
            unsigned bits = (unsigned)(random_next(random) % (GPUS + 1));

            gt_cluster_set_free(forest->cluster, forest->first[s] + n, world_mask(bits, GPUS, random));
            pods += bits / POD;
        }
        forest->places[s] = pods / forest->atom;
    }
}

static unsigned tier_of(const struct gt_plan_unit *unit)
{
    return unit->tier == GT_TIERS_MAX + 1 ? 99 : unit->tier;
}

/* Lets atoms of the unit run in a supernode: pods `first` to `first` + atom. */
static void run_atom(const struct forest *forest, struct world_job *job, unsigned first, unsigned super)
{
    for (unsigned i = first; i < first + forest->atom; i++) {
        job->pods[i].running = true;
        job->pods[i].place.node = forest->first[super] + i % forest->nodes[super];
    }
}

static void one_unit(bool partial)
{
    uint64_t random = test_seed();
    unsigned split = 0, none = 0;

    for (unsigned round = 0; round < test_rounds(20000); round++) {
        struct forest forest;
        struct world_job job;
        unsigned tier = 0, supers = 0, fewest = 0, used = 0, rest = 0;

        make(&forest, 1 + (unsigned)(random_next(&random) % 6), &random);
        unsigned atoms = 2 + (unsigned)(random_next(&random) % 9);
        world_job(&job, 1, atoms * forest.atom, POD, forest.atom);
        for (unsigned a = 0; a < atoms; a++) {
            unsigned super = (unsigned)(random_next(&random) % forest.tree.supers);

            if (partial && random_next(&random) % 3 == 0) {
                run_atom(&forest, &job, a * forest.atom, super);
                used |= 1u << super;
            } else
                rest++;
        }
        bool fits = oracle_spread(&forest.tree, forest.places, rest, used, &tier, &supers, &fewest);
        assert_int_equal(world_plan(forest.cluster, &job), fits);
        world_check(forest.cluster);
        if (fits) {
            assert_int_equal(tier_of(&job.units[0]), tier);
            assert_int_equal(job.units[0].supernodes, supers);
            if (supers > 1 && rest)
                assert_int_equal(job.units[0].fewest, fewest);
        } else {
            unsigned held = 0;

            for (unsigned s = 0; s < forest.tree.supers; s++)
                held += forest.places[s];
            assert_int_equal(job.failure.wanted, rest);
            assert_int_equal(job.failure.fitting, held);
            assert_int_equal(job.failure.size, forest.atom * POD);
        }
        split += fits && supers > 1;
        none += !fits;
        gt_cluster_free(forest.cluster);
    }
    printf("%u split, %u found no room\n", split, none);
    assert_true(split > 20 && none > 20);
}

static void one_fresh_unit(void **state)
{
    (void)state;
    one_unit(false);
}

static void one_unit_that_partly_runs(void **state)
{
    (void)state;
    one_unit(true);
}

static void fewest_units_are_split(void **state)
{
    uint64_t random = test_seed();
    unsigned with_split = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(20000); round++) {
        struct forest forest;
        struct world_job job;
        struct oracle_unit units[4];
        unsigned count = 1 + (unsigned)(random_next(&random) % 4), split = 0;

        make(&forest, 1 + (unsigned)(random_next(&random) % 4), &random);
        unsigned atoms = 2 + (unsigned)(random_next(&random) % 3);
        world_job(&job, count, atoms * forest.atom, POD, forest.atom);
        for (unsigned u = 0; u < count; u++) {
            units[u] = (struct oracle_unit){.rest = 0, .at = -1};
            for (unsigned a = 0; a < atoms; a++) {
                int super = (int)(random_next(&random) % forest.tree.supers);

                if (random_next(&random) % 5) {
                    units[u].rest++;
                    continue;
                }
                run_atom(&forest, &job, (u * atoms + a) * forest.atom, (unsigned)super);
                units[u].at = units[u].at == -1 || units[u].at == super ? super : -2;
            }
        }
        int whole = oracle_most_whole(forest.places, forest.tree.supers, units, count);
        assert_int_equal(world_plan(forest.cluster, &job), whole >= 0);
        for (unsigned u = 0; u < count && whole >= 0; u++)
            split += job.units[u].supernodes > 1;
        if (whole >= 0)
            assert_int_equal(split, count - (unsigned)whole);
        with_split += split > 0;
        gt_cluster_free(forest.cluster);
    }
    printf("%u jobs with a split unit\n", with_split);
    assert_true(with_split > 20);
}

/* A small forest by hand: zones of tier 2 with supernodes of some free nodes. */
static uint32_t zone(struct gt_cluster *cluster, const char *name, const unsigned *free, unsigned supers,
                     uint32_t class)
{
    uint32_t id = world_super(cluster, name, 2, GT_NONE);
    char text[32];

    for (unsigned s = 0; s < supers; s++) {
        snprintf(text, sizeof(text), "%s-%u", name, s);
        world_nodes(cluster, text, free[s], class, world_super(cluster, text, 1, id));
    }
    return id;
}

static void prefers_the_lower_tier_to_fewer_supernodes(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4);
    struct world_job job;
    (void)state;

    zone(cluster, "a", (const unsigned[]){3, 1}, 2, class);
    zone(cluster, "b", (const unsigned[]){3}, 1, class);
    uint32_t c = zone(cluster, "c", (const unsigned[]){1, 1, 1, 2, 1}, 5, class);
    world_job(&job, 1, 6, GPUS, 1); /* 3 + 3 would do over two zones */
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[0].supernode, c);
    assert_int_equal(job.units[0].tier, 2);
    assert_int_equal(job.units[0].supernodes, 5);
    assert_int_equal(job.units[0].fewest, 2);
    world_job(&job, 1, 7, GPUS, 1);
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[0].supernode, GT_NONE);
    assert_int_equal(job.units[0].supernodes, 3); /* 3, 3, and one more */
    gt_cluster_free(cluster);
}

static void prefers_the_fuller_of_equal_zones(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4), top = world_super(cluster, "top", 4, GT_NONE);
    struct world_job job;
    (void)state;

    zone(cluster, "a", (const unsigned[]){2, 2, 2}, 3, class);
    uint32_t b = zone(cluster, "b", (const unsigned[]){2, 2, 1}, 3, class);
    zone(cluster, "c", (const unsigned[]){2, 2, 2}, 3, class);
    world_nodes(cluster, "top", 5, class, top); /* of a higher tier, added before and after */
    world_nodes(cluster, "more", 5, class, world_super(cluster, "more", 5, GT_NONE));
    world_job(&job, 1, 4, GPUS, 1);
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[0].supernode, b);
    assert_int_equal(job.units[0].supernodes, 2);
    gt_cluster_free(cluster);
}

/* Numbers of atoms that take more than one digit to sort. */
static void large_units(void **state)
{
    enum { PODS = 1344 };
    static const unsigned nodes[] = {4, 11, 10, 4};
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 64, 8);
    static struct gt_plan_pod pods[PODS];
    struct gt_plan_unit unit = {.pods = PODS, .gpus = 1, .atom = 1};
    struct gt_plan_failure failure;
    char name[16];
    (void)state;

    for (unsigned s = 0; s < 4; s++) {
        snprintf(name, sizeof(name), "s%u", s);
        world_nodes(cluster, name, nodes[s], class, world_super(cluster, name, 1, GT_NONE));
    }
    assert_true(gt_plan_job(
        cluster, &(struct gt_plan_request){.units = &unit, .unit_count = 1, .pods = pods, .pod_count = PODS},
        &failure));
    assert_int_equal(unit.supernodes, 2); /* 704 and 640 */
    assert_int_equal(unit.fewest, 2);
    world_check(cluster);
    gt_cluster_free(cluster);
}

/* Of a unit that partly runs, the rest stays near: its own supernode, then its zone, though another zone has
 * a supernode for all of it. */
static void rest_stays_near(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4);
    struct world_job job;
    (void)state;

    uint32_t a = zone(cluster, "a", (const unsigned[]){2, 1, 1}, 3, class); /* nodes 0-1, 2, 3 */
    zone(cluster, "b", (const unsigned[]){6}, 1, class);
    gt_cluster_set_free(cluster, 0, 0);
    world_job(&job, 1, 4, GPUS, 1);
    job.pods[1].running = true;
    job.pods[1].place.node = 0;
    assert_true(world_plan(cluster, &job));
    assert_int_equal(job.units[0].supernode, a);
    assert_int_equal(job.units[0].supernodes, 3);
    assert_int_equal(job.pods[0].place.node, 1); /* beside the one that runs */
    assert_int_equal(job.pods[2].place.node, 2);
    assert_int_equal(job.pods[3].place.node, 3);
    gt_cluster_free(cluster);
}

/* A leaf below a spine. Returns how many units of so many supernodes it holds. */
static unsigned leaf_of_spine(struct gt_cluster *cluster, unsigned number, uint32_t spine, unsigned atoms,
                              uint32_t class, uint64_t *random)
{
    enum { EACH = 8 };
    char name[16];
    unsigned free = (unsigned)(random_next(random) % (EACH + 1));

    snprintf(name, sizeof(name), "l%u", number);
    uint32_t leaf = world_super(cluster, name, 2, spine);
    for (unsigned s = 0; s < EACH; s++) {
        snprintf(name, sizeof(name), "l%u-s%u", number, s);
        uint32_t node = world_node(cluster, name, class, world_super(cluster, name, 1, leaf));
        if (s >= free)
            gt_cluster_set_free(cluster, node, 0);
    }
    return free / atoms;
}

/* Several units that are split and that leaves hold whole: as few leaves as possible, in one spine if one
 * holds them. And no job comes back to a domain that it has left, also where leaves hold parts of units. */
static void split_units_lie_together(void **state)
{
    enum { SPINES = 3, LEAVES = 4 };
    uint64_t random = test_seed();
    unsigned several = 0, parts = 0, returns = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(2000); round++) {
        struct gt_cluster *cluster = world_new();
        struct world_job job;
        unsigned hold[SPINES * LEAVES], all = 0, needed = UINT_MAX;
        unsigned units = 2 + (unsigned)(random_next(&random) % 5),
                 atoms = 2 + (unsigned)(random_next(&random) % 3);
        unsigned spines = (unsigned)(random_next(&random) % (SPINES + 1));
        uint32_t class = world_class(cluster, GPUS, 4),
                 spine[SPINES + 1] = {GT_NONE, GT_NONE, GT_NONE, GT_NONE};

        for (unsigned s = 0; s < spines; s++)
            spine[s] = world_super(cluster, (const char *[]){"x", "y", "z"}[s], 3, GT_NONE);
        for (unsigned l = 0; l < SPINES * LEAVES; l++) {
            hold[l] = leaf_of_spine(cluster, l, spine[l / LEAVES], atoms, class, &random);
            all += hold[l];
        }
        world_job(&job, units, atoms, GPUS, 1);
        for (unsigned u = 0; u < units; u++)
            job.units[u].within = round % 2 ? 2 : 0; /* each in one leaf */
        if (world_plan(cluster, &job))
            parts += all < units;
        assert_true(round % 2 == 0 || job.placed == (all >= units));
        if (job.placed) {
            unsigned ignored = 0, leaves = world_domains(cluster, &job, 2, &returns);
            for (unsigned s = 0; s < spines; s++) {
                unsigned inside = world_fewest(hold + s * LEAVES, LEAVES, units);
                needed = inside < needed ? inside : needed;
            }
            if (needed != UINT_MAX && spines == SPINES)
                assert_int_equal(world_domains(cluster, &job, 3, &ignored), 1);
            if (spines == 0)
                needed = world_fewest(hold, SPINES * LEAVES, units);
            if (needed != UINT_MAX && (spines == 0 || spines == SPINES)) {
                assert_int_equal(leaves, needed);
                several += needed > 1;
            }
        }
        gt_cluster_free(cluster);
    }
    printf("%u in several leaves, %u in parts, %u returns\n", several, parts, returns);
    assert_int_equal(returns, 0);
    assert_true(several > 5);
}

/* A unit that is made again comes to the leaf of the others, though another one is fuller. */
static void made_again_near_the_others(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4);
    struct world_job job;
    (void)state;

    world_leaf(cluster, "a", 5, 1, class); /* nodes 0 to 5 */
    world_leaf(cluster, "b", 2, 4, class);
    world_job(&job, 2, 2, GPUS, 1);
    for (unsigned p = 0; p < 2; p++) {
        job.pods[p].running = true;
        job.pods[p].place.node = p;
        gt_cluster_set_free(cluster, p, 0);
    }
    assert_true(world_plan(cluster, &job));
    for (unsigned p = 2; p < 4; p++)
        assert_in_range(job.pods[p].place.node, 2, 4);
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_fresh_unit),
        cmocka_unit_test(one_unit_that_partly_runs),
        cmocka_unit_test(fewest_units_are_split),
        cmocka_unit_test(prefers_the_lower_tier_to_fewer_supernodes),
        cmocka_unit_test(prefers_the_fuller_of_equal_zones),
        cmocka_unit_test(large_units),
        cmocka_unit_test(rest_stays_near),
        cmocka_unit_test(split_units_lie_together),
        cmocka_unit_test(made_again_near_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
