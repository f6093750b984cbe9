/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "tests/unit/core/core_world.h"

/* The job as a whole above tier 1, against all choices of equal supernodes. */

enum { GPUS = 8, SUPERS = 9, DOMAINS = 6, TIERS = 4 };

struct site {
    struct gt_cluster *tree, *flat; /* the same supernodes, with and without domains */
    unsigned supers;
    uint32_t id[SUPERS + DOMAINS]; /* of the tree */
    uint32_t flat_id[SUPERS];
    unsigned slots[SUPERS], whole[SUPERS];
};

static void make_site(struct site *site, enum gt_rule rule, uint64_t *random)
{
    unsigned domains = (unsigned)(random_next(random) % DOMAINS) + 1, tier[DOMAINS];
    uint32_t classes[2], id[DOMAINS];
    char name[16];

    memset(site, 0, sizeof(*site));
    site->tree = world_new();
    site->flat = world_new();
    gt_cluster_set_rule(site->tree, rule);
    gt_cluster_set_rule(site->flat, rule);
    classes[0] = world_class(site->tree, GPUS, 4);
    classes[1] = world_class(site->flat, GPUS, 4);
    for (unsigned d = 0; d < domains; d++) { /* parents first */
        unsigned above = (unsigned)(random_next(random) % (d + 1));

        tier[d] = TIERS - d * (TIERS - 1) / domains;
        snprintf(name, sizeof(name), "d%u", d);
        id[d] =
            world_super(site->tree, name, tier[d], above < d && tier[above] > tier[d] ? id[above] : GT_NONE);
    }
    site->supers = 2 + (unsigned)(random_next(random) % (SUPERS - 1));
    for (unsigned s = 0; s < site->supers; s++) {
        unsigned above = (unsigned)(random_next(random) % (domains + 1));
        unsigned nodes = random_next(random) % 2 ? 2 : 1 + (unsigned)(random_next(random) % 3);

        snprintf(name, sizeof(name), "s%u", s);
        site->id[s] = world_super(site->tree, name, 1, above < domains ? id[above] : GT_NONE);
        site->flat_id[s] = world_super(site->flat, name, 1, GT_NONE);
        uint32_t first = gt_cluster_nodes(site->tree);
        world_nodes(site->tree, name, nodes, classes[0], site->id[s]);
        world_nodes(site->flat, name, nodes, classes[1], site->flat_id[s]);
        site->whole[s] = site->slots[s] = nodes;
        for (unsigned n = 0; n < nodes; n++)
            if (random_next(random) % 4 == 0) {
                gt_cluster_set_free(site->tree, first + n, 0);
                gt_cluster_set_free(site->flat, first + n, 0);
                site->slots[s]--;
            }
    }
}

static void free_site(struct site *site)
{
    gt_cluster_free(site->tree);
    gt_cluster_free(site->flat);
}

static uint32_t super_of_pod(const struct gt_cluster *cluster, const struct gt_plan_pod *pod)
{
    struct gt_cluster_node node;

    assert_true(gt_cluster_get_node(cluster, pod->place.node, &node));
    return node.supernode;
}

/* The domain of tier `tier` that a supernode is in; where there is none, the highest one below. */
static uint32_t group_of(const struct gt_cluster *cluster, uint32_t super, unsigned tier)
{
    struct gt_cluster_supernode at;

    for (;;) {
        assert_true(gt_cluster_get_supernode(cluster, super, &at));
        struct gt_cluster_supernode above;
        if (at.parent == GT_NONE || !gt_cluster_get_supernode(cluster, at.parent, &above) ||
            above.tier > tier)
            return super;
        super = at.parent;
    }
}

/* Domains of each tier from the highest, then available GPUs in them. Of a job in one leaf instead of those:
 * which domains it is in, from the highest, and the available GPUs of the leaf. */
struct measure {
    uint64_t value[2 * TIERS];
};

static struct measure measure(const struct site *site, unsigned set)
{
    struct measure sum = {{0}};
    uint32_t leaf = GT_NONE;

