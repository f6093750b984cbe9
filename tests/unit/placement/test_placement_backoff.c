/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The pod `name` without an owner has failed at `start_s`, on node n. */
static struct gt_pod failed_pod(const char *name, const char *uid, uint64_t start_s)
{
    return (struct gt_pod){.meta = {.namespace_ = "ns", .name = name},
                           .uid = uid,
                           .node_name = "n",
                           .failed_for = "OutOfcpu",
                           .start_s = start_s};
}

/* Refusals count for longer than many other back-offs last. */
static void refusals_stay_beside_many_evicted_jobs(void **state)
{
    gt_auto_cache struct gt_cache *cache = NULL;
    struct backoff_refusal refusal;
    char key[16];
    uint64_t last;
    (void)state;

    assert_int_equal(gt_cache_new(&(struct gt_cache_spec){0}, &cache, NULL), 0);
    backoffs = (struct backoffs){0};
    for (unsigned i = 0; i < BACKOFF_JOBS_MAX; i++) {
        snprintf(key, sizeof(key), "ns/%u", i);
        gt_backoff_job(&backoffs, key, 1000 + i);
    }
    for (unsigned i = 0; i < BACKOFF_REFUSALS; i++) {
        const char uid[] = {(char)('0' + (int)i), '\0'};
        const struct gt_pod a = failed_pod("a", uid, 9), b = failed_pod("b", uid, 9);
        const struct gt_cache_pod seen = {.uid = uid};
        const struct gt_cache_moment now = {.ms = 100 + i};
        assert_int_equal(gt_backoff_refusals(&backoffs, "ns/Pod/a", 200, &last), i);
        assert_int_equal(gt_backoff_refused_until(&backoffs, "ns/Pod/a", 200), 0);
        assert_true(gt_backoff_refusal(&backoffs, cache, &seen, &a, &now, &refusal));
        assert_true(gt_backoff_refusal(&backoffs, cache, &seen, &b, &now, &refusal));
        assert_int_equal(strstr(refusal.text, "and wait meanwhile") != NULL, i == BACKOFF_REFUSALS - 1);
        assert_null(refusal.job);
    }
    assert_int_equal(gt_backoff_refused_until(&backoffs, "ns/Pod/a", 200), 100 + BACKOFF_REFUSALS_MS);
    assert_int_equal(gt_backoff_refused_until(&backoffs, "ns/Pod/b", 200), 100 + BACKOFF_REFUSALS_MS);
    /* Each of them counts for ten minutes, and is known of for an hour. */
    assert_int_equal(gt_backoff_refusals(&backoffs, "ns/Pod/a", 101 + BACKOFF_REFUSALS_MS, &last), 1);
    assert_int_equal(gt_backoff_refused_until(&backoffs, "ns/Pod/a", 101 + BACKOFF_REFUSALS_MS), 0);
    assert_int_equal(gt_backoff_refusals(&backoffs, "ns/Pod/a", 101 + BACKOFF_REFUSED_MS, &last), 0);
    assert_int_equal(last, 102);
    assert_int_equal(gt_backoff_refusals(&backoffs, "ns/Pod/a", 102 + BACKOFF_REFUSED_MS, &last), 0);
    assert_int_equal(last, 0);
}

/* By a new leader, in any order and however often; what is older than ten minutes does not count. */
static void refusals_are_read_from_a_list(void **state)
{
    enum { WALL_S = 1000000, NOW_MS = 300000 };
    static const struct {
        const char *uid;
        unsigned ago_s;
        bool counts;
    } listed[] = {{"old", 600, false}, {"d", 400, true},  {"a", 100, true},
                  {"c", 290, true},    {"d", 400, false}, {"b", 200, true},
                  {"e", 299, false},   {"b", 200, false}, {"f", 1, true}};
    const struct gt_cache_moment now = {.ms = NOW_MS, .unix_s = WALL_S};
    gt_auto_cache struct gt_cache *cache = NULL;
    struct backoff_refusal refusal;
    uint64_t last;
    (void)state;

    assert_int_equal(gt_cache_new(&(struct gt_cache_spec){0}, &cache, NULL), 0);
    backoffs = (struct backoffs){0};
    for (size_t i = 0; i < GT_COUNT(listed); i++) {
        const struct gt_pod pod = failed_pod("a", listed[i].uid, WALL_S - listed[i].ago_s);
        assert_int_equal(gt_backoff_refusal(&backoffs, cache, NULL, &pod, &now, &refusal), listed[i].counts);
    }
    assert_int_equal(gt_backoff_refusals(&backoffs, "ns/Pod/a", NOW_MS, &last), BACKOFF_REFUSALS);
    assert_int_equal(last, NOW_MS - 1000);
    /* a and f stay, and b is the third one. */
    assert_int_equal(gt_backoff_refused_until(&backoffs, "ns/Pod/a", NOW_MS),
                     NOW_MS - 200000 + BACKOFF_REFUSALS_MS);
    /* A clock that is ahead, and a time before the boot. */
    struct gt_pod pod = failed_pod("b", "x", WALL_S + 50);
    assert_true(gt_backoff_refusal(&backoffs, cache, NULL, &pod, &now, &refusal));
    assert_int_equal(gt_backoff_refusals(&backoffs, "ns/Pod/b", NOW_MS, &last), 1);
    assert_int_equal(last, NOW_MS);
    pod = failed_pod("c", "y", 0);
    pod.created_s = WALL_S - 599;
    assert_true(gt_backoff_refusal(&backoffs, cache, NULL, &pod, &now, &refusal));
    assert_int_equal(gt_backoff_refusals(&backoffs, "ns/Pod/c", NOW_MS, &last), 1);
    assert_int_equal(last, 1);
}

