/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "tests/unit/core/core_world.h"

/* Jobs, and units, that must lie in one supernode of a tier, against all ways to place them. */

enum { GPUS = 8, SUPERS = 6, DOMAINS = 5, TIERS = 4 };

struct site {
    struct gt_cluster *cluster;
    unsigned supers;
    uint32_t id[SUPERS];
    unsigned slots[SUPERS];
};

static unsigned draw(uint64_t *random, unsigned below)
{
    return (unsigned)(random_next(random) % below);
}

static void make_site(struct site *site, uint64_t *random)
{
    unsigned domains = draw(random, DOMAINS) + 1, tier[DOMAINS];
    uint32_t class, id[DOMAINS];
    char name[16];

    memset(site, 0, sizeof(*site));
    site->cluster = world_new();
    gt_cluster_set_rule(site->cluster, draw(random, 2) ? GT_RULE_CHURN : GT_RULE_STATIC);
    class = world_class(site->cluster, GPUS, 4);
    for (unsigned d = 0; d < domains; d++) { /* parents first */
        unsigned above = draw(random, d + 1);

        tier[d] = TIERS - d * (TIERS - 1) / domains;
        snprintf(name, sizeof(name), "d%u", d);
        id[d] = world_super(site->cluster, name, tier[d],
                            above < d && tier[above] > tier[d] ? id[above] : GT_NONE);
    }
    site->supers = 2 + draw(random, SUPERS - 1);
    for (unsigned s = 0; s < site->supers; s++) {
        unsigned above = draw(random, domains + 1), nodes = 1 + draw(random, 5);

        snprintf(name, sizeof(name), "s%u", s);
        site->id[s] = world_super(site->cluster, name, 1, above < domains ? id[above] : GT_NONE);
        uint32_t first = gt_cluster_nodes(site->cluster);
        world_nodes(site->cluster, name, nodes, class, site->id[s]);
        site->slots[s] = nodes;
        for (unsigned n = 0; n < nodes; n++)
            if (draw(random, 4) == 0) {
                gt_cluster_set_free(site->cluster, first + n, 0);
                site->slots[s]--;
            }
    }
}

/* The supernode of the tier that contains another; with `at_most` the highest one up to that tier. */
static uint32_t domain_of(const struct gt_cluster *cluster, uint32_t super, unsigned tier, bool at_most)
{
    uint32_t found = GT_NONE;

    for (struct gt_cluster_supernode at; gt_cluster_get_supernode(cluster, super, &at); super = at.parent)
        if (at.tier == tier || (at_most && at.tier < tier))
            found = super;
    return found;
}

static uint32_t super_of_pod(const struct gt_cluster *cluster, const struct gt_plan_pod *pod)
{
    struct gt_cluster_node node;

    assert_true(gt_cluster_get_node(cluster, pod->place.node, &node));
    return node.supernode;
}

/* Tries all ways for the runs from `run` on of the unit `u`, each in a supernode of `home` (GT_NONE: any).
 * The runs of a unit are equal: they are placed in order of supernodes, from `least` on. */
static bool any_way(struct site *site, const struct world_job *job, uint32_t home, uint32_t u, uint32_t run,
                    unsigned least, uint32_t unit_home)
{
    if (u == job->unit_count)
        return true;
    const struct gt_plan_unit *unit = &job->units[u];
    uint32_t size = unit->atom ? unit->atom : unit->pods;
    if (run == unit->pods)
        return any_way(site, job, home, u + 1, 0, 0, GT_NONE);
    if (job->pods[unit->first + run].running)
        return any_way(site, job, home, u, run + size, least,
                       unit->within ? domain_of(site->cluster,
                                                super_of_pod(site->cluster, &job->pods[unit->first + run]),
                                                unit->within, true)
                                    : GT_NONE);
    for (unsigned s = least; s < site->supers; s++) {
        uint32_t own = job->within ? domain_of(site->cluster, site->id[s], job->within, false) : GT_NONE;
        uint32_t of_unit = unit->within ? domain_of(site->cluster, site->id[s], unit->within, true) : GT_NONE;
        if (site->slots[s] < size || (job->within && (own == GT_NONE || (home != GT_NONE && home != own))) ||
            (unit_home != GT_NONE && of_unit != unit_home))
            continue;
        site->slots[s] -= size;
        bool found = any_way(site, job, own, u, run + size, s, of_unit);
        site->slots[s] += size;
        if (found)
            return true;
    }
    return false;
}