    for (unsigned tier = 2; tier <= TIERS; tier++) {
        uint32_t seen[SUPERS] = {GT_NONE};
        unsigned count = 0;

        for (unsigned s = 0; s < site->supers; s++) {
            struct gt_cluster_supernode info;
            uint32_t group = set >> s & 1 ? group_of(site->tree, site->id[s], tier) : GT_NONE;
            unsigned i = 0;

            while (i < count && seen[i] != group)
                i++;
            if (group == GT_NONE || i < count)
                continue;
            seen[count++] = group;
            assert_true(gt_cluster_get_supernode(site->tree, group, &info));
            sum.value[TIERS - tier]++;
            sum.value[TIERS + TIERS - tier] += info.available;
        }
        leaf = tier == 2 ? seen[0] : leaf;
        if (tier > 2 && sum.value[TIERS - 2] == 1)
            sum.value[TIERS + TIERS - tier] = seen[0] == leaf ? GT_NONE : seen[0];
    }
    return sum;
}

static int compare(const struct measure *a, const struct measure *b)
{
    for (unsigned i = 0; i < 2 * TIERS; i++)
        if (a->value[i] != b->value[i])
            return a->value[i] < b->value[i] ? -1 : 1;
    return 0;
}

/* The units in each supernode. */
static unsigned loads_of(const struct gt_cluster *cluster, const struct world_job *job, const uint32_t *ids,
                         unsigned supers, unsigned *ret)
{
    unsigned set = 0;

    memset(ret, 0, supers * sizeof(*ret));
    for (uint32_t u = 0; u < job->unit_count; u++)
        for (unsigned s = 0; s < supers; s++)
            if (ids[s] == super_of_pod(cluster, &job->pods[job->units[u].first])) {
                ret[s]++;
                set |= 1u << s;
            }
    return set;
}

static bool is_equal(const struct site *site, unsigned a, unsigned b)
{
    return site->slots[a] == site->slots[b] && site->whole[a] == site->whole[b];
}

/* How many supernodes equal to `like` are in the set. */
static unsigned count_like(const struct site *site, unsigned set, unsigned like)
{
    unsigned count = 0;

    for (unsigned s = 0; s < site->supers; s++)
        count += set >> s & 1 && is_equal(site, s, like);
    return count;
}

static bool takes_the_same(const struct site *site, unsigned a, unsigned b)
{
    for (unsigned s = 0; s < site->supers; s++)
        if (count_like(site, a, s) != count_like(site, b, s))
            return false;
    return true;
}

/* In rank order, a job does not come back to a domain that it has left. */
static void expect_contiguous(const struct gt_cluster *cluster, const struct world_job *job)
{
    for (unsigned tier = 1; tier <= TIERS; tier++) {
        uint32_t seen[512];
        unsigned count = 0;

        for (uint32_t p = 0; p < job->pod_count; p++) {
            uint32_t group = group_of(cluster, super_of_pod(cluster, &job->pods[p]), tier);

            if (count && seen[count - 1] == group)
                continue;
            for (unsigned i = 0; i < count; i++)
                assert_int_not_equal(seen[i], group);
            seen[count++] = group;
        }
    }
}

static void closest_of_all_equal_choices(void **state)
{
    uint64_t random = test_seed();
    unsigned improved = 0, several = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(10000); round++) {
        struct site site;
        struct world_job job, flat;
        unsigned pods = 1 + (unsigned)(random_next(&random) % 2), loads[SUPERS], flat_loads[SUPERS];

        make_site(&site, round % 2 ? GT_RULE_CHURN : GT_RULE_STATIC, &random);
        world_job(&job, 1 + (unsigned)(random_next(&random) % 6), pods, GPUS, 0);
        flat = job;
        assert_int_equal(world_plan(site.tree, &job), world_plan(site.flat, &flat));
        if (job.placed) {
            unsigned set = loads_of(site.tree, &job, site.id, site.supers, loads);
            unsigned by_name = loads_of(site.flat, &flat, site.flat_id, site.supers, flat_loads);
            struct measure own = measure(&site, set), named = measure(&site, by_name);

            assert_true(takes_the_same(&site, set, by_name)); /* nothing is lost at tier 1 */
            for (unsigned other = 1; other < 1u << site.supers; other++) {
                if (!takes_the_same(&site, other, by_name))
                    continue;
                struct measure least = measure(&site, other);
                assert_true(compare(&own, &least) <= 0);
            }
            expect_contiguous(site.tree, &job);
            improved += compare(&own, &named) < 0;
            several += own.value[0] > 1;
        }
        free_site(&site);
    }
    printf("%u closer than by name, %u in several domains of the highest tier\n", improved, several);
    assert_true(improved > 20 && several > 20);
}

