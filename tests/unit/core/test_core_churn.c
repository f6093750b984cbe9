/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/chain.h"
#include "tests/unit/core/core_world.h"

/* The rule for clusters where jobs come and go, against its definition worked out from the nodes one by one.
 */

enum { SUPERS = 6, NODES = 10, LEVELS = 4 };

struct site {
    struct gt_cluster *cluster;
    unsigned supers;
    uint32_t ids[SUPERS];    /* of supernodes */
    unsigned sizes[LEVELS];  /* in play, in GPUs */
    unsigned levels[LEVELS]; /* larger ones, in slots */
    unsigned level_count;
    bool leaving; /* the chain was learned, and jobs have left */
    bool crowded; /* other jobs wait */
};

static void make(struct site *site, uint64_t *random)
{
    unsigned gpus[] = {8, 8};
    uint32_t classes[2];
    char name[16];

    if (random_next(random) % 4 == 0)
        gpus[1] = 4;
    site->cluster = world_new();
    site->supers = 1 + (unsigned)(random_next(random) % SUPERS);
    for (unsigned c = 0; c < 2; c++)
        classes[c] = world_class(site->cluster, gpus[c], 4);
    for (unsigned s = 0; s < site->supers; s++) {
        snprintf(name, sizeof(name), "s%u", s);
        site->ids[s] = world_super(site->cluster, name, 1, GT_NONE);
        world_nodes(site->cluster, name, 1 + (unsigned)(random_next(random) % NODES),
                    classes[random_next(random) % 2], site->ids[s]);
    }
}

/* Nodes in use, in part broken, closed. */
static void reshape(struct site *site, uint64_t *random)
{
    for (uint32_t node = 0; node < gt_cluster_nodes(site->cluster); node++) {
        uint64_t kind = random_next(random) % 8, mask = random_next(random);

        gt_cluster_set_free(site->cluster, node, kind < 4 ? UINT64_MAX : kind < 5 ? 0 : mask);
        gt_cluster_set_healthy(site->cluster, node,
                               random_next(random) % 8 ? UINT64_MAX : random_next(random));
        gt_cluster_set_eligible(site->cluster, node, random_next(random) % 12);
    }
}

/* Room for pods of `gpus` in a supernode; with `whole` as if nobody used a GPU. */
static unsigned room_in(const struct site *site, uint32_t super, unsigned gpus, bool whole)
{
    unsigned room = 0;

    for (uint32_t id = 0; id < gt_cluster_nodes(site->cluster); id++) {
        struct gt_cluster_node node;

        assert_true(gt_cluster_get_node(site->cluster, id, &node));
        uint64_t usable = node.eligible ? node.healthy : 0;
        if (node.supernode == super)
            room += (unsigned)__builtin_popcountll(whole ? usable : node.available) / gpus;
    }
    return room;
}

/* The GPUs of the kind of node, of those that hold so many, with the most GPUs in all; 1: none does. */
static unsigned common_node(const struct site *site, unsigned gpus)
{
    unsigned in_all[9] = {0}, node = 1;

    for (uint32_t id = 0; id < gt_cluster_nodes(site->cluster); id++) {
        struct gt_cluster_node at;

        assert_true(gt_cluster_get_node(site->cluster, id, &at));
        unsigned size = (unsigned)__builtin_popcountll(at.all);
        in_all[size] += size;
    }
    for (unsigned size = gpus; size <= 8; size++)
        node = in_all[size] > in_all[node] ? size : node;
    return node;
}

/* The sizes of the chain above q pods, in pods. Given as a list, or learned from jobs, some of which have
 * left. The largest is counted by nodes where it is no number of such pods. */
