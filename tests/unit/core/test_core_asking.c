/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/digest.h"
#include "scheduler-ext/core/internal.h"
#include "scheduler-ext/core/score.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/core/core_world.h"

/* Queries about a different state of the cluster: without some nodes, or with more GPUs in use. The answer is
 * that of a cluster in that state, and the queried cluster does not change in any bit. */

enum { SUPERS = 9, NODES = 30, SIZES = 3 };
static const unsigned node_gpus[SIZES] = {4, 8, 12};
static struct gt_class *classes_of[SIZES]; /* their tables take a while to make */

static unsigned below(uint64_t *random, unsigned n)
{
    return (unsigned)(random_next(random) % n);
}

/* Nodes of three sizes in supernodes of two tiers, and some in none; the same for the same seed. */
static struct gt_cluster *cluster_from(uint64_t random)
{
    struct gt_cluster *cluster = world_new();
    uint32_t classes[SIZES], supers[SUPERS], nodes;
    struct gt_promise_id assumption;
    char name[16];

    for (unsigned i = 0; i < SIZES; i++)
        assert_int_equal(gt_cluster_add_class(cluster, classes_of[i], &classes[i], NULL), 0);
    for (unsigned s = 0; s < SUPERS; s++) {
        snprintf(name, sizeof(name), "s%u", s);
        supers[s] = s < 2 ? world_super(cluster, name, 2, GT_NONE)
                          : world_super(cluster, name, 1, below(&random, 3) ? supers[s % 2] : GT_NONE);
    }
    for (unsigned n = 0; n < NODES; n++) {
        unsigned super = below(&random, SUPERS + 1);
        snprintf(name, sizeof(name), "n%u", n);
        world_node(cluster, name, classes[below(&random, SIZES)], super < SUPERS ? supers[super] : GT_NONE);
    }
    nodes = gt_cluster_nodes(cluster);
    gt_cluster_set_rule(cluster, below(&random, 2) ? GT_RULE_CHURN : GT_RULE_STATIC);
    for (uint32_t n = 0; n < nodes; n++) {
        uint64_t draw = random_next(&random), used = draw & random_next(&random);

        if (draw % 3)
            gt_cluster_set_free(cluster, n, ~used);
        if (draw % 7 == 0)
            gt_cluster_set_healthy(cluster, n, ~used << 3 | 7);
        if (draw % 11 == 0)
            gt_cluster_set_eligible(cluster, n, false);
        if (draw % 5 == 0) /* where it is not available, nothing is assumed */
            gt_cluster_promise(cluster, &(struct gt_promise){GT_PROMISE_PLANNED, {n, 3}, 1, 0}, &assumption,
                               NULL);
    }
    return cluster;
}

/* Units of one size or of two, hard or soft, with or without pods that run. */
static void job_from(struct world_job *job, uint64_t random)
{
    unsigned units = 1 + below(&random, 4), pods = 1u << below(&random, 4), gpus = 1u << below(&random, 4);

    world_job(job, units, pods, gpus, pods > 1 && below(&random, 2) ? pods / 2 : 0);
    if (below(&random, 3) == 0)
        job->units[units - 1].gpus = 1u << below(&random, 4);
    for (unsigned left = below(&random, 3); left; left--) {
        unsigned pod = below(&random, job->pod_count);

        job->pods[pod].running = true;
        job->pods[pod].place.node = below(&random, NODES + 2);
    }
}