/* Leaves of supernodes that are free or full: as few leaves as the largest of them allow. */
static void fewest_leaves(void **state)
{
    enum { LEAVES = 8, EACH = 8 };
    uint64_t random = test_seed();
    unsigned several = 0;
    (void)state;

    for (unsigned round = 0; round < 400; round++) {
        struct gt_cluster *cluster = world_new();
        struct world_job job;
        uint32_t class = world_class(cluster, GPUS, 4), leaves[LEAVES];
        unsigned room[EACH + 1] = {0}, units = 2 + (unsigned)(random_next(&random) % 9), needed = 0, used = 0,
                             all = 0;
        bool atoms = round % 2;

        for (unsigned l = 0; l < LEAVES; l++) {
            char name[16];
            unsigned own = 0;

            snprintf(name, sizeof(name), "l%u", l);
            leaves[l] = world_super(cluster, name, 2, GT_NONE);
            for (unsigned s = 0; s < EACH; s++) {
                snprintf(name, sizeof(name), "l%u-s%u", l, s);
                uint32_t first = gt_cluster_nodes(cluster);
                world_nodes(cluster, name, 2, class, world_super(cluster, name, 1, leaves[l]));
                if (random_next(&random) % 8 < 5) {
                    gt_cluster_set_free(cluster, first, 0);
                    gt_cluster_set_free(cluster, first + 1, 0);
                } else
                    own++;
            }
            room[own]++;
            all += own;
        }
        world_job(&job, atoms ? 1 : units, atoms ? 2 * units : 2, GPUS, atoms ? 2 : 0);
        assert_int_equal(world_plan(cluster, &job), all >= units);
        if (job.placed) {
            for (unsigned own = EACH, left = units; left;) {
                while (!room[own])
                    own--;
                room[own]--;
                needed++;
                left -= left < own ? left : own;
            }
            for (unsigned l = 0; l < LEAVES; l++) {
                bool touched = false;
                for (uint32_t p = 0; p < job.pod_count; p++)
                    touched |= group_of(cluster, super_of_pod(cluster, &job.pods[p]), 2) == leaves[l];
                used += touched;
            }
            assert_int_equal(used, needed);
            expect_contiguous(cluster, &job);
            several += needed > 1;
        }
        gt_cluster_free(cluster);
    }
    assert_true(several > 20);
}

/* Three tiers and 480 supernodes: as few spines as hold the job, and no leaf more than these take. */
static void near_the_bound_on_large_clusters(void **state)
{
    enum { SPINES = 5, LEAVES = 8, EACH = 12 };
    uint64_t random = test_seed();
    unsigned bound = 0, touched = 0, placed = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(300); round++) {
        struct gt_cluster *cluster = world_new();
        struct world_job job;
        uint32_t class = world_class(cluster, GPUS, 4), spine[SPINES], leaf[SPINES * LEAVES];
        unsigned of_spine[SPINES] = {0}, of_leaf[SPINES * LEAVES] = {0},
                 units = 1 + (unsigned)(random_next(&random) % 60);
        unsigned spines = 0, leaves = 0, least = UINT_MAX;
        bool in_spine[SPINES] = {false};
        char name[32];

        for (unsigned s = 0; s < SPINES; s++) {
            snprintf(name, sizeof(name), "spine%u", s);
            spine[s] = world_super(cluster, name, 3, GT_NONE);
        }
        for (unsigned l = 0; l < SPINES * LEAVES; l++) {
            snprintf(name, sizeof(name), "leaf%u", l);
            leaf[l] = world_super(cluster, name, 2, spine[l / LEAVES]);
            for (unsigned s = 0; s < EACH; s++) {
                snprintf(name, sizeof(name), "leaf%u-%u", l, s);
                uint32_t super = world_super(cluster, name, 1, leaf[l]), first = gt_cluster_nodes(cluster);
                world_nodes(cluster, name, 2, class, super);
                bool busy = random_next(&random) % 4 < 3;
                for (unsigned n = 0; busy && n < 2; n++)
                    gt_cluster_set_free(cluster, first + n, 0);
                of_leaf[l] += !busy;
                of_spine[l / LEAVES] += !busy;
            }
        }
        world_job(&job, units, 2, GPUS, 0);
        if (world_plan(cluster, &job)) {
            for (unsigned l = 0; l < SPINES * LEAVES; l++) {
                bool used = false;
                for (uint32_t p = 0; p < job.pod_count && !used; p++)
                    used = group_of(cluster, super_of_pod(cluster, &job.pods[p]), 2) == leaf[l];
                leaves += used;
                in_spine[l / LEAVES] |= used;
            }
            for (unsigned s = 0; s < SPINES; s++)
                spines += in_spine[s];
            assert_int_equal(spines, world_fewest(of_spine, SPINES, units));
            for (unsigned set = 0; set < 1u << SPINES; set++) { /* of all choices of so many spines */
                unsigned inside[SPINES * LEAVES] = {0};
                for (unsigned l = 0; l < SPINES * LEAVES; l++)
                    inside[l] = set >> l / LEAVES & 1 ? of_leaf[l] : 0;
                unsigned needed = (unsigned)__builtin_popcount(set) == spines
                                      ? world_fewest(inside, SPINES * LEAVES, units)
                                      : UINT_MAX;
                least = needed < least ? needed : least;
            }
            assert_int_equal(leaves, least);
            expect_contiguous(cluster, &job);
            placed++;
            bound += least;
            touched += leaves;
        }
        gt_cluster_free(cluster);
    }
    printf("%u jobs in %u leaves, the bound is %u\n", placed, touched, bound);
    assert_true(placed > 10);
}

