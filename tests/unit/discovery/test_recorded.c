/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/*
 * Real machines of other makers, from hwloc's test suite: the same code reads them by their vendor id. The
 * recordings are not part of the repository; what is not there is skipped.
 */

extern char **environ;

static const char *data(const char *path, char to[static 512])
{
    snprintf(to, 512, "%s/hwloc/%s", SHARED_DATA_DIR, path);
    if (access(to, R_OK) < 0) {
        print_message("skipped: %s is not there\n", to);
        skip();
    }
    return to;
}

static void unpack(struct machine *machine, const char *archive)
{
    char path[512];
    data(archive, path);
    machine_new(machine);
    char *const argv[] = {"tar", "-xjf", path, "-C", machine->root, "--strip-components=1", NULL};
    pid_t pid;
    assert_int_equal(posix_spawnp(&pid, "tar", NULL, NULL, argv, environ), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void every_recording_replays(const struct gt_scan_options *options)
{
    struct gt_raw raw = {0};
    gt_auto_node struct gt_node *node = scan_ok(options, &raw);
    gt_auto_free char *text = NULL;
    assert_int_equal(gt_recording_make(node, &raw, &text, NULL), 0);
    gt_raw_done(&raw);
    struct machine machine;
    machine_new(&machine);
    machine_write(&machine, "recording.json", text);
    char path[128];
    snprintf(path, sizeof(path), "%s/recording.json", machine.root);
    struct gt_scan_options replay = {.from = path};
    gt_auto_node struct gt_node *replayed = scan_ok(&replay, NULL);
    assert_same_node(node, replayed);
    machine_free(&machine);
}

/* 16 GPUs behind twelve NVSwitches, one of which has no PCI ids. */
static void dgx2(void **state)
{
    (void)state;
    char path[512];
    struct gt_scan_options options = {.from = data("xml/nvidiaDGX2.xml", path), .vendor = 0x10de};
    gt_auto_node struct gt_node *node = scan_ok(&options, NULL);
    assert_int_equal(node->gpu_count, 16);
    for (unsigned i = 0; i < node->link_count; i++) {
        assert_int_equal(node->links[i].kind, GT_LINK_MX);
        assert_int_equal(node->links[i].state, GT_LINK_STATE_UP);
        assert_int_equal(node->links[i].bandwidth_mbps, 150000);
        assert_int_equal(node->links[i].weight, 150);
    }
    assert_string_equal(node->gpus[0].uuid, "GPU-d3977428-7a30-086b-2e20-5c1eeed647c6");
    assert_string_equal(node->gpus[15].product, "Tesla V100-SXM3-32GB-H");
    assert_int_equal(node->gpus[0].numa_node, 0);
    assert_int_equal(node->gpus[15].numa_node, 1);
    assert_int_equal(node->gpus[0].pci.path.depth, 5);
    assert_int_equal(gt_node_link(node, 0, 1)->path_kind, GT_LINK_PIX);
    assert_int_equal(gt_node_link(node, 0, 15)->path_kind, GT_LINK_SYS);
    every_recording_replays(&options);
}

static void eight_vector_engines(void **state)
{
    (void)state;
    struct machine machine;
    unpack(&machine, "linux/32intel64-2p8co2t+8ve.tar.bz2");
    struct gt_scan_options options = {.from = machine.root, .vendor = 0x1bcf};
    gt_auto_node struct gt_node *node = scan_ok(&options, NULL);
    assert_int_equal(node->gpu_count, 8);
    assert_int_equal(node->nic_count, 2);
    assert_string_equal(node->gpus[0].bdf, "0000:1b:00.0");
    assert_string_equal(node->gpus[7].bdf, "0000:41:00.0");
    for (unsigned i = 0; i < 8; i++) {
        assert_true(node->gpus[i].pci.now.speed == 8 && node->gpus[i].pci.now.width == 16);
        assert_int_equal(node->gpus[i].numa_node, 0);
        assert_string_equal(node->gpus[i].cpu_set, "0-7,16-23");
        assert_int_equal(node->nics[i / 4].kind[i], GT_LINK_PIX);
        assert_int_equal(node->nics[1 - i / 4].kind[i], GT_LINK_NODE);
    }
    assert_int_equal(gt_node_link(node, 0, 3)->kind, GT_LINK_PIX);
    assert_int_equal(gt_node_link(node, 0, 4)->kind, GT_LINK_NODE);
    every_recording_replays(&options);
    machine_free(&machine);
}

/* PCI locality that is set by a variable only, not by the firmware. */
static void locality_from_the_environment(void **state)
{
    (void)state;
    struct machine machine;
    unpack(&machine, "linux/40intel64-2g2n4c+pcilocality.tar.bz2");
    struct gt_scan_options options = {.from = machine.root, .vendor = 0x102b};
    gt_auto_node struct gt_node *without = scan_ok(&options, NULL);
    assert_int_equal(without->gpu_count, 1);
    assert_int_equal(without->gpus[0].numa_node, -1);
    assert_non_null(missing_why(without, "NUMA node"));
    setenv("HWLOC_PCI_LOCALITY", "0000:00-09 0x00000055,0x55555555;0000:40-46 0x000000aa,0xaaaaaaaa", 1);
    gt_auto_node struct gt_node *with = scan_ok(&options, NULL);
    unsetenv("HWLOC_PCI_LOCALITY");
    assert_string_not_equal(with->gpus[0].cpu_set, without->gpus[0].cpu_set);
    machine_free(&machine);
}

/* XML that newer hwloc writes is refused in one line. */
static void xml_of_hwloc_3(void **state)
{
    (void)state;
    char path[512];
    struct gt_scan_options options = {.from = data("linux/40intel64-2g2n4c+pcilocality.v3.xml", path)};
    scan_fails(&options, "only XML that hwloc 2 has written");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dgx2),
        cmocka_unit_test(eight_vector_engines),
        cmocka_unit_test(locality_from_the_environment),
        cmocka_unit_test(xml_of_hwloc_3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