/* All that the cluster knows of itself, and the counts of the first `sizes` pod sizes. */
static uint64_t digest_of(const struct gt_cluster *c, unsigned sizes)
{
    uint64_t digest = GT_DIGEST_EMPTY;
    size_t nodes = c->node_count, supers = c->super_count;
    const struct {
        const void *bytes;
        size_t size;
    } parts[] = {
        {c->free, nodes * sizeof(*c->free)},
        {c->healthy, nodes * sizeof(*c->healthy)},
        {c->assumed, nodes * sizeof(*c->assumed)},
        {c->available, nodes * sizeof(*c->available)},
        {c->count, nodes},
        {c->size, nodes},
        {c->usable, nodes},
        {c->eligible, nodes * sizeof(*c->eligible)},
        {c->class, nodes * sizeof(*c->class)},
        {c->super, nodes * sizeof(*c->super)},
        {c->next, nodes * sizeof(*c->next)},
        {c->previous, nodes * sizeof(*c->previous)},
        {c->first_promise, nodes * sizeof(*c->first_promise)},
        {c->supers, supers * sizeof(*c->supers)},
        {c->total, supers * sizeof(*c->total)},
        {c->nodes_with, sizeof(c->nodes_with)},
        {c->idle_with, sizeof(c->idle_with)},
        {c->nodes_of, sizeof(c->nodes_of)},
    };

    for (size_t i = 0; i < GT_COUNT(parts); i++)
        digest = gt_digest_bytes(digest, parts[i].bytes, parts[i].size);
    for (uint32_t i = 0; i < c->promise_count; i++) { /* without what only fills up the struct */
        const struct promise *promise = &c->promises[i];
        const uint64_t members[] = {promise->told.kind,       promise->told.owner, promise->told.place.mask,
                                    promise->told.place.node, promise->next,       promise->previous,
                                    promise->generation,      promise->taken};
        digest = gt_digest_bytes(digest, members, sizeof(members));
    }
    for (unsigned t = 0; t < sizes; t++) {
        digest = gt_digest_bytes(digest, &c->slot_size[t], sizeof(c->slot_size[t]));
        digest = gt_digest_bytes(digest, c->slots[t], supers * sizeof(*c->slots[t]));
        digest = gt_digest_bytes(digest, c->whole[t], supers * sizeof(*c->whole[t]));
    }
    return digest;
}

/* What a plan says must be equal, to the last field. */
static void expect_equal(const struct world_job *a, const struct world_job *b)
{
    assert_int_equal(a->placed, b->placed);
    if (!a->placed) {
        assert_int_equal(a->failure.reason, b->failure.reason);
        assert_int_equal(a->failure.unit, b->failure.unit);
        assert_int_equal(a->failure.size, b->failure.size);
        assert_int_equal(a->failure.wanted, b->failure.wanted);
        assert_int_equal(a->failure.fitting, b->failure.fitting);
        assert_int_equal(a->failure.largest, b->failure.largest);
        assert_int_equal(a->failure.supernode, b->failure.supernode);
        assert_int_equal(a->failure.available, b->failure.available);
        assert_int_equal(a->failure.atoms, b->failure.atoms);
        assert_int_equal(a->failure.beside, b->failure.beside);
        assert_int_equal(a->failure.gpus, b->failure.gpus);
        assert_int_equal(a->failure.needed, b->failure.needed);
        assert_int_equal(a->failure.together, b->failure.together);
        return;
    }
    for (uint32_t p = 0; p < a->pod_count; p++) {
        assert_int_equal(a->pods[p].place.node, b->pods[p].place.node);
        assert_int_equal(a->pods[p].place.mask, b->pods[p].place.mask);
    }
    for (uint32_t u = 0; u < a->unit_count; u++) {
        const struct gt_plan_unit *x = &a->units[u], *y = &b->units[u];

        assert_int_equal(x->supernode, y->supernode);
        assert_int_equal(x->tier, y->tier);
        assert_int_equal(x->supernodes, y->supernodes);
        assert_int_equal(x->slots_before, y->slots_before);
        assert_int_equal(x->feasible, y->feasible);
        assert_int_equal(x->levels_lost, y->levels_lost);
        assert_int_equal(x->touched, y->touched);
        assert_int_equal(x->with, y->with);
        assert_int_equal(x->node_in_use, y->node_in_use);
        assert_int_equal(x->next.supernode, y->next.supernode);
        assert_int_equal(x->next.slots, y->next.slots);
        assert_int_equal(x->next.levels_lost, y->next.levels_lost);
        assert_int_equal(x->next.touched, y->next.touched);
        assert_int_equal(x->fewest, y->fewest);
    }
}

static void plan(struct gt_cluster *cluster, struct world_job *job)
{
    const struct gt_plan_request request = world_request(job);

    job->placed = gt_plan_job(cluster, &request, &job->failure);
}

/* Counts the kinds of answers: a test with only one kind would show little. */
static unsigned placed, failed, limited_placed, limited_failed;