/* Units of half a node, on supernodes of two nodes that are idle, full, or half in use. In the plan without
 * tiers the job has as many nodes in supernodes of each kind; where all are idle or full it has the fewest
 * leaves. */
static void small_units_come_together(void **state)
{
    enum { LEAVES = 6, EACH = 6 };
    uint64_t random = test_seed();
    unsigned fewer = 0, several = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(400); round++) {
        struct gt_cluster *of[2] = {world_new(), world_new()}; /* without tiers, with tiers */
        struct world_job jobs[2];
        uint32_t class[2] = {world_class(of[0], GPUS, 4), world_class(of[1], GPUS, 4)}, leaves[LEAVES],
                 supers[LEAVES * EACH];
        unsigned holds[LEAVES] = {0}, units = 2 + (unsigned)(random_next(&random) % 20), all = 0,
                 touched[2] = {0};
        unsigned used[2][3] = {{0}}; /* nodes, by the idle nodes of their supernode */
        unsigned kinds = 2 + round % 2, idle[LEAVES * EACH];
        char name[16];

        for (unsigned l = 0; l < LEAVES; l++) {
            snprintf(name, sizeof(name), "l%u", l);
            leaves[l] = world_super(of[1], name, 2, GT_NONE);
            for (unsigned s = 0; s < EACH; s++) {
                unsigned i = l * EACH + s, busy = (unsigned)(random_next(&random) % kinds);
                snprintf(name, sizeof(name), "l%u-s%u", l, s);
                supers[i] = world_super(of[1], name, 1, leaves[l]);
                world_nodes(of[1], name, 2, class[1], supers[i]);
                world_nodes(of[0], name, 2, class[0], world_super(of[0], name, 1, GT_NONE));
                idle[i] = busy == 0 ? 2 : busy == 1 ? 0 : 1;
                for (unsigned n = 0; n < 2 - idle[i]; n++)
                    for (unsigned c = 0; c < 2; c++) /* a node in use has no GPU, or three */
                        gt_cluster_set_free(of[c], 2 * i + n, busy == 2 && i % 2 ? 7 : 0);
                holds[l] += idle[i] == 2;
                all += idle[i];
            }
        }
        for (unsigned c = 0; c < 2; c++) {
            bool in[LEAVES] = {false};
            uint32_t last = GT_NONE;
            world_job(&jobs[c], units, 1, GPUS / 2, 0);
            assert_int_equal(world_plan(of[c], &jobs[c]), all * 2 >= units);
            for (uint32_t p = 0; jobs[c].placed && p < units; last = jobs[c].pods[p++].place.node) {
                uint32_t super = jobs[c].pods[p].place.node / 2;
                used[c][idle[super]] += jobs[c].pods[p].place.node != last;
                touched[c] += !in[super / EACH];
                in[super / EACH] = true;
            }
        }
        if (jobs[0].placed) {
            assert_memory_equal(used[0], used[1], sizeof(used[0]));
            assert_true(touched[1] <= touched[0]);
            expect_contiguous(of[1], &jobs[1]);
            if (kinds == 2)
                assert_int_equal(touched[1], world_fewest(holds, LEAVES, (units + 3) / 4));
            fewer += touched[1] < touched[0];
            several += touched[1] > 1;
        }
        gt_cluster_free(of[0]);
        gt_cluster_free(of[1]);
    }
    printf("%u jobs in fewer leaves than without tiers, %u in several\n", fewer, several);
    assert_true(fewer > 3 && several > 3);
}

