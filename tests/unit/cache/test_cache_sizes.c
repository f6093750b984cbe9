/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/internal.h"
#include "tests/unit/cache/cache_world.h"

/* The unit sizes that are passed to the cluster. */

static void expect(struct gt_cache *cache, const char *expected)
{
    char text[256] = "";
    gt_core_refresh_chain(gt_cache_cluster(cache));
    const struct gt_chain_sizes sizes = gt_cache_cluster(cache)->chain.sizes;
    for (unsigned i = 0; i < sizes.count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", i ? "," : "", sizes.size[i]);
    assert_string_equal(text, expected);
}

#define SIZES(group, atomic)                                                                                 \
    "\"metax-tech.com/gpu-group-size\":\"" group "\",\"metax-tech.com/atomic-gpu-group-size\":\"" atomic "\","

static void test_from_pods(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_pod(cache, POD(.name = "a", .gpus = 8, .job = "x")); /* no unit is known */
    expect(cache, "");
    give_pod(cache, POD(.name = "b", .gpus = 8, .job = "x", .gated = true, .annotations = SIZES("32", "16")));
    expect(cache, "16,32");
    gt_cache_pod_deleted(cache, "ns", "b"); /* its size still counts */
    expect(cache, "16,32");
    give_pod(cache, POD(.name = "c", .gpus = 8, .job = "y", .annotations = SIZES("24", "24")));
    give_pod(cache, POD(.name = "d", .gpus = 8, .job = "z", .annotations = SIZES("nonsense", "24")));
    give_pod(cache, POD(.name = "e", .gpus = 8, .job = "z", .annotations = SIZES("0", "24")));
    expect(cache, "16,24,32");
    gt_cache_pod_deleted(cache, "ns", "a");
    gt_cache_pod_deleted(cache, "ns", "c");
    expect(cache, "16,24,32"); /* recent */
}

/* Pods of running jobs that come and go are the same job, and old sizes give way. */
static void test_what_counts(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_pod(cache, POD(.name = "keep", .gpus = 8, .job = "x", .annotations = SIZES("8", "8")));
    for (unsigned i = 0; i < 500; i++) {
        give_pod(cache, POD(.name = "again", .gpus = 8, .job = "x", .annotations = SIZES("8", "8")));
        gt_cache_pod_deleted(cache, "ns", "again");
    }
    give_pod(cache, POD(.name = "other", .gpus = 1, .job = "y", .annotations = SIZES("64", "64")));
    expect(cache, "8,64"); /* 1 GPU of 17, not of 4009 */
    give_pod(cache, POD(.name = "other", .gpus = 1, .job = "y", .annotations = SIZES("48", "48")));
    for (unsigned i = 0; i < 2000; i++) {
        give_pod(cache, POD(.name = "short", .gpus = 8, .job = "z", .annotations = SIZES("8", "8")));
        gt_cache_pod_deleted(cache, "ns", "short");
    }
    expect(cache, "8");
}

/* A job that is one unit: its size is that of its pods, of which one may say it, and which come one by one.
 */
static void test_whole_jobs(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    static const char *const names[] = {"a", "b", "c", "d"};
    for (unsigned i = 0; i < 4; i++)
        give_pod(cache, POD(.name = names[i], .gpus = 8, .job = "x",
                            .annotations = i ? NULL : SIZES("group", "16")));
    expect(cache, "16,32");
    gt_cache_pod_deleted(cache, "ns", "b");
    expect(cache, "16,32");
    give_pod(cache, POD(.name = "b", .gpus = 8, .job = "x"));
    for (unsigned i = 0; i < 4; i++)
        gt_cache_pod_deleted(cache, "ns", names[i]);
    expect(cache, "16,32"); /* recent */
    give_pod(cache, POD(.name = "e", .gpus = 8, .job = "y", .annotations = SIZES("24", "24")));
    give_pod(cache, POD(.name = "e", .gpus = 8, .job = "y", .annotations = SIZES("group", "8")));
    expect(cache, "8,16,32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_from_pods), cmocka_unit_test(test_what_counts),
                                       cmocka_unit_test(test_whole_jobs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