/* Gives the first run of the job a place where it runs, if one has room. */
static uint32_t start(struct site *site, struct world_job *job, uint64_t *random)
{
    uint32_t size = job->units[0].atom ? job->units[0].atom : job->units[0].pods, pod = 0;
    unsigned s = draw(random, site->supers);
    struct gt_cluster_node node;

    if (site->slots[s] < size)
        return GT_NONE;
    for (uint32_t n = 0; pod < size; n++)
        if (gt_cluster_get_node(site->cluster, n, &node) && node.supernode == site->id[s] && node.available) {
            gt_cluster_set_free(site->cluster, n, 0);
            job->pods[pod].running = true;
            job->pods[pod++].place.node = n;
        }
    site->slots[s] -= size;
    return job->within ? domain_of(site->cluster, site->id[s], job->within, false) : GT_NONE;
}

/* A random job; equal: all its units are of one kind, so that the answer is exact. */
static bool random_job(struct world_job *job, uint64_t *random)
{
    unsigned atom = draw(random, 2) ? 1 + draw(random, 2) : 0;

    world_job(job, 1 + draw(random, 3), atom ? atom * (1 + draw(random, 3)) : 1 + draw(random, 3), GPUS,
              atom);
    if (draw(random, 4) || job->unit_count < 2 || atom)
        return true;
    job->units[0].pods++; /* one unit is larger */
    for (uint32_t u = 1; u < job->unit_count; u++)
        job->units[u].first++;
    job->pod_count++;
    return false;
}

static void check_within(const struct gt_cluster *cluster, const struct world_job *job)
{
    for (uint32_t u = 0; u < job->unit_count; u++)
        for (uint32_t p = job->units[u].first; p < job->units[u].first + job->units[u].pods; p++) {
            uint32_t own = super_of_pod(cluster, &job->pods[p]);

            if (job->within) {
                uint32_t first = domain_of(cluster, super_of_pod(cluster, &job->pods[0]), job->within, false);
                assert_int_not_equal(first, GT_NONE);
                assert_int_equal(domain_of(cluster, own, job->within, false), first);
            }
            if (job->units[u].within)
                assert_int_equal(domain_of(cluster, own, job->units[u].within, true),
                                 domain_of(cluster, super_of_pod(cluster, &job->pods[job->units[u].first]),
                                           job->units[u].within, true));
        }
}

/* How often the ring of the ranks enters the same domain of a tier; above 1 it comes back to one that it has
 * left. */
static unsigned entries(const struct gt_cluster *cluster, const struct world_job *job, unsigned tier)
{
    unsigned most = 0;

    for (uint32_t p = 0; p < job->pod_count; p++) {
        uint32_t domain = domain_of(cluster, super_of_pod(cluster, &job->pods[p]), tier, true);
        unsigned count = 0;

        for (uint32_t q = 0; q < job->pod_count; q++) {
            uint32_t before = (q + job->pod_count - 1) % job->pod_count;
            count += domain_of(cluster, super_of_pod(cluster, &job->pods[q]), tier, true) == domain &&
                     domain_of(cluster, super_of_pod(cluster, &job->pods[before]), tier, true) != domain;
        }
        most = count > most ? count : most;
    }
    return most;
}

static void exactly_the_jobs_that_fit(void **state)
{
    uint64_t random = test_seed();
    unsigned placed = 0, refused = 0, lacking = 0, started = 0, torn = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(20000); round++) {
        struct site site;
        struct world_job job;
        uint32_t home = GT_NONE;

        make_site(&site, &random);
        bool equal = random_job(&job, &random), runs = draw(&random, 4) == 0;
        bool units = job.units[0].atom && draw(&random, 2);
        if (!units || draw(&random, 4) == 0)
            job.within = 1 + draw(&random, TIERS);
        job.units[0].within = units ? 2 + draw(&random, TIERS - 1) : 0;
        for (uint32_t u = 1; u < job.unit_count; u++)
            job.units[u].within = job.units[0].within;
        if (runs)
            home = start(&site, &job, &random);
        bool outside = job.within && job.pods[0].running && home == GT_NONE;
        bool fits = !outside && any_way(&site, &job, home, 0, 0, 0, GT_NONE);
        bool found = world_plan(site.cluster, &job), comes_back = false;
        if (found) {
            assert_true(fits);
            check_within(site.cluster, &job);
            for (unsigned tier = 1; tier <= TIERS && !job.pods[0].running; tier++)
                comes_back |= entries(site.cluster, &job, tier) > 1;
            assert_true(!comes_back || job.units[0].atom); /* only units that are split may */
            torn += comes_back;
        } else if (fits)
            assert_true(!equal && job.failure.inexact);
        placed += found;
        refused += !fits;
        started += found && job.pods[0].running;
        lacking += !found && job.failure.reason == GT_PLAN_NO_DOMAIN;
        gt_cluster_free(site.cluster);
    }
    printf("%u placed (%u of them started), %u refused, %u for a domain; in %u the ring comes back to a "
           "domain\n",
           placed, started, refused, lacking, torn);
    assert_true(torn * 100 <= placed);
    assert_true(placed > 20 && refused > 20 && lacking > 20 && started > 5);
}