/* A job that needs no whole leaf takes the rest of one; one that needs a leaf finds it whole. */
static void whole_leaves_are_kept(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4);
    struct world_job one, many;
    (void)state;

    world_leaf(cluster, "idle", 4, 0, class);
    uint32_t rest = world_leaf(cluster, "rest", 1, 3, class), half = world_leaf(cluster, "half", 3, 1, class);
    world_job(&one, 1, 1, GPUS, 0);
    assert_true(world_plan(cluster, &one));
    assert_int_equal(group_of(cluster, super_of_pod(cluster, &one.pods[0]), 2), rest);
    world_job(&many, 3, 1, GPUS, 0);
    assert_true(world_plan(cluster, &many));
    for (unsigned p = 0; p < 3; p++)
        assert_int_equal(group_of(cluster, super_of_pod(cluster, &many.pods[p]), 2), half);
    gt_cluster_free(cluster);
}

/* What a restarted unit misses is placed in the leaf where the rest of the job is, though another one would
 * be filled. */
static void missing_units_come_to_the_others(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4);
    struct world_job job;
    (void)state;

    world_leaf(cluster, "rest", 1, 3, class);
    uint32_t own = world_leaf(cluster, "own", 4, 0, class);
    world_job(&job, 2, 1, GPUS, 0);
    job.pods[0].running = true;
    job.pods[0].place.node = gt_cluster_find_node(cluster, "own-3");
    gt_cluster_set_free(cluster, job.pods[0].place.node, 0);
    assert_true(world_plan(cluster, &job));
    assert_int_equal(group_of(cluster, super_of_pod(cluster, &job.pods[1]), 2), own);
    gt_cluster_free(cluster);
}

/* Of equal supernodes it is placed in the one where its other unit is. */
static void missing_units_come_to_the_same_supernode(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4), super = GT_NONE;
    uint32_t leaf = world_super(cluster, "leaf", 2, GT_NONE);
    struct world_job job;
    (void)state;

    for (unsigned s = 0; s < 4; s++) { /* three of five nodes are in use */
        char name[16];
        snprintf(name, sizeof(name), "s%u", s);
        super = world_super(cluster, name, 1, leaf);
        world_nodes(cluster, name, 5, class, super);
        for (unsigned n = 0; n < 3; n++)
            gt_cluster_set_free(cluster, gt_cluster_nodes(cluster) - 1 - n, 0);
    }
    world_job(&job, 2, 2, GPUS, 0);
    for (unsigned p = 0; p < 2; p++) {
        job.pods[p].running = true;
        job.pods[p].place.node = gt_cluster_nodes(cluster) - 1 - p;
    }
    assert_true(world_plan(cluster, &job));
    assert_int_equal(super_of_pod(cluster, &job.pods[2]), super);
    gt_cluster_free(cluster);
}

/* ---- restarts ---- */

enum { HALLS = 2, LEAVES_EACH = 3, IN_LEAF = 4, PODS_EACH = 2, ALL_SUPERS = HALLS * LEAVES_EACH * IN_LEAF };

/* Halls of leaves; `order`: in which the objects come, as after a restart. Returns the supernodes, by number.
 */
