/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/chain.h"
#include "tests/unit/core/core_world.h"

/* The texts of plans, checked against separate counts on random clusters: every number of every text. */

enum { SUPERS = 5, NODES_MAX = 8 };

static const unsigned chain_sizes[] = {2, 4, 8, 16, 24, 48};

struct state {
    struct gt_cluster *cluster;
    uint32_t nodes;
    uint8_t left[SUPERS * NODES_MAX], size[SUPERS * NODES_MAX]; /* GPUs available; that there are */
    uint32_t super[SUPERS * NODES_MAX], supers[SUPERS];
};

static void make(struct state *state, uint64_t *random)
{
    memset(state, 0, sizeof(*state));
    state->cluster = world_new();
    uint32_t classes[2] = {world_class(state->cluster, 8, 8), world_class(state->cluster, 4, 4)};
    struct gt_chain_sizes chain = {GT_COUNT(chain_sizes), {0}};
    memcpy(chain.size, chain_sizes, sizeof(chain_sizes));
    assert_int_equal(gt_chain_set(state->cluster, &chain, NULL), 0);
    for (unsigned s = 0; s < SUPERS; s++) {
        char name[16];
        unsigned count = 1 + (unsigned)(random_next(random) % NODES_MAX);
        snprintf(name, sizeof(name), "s%u", s);
        state->supers[s] = world_super(state->cluster, name, 1, GT_NONE);
        for (unsigned n = 0; n < count; n++) {
            unsigned small = random_next(random) % 4 == 0;
            snprintf(name, sizeof(name), "s%u-%u", s, n);
            uint32_t id = world_node(state->cluster, name, classes[small], state->supers[s]);
            uint64_t all = small ? 0xf : 0xff, free = all, healthy = all;
            if (random_next(random) % 3)
                free = random_next(random) & all;
            if (random_next(random) % 5 == 0)
                healthy = random_next(random) & all;
            gt_cluster_set_free(state->cluster, id, free);
            gt_cluster_set_healthy(state->cluster, id, healthy);
            state->left[id] = (uint8_t)__builtin_popcountll(free & healthy);
            state->size[id] = small ? 4 : 8;
            state->super[id] = state->supers[s];
            state->nodes = id + 1;
        }
    }
}

static unsigned slots(const struct state *state, uint32_t super, unsigned gpus)
{
    unsigned count = 0;
    for (uint32_t n = 0; n < state->nodes; n++)
        count += state->super[n] == super ? state->left[n] / gpus : 0;
    return count;
}

static unsigned lost(unsigned f, unsigned q, unsigned gpus)
{
    unsigned count = 0;
    for (unsigned i = 0; i < GT_COUNT(chain_sizes); i++)
        if (chain_sizes[i] > q * gpus && chain_sizes[i] % gpus == 0) {
            unsigned places = chain_sizes[i] / gpus;
            count += f / places != (f - q) / places;
        }
    return count;
}

static const char *name_of(const struct state *state, uint32_t super)
{
    struct gt_cluster_supernode info;
    assert_true(gt_cluster_get_supernode(state->cluster, super, &info));
    return info.name;
}

__attribute__((format(printf, 2, 3))) static void says(const char *text, const char *format, ...)
{
    char expected[256];
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof(expected), format, args);
    va_end(args);
    if (!strstr(text, expected))
        fail_msg("\"%s\" does not say \"%s\"", text, expected);
}

static void says_lost(const char *text, const char *before, unsigned count)
{
    if (count)
        says(text, "%s%u larger size%s a place there", before, count, count == 1 ? " loses" : "s lose");
    else
        says(text, "%sno larger size loses a place there", before);
}

