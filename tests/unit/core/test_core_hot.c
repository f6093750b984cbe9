/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/score.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/core/core_world.h"

/* Deciding takes nothing from the heap once it has seen the pod sizes. The linker sends every call here. */

static unsigned long taken;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    taken++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    taken++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    taken++;
    return __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    taken++;
    return __real_strdup(text);
}

enum { SUPERS = 8, NODES = 4, ROUNDS = 300 };

/* Scores, plans of every kind, whole lives of assumptions, changes of state; what it does depends on the
 * state alone, so a second time it needs no more room than the first. */
static void work(struct gt_cluster *cluster, uint64_t random)
{
    static const uint32_t ids[] = {0, 14, GT_NONE};
    static double values[SUPERS * NODES];
    struct gt_promise_id assumptions[64];
    struct world_job job;
    struct gt_plan_request request;
    uint64_t half = 0x55555555;
    const struct gt_node_set excluded = {&half, 64};

    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned k = 1 + round % 8;

        gt_score_all(cluster, k, values);
        gt_score_ids(cluster, k, ids, 3, values);
        world_job(&job, 1 + round % 3, 4, 1 + round % 4, round % 2 ? 2 : 0);
        request = world_request(&job);
        request.excluded = round % 4 ? NULL : &excluded;
        if (gt_plan_job(cluster, &request, &job.failure)) {
            assert_int_equal(gt_plan_assume(cluster, job.pods, job.pod_count, round, assumptions, NULL), 0);
            for (uint32_t p = 0; p < job.pod_count; p += 2)
                gt_cluster_confirm(cluster, assumptions[p]);
        }
        if (round >= 20)
            gt_cluster_end_promises(cluster, GT_PROMISE_PLANNED, round - 20);
        gt_cluster_set_free(cluster, (uint32_t)(random_next(&random) % (SUPERS * NODES)),
                            random_next(&random) & 0xff);
    }
    for (unsigned round = 0; round < ROUNDS; round++)
        gt_cluster_end_promises(cluster, GT_PROMISE_PLANNED, round);
    for (uint32_t node = 0; node < SUPERS * NODES; node++)
        gt_cluster_set_free(cluster, node, 0xff);
}

static void takes_nothing(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 8, 4), zone = world_super(cluster, "zone", 2, GT_NONE);
    uint64_t random = test_seed();
    unsigned long before = taken;
    char name[] = "s0";
    (void)state;

    for (unsigned s = 0; s < SUPERS; s++, name[1]++)
        world_nodes(cluster, name, NODES, class, world_super(cluster, name, 1, s < 4 ? zone : GT_NONE));
    work(cluster, random);
    assert_true(taken > before); /* else it would not count */
    before = taken;
    work(cluster, random);
    assert_int_equal(taken, before);
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_nothing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
