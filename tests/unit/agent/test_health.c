/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/health.h"
#include "agent/vendor_digest.h"
#include "base/buf.h"
#include "topology/probe/answers.h"

/* One scan of a node whose GPU i is healthy where bit i of `mask` is set. */
static uint64_t scan(struct gt_health *health, unsigned gpus, uint64_t mask, int vendor, unsigned flags)
{
    gt_auto_node struct gt_node *node = NULL;
    uint64_t said = 0;
    assert_return_code(gt_node_new(gpus, 0, &node, NULL), 0);
    for (unsigned i = 0; i < gpus; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:%02x:00.0", i + 1);
        gpu->health = mask >> i & 1 ? GT_GPU_HEALTHY : GT_GPU_UNHEALTHY;
        gpu->health_told = vendor ? GT_TOLD_STATE : 0;
        gpu->ill_by = gt_gpu_usable(gpu) ? 0 : gpu->health_told;
        snprintf(gpu->unhealthy_reason, sizeof(gpu->unhealthy_reason), "%s", gt_gpu_usable(gpu) ? "" : "ECC");
    }
    gt_health_apply(health, node, flags);
    for (unsigned i = 0; i < gpus; i++) {
        assert_int_equal(gt_gpu_usable(&node->gpus[i]), node->gpus[i].unhealthy_reason[0] == '\0');
        said |= (uint64_t)gt_gpu_usable(&node->gpus[i]) << i;
    }
    return said;
}

static void test_first_scan_is_believed(void **state)
{
    struct gt_health health = {.unhealthy_after = 3, .healthy_after = 3};
    (void)state;
    assert_int_equal(scan(&health, 2, 1, 1, 0), 1);
    assert_false(gt_health_pending(&health));
}

static void test_thresholds(void **state)
{
    struct gt_health health = {.unhealthy_after = 2, .healthy_after = 3};
    (void)state;
    assert_int_equal(scan(&health, 2, 3, 1, 0), 3);
    assert_int_equal(scan(&health, 2, 2, 1, 0), 3);
    assert_true(gt_health_pending(&health));
    assert_int_equal(scan(&health, 2, 3, 1, 0), 3); /* a flicker starts the count anew */
    assert_false(gt_health_pending(&health));
    assert_int_equal(scan(&health, 2, 2, 1, 0), 3);
    assert_int_equal(scan(&health, 2, 2, 1, 0), 2);
    assert_int_equal(scan(&health, 2, 3, 1, 0), 2);
    assert_int_equal(scan(&health, 2, 3, 1, 0), 2);
    assert_int_equal(scan(&health, 2, 3, 1, 0), 3);
}

static void test_at_once(void **state)
{
    struct gt_health health = {.unhealthy_after = 5, .healthy_after = 5};
    (void)state;
    assert_int_equal(scan(&health, 8, 0xff, 1, 0), 0xff);
    assert_int_equal(scan(&health, 8, 0xf7, 1, GT_HEALTH_AT_ONCE), 0xf7);
    assert_int_equal(scan(&health, 8, 0xff, 1, GT_HEALTH_AT_ONCE), 0xff);
}

static bool one_scan(struct gt_health *health, const char *uuid, bool healthy)
{
    gt_auto_node struct gt_node *node = NULL;
    assert_return_code(gt_node_new(1, 0, &node, NULL), 0);
    struct gt_gpu *gpu = &node->gpus[0];
    snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:01:00.0");
    snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", uuid);
    gpu->health = healthy ? GT_GPU_HEALTHY : GT_GPU_UNHEALTHY;
    gpu->health_told = GT_TOLD_STATE;
    gpu->ill_by = healthy ? 0 : GT_TOLD_STATE;
    snprintf(gpu->unhealthy_reason, sizeof(gpu->unhealthy_reason), "%s", healthy ? "" : "ECC");
    gt_health_apply(health, node, 0);
    return gt_gpu_usable(gpu);
}

/* Another card at the same place begins anew, in both directions; one whose UUID is not told may be the old.
 */
static void test_a_card_is_swapped(void **state)
{
    struct gt_health health = {.unhealthy_after = 3, .healthy_after = 3};
    (void)state;
    assert_false(one_scan(&health, "", false));
    assert_false(one_scan(&health, "GPU-a", true)); /* its UUID becomes known: the same card */
    assert_false(one_scan(&health, "", true));
    assert_true(one_scan(&health, "GPU-b", true));
    assert_true(one_scan(&health, "GPU-b", false));
    assert_false(one_scan(&health, "GPU-c", false));
    assert_false(one_scan(&health, "GPU-c", true));
    assert_int_equal(health.count, 1);
}

