/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/probe/vendor_log.h"
#include "tests/unit/seed.h"
#include "topology/probe/answers.h"

/* Logs that no working library makes. Their values must not get into a node, and the node must stay valid. */

static struct gt_node *applied(struct vendor_log *log, unsigned gpus)
{
    unsigned unmatched;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_node *node = log_node(gpus);
    log_end(log, "");
    if (gt_answers_apply(log->text, log->len, node, &unmatched, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    log_done(log);
    if (gt_node_finish(node, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return node;
}

static void not_a_log(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"probe\":1}",
        "{\"probe\":2,\"calls\":[],\"library\":{}}",
        "{\"probe\":1,\"calls\":{},\"library\":{}}",
        "{\"probe\":1,\"calls\":[],\"library\":[]}",
        "{\"probe\":1,\"calls\":[],\"library\":",
    };
    for (unsigned i = 0; i < GT_COUNT(bad); i++) {
        gt_auto_err struct gt_err *err = NULL;
        gt_auto_node struct gt_node *node = log_node(2);
        unsigned unmatched = 7;
        char bdfs[GT_GPUS_MAX][GT_BDF_SIZE];
        assert_int_equal(gt_answers_apply(bad[i], strlen(bad[i]), node, &unmatched, &err), -EINVAL);
        assert_true(strlen(gt_err_text(err)) > 10);
        assert_int_equal(unmatched, 7);
        assert_int_equal(node->missing_count, 0);
        assert_int_equal(gt_answers_bdfs(bad[i], strlen(bad[i]), bdfs, NULL), -EINVAL);
    }
}

static void odd_entries(void **state)
{
    (void)state;
    struct vendor_log log;
    log_begin(&log);
    log_device(&log, 0);
    log_call(&log, "mxSmlGetDeviceState", "1,2,3,4", "\"rc\":0,\"value\":1");
    log_call(&log, "mxSmlGetDeviceState", "-1", "\"rc\":0,\"value\":1");
    log_call(&log, "mxSmlGetDeviceState", "\"0\"", "\"rc\":0,\"value\":1");
    log_call(&log, "mxSmlGetDeviceState", "0", "\"rc\":\"0\",\"value\":1");
    log_call(&log, "mxSmlGetDeviceState", "1e300", "\"rc\":0,\"value\":1");
    log_call(&log, "mxSmlGetDeviceState", "4294967295", "\"rc\":0,\"value\":0");
    log_call(&log, "mxSmlGetDeviceTopology", "0,4294967295", "\"rc\":0,\"value\":5");
    log_call(&log, "mxSmlGetDeviceTopology", "0", "\"rc\":0,\"value\":5");
    log_call(&log, "mxSmlGetMetaXLinkRemoteInfo", "0,8", "\"rc\":0,\"value\":{}");
    log_call(&log, "mxSmlNoSuchCall", "0", "\"rc\":0,\"value\":[[[]]]");
    gt_auto_node struct gt_node *node = applied(&log, 2);
    assert_true(log_misses(node, "vendor library", "5 entries"));
    assert_int_equal(gt_node_with_health(node, GT_GPU_HEALTH_UNKNOWN), 3); /* no such word counts */
}

static void asymmetric_matrix(void **state)
{
    (void)state;
    struct vendor_log log;
    log_begin(&log);
    for (unsigned i = 0; i < 3; i++)
        log_device(&log, i);
    log_level(&log, 0, 1, 5);
    log_level(&log, 1, 0, 6);
    log_level(&log, 0, 2, 5);
    log_level(&log, 2, 0, 5);
    log_level(&log, 1, 2, 77);
    log_level(&log, 2, 1, 77);
    /* Ports that claim to be up do not help a pair whose two directions contradict each other. */
    log_remote(&log, 0, 0, 1);
    log_remote(&log, 1, 0, 0);
    log_call(&log, "mxSmlGetMetaXLinkPortState", "0", "\"rc\":0,\"value\":[1]");
    log_call(&log, "mxSmlGetMetaXLinkPortState", "1", "\"rc\":0,\"value\":[1]");
    gt_auto_node struct gt_node *node = applied(&log, 3);
    assert_int_equal(gt_node_link(node, 0, 1)->kind, GT_LINK_UNKNOWN);
    assert_int_equal(gt_node_link(node, 0, 2)->kind, GT_LINK_MX);
    assert_int_equal(gt_node_link(node, 1, 2)->kind, GT_LINK_UNKNOWN);
    assert_true(log_misses(node, "topology", "not symmetric: GPUs 0 and 1 are at levels 5 and 6"));
    assert_true(log_misses(node, "topology", "unknown level"));
}

static void doubles(void **state)
{
    (void)state;
    struct vendor_log log;
    log_begin(&log);
    log_device(&log, 0);
    log_device(&log, 1);
    log_call(&log, "mxSmlGetDeviceInfo", "2",
             "\"rc\":0,\"value\":{\"bdfId\":\"0000:0E:00.0\",\"uuid\":\"GPU-x\",\"mode\":1}");
    log_call(&log, "mxSmlGetDeviceInfo", "3",
             "\"rc\":0,\"value\":{\"bdfId\":\"0000:10:00.0\",\"uuid\":\"GPU-1\",\"mode\":1}");
    gt_auto_node struct gt_node *node = applied(&log, 3);
    assert_int_equal(node->gpus[0].vendor_index, -1);
    assert_string_equal(node->gpus[0].uuid, "");
    assert_int_equal(node->gpus[1].vendor_index, 1);
    assert_string_equal(node->gpus[1].uuid, "");
    assert_string_equal(node->gpus[2].uuid, "");
    assert_true(log_misses(node, "BDF", "0000:0e:00.0 is claimed by 2 GPUs"));
    assert_true(log_misses(node, "UUID", "GPU-1 belongs to several"));
}

static void odd_texts(void **state)
{
    (void)state;
    char longest[300];
    struct vendor_log log;
    memset(longest, 'A', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    log_begin(&log);
    log_call(&log, "mxSmlGetDeviceInfo", "0",
             "\"rc\":0,\"value\":{\"bdfId\":\"0000:0e:00.0\",\"uuid\":null,\"mode\":9,\"deviceName\":null}");
    log_call(
        &log, "mxSmlGetDeviceInfo", "1",
        "\"rc\":0,\"value\":{\"bdfId\":\"0000:0f:00.0\",\"uuid\":\"%s\",\"mode\":2,\"deviceName\":\"%s\"}",
        longest, longest);
    log_call(&log, "mxSmlGetDeviceInfo", "2",
             "\"rc\":0,\"value\":{\"bdfId\":\"0000:10:00.0\",\"uuid\":\"GPU-\xef\xbf\xbd\",\"mode\":0,"
             "\"deviceName\":\"\\u001b[31m\"}");
    log_call(&log, "mxSmlGetDeviceInfo", "3",
             "\"rc\":0,\"value\":{\"bdfId\":\"nowhere\",\"uuid\":\"GPU-3\",\"mode\":0}");
    log_call(&log, "mxSmlGetDeviceInfo", "4",
             "\"rc\":0,\"value\":{\"bdfId\":\"0000:11:00.0\",\"uuid\":\"a \\\" b\",\"mode\":0}");
    log_call(&log, "mxSmlGetLocalAndRemoteUuid", "",
             "\"rc\":0,\"value\":{\"local\":\"0000-0000\",\"remote\":\"%s\"}", longest);
    log_call(&log, "mxSmlGetMacaVersion", "", "\"rc\":0,\"value\":{\"text\":\"%s\"}", longest);
    gt_auto_node struct gt_node *node = applied(&log, 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_string_equal(node->gpus[i].uuid, "");
        assert_string_equal(node->gpus[i].product, "");
    }
    assert_int_equal(node->gpus[1].mode, GT_GPU_VF);
    assert_true(log_misses(node, "UUID", "GPU 0"));
    assert_true(log_misses(node, "UUID", "GPU 4: odd characters"));
    assert_true(log_misses(node, "BDF", "GPU 3: not a PCI address"));
    assert_true(log_misses(node, "server UUIDs", "own one is nonsense"));
    assert_string_equal(node->server_uuid, "");
    assert_int_equal(node->remote_count, 0);
    assert_string_equal(node->library_version, "");
}

static void odd_numbers(void **state)
{
    (void)state;
    struct vendor_log log;
    log_begin(&log);
    log_device(&log, 0);
    log_device(&log, 1);
    log_call(&log, "mxSmlGetDeviceCount", "", "\"rc\":0,\"value\":4294967295");
    log_call(&log, "mxSmlGetDeviceState", "0", "\"rc\":0,\"value\":-16843010");
    log_call(&log, "mxSmlGetTotalEccErrors", "0", "\"rc\":0,\"value\":{\"dramUE\":4294967295}");
    log_call(&log, "mxSmlGetMemoryInfo", "0", "\"rc\":0,\"value\":{\"vramTotal\":-9223372036854775808}");
    log_call(&log, "mxSmlGetPcieInfo", "0", "\"rc\":0,\"value\":{\"speed\":null,\"width\":4278124286}");
    log_call(&log, "mxSmlGetPcieMaxLinkInfo", "0", "\"rc\":0,\"value\":{\"speed\":1e39,\"width\":-1}");
    log_call(&log, "mxSmlGetCpuAffinity", "0,32", "\"rc\":0,\"value\":[%s]",
             "1431655765,1431655765,1431655765,1431655765,1431655765,1431655765,1431655765,1431655765,"
             "1431655765,1431655765,1431655765,1431655765,1431655765,1431655765,1431655765,1431655765");
    log_call(&log, "mxSmlGetNodeAffinity", "0,4", "\"rc\":0,\"value\":[4294967295,4294967295,4294967296,0]");
    log_call(&log, "mxSmlGetMetaXLinkState", "0", "\"rc\":0,\"value\":{\"code\":99}");
    log_level(&log, 0, 1, 5);
    log_level(&log, 1, 0, 5);
    for (unsigned i = 0; i < 2; i++) {
        char arg[8];
        snprintf(arg, sizeof(arg), "%u", i);
        for (unsigned link = 0; link < 8; link++) /* all eight numbers exist: one too many */
            log_remote(&log, i, link, !i);
        log_call(&log, "mxSmlGetMetaXLinkPortState", arg, "\"rc\":0,\"value\":[1,1,1,1,1,1,1,1,1,1,99]");
        log_call(&log, "mxSmlGetMetaXLinkInfo", arg,
                 "\"rc\":0,\"value\":[{\"speed\":null,\"width\":4278124286},{\"speed\":-1,\"width\":0},"
                 "{\"speed\":1e300,\"width\":1.5},{},[],7,null,{\"speed\":32,\"width\":16}]");
    }
    gt_auto_node struct gt_node *node = applied(&log, 2);
    const struct gt_gpu *gpu = &node->gpus[0];
    assert_int_equal(gpu->health, GT_GPU_HEALTH_UNKNOWN);
    assert_int_equal(gpu->memory_bytes, 0);
    assert_true(gpu->pci.now.speed == 0 && gpu->pci.now.width == 0);
    assert_true(gpu->pci.max.speed == 0 && gpu->pci.max.width == 0);
    assert_string_equal(gpu->cpu_set, "");
    assert_int_equal(gpu->numa_node, -1);
    assert_int_equal(node->links[0].kind, GT_LINK_MX);
    assert_int_equal(node->links[0].ports, 7);
    assert_int_equal(node->links[0].width, 0);
    assert_true(node->links[0].speed == 0);
    assert_true(log_misses(node, "number of GPUs", "nonsense"));
    assert_true(log_misses(node, "device state", "neither"));
    assert_true(log_misses(node, "ECC", "nonsense"));
    assert_true(log_misses(node, "memory", "nonsense"));
    assert_true(log_misses(node, "MetaXLink state", "unknown code"));
}

static void too_many_remotes(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_free char *list = calloc(1, 300 * 32);
    assert_non_null(list);
    for (unsigned i = 0; i < 300; i++)
        snprintf(list + strlen(list), 32, "%s{\"uuid\":\"S-%u\"}", i ? "," : "", i);
    log_begin(&log);
    log_call(&log, "mxSmlGetLocalAndMultipleRemoteUuid", "",
             "\"rc\":0,\"value\":{\"local\":\"S\",\"count\":4294967295,\"remotes\":[%s]}", list);
    gt_auto_node struct gt_node *node = applied(&log, 0);
    assert_int_equal(node->remote_count, GT_REMOTES_MAX);
    assert_true(log_misses(node, "server UUIDs", "more than"));
    assert_true(log_misses(node, "server UUIDs", "counts more"));
}

/* Any single change to a valid log is refused or gives a valid node. */
static void mutations(void **state)
{
    (void)state;
    srand((unsigned)test_seed());
    struct vendor_log log;
    log_begin(&log);
    for (unsigned i = 0; i < 3; i++) {
        log_device(&log, i);
        for (unsigned j = 0; j < 3; j++)
            if (i != j) {
                log_level(&log, i, j, 5);
                log_remote(&log, i, j, (int)j);
            }
    }
    log_call(&log, "mxSmlGetMetaXLinkPortState", "0", "\"rc\":0,\"value\":[1,1,1,1,1,1,1]");
    log_call(&log, "mxSmlGetCpuAffinity", "0,2", "\"rc\":0,\"value\":[15,255]");
    log_end(&log, "");
    static const char bytes[] = "0123456789\"{}[],:.-eE\\nul tr\x01\xff";
    for (unsigned round = 0; round < 4000; round++) {
        gt_auto_free char *copy = strdup(log.text);
        gt_auto_node struct gt_node *node = log_node(3);
        unsigned unmatched;
        assert_non_null(copy);
        for (unsigned changes = 1 + (unsigned)rand() % 3; changes; changes--)
            copy[(unsigned)rand() % log.len] = bytes[(unsigned)rand() % (sizeof(bytes) - 1)];
        if (gt_answers_apply(copy, log.len, node, &unmatched, NULL) == 0)
            assert_int_equal(gt_node_finish(node, NULL), 0);
    }
    log_done(&log);
}

/* As many failures as a log may hold: read in a moment, not in the square of one. */
static void many_failures(void **state)
{
    (void)state;
    struct vendor_log log;
    struct timespec before, after;
    log_begin(&log);
    for (unsigned i = 0; i < 32000; i++)
        log_call(&log, "mxSmlGetMetaXLinkInfo", "0", "\"rc\":1");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    gt_auto_node struct gt_node *node = applied(&log, 1);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    assert_true(log_misses(node, "mxSmlGetMetaXLinkInfo", "31999 more calls failed"));
    if (!getenv("GPUTOPO_UNDER_VALGRIND"))
        assert_in_range(after.tv_sec - before.tv_sec, 0, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_a_log),         cmocka_unit_test(odd_entries),
        cmocka_unit_test(asymmetric_matrix), cmocka_unit_test(doubles),
        cmocka_unit_test(odd_texts),         cmocka_unit_test(odd_numbers),
        cmocka_unit_test(too_many_remotes),  cmocka_unit_test(mutations),
        cmocka_unit_test(many_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