static void ask_once(uint64_t seed)
{
    static uint64_t freed[NODES];
    static struct world_job job, other;
    struct gt_cluster *cluster = cluster_from(seed), *twin = cluster_from(seed);
    struct gt_node_set excluded = {0};
    uint64_t random = seed + 1;
    struct gt_plan_request request;

    for (unsigned round = 0; round < 20; round++) {
        uint64_t job_seed = random_next(&random);
        unsigned sizes = cluster->slot_sizes, out_of = 1 + below(&random, 6);
        bool frees = below(&random, 2);
        uint64_t before = digest_of(cluster, sizes);
        struct gt_cluster *same = cluster_from(seed);

        gt_node_set_clear(&excluded);
        memset(freed, 0, sizeof(freed));
        for (uint32_t n = 0; n < NODES; n++) {
            struct gt_cluster_node node;

            assert_true(gt_cluster_get_node(same, n, &node));
            if (frees && below(&random, 3) == 0) {
                freed[n] = random_next(&random);
                gt_cluster_set_free(same, n, node.free | freed[n]);
            }
            if (below(&random, out_of) == 0) {
                assert_int_equal(gt_node_set_add(&excluded, n, NULL), 0);
                gt_cluster_set_eligible(same, n, false);
            }
        }
        gt_node_set_add(&excluded, NODES + 70, NULL); /* nobody's id */

        job_from(&job, job_seed);
        job_from(&other, job_seed);
        request = world_request(&job);
        request.excluded = &excluded;
        request.freed = frees ? freed : NULL;
        job.placed = gt_plan_job(cluster, &request, &job.failure);
        plan(same, &other);
        expect_equal(&job, &other);
        placed += job.placed;
        failed += !job.placed;
        if (!frees)
            for (unsigned k = 1; k <= 12; k++)
                assert_int_equal(gt_score_best(cluster, &excluded, k), gt_score_best(same, NULL, k));

        assert_int_equal(digest_of(cluster, sizes), before);
        world_check(cluster);

        /* The earlier query does not change the next answer either. */
        job_from(&job, job_seed);
        job_from(&other, job_seed);
        plan(cluster, &job);
        plan(twin, &other);
        expect_equal(&job, &other);
        gt_cluster_free(same);
    }
    gt_node_set_done(&excluded);
    gt_cluster_free(cluster);
    gt_cluster_free(twin);
}

/* A limit is as if so many GPUs were in use, but that any of those available may be given. */
static void limit_once(uint64_t seed)
{
    static struct world_job job, other;
    static struct gt_plan_limit limits[NODES];
    struct gt_cluster *cluster = cluster_from(seed);
    uint64_t random = seed + 1;

    for (unsigned round = 0; round < 10; round++) {
        struct gt_cluster *same = cluster_from(seed);
        uint64_t job_seed = random_next(&random);
        uint32_t count = 0;
        unsigned taken[NODES] = {0}, most[NODES];

        for (uint32_t n = 0; n < NODES; n++) {
            struct gt_cluster_node node;

            assert_true(gt_cluster_get_node(same, n, &node));
            most[n] = gt_bit_count(node.available);
            if (below(&random, 2))
                continue;
            unsigned left = most[n], gpus = below(&random, 9);

            limits[count++] = (struct gt_plan_limit){n, gpus};
            for (uint64_t mask = node.available; left > gpus; left--) {
                mask &= mask - 1;
                gt_cluster_set_free(same, n, mask);
            }
            most[n] = left;
        }
        job_from(&job, job_seed);
        job_from(&other, job_seed);
        struct gt_plan_request request = world_request(&job);

        request.limits = limits;
        request.limit_count = count;
        job.placed = gt_plan_job(cluster, &request, &job.failure);
        plan(same, &other);
        assert_int_equal(job.placed, other.placed);
        for (uint32_t u = 0; job.placed && u < job.unit_count; u++)
            for (uint32_t p = job.units[u].first; p < job.units[u].first + job.units[u].pods; p++) {
                struct gt_cluster_node node;

                assert_int_equal(job.pods[p].place.node, other.pods[p].place.node);
                if (job.pods[p].running)
                    continue;
                assert_true(gt_cluster_get_node(cluster, job.pods[p].place.node, &node));
                assert_int_equal(gt_bit_count(job.pods[p].place.mask & node.available), job.units[u].gpus);
                taken[job.pods[p].place.node] += job.units[u].gpus;
                assert_true(taken[job.pods[p].place.node] <= most[job.pods[p].place.node]);
            }
        limited_placed += job.placed;
        limited_failed += !job.placed;
        world_check(cluster);
        gt_cluster_free(same);
    }
    gt_cluster_free(cluster);
}