/* The lowest tier of which one supernode holds the whole job; TIERS + 1: none. */
static unsigned lowest_tier(struct site *site, struct world_job *job)
{
    unsigned tier = 1;

    for (; tier <= TIERS; tier++) {
        job->within = tier;
        if (any_way(site, job, GT_NONE, 0, 0, 0, GT_NONE))
            break;
    }
    job->within = 0;
    return tier;
}

static void closeness_first_takes_the_lowest_domain(void **state)
{
    uint64_t random = test_seed();
    unsigned closer = 0;
    (void)state;

    for (unsigned round = 0; round < test_rounds(5000); round++) {
        struct site site;
        struct world_job job, by_room;

        make_site(&site, &random);
        random_job(&job, &random);
        unsigned lowest = lowest_tier(&site, &job), tiers[2] = {TIERS + 1, TIERS + 1};
        by_room = job;
        bool fits = world_plan(site.cluster, &by_room);
        gt_cluster_set_prefers_close(site.cluster, true);
        assert_int_equal(world_plan(site.cluster, &job), fits);
        for (unsigned which = 0; which < 2 && fits; which++) {
            const struct world_job *one = which ? &by_room : &job;
            for (unsigned tier = TIERS; tier; tier--) {
                uint32_t first =
                    domain_of(site.cluster, super_of_pod(site.cluster, &one->pods[0]), tier, false);
                bool together = first != GT_NONE;
                for (uint32_t p = 0; p < one->pod_count; p++)
                    together &= domain_of(site.cluster, super_of_pod(site.cluster, &one->pods[p]), tier,
                                          false) == first;
                tiers[which] = together ? tier : tiers[which];
            }
        }
        if (fits)
            assert_int_equal(tiers[0], lowest);
        closer += tiers[0] < tiers[1];
        gt_cluster_free(site.cluster);
    }
    printf("%u closer than by room\n", closer);
    assert_true(closer > 10);
}

static void expect_text(const struct gt_cluster *cluster, const struct world_job *job, const char *text)
{
    gt_auto_buf struct gt_buf buf = GT_BUF(4096);

    gt_plan_failure_text(cluster, &job->failure, &buf);
    assert_string_equal(buf.data, text);
}

/* Of the leaves that hold the job the one with the fewest free GPUs; else what each lacks. */
static void says_what_each_domain_lacks(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4);
    struct world_job job;
    (void)state;

    world_leaf(cluster, "wide", 5, 1, class);
    uint32_t best = world_leaf(cluster, "near", 3, 3, class);
    world_leaf(cluster, "small", 1, 5, class);
    world_job(&job, 3, 1, GPUS, 0);
    job.within = 2;
    assert_true(world_plan(cluster, &job));
    assert_int_equal(domain_of(cluster, super_of_pod(cluster, &job.pods[0]), 2, false), best);
    world_job(&job, 7, 1, GPUS, 0);
    assert_true(world_plan(cluster, &job));
    job.within = 2;
    assert_false(world_plan(cluster, &job));
    assert_int_equal(job.failure.reason, GT_PLAN_NO_DOMAIN);
    expect_text(
        cluster, &job,
        "the job must lie in one supernode of tier 2; 7 units of 8 GPUs needed; wide lacks room for 2, "
        "near lacks room for 4, small lacks room for 6");
    job.within = 3;
    assert_false(world_plan(cluster, &job));
    expect_text(cluster, &job, "the job must lie in one supernode of tier 3, and there is none");
    world_job(&job, 3, 2, GPUS, 1);
    for (unsigned u = 0; u < 3; u++)
        job.units[u].within = 2;
    assert_true(world_plan(cluster, &job)); /* 2 units in the wide leaf, one in the near one */
    world_job(&job, 2, 4, GPUS, 1);
    for (unsigned u = 0; u < 2; u++)
        job.units[u].within = 2;
    assert_false(world_plan(cluster, &job));
    assert_int_equal(job.failure.reason, GT_PLAN_NO_DOMAIN);
    expect_text(
        cluster, &job,
        "2 units of 32 GPUs needed, supernodes of tier 2 can hold 1; the cluster has 72 GPUs for pods of "
        "8, 2 units if they lay together");
    gt_cluster_free(cluster);
}

