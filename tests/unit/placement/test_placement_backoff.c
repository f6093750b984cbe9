/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Jobs and nodes that are left alone for a while. */

static struct backoffs backoffs;

static void a_job_waits_until_its_time(void **state)
{
    (void)state;
    backoffs = (struct backoffs){0};
    assert_int_equal(gt_backoff_job_until(&backoffs, "ns/a"), 0);
    gt_backoff_job(&backoffs, "ns/a", 100);
    gt_backoff_job(&backoffs, "ns/b", 200);
    gt_backoff_job(&backoffs, "ns/a", 300); /* evicted once more */
    assert_int_equal(gt_backoff_job_until(&backoffs, "ns/a"), 300);
    assert_int_equal(gt_backoff_job_until(&backoffs, "ns/b"), 200);
}

static void the_oldest_job_gives_way(void **state)
{
    char key[16];
    (void)state;

    backoffs = (struct backoffs){0};
    for (unsigned i = 0; i <= BACKOFF_JOBS_MAX; i++) {
        snprintf(key, sizeof(key), "ns/%u", i);
        gt_backoff_job(&backoffs, key, 1000 + i);
    }
    assert_int_equal(gt_backoff_job_until(&backoffs, "ns/0"), 0);
    assert_int_equal(gt_backoff_job_until(&backoffs, "ns/1"), 1001);
    assert_int_equal(gt_backoff_job_until(&backoffs, key), 1000 + BACKOFF_JOBS_MAX);
}

/* Refusals count for longer than many other back-offs last. */
static void refusals_stay_beside_many_evicted_jobs(void **state)
{
    gt_auto_cluster struct gt_cluster *cluster = NULL;
    const struct gt_pod pod = {.meta = {.name = "a-0"}, .node_name = "n", .failed_for = "OutOfcpu"};
    char key[16], text[BACKOFF_TEXT_SIZE];
    uint64_t last;
    (void)state;

    assert_int_equal(gt_cluster_new(&cluster, NULL), 0);
    backoffs = (struct backoffs){0};
    for (unsigned i = 0; i < BACKOFF_JOBS_MAX; i++) {
        snprintf(key, sizeof(key), "ns/%u", i);
        gt_backoff_job(&backoffs, key, 1000 + i);
    }
    for (unsigned i = 0; i < BACKOFF_REFUSALS; i++) {
        assert_int_equal(gt_backoff_refusals(&backoffs, "ns/a", 200, &last), i);
        assert_int_equal(gt_backoff_refused_until(&backoffs, "ns/a", 200), 0);
        gt_backoff_refusal(&backoffs, cluster, "ns/a", &pod, 100 + i, text);
        gt_backoff_refusal(&backoffs, cluster, "ns/b", &pod, 100 + i, text);
        assert_int_equal(strstr(text, "and wait meanwhile") != NULL, i == BACKOFF_REFUSALS - 1);
    }
    assert_int_equal(gt_backoff_refused_until(&backoffs, "ns/a", 200), 100 + BACKOFF_REFUSALS_MS);
    assert_int_equal(gt_backoff_refused_until(&backoffs, "ns/b", 200), 100 + BACKOFF_REFUSALS_MS);
    /* Each of them counts for ten minutes, and is known of for an hour. */
    assert_int_equal(gt_backoff_refusals(&backoffs, "ns/a", 101 + BACKOFF_REFUSALS_MS, &last), 1);
    assert_int_equal(gt_backoff_refused_until(&backoffs, "ns/a", 101 + BACKOFF_REFUSALS_MS), 0);
    assert_int_equal(gt_backoff_refusals(&backoffs, "ns/a", 101 + BACKOFF_REFUSED_MS, &last), 0);
    assert_int_equal(last, 102);
    assert_int_equal(gt_backoff_refusals(&backoffs, "ns/a", 102 + BACKOFF_REFUSED_MS, &last), 0);
    assert_int_equal(last, 0);
}

static void a_refused_node_is_left_out(void **state)
{
    gt_auto_cluster struct gt_cluster *cluster = NULL;
    gt_auto_class struct gt_class *class = NULL;
    struct gt_weights weights = {.n = 2};
    struct gt_node_set set = {0};
    uint32_t id, a, b;
    (void)state;

    backoffs = (struct backoffs){0};
    assert_int_equal(gt_cluster_new(&cluster, NULL), 0);
    assert_int_equal(gt_class_new(&weights, &class, NULL), 0);
    assert_int_equal(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    assert_int_equal(gt_cluster_add_node(cluster, "a", id, GT_NONE, &a, NULL), 0);
    assert_int_equal(gt_cluster_add_node(cluster, "b", id, GT_NONE, &b, NULL), 0);
    gt_backoff_node(&backoffs, cluster, "ns/job", a, 1000);
    gt_backoff_node(&backoffs, cluster, "ns/job", b, 1000);
    gt_backoff_node(&backoffs, cluster, "ns/job", GT_NONE, 1000);
    gt_backoff_nodes(&backoffs, cluster, "ns/other", 1001, &set);
    assert_int_equal(gt_node_set_count(&set), 0);
    gt_backoff_forget_node(&backoffs, cluster, "ns/other", b); /* a pod has left it */
    gt_backoff_nodes(&backoffs, cluster, "ns/job", 1001, &set);
    assert_int_equal(gt_node_set_count(&set), 1);
    assert_true(gt_node_set_has(&set, a));
    gt_node_set_clear(&set);
    gt_backoff_nodes(&backoffs, cluster, "ns/job", UINT64_MAX - 1, &set); /* long ago */
    assert_int_equal(gt_node_set_count(&set), 0);
    gt_cluster_remove_node(cluster, a);
    assert_int_equal(gt_cluster_add_node(cluster, "c", id, GT_NONE, &b, NULL), 0);
    assert_int_equal(a, b); /* its id is another node's now */
    gt_backoff_nodes(&backoffs, cluster, "ns/job", 1001, &set);
    assert_int_equal(gt_node_set_count(&set), 0);
    gt_node_set_done(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_waits_until_its_time),
        cmocka_unit_test(the_oldest_job_gives_way),
        cmocka_unit_test(refusals_stay_beside_many_evicted_jobs),
        cmocka_unit_test(a_refused_node_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