/* One unit at its turn, before its pods are taken off. */
static void check_unit(const struct state *state, const struct world_job *job, uint32_t u)
{
    const struct gt_plan_unit *unit = &job->units[u];
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    unsigned feasible = 0, f = slots(state, unit->supernode, unit->gpus), best = UINT32_MAX;
    for (unsigned s = 0; s < SUPERS; s++)
        feasible += slots(state, state->supers[s], unit->gpus) >= unit->pods;
    gt_plan_unit_text(state->cluster, unit, u, &text);
    says(text.data, "unit %u: %u GPUs in supernode %s", u, unit->pods * unit->gpus,
         name_of(state, unit->supernode));
    says(text.data, "which had room for %u such pod", f);
    if (unit->node_in_use) {
        uint32_t node = job->pods[unit->first].place.node;
        unsigned need = unit->pods * unit->gpus;
        for (uint32_t n = 0; n < state->nodes; n++)
            if (state->left[n] >= need && state->left[n] == state->size[n])
                best = state->size[n] < best ? state->size[n] : best;
        says(text.data, "on a node in use, before an idle one");
        assert_true(state->left[node] < state->size[node]);
        assert_true(state->left[node] < best || state->size[node] <= best);
        return;
    }
    says_lost(text.data, ": ", lost(f, unit->pods, unit->gpus));
    if (unit->with != GT_NONE) {
        says(text.data, ", together with unit %u,", unit->with);
        assert_int_equal(job->units[unit->with].supernode, unit->supernode);
        return;
    }
    if (feasible == 1) {
        says(text.data, "; no other supernode had room for it");
        return;
    }
    assert_null(strstr(text.data, "no other supernode"));
    says(text.data, "; %u supernodes could hold it", feasible);
    if (unit->next.supernode == GT_NONE)
        return;
    unsigned next = slots(state, unit->next.supernode, unit->gpus);
    assert_true(unit->next.supernode != unit->supernode && next >= unit->pods);
    char before[300];
    snprintf(before, sizeof(before), ", next best %s with room for %u (",
             name_of(state, unit->next.supernode), next);
    says_lost(text.data, before, lost(next, unit->pods, unit->gpus));
}

static void check_failure(const struct state *state, const struct world_job *job)
{
    const struct gt_plan_unit *unit = &job->units[0];
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    unsigned held = 0, rest = 0, all = 0, pods = job->unit_count * unit->pods;
    for (unsigned s = 0; s < SUPERS; s++) {
        unsigned f = slots(state, state->supers[s], unit->gpus);
        held += f / unit->pods;
        rest = f % unit->pods > rest ? f % unit->pods : rest;
        all += f;
    }
    assert_true(held < job->unit_count);
    gt_plan_failure_text(state->cluster, &job->failure, &text);
    says(text.data, "%u unit%s of %u GPU%s needed, supernodes can hold %u", job->unit_count,
         job->unit_count == 1 ? "" : "s", unit->pods * unit->gpus, unit->pods * unit->gpus == 1 ? "" : "s",
         held);
    if (rest)
        says(text.data, "; %slargest free %u in supernode ", held ? "those placed, " : "", rest * unit->gpus);
    if (rest && !held) /* nothing is placed: that supernode has so many, and none has more */
        assert_int_equal(slots(state, job->failure.supernode, unit->gpus), rest);
    if (pods > all)
        says(text.data, "; %u GPUs are needed in all, the cluster has %u for pods of %u", pods * unit->gpus,
             all * unit->gpus, unit->gpus);
    else
        says(text.data, "; the cluster has %u GPUs for pods of %u, %u unit%s if they lay together",
             all * unit->gpus, unit->gpus, all / unit->pods, all / unit->pods == 1 ? "" : "s");
}

static void texts_are_true(void **unused)
{
    uint64_t random = test_seed();
    unsigned placed = 0, refused = 0, small = 0;
    (void)unused;
    for (unsigned round = 0; round < test_rounds(6000); round++) {
        static struct state state;
        static struct world_job job;
        unsigned gpus = 1u << random_next(&random) % 4, pods = 1 + (unsigned)(random_next(&random) % 5);
        make(&state, &random);
        world_job(&job, 1 + (unsigned)(random_next(&random) % 5), pods, gpus, 0);
        gt_cluster_set_rule(state.cluster, random_next(&random) % 4 ? GT_RULE_CHURN : GT_RULE_STATIC);
        if (world_plan(state.cluster, &job))
            for (uint32_t u = 0; u < job.unit_count; u++) {
                check_unit(&state, &job, u);
                small += job.units[u].node_in_use;
                for (uint32_t i = job.units[u].first; i < job.units[u].first + pods; i++)
                    state.left[job.pods[i].place.node] = (uint8_t)(state.left[job.pods[i].place.node] - gpus);
            }
        else
            check_failure(&state, &job);
        placed += job.placed;
        refused += !job.placed;
        gt_cluster_free(state.cluster);
    }
    assert_true(placed && refused && small);
}