/* Who makes the pods changes their objects, too. Times of objects are whole seconds, and clocks differ. */
static void refusals_at_once_count_once(void **state)
{
    static const char *const uids[] = {"a", "b", "c", "d", "e"};
    gt_auto_cache struct gt_cache *cache = NULL;
    struct backoff_refusal refusal;
    (void)state;

    assert_int_equal(gt_cache_new(&(struct gt_cache_spec){0}, &cache, NULL), 0);
    backoffs = (struct backoffs){0};
    for (unsigned i = 0; i < GT_COUNT(uids); i++) { /* all at 1000.0 s, which is 5000 ms here */
        const struct gt_pod pod = failed_pod("a", uids[i], 1000);
        const struct gt_cache_pod seen = {.uid = uids[i]};
        const struct gt_cache_moment now = {.ms = 5000 + i, .unix_s = 1000};
        assert_true(gt_backoff_refusal(&backoffs, cache, &seen, &pod, &now, &refusal));
    }
    for (unsigned ms = 0; ms < 20000; ms += 900)
        for (unsigned i = 0; i < GT_COUNT(uids); i++) {
            const struct gt_pod pod = failed_pod("a", uids[i], 1000);
            const struct gt_cache_moment now = {.ms = 5005 + ms, .unix_s = 1000 + (5 + ms) / 1000};
            assert_false(gt_backoff_refusal(&backoffs, cache, NULL, &pod, &now, &refusal));
        }
}

/* Pods may be listed before nodes. */
static void a_node_is_left_out_once_it_is_known(void **state)
{
    const struct gt_pod pod = failed_pod("a", "u", 1000);
    const struct gt_cache_moment now = {.ms = 5000, .unix_s = 1001};
    gt_auto_cache struct gt_cache *cache = NULL;
    gt_auto_class struct gt_class *class = NULL;
    struct gt_weights weights = {.n = 2};
    struct backoff_refusal refusal;
    struct gt_node_set set = {0};
    uint32_t id, node;
    (void)state;

    assert_int_equal(gt_cache_new(&(struct gt_cache_spec){0}, &cache, NULL), 0);
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    backoffs = (struct backoffs){0};
    assert_true(gt_backoff_refusal(&backoffs, cache, NULL, &pod, &now, &refusal));
    gt_backoff_nodes(&backoffs, cluster, "ns/Pod/a", 5000, &set);
    assert_int_equal(gt_node_set_count(&set), 0);
    assert_int_equal(gt_class_new(&weights, &class, NULL), 0);
    assert_int_equal(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    assert_int_equal(gt_cluster_add_node(cluster, "m", id, GT_NONE, &node, NULL), 0);
    assert_int_equal(gt_cluster_add_node(cluster, "n", id, GT_NONE, &node, NULL), 0);
    gt_backoff_nodes(&backoffs, cluster, "ns/Pod/a", 5000, &set);
    assert_int_equal(gt_node_set_count(&set), 1);
    assert_true(gt_node_set_has(&set, node));
    gt_node_set_clear(&set);
    gt_backoff_nodes(&backoffs, cluster, "ns/Pod/a", 4000 + BACKOFF_REFUSALS_MS, &set);
    assert_int_equal(gt_node_set_count(&set), 0);
    gt_node_set_done(&set);
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
        cmocka_unit_test(refusals_are_read_from_a_list),
        cmocka_unit_test(refusals_at_once_count_once),
        cmocka_unit_test(a_node_is_left_out_once_it_is_known),
        cmocka_unit_test(a_refused_node_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