static void use_chain(struct site *site, unsigned q, unsigned gpus, bool learned, uint64_t *random)
{
    static const unsigned chains[][LEVELS] = {
        {1, 2, 4, 8}, {1, 2, 6, 12}, {1, 3, 9, 18}, {2, 4, 16, 64}, {1, 2, 3, 4}};
    const unsigned *chain = chains[random_next(random) % 5];
    unsigned node = common_node(site, gpus);
    struct gt_chain_sizes sizes = {.count = LEVELS};

    site->level_count = 0;
    for (unsigned i = 0; i < LEVELS; i++) {
        unsigned slots = chain[i];

        sizes.size[i] = site->sizes[i] = chain[i] * gpus;
        if (i == LEVELS - 1 && 8 % gpus) { /* nodes of 8 */
            sizes.size[i] = site->sizes[i] =
                8 * (sizes.size[i - 1] / 8 + 1 + (unsigned)(random_next(random) % 4));
            slots = sizes.size[i] % gpus == 0 ? sizes.size[i] / gpus : sizes.size[i] / node * (node / gpus);
        }
        if (slots > q)
            site->levels[site->level_count++] = slots;
    }
    site->leaving = learned;
    if (!learned)
        assert_int_equal(gt_chain_set(site->cluster, &sizes, NULL), 0);
    for (unsigned i = 0; i < LEVELS && learned; i++) {
        gt_chain_came(site->cluster, sizes.size[i], 1000);
        gt_chain_came(site->cluster, sizes.size[i], 1000);
        gt_chain_gone(site->cluster, sizes.size[i], 1000);
    }
}

/* Sizes from `first` on whose places the supernode cannot all have any more, with `left` of its `all` slots
 * free. */
static unsigned touched(const struct site *site, unsigned first, unsigned left, unsigned all)
{
    unsigned count = 0;

    for (unsigned i = first; i < site->level_count; i++)
        count += left < all / site->levels[i] * site->levels[i];
    return count;
}

/* Whether the size loses a place, 0 is the largest. */
static bool loses_large(const struct site *site, unsigned nth, unsigned q, unsigned free)
{
    unsigned size = nth < site->level_count ? site->levels[site->level_count - 1 - nth] : 0;

    return size && (free - q) / size < free / size;
}

static unsigned lost(const struct site *site, unsigned q, unsigned free)
{
    unsigned count = 0;

    for (unsigned i = 0; i < site->level_count; i++)
        count += (free - q) / site->levels[i] < free / site->levels[i];
    return count;
}

/* Less is better, from the first number on. */
struct merit {
    unsigned by[6];
};

static bool is_better(const struct merit *a, const struct merit *b)
{
    for (unsigned i = 0; i < 6; i++)
        if (a->by[i] != b->by[i])
            return a->by[i] < b->by[i];
    return false;
}

/* Several units of a job. */
struct several {
    bool beyond; /* no room was left that no larger size can use */
    bool spares; /* and then they filled no whole places of the largest size */
};

/* The supernode for the next of `wanted` units of q pods; SUPERS: none. *ret_units: how many of them.
 * `several` NULL: the job has one. */
static unsigned expect(const struct site *site, const unsigned *free, const unsigned *all, unsigned q,
                       unsigned wanted, struct several *several, unsigned *ret_units)
{
    unsigned largest = site->level_count ? site->levels[site->level_count - 1] : 0;
    unsigned kept = !site->leaving ? LEVELS : site->crowded ? 2 : 1;
    unsigned best = SUPERS, first_kept = site->level_count > kept ? site->level_count - kept : 0;
    bool crowded = site->leaving && site->crowded;
    struct merit best_merit = {{0}};
    unsigned most = 0; /* slots of the largest supernode */

    for (unsigned s = 0; s < site->supers; s++)
        most = all[s] > most ? all[s] : most;
    for (unsigned s = 0; s < site->supers; s++) {
        if (free[s] < q)
            continue;
        unsigned at_first = touched(site, first_kept, free[s] - q, all[s]), units = 1;
        bool open = crowded && (at_first || all[s] < largest); /* no room is kept there */
        while (units < wanted && free[s] >= (units + 1) * q &&
               (open || touched(site, first_kept, free[s] - (units + 1) * q, all[s]) == at_first))
            units++;
        if (several && open)
            at_first = 1;
        struct merit merit = {{at_first, units < wanted, wanted - units, free[s], all[s], s}};
        if (several && several->spares && at_first)
            merit.by[0] = loses_large(site, 0, q, free[s]) ? 2 : 1;
        if (!several)
            merit = (struct merit){
                {site->leaving ? loses_large(site, 0, q, free[s]) : lost(site, q, free[s]),
                 site->leaving ? loses_large(site, 1, q, free[s]) && (all[s] >= largest || most < largest)
                               : at_first,
                 free[s], all[s], s}};
        if (best == SUPERS || is_better(&merit, &best_merit)) {
            best = s;
            best_merit = merit;
            *ret_units = units;
        }
    }
    if (several && !several->beyond && best != SUPERS && best_merit.by[0]) {
        several->beyond = true;
        several->spares = largest && wanted * q > largest && wanted * q % largest;
        if (several->spares)
            return expect(site, free, all, q, wanted, several, ret_units);
    }
    return best;
}