/* Running pods bind a unit to a supernode: how many more it holds, beside what else of the job goes there. */
static void room_beside_running_pods(void **unused)
{
    uint64_t random = test_seed();
    unsigned stuck = 0;
    (void)unused;
    for (unsigned round = 0; round < test_rounds(4000); round++) {
        static struct state state;
        static struct world_job job;
        unsigned gpus = 1u << random_next(&random) % 3, pods = 2 + (unsigned)(random_next(&random) % 6);
        make(&state, &random);
        world_job(&job, 1 + (unsigned)(random_next(&random) % 2), pods, gpus, 0);
        uint32_t super = state.supers[random_next(&random) % SUPERS], node = 0;
        while (state.super[node] != super)
            node++;
        for (uint32_t u = 0; u < job.unit_count; u++) {
            job.pods[job.units[u].first].running = true;
            job.pods[job.units[u].first].place.node = node;
        }
        struct gt_plan_request request = world_request(&job);
        if (!gt_plan_job(state.cluster, &request, &job.failure) && job.failure.reason == GT_PLAN_UNIT_STUCK) {
            gt_auto_buf struct gt_buf text = GT_BUF(4096);
            unsigned f = slots(&state, super, gpus), taken = job.failure.unit * (pods - 1);
            gt_plan_failure_text(state.cluster, &job.failure, &text);
            says(text.data,
                 "unit %u: %u more pod%s of %u GPUs must go to supernode %s, where its running pods are; "
                 "it has room for %u%s",
                 job.failure.unit, pods - 1, pods == 2 ? "" : "s", gpus, name_of(&state, super), f - taken,
                 taken ? " beside the rest of the job" : "");
            assert_true(f - taken < pods - 1);
            assert_true(taken || !strstr(text.data, "beside"));
            stuck++;
        }
        gt_cluster_free(state.cluster);
    }
    assert_true(stuck > 0);
}

/* A search that is not exact says so: not all ways are tried for units that may be split. Where GPUs are too
 * few in all, none helps. */
static void says_that_another_way_might_do(void **unused)
{
    static const char hint[] = "; not all ways to place its pods were tried, one might do";
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 4, 4);
    static struct world_job job;
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    (void)unused;
    world_nodes(cluster, "a", 1, class, world_super(cluster, "a", 1, GT_NONE));
    world_nodes(cluster, "b", 1, class, world_super(cluster, "b", 1, GT_NONE));
    world_job(&job, 2, 2, 3, 0);
    job.units[0].gpus = 1;
    struct gt_plan_request request = world_request(&job);
    assert_false(gt_plan_job(cluster, &request, &job.failure));
    gt_plan_failure_text(cluster, &job.failure, &text);
    says(text.data, "1 unit of 6 GPUs needed, supernodes can hold 0");
    assert_null(strstr(text.data, hint));
    job.units[0].atom = 1;
    assert_false(gt_plan_job(cluster, &request, &job.failure));
    gt_buf_consume(&text, text.len);
    gt_plan_failure_text(cluster, &job.failure, &text);
    says(text.data, "%s", hint);
    gt_cluster_set_free(cluster, 0, 0);
    assert_false(gt_plan_job(cluster, &request, &job.failure));
    gt_buf_consume(&text, text.len);
    gt_plan_failure_text(cluster, &job.failure, &text);
    assert_null(strstr(text.data, hint));
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_true),
        cmocka_unit_test(room_beside_running_pods),
        cmocka_unit_test(says_that_another_way_might_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
