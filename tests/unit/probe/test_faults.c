/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "tests/unit/probe/machine.h"
#include "topology/probe/answers.h"

/* The real probe and the fake library, one fault of the library after another. */

static unsigned direct_links(const struct gt_node *node)
{
    unsigned count = 0;
    for (unsigned i = 0; i < node->link_count; i++)
        count += node->links[i].kind == GT_LINK_MX && node->links[i].state == GT_LINK_STATE_UP;
    return count;
}

static void good_library(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    gt_auto_free char *log = NULL;
    gt_auto_node struct gt_node *node = machine_node(&machine, 8, &log);
    assert_int_equal(node->missing_count, 0);
    assert_int_equal(direct_links(node), 12);
    assert_int_equal(gt_node_link(node, 0, 3)->ports, 1);
    assert_int_equal(gt_node_link(node, 0, 3)->weight, 64);
    assert_int_equal(gt_node_link(node, 0, 4)->path_kind, GT_LINK_SYS);
    assert_int_equal(node->gpus[7].zone, 2);
    assert_string_equal(node->gpus[7].uuid, "GPU-7");
    assert_string_equal(node->server_uuid, "SERVER-1");
    assert_int_equal(node->remote_count, 2);
    assert_true(node->gpus[0].memory_bytes == UINT64_C(64) << 30);
    assert_string_equal(node->gpus[0].cpu_set, "0-31,64-95");
    assert_int_equal(node->gpus[0].numa_node, 0);
    assert_string_equal(node->driver_version, "2.12.13");
    assert_non_null(strstr(log, "\"library\":{\"path\":\"/opt/mxdriver/lib/libmxsml.so\"}"));

    /* The worker is kept and says the same again. */
    pid_t first = 0, second = 0;
    assert_int_equal(machine_processes(&machine, "gputopo-vendor", &first), 1);
    gt_auto_free char *again = machine_scan(&machine);
    assert_string_equal(log, again);
    assert_int_equal(machine_processes(&machine, "gputopo-vendor", &second), 1);
    assert_int_equal(first, second);
    struct gt_probe_stats stats;
    gt_probe_client_stats(machine.client, &stats);
    assert_int_equal(stats.scans, 2);
    assert_int_equal(stats.failures, 0);
    assert_int_equal(stats.restarts, 0);
    machine_done(&machine);
}

/* A health check makes fewer calls than a scan, but its digest also shows whether anything else has changed.
 */
static void health_alone(void **state)
{
    (void)state;
    struct machine machine;
    uint64_t whole, alone;
    machine_new(&machine, "");
    gt_auto_free char *log = machine_scan(&machine), *health = NULL;
    assert_int_equal(gt_probe_health(machine.client, &health, NULL), 0);
    assert_null(strstr(health, "mxSmlGetDeviceTopology"));
    assert_non_null(strstr(health, "mxSmlGetTemperatureInfo"));
    assert_true(strlen(health) < strlen(log) / 2);
    assert_int_equal(gt_answers_digest(log, strlen(log), &whole, NULL), 0);
    assert_int_equal(gt_answers_digest(health, strlen(health), &alone, NULL), 0);
    assert_true(whole == alone);
    machine_done(&machine);
}

