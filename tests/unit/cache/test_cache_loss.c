/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/cache/cache_world.h"

/* Nodes that are lost for the pods on them, and where others may take their places. */

#define MOVES "\"metax-tech.com/on-node-loss\":\"unit\","

static enum gt_cache_loss loss_of(struct gt_cache *cache, const char *name)
{
    const struct gt_cache_moment now = {.ms = 1000000, .unix_s = 1000};
    uint64_t due;
    return gt_cache_pod_loss(pod_of(cache, name), 1000, &now, &due);
}

static void a_taint_drives_out_who_does_not_tolerate_it(void **state)
{
    (void)state;
    struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n");
    give_pod(cache, POD(.name = "plain", .gpus = 1, .node = "n", .annotations = MOVES));
    give_pod(cache, POD(.name = "stays", .gpus = 1, .node = "n", .annotations = MOVES,
                        .spec = "\"tolerations\":[{\"key\":\"gone\",\"operator\":\"Exists\"}],"));
    assert_int_equal(loss_of(cache, "plain"), GT_CACHE_LOSS_NONE);
    give_node(cache, NODE(.name = "n", .taints = "[{\"key\":\"gone\",\"effect\":\"NoExecute\"}]"));
    assert_int_equal(loss_of(cache, "plain"), GT_CACHE_LOSS_TAINTED);
    assert_int_equal(loss_of(cache, "stays"), GT_CACHE_LOSS_NONE);
    gt_cache_free(cache);
}

/* The Node's own time counts only where it was not Ready when it was first seen: with our clock ten days
 * ahead a node that is silent for a moment would be lost at once. */
static void a_clock_ten_days_ahead_loses_no_node(void **state)
{
    (void)state;
    const uint64_t after_ms = 300000;
    const char moves[] = MOVES;
    struct gt_cache *cache = new_cache(NULL);
    uint64_t due;
    give_plain_node(cache, "n");
    give_pod(cache, POD(.name = "p", .gpus = 1, .node = "n", .annotations = moves));
    gt_cache_tick(cache, 1000000);
    give_node(cache, NODE(.name = "n", .not_ready = true, .ready_since = "2100-01-01T00:00:00Z"));
    const struct gt_cache_moment now = {.ms = 1000000 + after_ms - 1, .unix_s = 4102444800 + 864000};
    assert_int_equal(gt_cache_pod_loss(pod_of(cache, "p"), after_ms, &now, &due), GT_CACHE_LOSS_NONE);
    assert_int_equal(due, 1000000 + after_ms);
    const struct gt_cache_moment then = {.ms = due, .unix_s = now.unix_s - 2 * 864000};
    assert_int_equal(gt_cache_pod_loss(pod_of(cache, "p"), after_ms, &then, &due), GT_CACHE_LOSS_NOT_READY);
    gt_cache_free(cache);
}

/* As its template says, and not where its plan has put it. */
static void a_successor_may_run_where_its_template_says(void **state)
{
    (void)state;
    struct gt_cache *cache = new_cache(NULL);
    give_node(cache, NODE(.name = "n", .labels = "{\"pool\":\"a\"}"));
    give_node(cache, NODE(.name = "like", .labels = "{\"pool\":\"a\"}"));
    give_node(cache, NODE(.name = "other", .labels = "{\"pool\":\"b\"}"));
    for (unsigned i = 0; i < 3; i++)
        give_topology(cache, TOPOLOGY(.name = (const char *[]){"n", "like", "other"}[i], .gpus = 8), 1);
    give_pod(cache, POD(.name = "p", .gpus = 1, .node = "n", .annotations = MOVES,
                        .spec = "\"nodeSelector\":{\"pool\":\"a\"},"));
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    const struct gt_cache_pod *pod = pod_of(cache, "p");
    assert_true(gt_cache_successor_fits_node(cache, pod, gt_cluster_find_node(cluster, "like")));
    assert_false(gt_cache_successor_fits_node(cache, pod, gt_cluster_find_node(cluster, "other")));
    gt_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_taint_drives_out_who_does_not_tolerate_it),
        cmocka_unit_test(a_clock_ten_days_ahead_loses_no_node),
        cmocka_unit_test(a_successor_may_run_where_its_template_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