/* A supernode with so many free nodes. */
static void super(struct gt_cluster *cluster, const char *name, unsigned nodes, uint32_t class,
                  uint32_t above)
{
    world_nodes(cluster, name, nodes, class, world_super(cluster, name, 1, above));
}

/* A unit that has begun may not leave its leaf, so it comes before one that would fit there as a whole. */
static void begun_units_come_first(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4), own = world_super(cluster, "own", 2, GT_NONE),
             other = world_super(cluster, "other", 2, GT_NONE);
    struct world_job job;
    (void)state;

    super(cluster, "began", 1, class, own);
    super(cluster, "rest", 3, class, own);
    super(cluster, "two", 2, class, other);
    super(cluster, "one", 1, class, other);
    world_job(&job, 2, 3, GPUS, 1);
    job.units[0].within = job.units[1].within = 2;
    job.pods[0].running = true;
    job.pods[0].place.node = gt_cluster_find_node(cluster, "began-0");
    gt_cluster_set_free(cluster, job.pods[0].place.node, 0);
    assert_true(world_plan(cluster, &job));
    check_within(cluster, &job);
    gt_cluster_free(cluster);
}

/* Its leaf has too little room; that others have more does not help. */
static void says_where_a_begun_unit_has_to_go(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4), own = world_super(cluster, "own", 2, GT_NONE),
             other = world_super(cluster, "other", 2, GT_NONE);
    struct world_job job;
    (void)state;

    super(cluster, "began", 1, class, own);
    super(cluster, "rest", 1, class, own);
    super(cluster, "much", 6, class, other);
    world_job(&job, 2, 3, GPUS, 1);
    job.units[0].within = job.units[1].within = 2;
    job.pods[0].running = true;
    job.pods[0].place.node = gt_cluster_find_node(cluster, "began-0");
    gt_cluster_set_free(cluster, job.pods[0].place.node, 0);
    assert_false(world_plan(cluster, &job));
    expect_text(cluster, &job,
                "unit 0: 2 more pods of 8 GPUs must go to supernode own, where its running pods are; it has "
                "room for 1");
    gt_cluster_free(cluster);
}

/* Beyond 1,024 combinations kinds are brought together one after the other: not out of the unit's leaf. */
static void many_kinds_stay_in_the_leaf(void **state)
{
    enum { EACH = 40 };
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, GPUS, 4), both = world_super(cluster, "both", 2, GT_NONE),
             some = world_super(cluster, "some", 2, GT_NONE);
    struct world_job job;
    char name[16];
    (void)state;

    for (unsigned s = 0; s < EACH; s++) {
        snprintf(name, sizeof(name), "one-%u", s);
        super(cluster, name, 1, class, both);
        snprintf(name, sizeof(name), "two-%u", s);
        super(cluster, name, 2, class, both);
        snprintf(name, sizeof(name), "far-%u", s);
        super(cluster, name, 2, class, some);
    }
    world_job(&job, 1, 3 * EACH, GPUS, 1);
    job.units[0].within = 2;
    assert_true(world_plan(cluster, &job));
    check_within(cluster, &job);
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_the_jobs_that_fit),
        cmocka_unit_test(closeness_first_takes_the_lowest_domain),
        cmocka_unit_test(begun_units_come_first),
        cmocka_unit_test(says_where_a_begun_unit_has_to_go),
        cmocka_unit_test(many_kinds_stay_in_the_leaf),
        cmocka_unit_test(says_what_each_domain_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