/* What each fault leaves: links that are still known, what is noted, how many workers it costs. */
static const struct {
    const char *fault, *what, *why;
    int links; /* -1: not looked at */
    unsigned restarts;
    unsigned unknown;   /* mask of the GPUs of unknown health */
    unsigned unhealthy; /* of those that the library does not answer for; the others are healthy */
} table[] = {
    {"{\"call\":\"mxSmlGetDeviceInfo\",\"dev\":3,\"do\":\"hang\"}", "mxSmlGetDeviceInfo",
     "GPU 3: did not answer in time", 9, 1, 0, 8},
    {"{\"call\":\"mxSmlGetDeviceInfo\",\"dev\":3,\"do\":\"crash\"}", "mxSmlGetDeviceInfo",
     "GPU 3: crashed (signal 11)", 9, 1, 0, 8},
    {"{\"call\":\"mxSmlGetDeviceInfo\",\"dev\":3,\"do\":\"exit\"}", "mxSmlGetDeviceInfo",
     "GPU 3: exited (status 3)", 9, 1, 0, 8},
    {"{\"call\":\"mxSmlGetDeviceInfo\",\"dev\":3,\"do\":\"code\",\"code\":4}", "mxSmlGetDeviceInfo",
     "GPU 3: sysfs error (code 4)", 9, 0, 0, 8},
    {"{\"call\":\"mxSmlGetDeviceInfo\",\"do\":\"missing\"}", "functions", "mxSmlGetDeviceInfo", 0, 0, 0xff,
     0},
    {"{\"call\":\"mxSmlGetDeviceInfo\",\"dev\":3,\"do\":\"garbage\"}", "BDF", "GPU 3: not a PCI address", 9,
     0, 0, 8},
    {"{\"call\":\"mxSmlGetDeviceInfo\",\"dev\":3,\"do\":\"unterminated\"}", "BDF", "GPU 3: not a PCI address",
     9, 0, 0, 8},
    {"{\"call\":\"mxSmlGetDeviceInfo\",\"dev\":3,\"do\":\"wrongsize\"}", "mxSmlGetDeviceInfo",
     "GPU 3: wrote more than", 9, 0, 0, 8},
    /* Each GPU that does not answer ends one worker, and does not affect other GPUs. */
    {"{\"call\":\"*\",\"dev\":3,\"do\":\"hang\"},{\"call\":\"*\",\"dev\":5,\"do\":\"hang\"}",
     "mxSmlGetDeviceInfo", "1 more calls", 6, 2, 0, 0x28},
    {"{\"call\":\"*\",\"dev\":3,\"do\":\"code\",\"code\":1}", "mxSmlGetDeviceInfo", "GPU 3: failure (code 1)",
     9, 0, 0, 8},
    {"{\"call\":\"*\",\"dev\":0,\"do\":\"hang\",\"after\":1},{\"call\":\"*\",\"dev\":4,\"do\":\"hang\","
     "\"after\":1}",
     "mxSmlGetDeviceState", "GPU 0: did not", -1, 2, 0, 0x11},
    {"{\"call\":\"mxSmlGetTotalEccErrors\",\"dev\":3,\"do\":\"crash\"}", "mxSmlGetTotalEccErrors", "crashed",
     -1, 1, 0, 8},
    {"{\"call\":\"mxSmlGetTotalEccErrors\",\"dev\":3,\"do\":\"code\",\"code\":23}", "mxSmlGetTotalEccErrors",
     "busy", 12, 0, 0, 0}, /* once is not yet a fault */
    /* The second device that hangs condemns the function: two workers, not eight. */
    {"{\"call\":\"mxSmlGetTotalEccErrors\",\"do\":\"hang\"}", "mxSmlGetTotalEccErrors", "1 more calls", 12, 2,
     0, 0},
    {"{\"call\":\"mxSmlGetDeviceTopology\",\"do\":\"missing\"}", "functions", "mxSmlGetDeviceTopology", 12, 0,
     0, 0},
    {"{\"call\":\"mxSmlGetDeviceTopology\",\"do\":\"code\",\"code\":3}", "mxSmlGetDeviceTopology",
     "not supported (code 3); 55 more", 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetDeviceTopology\",\"do\":\"garbage\"}", "topology", "unknown level", 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetDeviceTopology\",\"dev\":2,\"do\":\"crash\"}", "mxSmlGetDeviceTopology", "GPU 2",
     12, 2, 0, 0},
    {"{\"call\":\"mxSmlGetMetaXLinkRemoteInfo\",\"do\":\"hang\"}", "mxSmlGetMetaXLinkRemoteInfo", "in time",
     0, 4, 0, 0},
    /* One link is fatal, at one end and at both: only that link is not known. */
    {"{\"call\":\"mxSmlGetMetaXLinkRemoteInfo\",\"dev\":0,\"link\":0,\"do\":\"crash\"}",
     "mxSmlGetMetaXLinkRemoteInfo", "GPU 0: crashed (signal 11)", 11, 1, 0, 0},
    {"{\"call\":\"mxSmlGetMetaXLinkRemoteInfo\",\"dev\":0,\"link\":0,\"do\":\"crash\"},"
     "{\"call\":\"mxSmlGetMetaXLinkRemoteInfo\",\"dev\":1,\"link\":0,\"do\":\"crash\"}",
     "mxSmlGetMetaXLinkRemoteInfo", "1 more calls failed", 11, 2, 0, 0},
    /* One GPU is fatal: it costs two workers, and its own three links. */
    {"{\"call\":\"mxSmlGetMetaXLinkRemoteInfo\",\"dev\":0,\"do\":\"crash\"}", "mxSmlGetMetaXLinkRemoteInfo",
     "1 more calls failed", 12, 2, 0, 0},
    {"{\"call\":\"mxSmlGetMetaXLinkPortState\",\"do\":\"wrongsize\"}", "mxSmlGetMetaXLinkPortState",
     "insufficient size (code 10)", 0, 0, 0, 0},
    {"{\"call\":\"mxSmlGetMetaXLinkInfo\",\"do\":\"missing\"}", NULL, NULL, 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetMetaXLinkInfo_v2\",\"do\":\"missing\"}", NULL, NULL, 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetMetaXLinkInfo\",\"do\":\"garbage\"}", NULL, NULL, 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetLocalAndMultipleRemoteUuid\",\"do\":\"missing\"}", NULL, NULL, 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetLocalAndMultipleRemoteUuid\",\"do\":\"wrongsize\"}", "server UUIDs", "counts more",
     12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetLocalAndMultipleRemoteUuid\",\"do\":\"unterminated\"}", NULL, NULL, 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetBoardSerial\",\"do\":\"wrongsize\"}", NULL, NULL, 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetMemoryInfo\",\"do\":\"garbage\"}", "memory", "nonsense", 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetTotalEccErrors\",\"do\":\"garbage\"}", "ECC", "nonsense", 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetDeviceState\",\"do\":\"garbage\"}", "device state", "neither", 12, 0, 0xff, 0},
    {"{\"call\":\"mxSmlGetDeviceCount\",\"do\":\"garbage\"}", "number of GPUs", "nonsense", 12, 0, 0, 0},
    {"{\"call\":\"mxSmlGetDeviceCount\",\"do\":\"missing\"}", "functions", "mxSmlGetDeviceCount", 12, 0, 0,
     0},
    {"{\"call\":\"mxSmlGetDeviceCount\",\"do\":\"hang\"}", "mxSmlGetDeviceCount", "in time", 12, 1, 0, 0},
    {"{\"call\":\"mxSmlInit\",\"do\":\"code\",\"code\":2}", "mxSmlInit", "no device (code 2)", 0, 0, 0xff, 0},
    {"{\"call\":\"mxSmlInit\",\"do\":\"hang\"}", "mxSmlInit", "in time", 0, 1, 0xff, 0},
    {"{\"call\":\"mxSmlInit\",\"do\":\"crash\"}", "mxSmlInit", "crashed (signal 11)", 0, 1, 0xff, 0},
    {"{\"call\":\"mxSmlInit\",\"do\":\"missing\"}", "functions", "mxSmlInit", 0, 0, 0xff, 0},
    {"{\"call\":\"*\",\"do\":\"noise\",\"times\":3}", NULL, NULL, 12, 0, 0, 0},
    {"{\"call\":\"*\",\"do\":\"garbage\"}", "vendor library", "", -1, 0, 0xff, 0},
    {"{\"call\":\"*\",\"do\":\"unterminated\"}", "vendor library", "", -1, 0, 0xff, 0},
    {"{\"call\":\"*\",\"do\":\"wrongsize\"}", "vendor library", "", -1, 0, 0xff, 0},
    /* More deaths than a scan puts up with. */
    {"{\"call\":\"*\",\"do\":\"crash\",\"after\":3}", "vendor library", "too many calls hung or crashed", -1,
     7, 0xd6, 0},
};