static unsigned spared; /* jobs that kept off places of the largest size */

static void check_units(struct site *site, struct world_job *job, unsigned q, unsigned gpus)
{
    unsigned free[SUPERS], all[SUPERS], units = 0, first = 0;
    struct several several = {false, false};
    bool fits = true;

    for (unsigned s = 0; s < site->supers; s++) {
        free[s] = room_in(site, site->ids[s], gpus, false);
        all[s] = room_in(site, site->ids[s], gpus, true);
    }
    bool placed = world_plan(site->cluster, job);
    for (unsigned u = 0, s = 0; u < job->unit_count && fits; u++, units--) {
        if (!units) {
            s = expect(site, free, all, q, job->unit_count - u, job->unit_count > 1 ? &several : NULL,
                       &units);
            first = u;
        }
        fits = s < SUPERS;
        if (!fits)
            break;
        if (placed) {
            assert_int_equal(job->units[u].supernode, site->ids[s]);
            assert_int_equal(job->units[u].slots_before, free[s]);
            assert_int_equal(job->units[u].levels_lost, lost(site, q, free[s]));
            assert_int_equal(job->units[u].touched, touched(site, 0, free[s] - q, all[s]));
            assert_int_equal(job->units[u].with, u == first ? GT_NONE : first);
            assert_false(job->units[u].node_in_use);
        }
        free[s] -= q;
    }
    assert_int_equal(placed, fits);
    spared += placed && several.spares;
}

static void units_of_nodes(void **state)
{
    uint64_t random = test_seed();
    unsigned fit = 0, refused = 0, together = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(1200); round++) {
        struct site site;
        bool learned = round % 2;
        make(&site, &random);
        site.crowded = round % 4 < 2;
        gt_cluster_set_crowded(site.cluster, site.crowded);
        for (unsigned step = 0; step < (learned ? 1 : 20); step++) { /* what is learned stays */
            static const unsigned some[] = {1, 2, 4, 8, 3, 6};
            unsigned gpus = some[random_next(&random) % 6], q = (8 + gpus - 1) / gpus;
            struct world_job job;

            q *= 1 + (unsigned)(random_next(&random) % 3);
            reshape(&site, &random);
            use_chain(&site, q, gpus, learned, &random);
            world_job(&job, 1 + (unsigned)(random_next(&random) % 8), q, gpus, 0);
            check_units(&site, &job, q, gpus);
            fit += job.placed;
            refused += !job.placed;
            for (unsigned u = 0; u < job.unit_count; u++)
                together += job.placed && job.units[u].with != GT_NONE;
        }
        world_check(site.cluster);
        gt_cluster_free(site.cluster);
    }
    printf("%u jobs fit, %u do not, %u units go with another, %u jobs spare places\n", fit, refused, together,
           spared);
    assert_true(fit > 100 && refused > 100 && together > 100 && spared > 10);
}

/* ---- units smaller than a node ---- */

/* How many larger sizes lose a place when so many of the free GPUs of a node are taken. */
static unsigned lost_on(const struct site *site, unsigned need, unsigned there)
{
    unsigned count = 0;

    for (unsigned i = 0; i < LEVELS; i++)
        count += site->sizes[i] > need && (there - need) / site->sizes[i] < there / site->sizes[i];
    return count;
}

/* The node for a unit of `need` GPUs: one in use that it fills, of the smallest kind, in the supernode with
 * the fewest idle nodes; else the smallest kind; the fewest sizes lose a place, unless jobs have left; then
 * the fullest of the first supernode, or where no size needs a node the fullest, in the supernode with the
 * fewest idle nodes. GT_NONE: there is none in use, or only with as much room as an idle one of a smaller
 * kind. *ret_idle: the smallest kind that has an idle node, 0: none. */