static struct gt_cluster *make_halls(const unsigned *order, uint32_t *ret)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4), halls[HALLS], leaves[HALLS * LEAVES_EACH];
    char name[16];

    for (unsigned i = 0; i < HALLS; i++)
        halls[i] = GT_NONE;
    for (unsigned i = 0; i < HALLS * LEAVES_EACH; i++)
        leaves[i] = GT_NONE;
    for (unsigned i = 0; i < ALL_SUPERS; i++) {
        unsigned s = order[i], leaf = s / IN_LEAF, hall = leaf / LEAVES_EACH;

        snprintf(name, sizeof(name), "h%u", hall);
        if (halls[hall] == GT_NONE)
            halls[hall] = world_super(cluster, name, 3, GT_NONE);
        snprintf(name, sizeof(name), "l%u", leaf);
        if (leaves[leaf] == GT_NONE)
            leaves[leaf] = world_super(cluster, name, 2, halls[hall]);
        snprintf(name, sizeof(name), "s%u", s);
        ret[s] = world_super(cluster, name, 1, leaves[leaf]);
        world_nodes(cluster, name, PODS_EACH, class, ret[s]);
    }
    return cluster;
}

static void close_super(struct gt_cluster *cluster, unsigned super)
{
    for (unsigned n = 0; n < PODS_EACH; n++) {
        char name[16];
        snprintf(name, sizeof(name), "s%u-%u", super, n);
        gt_cluster_set_free(cluster, gt_cluster_find_node(cluster, name), 0);
    }
}

static uint32_t same_node(const struct gt_cluster *of, uint32_t node, const struct gt_cluster *in)
{
    struct gt_cluster_node info;

    assert_true(gt_cluster_get_node(of, node, &info));
    return gt_cluster_find_node(in, info.name);
}

static void shuffle(unsigned *order, uint64_t *random)
{
    for (unsigned i = 0; i < ALL_SUPERS; i++)
        order[i] = i;
    for (unsigned i = ALL_SUPERS; i > 1; i--) {
        unsigned other = (unsigned)(random_next(random) % i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

/* Units are lost and made again, and the program has restarted, so that it got the objects in another order:
 * the domains stay in the order of the ranks, in the room that was the job's. */
static void restarts_keep_the_order(void **state)
{
    uint64_t random = test_seed();
    unsigned several = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(2000); round++) {
        unsigned order[ALL_SUPERS], units = 2 + (unsigned)(random_next(&random) % 10);
        uint32_t supers[ALL_SUPERS], again_supers[ALL_SUPERS];
        bool free[ALL_SUPERS];
        struct world_job job, again;

        shuffle(order, &random);
        struct gt_cluster *cluster = make_halls(order, supers);
        for (unsigned s = 0; s < ALL_SUPERS; s++) {
            free[s] = random_next(&random) % 8 < 5;
            if (!free[s])
                close_super(cluster, s);
        }
        world_job(&job, units, PODS_EACH, GPUS, 0);
        if (world_plan(cluster, &job)) {
            expect_contiguous(cluster, &job);
            shuffle(order, &random);
            struct gt_cluster *restarted = make_halls(order, again_supers);
            bool own[ALL_SUPERS] = {false};
            unsigned set = 0, lost = 0;

            world_job(&again, units, PODS_EACH, GPUS, 0);
            for (unsigned u = 0; u < units; u++) {
                bool stays = random_next(&random) % 2;
                lost += !stays;
                for (unsigned p = u * PODS_EACH; p < (u + 1) * PODS_EACH; p++) {
                    again.pods[p].running = stays;
                    if (stays) {
                        again.pods[p].place.node = same_node(cluster, job.pods[p].place.node, restarted);
                        gt_cluster_set_free(restarted, again.pods[p].place.node, 0);
                    }
                }
                for (unsigned s = 0; s < ALL_SUPERS; s++)
                    own[s] |= super_of_pod(cluster, &job.pods[u * PODS_EACH]) == supers[s];
            }
            for (unsigned s = 0; s < ALL_SUPERS; s++) {
                if (!own[s])
                    close_super(restarted, s);
                set += own[s];
            }
            assert_true(world_plan(restarted, &again));
            expect_contiguous(restarted, &again);
            several += set > IN_LEAF && lost > 1 && lost < units;
            gt_cluster_free(restarted);
        }
        gt_cluster_free(cluster);
    }
    assert_true(several > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closest_of_all_equal_choices),
        cmocka_unit_test(fewest_leaves),
        cmocka_unit_test(near_the_bound_on_large_clusters),
        cmocka_unit_test(small_units_come_together),
        cmocka_unit_test(whole_leaves_are_kept),
        cmocka_unit_test(missing_units_come_to_the_others),
        cmocka_unit_test(missing_units_come_to_the_same_supernode),
        cmocka_unit_test(restarts_keep_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