static void every_fault(void **state)
{
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(table); i++) {
        struct machine machine;
        struct gt_probe_stats stats;
        char faults[256];
        print_message("%s\n", table[i].fault);
        machine_new(&machine, strstr(table[i].fault, "hang") ? SOON_HANGS : "");
        snprintf(faults, sizeof(faults), "\"faults\":[%s]", table[i].fault);
        machine_scenario(&machine, 8, faults);
        gt_auto_node struct gt_node *node = machine_node(&machine, 8, NULL);
        if (table[i].what)
            assert_true(misses(node, table[i].what, table[i].why));
        else if (node->missing_count)
            fail_msg("%s: %s", node->missing[0].what, node->missing[0].why);
        if (table[i].links >= 0)
            assert_int_equal(direct_links(node), table[i].links);
        assert_int_equal(gt_node_with_health(node, GT_GPU_HEALTH_UNKNOWN), table[i].unknown);
        assert_int_equal(gt_node_with_health(node, GT_GPU_UNHEALTHY), table[i].unhealthy);
        gt_probe_client_stats(machine.client, &stats);
        assert_int_equal(stats.restarts, table[i].restarts);
        assert_int_equal(stats.failures, 0);

        /* The next scan tries again, and the fault has gone. */
        machine_scenario(&machine, 8, NULL);
        if (!strstr(table[i].fault, "missing")) { /* a symbol comes back only with another library file */
            gt_auto_node struct gt_node *next = machine_node(&machine, 8, NULL);
            assert_int_equal(direct_links(next), 12);
            assert_int_equal(next->missing_count, 0);
        }
        machine_done(&machine);
    }
}