/* A vendor library that hangs says nothing: that is no recovery. */
static void test_not_knowing_is_no_recovery(void **state)
{
    struct gt_health health = {.unhealthy_after = 1, .healthy_after = 2};
    (void)state;
    assert_int_equal(scan(&health, 2, 2, 1, 0), 2);
    for (int i = 0; i < 10; i++)
        assert_int_equal(scan(&health, 2, 3, 0, 0), 2);
    assert_int_equal(scan(&health, 2, 3, 0, GT_HEALTH_AT_ONCE), 2);
    assert_false(gt_health_pending(&health));
    assert_int_equal(scan(&health, 2, 2, 0, 0), 2); /* ill for another reason too */
    assert_int_equal(scan(&health, 2, 3, 0, 0), 2);
    assert_int_equal(scan(&health, 2, 3, 1, 0), 2);
    assert_int_equal(scan(&health, 2, 3, 1, 0), 3);
    /* A recording without the library is all there is. */
    assert_int_equal(scan(&health, 2, 2, 1, 0), 2);
    assert_int_equal(scan(&health, 2, 3, 0, GT_HEALTH_AT_ONCE | GT_HEALTH_ALL), 3);
}

/* The call that said that a GPU is ill hangs next time, as ill GPUs do; the others still answer. */
static void test_half_an_answer_is_no_recovery(void **state)
{
    static const char *const words[] = {
        "{\"call\":\"mxSmlGetDeviceState\",\"args\":[0],\"rc\":0,\"value\":0},"
        "{\"call\":\"mxSmlGetTotalEccErrors\",\"args\":[0],\"rc\":0,\"value\":{\"dramUE\":0}}",
        "{\"call\":\"mxSmlGetDeviceState\",\"args\":[0],\"error\":\"timeout\"},"
        "{\"call\":\"mxSmlGetTotalEccErrors\",\"args\":[0],\"rc\":0,\"value\":{\"dramUE\":0}}",
        "{\"call\":\"mxSmlGetDeviceState\",\"args\":[0],\"rc\":0,\"value\":1},"
        "{\"call\":\"mxSmlGetTotalEccErrors\",\"args\":[0],\"error\":\"timeout\"}",
    };
    static const bool healthy[] = {false, false, true};
    struct gt_health health = {.unhealthy_after = 1, .healthy_after = 1};
    uint64_t digest[GT_COUNT(words)];
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(words); i++) {
        gt_auto_node struct gt_node *node = NULL;
        gt_auto_buf struct gt_buf log = GT_BUF(4096);
        unsigned unmatched;
        assert_return_code(gt_node_new(1, 0, &node, NULL), 0);
        snprintf(node->gpus[0].bdf, sizeof(node->gpus[0].bdf), "0000:0e:00.0");
        gt_buf_printf(&log,
                      "{\"probe\":1,\"calls\":[{\"call\":\"mxSmlGetDeviceInfo\",\"args\":[0],\"rc\":0,"
                      "\"value\":{\"bdfId\":\"0000:0e:00.0\",\"uuid\":\"GPU-0\",\"mode\":1}},%s],"
                      "\"missing\":[],\"library\":{\"path\":\"/l\"}}",
                      words[i]);
        assert_return_code(gt_answers_apply(log.data, log.len, node, &unmatched, NULL), 0);
        assert_return_code(gt_vendor_digest(log.data, node, &digest[i], NULL), 0);
        gt_health_apply(&health, node, 0);
        assert_int_equal(gt_gpu_usable(&node->gpus[0]), healthy[i]);
    }
    assert_true(digest[0] != digest[1] && digest[1] != digest[2]); /* or nobody would look */
}

/* Without a vendor library a GPU that PCI called unhealthy recovers. */
static void test_without_a_library(void **state)
{
    struct gt_health health = {.unhealthy_after = 1, .healthy_after = 1};
    (void)state;
    assert_int_equal(scan(&health, 1, 0, 0, 0), 0);
    assert_int_equal(scan(&health, 1, 1, 0, 0), 1);
}

static void test_gone_and_back(void **state)
{
    struct gt_health health = {.unhealthy_after = 1, .healthy_after = 3};
    (void)state;
    assert_int_equal(scan(&health, 3, 3, 1, 0), 3);
    assert_int_equal(scan(&health, 2, 3, 1, 0), 3);
    assert_int_equal(scan(&health, 3, 7, 1, 0), 3); /* back, but it was ill when it went */
    for (int i = 0; i < 300; i++)
        assert_int_equal(scan(&health, 1, 1, 1, 0), 1);
    assert_int_equal(health.count, 1); /* forgotten */
}

static void test_many_gpus(void **state)
{
    struct gt_health health = {.unhealthy_after = 1, .healthy_after = 1};
    (void)state;
    assert_int_equal(scan(&health, 64, UINT64_MAX, 1, 0), UINT64_MAX);
    assert_int_equal(scan(&health, 64, 0, 1, 0), 0);
    assert_int_equal(health.count, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_scan_is_believed),
        cmocka_unit_test(test_thresholds),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_a_card_is_swapped),
        cmocka_unit_test(test_not_knowing_is_no_recovery),
        cmocka_unit_test(test_half_an_answer_is_no_recovery),
        cmocka_unit_test(test_without_a_library),
        cmocka_unit_test(test_gone_and_back),
        cmocka_unit_test(test_many_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