static void answers_as_a_cluster_that_is_so(void **state)
{
    uint64_t random = test_seed();
    (void)state;

    for (unsigned i = 0; i < SIZES; i++) {
        struct gt_weights weights;

        wire_meshes(&weights, node_gpus[i], 4, 64, 8);
        assert_int_equal(gt_class_new(&weights, &classes_of[i], NULL), 0);
    }
    for (unsigned i = 0; i < test_rounds(200); i++)
        ask_once(random_next(&random));
    for (unsigned i = 0; i < test_rounds(200); i++)
        limit_once(random_next(&random));
    for (unsigned i = 0; i < SIZES; i++)
        gt_class_unref(classes_of[i]);
    assert_true(placed > 0);
    assert_true(failed > 0);
    assert_true(limited_placed > 0);
    assert_true(limited_failed > 0);
}

static void an_excluded_node_is_not_chosen(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 4);
    struct gt_node_set excluded = {0};
    struct world_job job;
    (void)state;

    world_nodes(cluster, "a", 2, class, world_super(cluster, "a", 1, GT_NONE));
    world_nodes(cluster, "b", 2, class, world_super(cluster, "b", 1, GT_NONE));
    world_job(&job, 1, 2, 8, 0);
    struct gt_plan_request request = world_request(&job);

    assert_true(gt_plan_job(cluster, &request, &job.failure));
    assert_int_equal(job.units[0].supernode, gt_cluster_find_supernode(cluster, "a"));
    assert_int_equal(gt_node_set_add(&excluded, gt_cluster_find_node(cluster, "a-1"), NULL), 0);
    request.excluded = &excluded;
    assert_true(gt_plan_job(cluster, &request, &job.failure));
    assert_int_equal(job.units[0].supernode, gt_cluster_find_supernode(cluster, "b"));
    assert_int_equal(gt_node_set_add(&excluded, gt_cluster_find_node(cluster, "b-0"), NULL), 0);
    assert_false(gt_plan_job(cluster, &request, &job.failure));
    assert_int_equal(job.failure.reason, GT_PLAN_NO_SUPERNODE);
    assert_int_equal(job.failure.available, 16);
    request.excluded = NULL;
    assert_true(gt_plan_job(cluster, &request, &job.failure));
    gt_node_set_done(&excluded);
    gt_cluster_free(cluster);
}

static void a_set_tells_its_nodes(void **state)
{
    struct gt_node_set set = {0};
    static const uint32_t nodes[] = {0, 1, 63, 64, 191, 4711};
    (void)state;

    assert_int_equal(gt_node_set_next(NULL, 0), UINT32_MAX);
    assert_int_equal(gt_node_set_next(&set, 0), UINT32_MAX);
    assert_int_equal(gt_node_set_count(&set), 0);
    for (size_t i = GT_COUNT(nodes); i-- > 0;)
        assert_int_equal(gt_node_set_add(&set, nodes[i], NULL), 0);
    uint32_t at = gt_node_set_next(&set, 0);
    for (size_t i = 0; i < GT_COUNT(nodes); i++, at = gt_node_set_next(&set, at + 1))
        assert_int_equal(at, nodes[i]);
    assert_int_equal(at, UINT32_MAX);
    assert_int_equal(gt_node_set_count(&set), GT_COUNT(nodes));
    assert_false(gt_node_set_has(&set, 62));
    gt_node_set_clear(&set);
    assert_int_equal(gt_node_set_next(&set, 0), UINT32_MAX);
    gt_node_set_done(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_tells_its_nodes),
        cmocka_unit_test(an_excluded_node_is_not_chosen),
        cmocka_unit_test(answers_as_a_cluster_that_is_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