/* Everything is slow, nothing hangs: the scan as a whole has its deadline. */
static void slow_library(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "--scan-timeout 3000");
    machine_scenario(&machine, 8, "\"faults\":[{\"call\":\"*\",\"do\":\"slow\",\"ms\":250}]");
    long start = clock_ms();
    gt_auto_node struct gt_node *node = machine_node(&machine, 8, NULL);
    assert_in_range(clock_ms() - start, 2900, 20000); /* more than a hundred calls take longer */
    assert_true(misses(node, "vendor library", "deadline of the scan"));
    assert_string_equal(node->gpus[0].uuid, "GPU-0"); /* the most important comes first */
    machine_done(&machine);
}

static void changing_answers(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    /* The first direction of the first pair only: the matrix is asymmetric there. */
    machine_scenario(
        &machine, 4,
        "\"faults\":[{\"call\":\"mxSmlGetDeviceTopology\",\"dev\":0,\"do\":\"garbage\",\"times\":1},"
        "{\"call\":\"mxSmlGetDeviceState\",\"dev\":1,\"do\":\"code\",\"code\":23,\"times\":1}]");
    gt_auto_node struct gt_node *first = machine_node(&machine, 4, NULL);
    assert_true(misses(first, "mxSmlGetDeviceState", "busy (code 23)"));
    gt_auto_node struct gt_node *second = machine_node(&machine, 4, NULL);
    assert_int_equal(direct_links(second), 2);
    machine_done(&machine);
}

static void health_from_library(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    static const char scenario[] =
        "{\"devices\":[{},{\"state\":0,\"unavailableReason\":{\"code\":1,\"text\":\"lost\"}},"
        "{\"ecc\":{\"dramUE\":3}},{\"mode\":2}],\"limited\":[{\"bdf\":\"0000:12:00.0\"}]}";
    assert_int_equal(gt_file_write(machine.scenario, scenario, strlen(scenario), 0600, NULL), 0);
    gt_auto_node struct gt_node *node = machine_node(&machine, 5, NULL);
    assert_int_equal(node->gpus[0].health, GT_GPU_HEALTHY);
    assert_string_equal(node->gpus[1].unhealthy_reason, "not available: lost");
    assert_string_equal(node->gpus[2].unhealthy_reason, "uncorrectable DRAM ECC errors: 3");
    assert_int_equal(node->gpus[3].mode, GT_GPU_VF);
    assert_non_null(gt_node_not_advertised(node));
    assert_int_equal(node->gpus[4].health, GT_GPU_UNHEALTHY);
    machine_done(&machine);
}

/* A health check must have each signal that a scan has: otherwise a GPU would be healthy after each check and
 * unhealthy after each scan. */
static void a_health_check_queries_what_a_scan_uses(void **state)
{
    (void)state;
    static const char *const calls[] = {"mxSmlGetDeviceState", "mxSmlGetTotalEccErrors", "mxSmlGetEccState",
                                        "mxSmlGetTemperatureInfo", "mxSmlGetMemoryInfo"};
    struct machine machine;
    machine_new(&machine, "");
    machine_scenario(&machine, 2, NULL);
    machine_spawn(&machine);
    gt_auto_free char *log = NULL;
    assert_int_equal(gt_probe_health(machine.client, &log, NULL), 0);
    for (unsigned i = 0; i < GT_COUNT(calls); i++) {
        char entry[64];
        snprintf(entry, sizeof(entry), "\"%s\",\"args\":[1", calls[i]);
        print_message("%s\n", entry);
        assert_non_null(strstr(log, entry));
    }
    machine_done(&machine);
}

static void fewer_gpus_than_on_the_bus(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    machine_scenario(&machine, 3, NULL);
    gt_auto_node struct gt_node *node = machine_node(&machine, 8, NULL);
    assert_string_equal(node->gpus[2].uuid, "GPU-2");
    assert_true(misses(node, "vendor library, GPUs", "it answers for 3 of 8, not for GPU 3-7"));
    machine_scenario(&machine, 0, NULL);
    gt_auto_node struct gt_node *none = machine_node(&machine, 8, NULL);
    assert_true(misses(none, "vendor library, GPUs", "it answers for 0 of 8, not for GPU 0-7"));
    machine_done(&machine);
}