static uint32_t expect_node(const struct site *site, unsigned need, unsigned a_node, unsigned *ret_idle)
{
    bool first = !site->leaving || site->sizes[LEVELS - 1] >= a_node;
    uint32_t best = GT_NONE;
    struct merit best_merit = {{0}};

    *ret_idle = 0;
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint32_t id = 0; id < gt_cluster_nodes(site->cluster); id++) {
            struct gt_cluster_node node;

            assert_true(gt_cluster_get_node(site->cluster, id, &node));
            unsigned there = (unsigned)__builtin_popcountll(node.available),
                     size = (unsigned)__builtin_popcountll(node.all);
            if (there < need)
                continue;
            if (there == size) {
                *ret_idle = *ret_idle && *ret_idle < size ? *ret_idle : size;
                continue;
            }
            if (!pass || (*ret_idle && size > *ret_idle && there >= *ret_idle))
                continue;
            unsigned own = room_in(site, node.supernode, a_node, false);
            struct merit merit = {{there != need, size, site->leaving ? 0 : lost_on(site, need, there),
                                   first ? node.supernode : there, first ? there : own, id}};
            if (there == need) {
                merit.by[3] = own;
                merit.by[4] = 0;
            }
            if (best == GT_NONE || is_better(&merit, &best_merit)) {
                best = id;
                best_merit = merit;
            }
        }
    return best;
}

/* The supernode of the idle node of a kind that the unit takes: whole nodes are its slots. */
static uint32_t expect_idle(const struct site *site, unsigned kind)
{
    struct site nodes = *site;
    unsigned free[SUPERS] = {0}, all[SUPERS], units;

    nodes.level_count = 0;
    for (unsigned i = 0; i < LEVELS; i++)
        if (site->sizes[i] % kind == 0 && site->sizes[i] > kind)
            nodes.levels[nodes.level_count++] = site->sizes[i] / kind;
    for (unsigned s = 0; s < site->supers; s++)
        all[s] = room_in(site, site->ids[s], kind, true);
    for (uint32_t id = 0; id < gt_cluster_nodes(site->cluster); id++) {
        struct gt_cluster_node node;

        assert_true(gt_cluster_get_node(site->cluster, id, &node));
        if (node.available == node.all && (unsigned)__builtin_popcountll(node.all) == kind)
            for (unsigned s = 0; s < site->supers; s++)
                if (site->ids[s] == node.supernode)
                    free[s] = room_in(site, node.supernode, kind, false);
    }
    return site->ids[expect(&nodes, free, all, 1, 1, NULL, &units)];
}

/* The GPUs of the smallest kind of node that is larger than so many. */
static unsigned node_above(const struct site *site, unsigned gpus)
{
    unsigned least = 0;

    for (uint32_t id = 0; id < gt_cluster_nodes(site->cluster); id++) {
        struct gt_cluster_node node;

        assert_true(gt_cluster_get_node(site->cluster, id, &node));
        unsigned size = (unsigned)__builtin_popcountll(node.all);
        if (size > gpus && (!least || size < least))
            least = size;
    }
    return least;
}

static void small_units(void **state)
{
    uint64_t random = test_seed();
    unsigned in_use = 0, idle = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(2400); round++) {
        struct site site;
        bool learned = round % 4;
        make(&site, &random);
        site.crowded = false;
        for (unsigned step = 0; step < (learned ? 1 : 20); step++) { /* what is learned stays */
            unsigned gpus = 1 + (unsigned)(random_next(&random) % 3),
                     q = 1 + (unsigned)(random_next(&random) % (gpus == 1   ? 7
                                                                : gpus == 2 ? 3
                                                                            : 2));
            unsigned a_node = node_above(&site, q * gpus), kind;
            struct world_job job;

            if (!a_node)
                continue;
            reshape(&site, &random);
            use_chain(&site, q, gpus, learned, &random);
            world_job(&job, 1, q, gpus, 0);
            uint32_t node = expect_node(&site, q * gpus, a_node, &kind);
            bool placed = world_plan(site.cluster, &job);
            assert_true(placed || (node == GT_NONE && !kind));
            if (!placed)
                continue;
            assert_int_equal(job.units[0].node_in_use, node != GT_NONE);
            for (unsigned p = 0; p < q && (node != GT_NONE || kind); p++)
                assert_int_equal(job.pods[p].place.node, node != GT_NONE ? node : job.pods[0].place.node);
            in_use += node != GT_NONE;
            if (node != GT_NONE || !kind)
                continue;
            struct gt_cluster_node at;
            assert_true(gt_cluster_get_node(site.cluster, job.pods[0].place.node, &at));
            assert_true(at.available == at.all);
            assert_int_equal(__builtin_popcountll(at.all), kind);
            assert_int_equal(at.supernode, expect_idle(&site, kind));
            idle++;
        }
        world_check(site.cluster);
        gt_cluster_free(site.cluster);
    }
    printf("%u units on nodes in use, %u on idle ones\n", in_use, idle);
    assert_true(in_use > 100 && idle > 50);
}

