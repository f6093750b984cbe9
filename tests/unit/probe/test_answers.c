/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/text.h"
#include "tests/unit/probe/vendor_log.h"
#include "topology/model/health.h"
#include "topology/probe/answers.h"

static unsigned apply(struct vendor_log *log, struct gt_node *node)
{
    unsigned unmatched = 99;
    gt_auto_err struct gt_err *err = NULL;
    log_end(log, "");
    if (gt_answers_apply(log->text, log->len, node, &unmatched, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    log_done(log);
    return unmatched;
}

static void finish(struct gt_node *node)
{
    gt_auto_err struct gt_err *err = NULL;
    if (gt_node_finish(node, &err) < 0)
        fail_msg("%s", gt_err_text(err));
}

/* Two GPUs, one MetaXLink of `ports` ports from link number `first` on, port states and widths as given. */
static void pair(struct vendor_log *log, unsigned level, unsigned first, unsigned ports, unsigned base,
                 const char *states0, const char *states1)
{
    log_begin(log);
    for (unsigned i = 0; i < 2; i++) {
        char arg[16];
        snprintf(arg, sizeof(arg), "%u", i);
        log_device(log, i);
        log_level(log, i, !i, level);
        for (unsigned link = 0; link < 8; link++) {
            char args[16];
            snprintf(args, sizeof(args), "%u,%u", i, link);
            if (link >= first && link < first + ports)
                log_remote(log, i, link, !i);
            else
                log_call(log, "mxSmlGetMetaXLinkRemoteInfo", args, "\"rc\":2");
        }
        log_call(log, "mxSmlGetMetaXLinkPortState", arg, "\"rc\":0,\"value\":[%s]", i ? states1 : states0);
        char links[512] = "";
        for (unsigned port = 0; port < 7; port++) {
            bool used = port + base >= first && port + base < first + ports;
            snprintf(links + strlen(links), sizeof(links) - strlen(links), "%s{\"speed\":%d,\"width\":%d}",
                     port ? "," : "", used ? 32 : 0, used ? 16 : 0);
        }
        log_call(log, "mxSmlGetMetaXLinkInfo", arg, "\"rc\":0,\"value\":[%s]", links);
    }
}

static void direct_link(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *node = log_node(2);
    pair(&log, 5, 4, 2, 0, "5,5,5,5,1,1,5", "5,5,5,5,1,1,5");
    assert_int_equal(apply(&log, node), 0);
    finish(node);
    const struct gt_link *link = gt_node_link(node, 0, 1);
    assert_int_equal(link->kind, GT_LINK_MX);
    assert_int_equal(link->state, GT_LINK_STATE_UP);
    assert_int_equal(link->ports, 2);
    assert_int_equal(link->width, 16);
    assert_true(link->speed == 32);
    assert_int_equal(link->bandwidth_mbps, 0);
    assert_int_equal(link->weight, 128);
    assert_int_equal(node->gpus[0].zone, 1);
    assert_int_equal(node->gpus[1].vendor_index, 1);
    assert_string_equal(node->gpus[1].uuid, "GPU-1");
    assert_string_equal(node->gpus[1].product, "MXC500");
    if (node->missing_count)
        log_print_missing(node);
    assert_int_equal(node->missing_count, 0);
}

/* Links may be numbered from 1: recognised by the ports that have a speed, or by a link 7. */
static void link_base(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *by_speed = log_node(2), *by_seven = log_node(2);
    pair(&log, 5, 3, 2, 1, "5,5,1,1,5,5,5", "5,5,1,1,5,5,5");
    apply(&log, by_speed);
    assert_int_equal(by_speed->links[0].state, GT_LINK_STATE_UP);
    assert_int_equal(by_speed->links[0].ports, 2);
    assert_int_equal(by_speed->links[0].width, 16);
    pair(&log, 5, 7, 1, 1, "5,5,5,5,5,5,1", "5,5,5,5,5,5,1");
    apply(&log, by_seven);
    assert_int_equal(by_seven->links[0].state, GT_LINK_STATE_UP);
    assert_int_equal(by_seven->links[0].ports, 1);
}

static void degraded_and_down(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *part = log_node(2), *down = log_node(2), *fallen = log_node(2),
                                *one_end = log_node(2);
    pair(&log, 5, 0, 3, 0, "1,3,1,5,5,5,5", "1,1,1,5,5,5,5");
    apply(&log, part);
    assert_int_equal(part->links[0].state, GT_LINK_STATE_UP);
    assert_int_equal(part->links[0].ports, 2);
    assert_true(log_misses(part, "MetaXLink", "only 2 of 3 ports are up"));

    pair(&log, 5, 0, 2, 0, "2,3,5,5,5,5,5", "4,2,5,5,5,5,5");
    apply(&log, down);
    assert_int_equal(down->links[0].kind, GT_LINK_MX);
    assert_int_equal(down->links[0].state, GT_LINK_STATE_DOWN);

    /* The library reports the PCIe level by now, but both ends still name each other. */
    pair(&log, 6, 0, 2, 0, "2,2,5,5,5,5,5", "2,2,5,5,5,5,5");
    apply(&log, fallen);
    finish(fallen);
    assert_int_equal(fallen->links[0].kind, GT_LINK_MX);
    assert_int_equal(fallen->links[0].state, GT_LINK_STATE_DOWN);
    assert_int_equal(fallen->links[0].path_kind, GT_LINK_SYS);
    struct gt_link path = {.kind = GT_LINK_SYS, .path_kind = GT_LINK_SYS};
    assert_int_equal(fallen->links[0].weight, gt_link_weight(&path));

    /* One end is enough to lose a link. */
    pair(&log, 5, 0, 1, 0, "3,5,5,5,5,5,5", "1,5,5,5,5,5,5");
    apply(&log, one_end);
    assert_int_equal(one_end->links[0].state, GT_LINK_STATE_DOWN);
}

/* A GPU of another server may have the address of one of ours. */
static void foreign_peers(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *node = log_node(2);
    log_begin(&log);
    for (unsigned i = 0; i < 2; i++) {
        char args[16];
        log_device(&log, i);
        log_level(&log, i, !i, 4);
        snprintf(args, sizeof(args), "%u,0", i);
        log_call(&log, "mxSmlGetMetaXLinkRemoteInfo", args,
                 "\"rc\":0,\"value\":{\"deviceId\":9,\"bdfId\":\"0000:%02x:00.0\"}", 0x0e + !i);
        log_remote(&log, i, 1, (int)i);
        snprintf(args, sizeof(args), "%u", i);
        log_call(&log, "mxSmlGetMetaXLinkPortState", args, "\"rc\":0,\"value\":[2,2,5,5,5,5,5]");
    }
    apply(&log, node);
    assert_int_equal(node->links[0].kind, GT_LINK_UNKNOWN);
    assert_int_equal(node->links[0].path_kind, GT_LINK_NODE);
}

static void levels(void **state)
{
    (void)state;
    static const enum gt_link_kind expected[] = {GT_LINK_PIX, GT_LINK_PIX,     GT_LINK_PXB,
                                                 GT_LINK_PHB, GT_LINK_NODE,    GT_LINK_UNKNOWN,
                                                 GT_LINK_SYS, GT_LINK_UNKNOWN, GT_LINK_UNKNOWN};
    for (unsigned level = 0; level < GT_COUNT(expected); level++) {
        struct vendor_log log;
        gt_auto_node struct gt_node *node = log_node(2);
        log_begin(&log);
        log_device(&log, 0);
        log_device(&log, 1);
        log_level(&log, 0, 1, level);
        log_level(&log, 1, 0, level);
        apply(&log, node);
        assert_int_equal(node->links[0].path_kind, expected[level]);
        assert_int_equal(node->links[0].kind, level == 5 ? GT_LINK_MX : GT_LINK_UNKNOWN);
        assert_int_equal(node->links[0].state, GT_LINK_STATE_UNKNOWN);
    }
}

static void training_failed(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *node = log_node(2);
    log_begin(&log);
    log_device(&log, 0);
    log_device(&log, 1);
    log_level(&log, 0, 1, 5);
    log_level(&log, 1, 0, 5);
    log_call(&log, "mxSmlGetMetaXLinkState", "0", "\"rc\":0,\"value\":{\"code\":4,\"text\":\"x\"}");
    apply(&log, node);
    assert_int_equal(node->links[0].state, GT_LINK_STATE_DOWN);
    assert_true(log_misses(node, "MetaXLink", "GPU 0: training failed"));
}

static void health(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *node = log_node(5);
    log_begin(&log);
    for (unsigned i = 0; i < 4; i++)
        log_device(&log, i);
    log_call(&log, "mxSmlGetDeviceState", "0", "\"rc\":0,\"value\":1");
    log_call(&log, "mxSmlGetDeviceState", "1", "\"rc\":0,\"value\":0");
    log_call(&log, "mxSmlGetDeviceUnavailableReason", "1",
             "\"rc\":0,\"value\":{\"code\":3,\"text\":\"fell off the bus\"}");
    log_call(&log, "mxSmlGetDeviceState", "2", "\"rc\":0,\"value\":0");
    log_call(&log, "mxSmlGetDeviceUnavailableReason", "2", "\"rc\":0,\"value\":{\"code\":17,\"text\":null}");
    log_call(&log, "mxSmlGetTotalEccErrors", "0",
             "\"rc\":0,\"value\":{\"sramCE\":9,\"sramUE\":0,\"dramCE\":9,\"dramUE\":0,\"retiredPage\":1}");
    log_call(&log, "mxSmlGetTotalEccErrors", "3", "\"rc\":0,\"value\":{\"dramUE\":2}");
    log_call(&log, "mxSmlGetAllLimitedDevices", "", "\"rc\":0,\"value\":{\"number\":1,\"deviceId\":[0]}");
    log_call(&log, "mxSmlGetLimitedDeviceInfo", "0", "\"rc\":0,\"value\":{\"bdfId\":\"0000:12:00.0\"}");
    apply(&log, node);
    gt_health_evaluate(&gt_fault_table_default, node);
    assert_int_equal(node->gpus[0].health, GT_GPU_HEALTHY);
    assert_string_equal(node->gpus[1].unhealthy_reason, "not available: fell off the bus");
    assert_string_equal(node->gpus[2].unhealthy_reason, "not available (reason code 17)");
    assert_string_equal(node->gpus[3].unhealthy_reason, "uncorrectable DRAM ECC errors: 2");
    assert_int_equal(node->gpus[3].health, GT_GPU_UNHEALTHY);
    assert_int_equal(node->gpus[4].health, GT_GPU_UNHEALTHY);
    assert_non_null(strstr(node->gpus[4].unhealthy_reason, "limited"));
    assert_int_equal(node->gpus[4].vendor_index, -1);
}

/* Who answers well is well, also where no other GPU is there to compare with. */
static void alone_and_well(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *node = log_node(1);
    log_begin(&log);
    log_device(&log, 0);
    log_call(&log, "mxSmlGetDeviceState", "0", "\"rc\":0,\"value\":1");
    log_call(&log, "mxSmlGetEccState", "0", "\"rc\":3");
    apply(&log, node);
    assert_true(gt_evidence_knows(&node->gpus[0].evidence, GT_SIGNAL_CALL_HANG));
    assert_true(gt_evidence_knows(&node->gpus[0].evidence, GT_SIGNAL_CALL_ERROR));
    assert_int_equal(node->gpus[0].health, GT_GPU_HEALTH_UNKNOWN); /* not judged yet */

    gt_auto_node struct gt_node *unhealthy = log_node(1);
    log_begin(&log);
    log_device(&log, 0);
    log_call(&log, "mxSmlGetDeviceState", "0", "\"rc\":0,\"value\":1");
    log_call(&log, "mxSmlGetTotalEccErrors", "0", "\"error\":\"timeout\"");
    apply(&log, unhealthy);
    assert_false(gt_evidence_knows(&unhealthy->gpus[0].evidence, GT_SIGNAL_CALL_HANG));
}

/* The kinds make one counter: with one of them missing it would seem to fall, and to rise afterwards. */
static void pci_events_all_or_none(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *node = log_node(2);
    log_begin(&log);
    for (unsigned i = 0; i < 2; i++)
        log_device(&log, i);
    for (unsigned i = 0; i < 2; i++) {
        log_call(&log, "mxSmlGetPciEventInfo", i ? "1,2" : "0,2", "\"rc\":0,\"value\":[{\"count\":1}]");
        log_call(&log, "mxSmlGetPciEventInfo", i ? "1,3" : "0,3",
                 i ? "\"error\":\"timeout\"" : "\"rc\":0,\"value\":[{\"count\":4}]");
        log_call(&log, "mxSmlGetPciEventInfo", i ? "1,4" : "0,4", "\"rc\":3");
    }
    apply(&log, node);
    assert_true(gt_evidence_knows(&node->gpus[0].evidence, GT_SIGNAL_PCI_EVENT));
    assert_int_equal(node->gpus[0].evidence.value[GT_SIGNAL_PCI_EVENT], 5);
    assert_false(gt_evidence_knows(&node->gpus[1].evidence, GT_SIGNAL_PCI_EVENT));
}

static void details(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *node = log_node(2);
    node->gpus[1].numa_node = 5;
    gt_text_copy(node->gpus[1].cpu_set, sizeof(node->gpus[1].cpu_set), "7");
    node->gpus[1].pci.now.speed = 16;
    log_begin(&log);
    for (unsigned i = 0; i < 2; i++) {
        char arg[16], args[16];
        log_device(&log, i);
        snprintf(arg, sizeof(arg), "%u", i);
        log_call(&log, "mxSmlGetMemoryInfo", arg, "\"rc\":0,\"value\":{\"vramTotal\":67108864}");
        log_call(&log, "mxSmlGetChipSerial", arg, "\"rc\":0,\"value\":{\"text\":\"C%u\"}", i);
        if (i)
            log_call(&log, "mxSmlGetBoardSerial", arg, "\"rc\":0,\"value\":{\"text\":\"B%u\"}", i);
        log_call(&log, "mxSmlGetPcieInfo", arg, "\"rc\":0,\"value\":{\"speed\":32,\"width\":16}");
        snprintf(args, sizeof(args), "%u,4", i);
        log_call(&log, "mxSmlGetNodeAffinity", args, "\"rc\":0,\"value\":[2,0,0,0]");
        snprintf(args, sizeof(args), "%u,4", i);
        log_call(&log, "mxSmlGetCpuAffinity", args, "\"rc\":0,\"value\":[4294967295,1,2147483650,0]");
    }
    log_call(&log, "mxSmlGetMacaVersion", "", "\"rc\":0,\"value\":{\"text\":\"2.29.0.19\"}");
    log_call(&log, "mxSmlGetDeviceVersion", "0,0", "\"rc\":0,\"value\":{\"text\":\"bios\"}");
    log_call(&log, "mxSmlGetDeviceVersion", "0,1", "\"rc\":0,\"value\":{\"text\":\"2.12.13\"}");
    log_call(
        &log, "mxSmlGetLocalAndMultipleRemoteUuid", "",
        "\"rc\":0,\"value\":{\"local\":\"S1\",\"count\":4,\"remotes\":[{\"uuid\":\"S2\"},{\"uuid\":\"S1\"},"
        "{\"uuid\":\"S2\"},{\"uuid\":\"S3\"}]}");
    apply(&log, node);
    assert_true(node->gpus[0].memory_bytes == UINT64_C(64) << 30);
    assert_string_equal(node->gpus[0].serial, "C0");
    assert_string_equal(node->gpus[1].serial, "B1");
    assert_int_equal(node->gpus[0].numa_node, 1);
    assert_string_equal(node->gpus[0].cpu_set, "0-32,65,95");
    assert_true(node->gpus[0].pci.now.speed == 32);
    assert_int_equal(node->gpus[1].numa_node, 5);
    assert_string_equal(node->gpus[1].cpu_set, "7");
    assert_true(node->gpus[1].pci.now.speed == 16);
    assert_string_equal(node->library_version, "2.29.0.19");
    assert_string_equal(node->driver_version, "2.12.13");
    assert_string_equal(node->server_uuid, "S1");
    assert_int_equal(node->remote_count, 2);
    assert_string_equal(node->remotes[0], "S2");
    assert_string_equal(node->remotes[1], "S3");
}

static void unmatched_and_bdfs(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *node = log_node(1);
    char bdfs[GT_GPUS_MAX][GT_BDF_SIZE];
    log_begin(&log);
    for (unsigned i = 0; i < 3; i++)
        log_device(&log, i);
    log_end(&log, "");
    assert_int_equal(gt_answers_bdfs(log.text, log.len, bdfs, NULL), 3);
    assert_string_equal(bdfs[2], "0000:10:00.0");
    log_done(&log);
    log_begin(&log);
    for (unsigned i = 0; i < 3; i++)
        log_device(&log, i);
    assert_int_equal(apply(&log, node), 2);
}

static uint64_t digest_of_servers(const char *local, const char *remotes)
{
    struct vendor_log log;
    uint64_t digest = 0;
    log_begin(&log);
    log_device(&log, 0);
    log_call(&log, "mxSmlGetLocalAndMultipleRemoteUuid", "",
             "\"rc\":0,\"value\":{\"local\":\"%s\",\"count\":2,\"remotes\":[%s]}", local, remotes);
    log_end(&log, "");
    assert_int_equal(gt_answers_digest(log.text, log.len, &digest, NULL), 0);
    log_done(&log);
    return digest;
}

/* If a changed order counted, every health check would cause a scan. */
static void servers_in_any_order(void **state)
{
    (void)state;
    const char *const one_two = "{\"uuid\":\"s-1\"},{\"uuid\":\"s-2\"}";
    uint64_t digest = digest_of_servers("s-0", one_two);
    assert_true(digest == digest_of_servers("s-0", "{\"uuid\":\"s-2\"},{\"uuid\":\"s-1\"}"));
    assert_true(digest != digest_of_servers("s-0", "{\"uuid\":\"s-1\"},{\"uuid\":\"s-3\"}"));
    assert_true(digest != digest_of_servers("s-0", "{\"uuid\":\"s-1\"},{\"uuid\":\"s-1\"}"));
    assert_true(digest != digest_of_servers("s-1", "{\"uuid\":\"s-0\"},{\"uuid\":\"s-2\"}"));
}

static void failures_are_noted(void **state)
{
    (void)state;
    struct vendor_log log;
    gt_auto_node struct gt_node *node = log_node(2);
    unsigned unmatched;
    log_begin(&log);
    log_device(&log, 0);
    log_call(&log, "mxSmlGetDeviceInfo", "1", "\"error\":\"timeout\"");
    log_call(&log, "mxSmlGetTotalEccErrors", "0", "\"rc\":3");
    log_call(&log, "mxSmlGetTotalEccErrors", "1", "\"rc\":3");
    log_call(&log, "mxSmlGetMemoryInfo", "0", "\"error\":\"crashed (signal 11)\"");
    log_call(&log, "mxSmlGetChipSerial", "0", "\"rc\":8");
    log_call(&log, "mxSmlGetMetaXLinkRemoteInfo", "0,3", "\"rc\":2");
    log_call(&log, "mxSmlGetMetaXLinkRemoteInfo", "0,7", "\"rc\":9");
    log_call(&log, "mxSmlGetDeviceState", "0", "\"rc\":0,\"bad\":\"wrote more than its structure holds\"");
    log_call(&log, "mxSmlGetEccState", "0", "\"rc\":3");
    log_end(&log, ",\"stopped\":\"the deadline of the scan has passed\"");
    assert_int_equal(gt_answers_apply(log.text, log.len, node, &unmatched, NULL), 0);
    log_done(&log);
    assert_true(log_misses(node, "mxSmlGetDeviceInfo", "GPU 1: did not answer in time"));
    assert_true(log_misses(node, "mxSmlGetTotalEccErrors", "not supported (code 3); 1 more"));
    assert_true(log_misses(node, "mxSmlGetMemoryInfo", "crashed (signal 11)"));
    assert_true(log_misses(node, "mxSmlGetChipSerial", "permission denied"));
    assert_true(log_misses(node, "mxSmlGetDeviceState", "wrote more"));
    assert_true(log_misses(node, "vendor library", "deadline of the scan"));
    assert_int_equal(node->missing_count, 6);
    assert_int_equal(node->gpus[1].vendor_index, -1);
    finish(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_link),
        cmocka_unit_test(link_base),
        cmocka_unit_test(degraded_and_down),
        cmocka_unit_test(foreign_peers),
        cmocka_unit_test(levels),
        cmocka_unit_test(training_failed),
        cmocka_unit_test(health),
        cmocka_unit_test(alone_and_well),
        cmocka_unit_test(pci_events_all_or_none),
        cmocka_unit_test(details),
        cmocka_unit_test(unmatched_and_bdfs),
        cmocka_unit_test(servers_in_any_order),
        cmocka_unit_test(failures_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