static uint64_t digest_of(const char *log)
{
    uint64_t digest = 0;
    assert_int_equal(gt_answers_digest(log, strlen(log), &digest, NULL), 0);
    return digest;
}

static unsigned restarts_of(const struct machine *machine)
{
    struct gt_probe_stats stats;
    gt_probe_client_stats(machine->client, &stats);
    return stats.restarts;
}

/* A call that hangs in several health checks is not made in each; the log has the same entry, and a scan
 * still makes the call. */
static void what_hangs_for_good(void **state)
{
    (void)state;
    struct machine machine;
    gt_auto_free char *first = NULL, *waiting = NULL;
    machine_new(&machine, SOON_HANGS);
    machine_scenario(&machine, 4, "\"faults\":[{\"call\":\"*\",\"dev\":3,\"do\":\"hang\"}]");
    machine_spawn(&machine);
    for (unsigned i = 0; i < 8; i++) {
        gt_auto_free char *log = NULL;
        assert_int_equal(gt_probe_health(machine.client, &log, NULL), 0);
        assert_non_null(strstr(log, "{\"call\":\"mxSmlGetDeviceInfo\",\"args\":[3],\"error\":\"timeout\"}"));
        assert_int_equal(restarts_of(&machine), i < 3 ? i + 1 : 3);
        if (i == 0)
            first = gt_steal(log);
        else if (i == 7)
            waiting = gt_steal(log);
    }
    assert_string_equal(first, waiting);
    gt_auto_free char *scan = machine_scan(&machine);
    assert_non_null(strstr(scan, "\"error\":\"timeout\""));
    assert_int_equal(restarts_of(&machine), 4);

    machine_scenario(&machine, 4, NULL);
    gt_auto_free char *well = machine_scan(&machine), *look = NULL;
    assert_null(strstr(well, "\"error\":\"timeout\""));
    assert_int_equal(gt_probe_health(machine.client, &look, NULL), 0);
    assert_null(strstr(look, "\"error\":\"timeout\""));
    machine_done(&machine);
}

/* A health check shows whether a full scan would find anything else: other servers, too. */
static void a_health_check_reports_servers(void **state)
{
    (void)state;
    struct machine machine;
    size_t len;
    machine_new(&machine, "");
    gt_auto_free char *scan = machine_scan(&machine), *look = NULL, *later = NULL, *text = NULL;
    assert_int_equal(gt_probe_health(machine.client, &look, NULL), 0);
    assert_true(digest_of(look) == digest_of(scan));
    assert_int_equal(gt_file_read(AT_FDCWD, machine.scenario, 1 << 20, &text, &len, NULL), 0);
    char *remote = strstr(text, "SERVER-3");
    assert_non_null(remote);
    memcpy(remote, "SERVER-4", strlen("SERVER-4"));
    assert_int_equal(gt_file_write(machine.scenario, text, len, 0600, NULL), 0);
    assert_int_equal(gt_probe_health(machine.client, &later, NULL), 0);
    assert_true(digest_of(later) != digest_of(look));
    machine_done(&machine);
}

static void largest_node(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    machine_scenario(&machine, 64, NULL);
    gt_auto_free char *log = NULL;
    long start = clock_ms();
    gt_auto_node struct gt_node *node = machine_node(&machine, 64, &log);
    print_message("64 GPUs: %zu bytes of log, %ld ms\n", strlen(log), clock_ms() - start);
    assert_true(strlen(log) > 300000);
    assert_int_equal(gt_node_link(node, 0, 31)->kind, GT_LINK_MX);
    assert_string_equal(node->gpus[63].uuid, "GPU-63");
    machine_scenario(&machine, 70, NULL);
    gt_auto_node struct gt_node *more = machine_node(&machine, 64, NULL);
    assert_true(misses(more, "number of GPUs", "more than 64"));
    machine_done(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_library),
        cmocka_unit_test(what_hangs_for_good),
        cmocka_unit_test(a_health_check_reports_servers),
        cmocka_unit_test(health_alone),
        cmocka_unit_test(every_fault),
        cmocka_unit_test(slow_library),
        cmocka_unit_test(changing_answers),
        cmocka_unit_test(health_from_library),
        cmocka_unit_test(largest_node),
        cmocka_unit_test(fewer_gpus_than_on_the_bus),
        cmocka_unit_test(a_health_check_queries_what_a_scan_uses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