/* Several of one job go where they would go one by one. */
static void several_small_units(void **state)
{
    uint64_t random = test_seed();
    unsigned placed = 0, elsewhere = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(600); round++) {
        struct site site;
        static struct world_job all, one;
        make(&site, &random);
        reshape(&site, &random);
        site.crowded = false;
        unsigned gpus = 1 + (unsigned)(random_next(&random) % 3),
                 q = gpus == 1 ? 1 + random_next(&random) % 3 : 1,
                 units = 2 + (unsigned)(random_next(&random) % 40);
        use_chain(&site, q, gpus, round % 2, &random);
        world_job(&all, units, q, gpus, 0);
        bool fits = node_above(&site, q * gpus) && world_plan(site.cluster, &all);
        for (unsigned u = 0; u < units && fits; u++) {
            world_job(&one, 1, q, gpus, 0);
            assert_true(world_plan(site.cluster, &one));
            assert_int_equal(one.units[0].node_in_use, all.units[u].node_in_use);
            for (unsigned p = 0; p < q; p++)
                assert_int_equal(one.pods[p].place.node, all.pods[u * q + p].place.node);
            elsewhere += u && one.pods[0].place.node != all.pods[(u - 1) * q].place.node;
            world_bind(site.cluster, &one, u + 1);
            placed++;
        }
        gt_cluster_free(site.cluster);
    }
    assert_true(placed > test_rounds(600) && elsewhere > test_rounds(600) / 2);
}

static void says_why(void **state)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4096), small = GT_BUF(4096);
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 4);
    struct world_job job;
    (void)state;

    world_nodes(cluster, "a", 6, class, world_super(cluster, "a", 1, GT_NONE));
    world_nodes(cluster, "b", 8, class, world_super(cluster, "b", 1, GT_NONE));
    assert_int_equal(gt_chain_set(cluster, &(struct gt_chain_sizes){2, {8, 32}}, NULL), 0);
    world_job(&job, 3, 1, 8, 0);
    assert_true(world_plan(cluster, &job));
    for (unsigned u = 0; u < 3; u++) {
        gt_plan_unit_text(cluster, &job.units[u], u, &text);
        gt_buf_puts(&text, "\n");
    }
    assert_string_equal(
        text.data,
        "unit 0: 8 GPUs in supernode a, which had room for 6 such pods: no larger size loses a place there; "
        "2 supernodes could hold it, next best b with room for 8 (1 larger size loses a place there, it "
        "reaches into the room of 1 larger size)\n"
        "unit 1: 8 GPUs in supernode a, together with unit 0, which had room for 5 such pods: no larger size "
        "loses a place there\n"
        "unit 2: 8 GPUs in supernode a, which had room for 4 such pods: 1 larger size loses a place there, "
        "it "
        "reaches into the room of 1 larger size; 2 supernodes could hold it, next best b with room for 8 (1 "
        "larger size loses a place there, it reaches into the room of 1 larger size)\n");
    gt_cluster_set_free(cluster, 3, 0x3f);
    world_job(&job, 1, 1, 2, 0);
    assert_true(world_plan(cluster, &job));
    gt_plan_unit_text(cluster, &job.units[0], 0, &small);
    assert_string_equal(small.data,
                        "unit 0: 2 GPUs in supernode a, which had room for 23 such pods: on a node in use, "
                        "before an idle one");
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_of_nodes),
        cmocka_unit_test(small_units),
        cmocka_unit_test(several_small_units),
        cmocka_unit_test(says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
