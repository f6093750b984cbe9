/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "topology/discovery/facts.h"

/* Machines as trees of files: what is read, and what happens where something is not there. */

static struct machine machine;

static int set_up(void **state)
{
    (void)state;
    machine_new(&machine);
    machine_add_processors(&machine);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    machine_free(&machine);
    return 0;
}

#define GPU "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/"

static void add_gpu(const char *bdf)
{
    machine_add_device(&machine, "pci0000:00/0000:00:01.0", bdf, "0x9999\n", "0x030200\n");
}

static struct gt_node *scan(void)
{
    struct gt_scan_options options = {.root = machine.root};
    return scan_ok(&options, NULL);
}

static void one_gpu_is_read(void **state)
{
    (void)state;
    add_gpu("0000:01:00.0");
    machine_write(&machine, GPU "drm/card3/dev", "226:3\n");
    machine_write(&machine, GPU "drm/card3-DP-1/status", "\n");
    machine_write(&machine, GPU "drm/renderD131/dev", "226:131\n");
    machine_write(&machine, "sys/module/metax/version", "3.6.11\n");
    gt_auto_node struct gt_node *node = scan();
    assert_int_equal(node->gpu_count, 1);
    const struct gt_gpu *gpu = &node->gpus[0];
    assert_string_equal(gpu->bdf, "0000:01:00.0");
    assert_string_equal(gpu->uuid, "");
    assert_int_equal(gpu->pci.vendor, 0x9999);
    assert_int_equal(gpu->pci.device, 0x0a01);
    assert_int_equal(gpu->numa_node, 0);
    assert_string_equal(gpu->cpu_set, "0-1");
    assert_true(gpu->pci.now.speed == 32 && gpu->pci.now.width == 8);
    assert_true(gpu->pci.max.speed == 32 && gpu->pci.max.width == 16);
    assert_int_equal(gpu->pci.path.depth, 1);
    assert_string_equal(gpu->pci.path.bridges[0], "0000:00:01.0");
    assert_string_equal(gpu->pci.path.root, "pci0000:00");
    assert_int_equal(gpu->drm_card, 3);
    assert_int_equal(gpu->drm_render, 131);
    assert_int_equal(gpu->mode, GT_GPU_NATIVE);
    assert_int_equal(gpu->health, GT_GPU_HEALTH_UNKNOWN);
    assert_string_equal(node->driver_version, "3.6.11");
    assert_string_equal(missing_why(node, "vendor library"), "not asked");
    assert_int_equal(node->missing_count, 1);
}

static void other_functions_of_the_vendor_are_none(void **state)
{
    (void)state;
    add_gpu("0000:01:00.0");
    const char *const parents = "pci0000:00/0000:00:01.0";
    machine_add_device(&machine, parents, "0000:01:00.1", "0x9999\n", "0x040300\n"); /* audio */
    machine_add_device(&machine, parents, "0000:02:00.0", "0x9999\n", "0x060400\n"); /* bridge */
    machine_add_device(&machine, parents, "0000:03:00.0", "0x9999\n", "0x020000\n"); /* network */
    machine_add_device(&machine, parents, "0000:04:00.0", "0x9999\n", "0x120000\n"); /* accelerator */
    machine_add_device(&machine, parents, "0000:05:00.0", "0x9999\n", "0x0b4000\n"); /* co-processor */
    machine_add_device(&machine, parents, "0000:06:00.0", "0x102b\n", "0x030000\n"); /* board graphics */
    gt_auto_node struct gt_node *node = scan();
    assert_int_equal(node->gpu_count, 3);
    assert_string_equal(node->gpus[1].bdf, "0000:04:00.0");
    assert_string_equal(node->gpus[2].bdf, "0000:05:00.0");
    assert_int_equal(node->nic_count, 0);
    struct gt_scan_options other = {.root = machine.root, .vendor = 0x102b};
    gt_auto_node struct gt_node *graphics = scan_ok(&other, NULL);
    assert_int_equal(graphics->gpu_count, 1);
}

static void modes_are_told_apart(void **state)
{
    (void)state;
    add_gpu("0000:01:00.0");
    add_gpu("0000:02:00.0");
    add_gpu("0000:03:00.0");
    machine_symlink(&machine, GPU "driver", "../../../../bus/pci/drivers/vfio-pci");
    machine_mkdir(&machine, "sys/bus/pci/drivers/vfio-pci");
    machine_symlink(&machine, "sys/devices/pci0000:00/0000:00:01.0/0000:02:00.0/physfn", "../0000:03:00.0");
    gt_auto_node struct gt_node *node = scan();
    assert_int_equal(node->gpus[0].mode, GT_GPU_VFIO);
    assert_int_equal(node->gpus[1].mode, GT_GPU_VF);
    assert_int_equal(node->gpus[2].mode, GT_GPU_NATIVE);
    assert_non_null(gt_node_not_advertised(node));
    assert_int_equal(node->gpus[0].health, GT_GPU_UNHEALTHY);
    assert_string_equal(node->gpus[0].unhealthy_reason, "bound to vfio-pci, for virtual machines");
}

static void drm_numbers_from_the_module(void **state)
{
    (void)state;
    add_gpu("0000:01:00.0");
    add_gpu("0000:02:00.0");
    machine_mkdir(&machine, "sys/module/metax/drivers/pci:METAX/0000:01:00.0/drm/card1");
    machine_mkdir(&machine, "sys/module/metax/drivers/pci:METAX/0000:01:00.0/drm/renderD128");
    machine_mkdir(&machine, "sys/module/metax/drivers/pci:metax/0000:02:00.0/drm/card2");
    gt_auto_node struct gt_node *node = scan();
    assert_int_equal(node->gpus[0].drm_card, 1);
    assert_int_equal(node->gpus[0].drm_render, 128);
    assert_int_equal(node->gpus[1].drm_card, 2);
    assert_int_equal(node->gpus[1].drm_render, -1);
}

static void nics_with_rdma_only(void **state)
{
    (void)state;
    add_gpu("0000:01:00.0");
    const char *const parents = "pci0000:00/0000:00:02.0";
    machine_add_device(&machine, parents, "0000:0a:00.0", "0x15b3\n", "0x020700\n");
    machine_add_device(&machine, parents, "0000:0b:00.0", "0x15b3\n", "0x020000\n");
    machine_add_device(&machine, parents, "0000:0b:00.1", "0x15b3\n", "0x020000\n");
    machine_add_device(&machine, parents, "0000:0c:00.0", "0x8086\n", "0x020000\n");
    machine_mkdir(&machine, "sys/devices/pci0000:00/0000:00:02.0/0000:0a:00.0/infiniband/mlx5_10");
    machine_mkdir(&machine, "sys/devices/pci0000:00/0000:00:02.0/0000:0b:00.0/infiniband/mlx5_9");
    machine_mkdir(&machine, "sys/devices/pci0000:00/0000:00:02.0/0000:0b:00.1/infiniband/mlx5_11");
    machine_symlink(&machine, "sys/devices/pci0000:00/0000:00:02.0/0000:0b:00.1/physfn", "../0000:0b:00.0");
    machine_mkdir(&machine, "sys/devices/pci0000:00/0000:00:02.0/0000:0c:00.0/net/eth0");
    gt_auto_node struct gt_node *node = scan();
    assert_int_equal(node->nic_count, 2);
    assert_string_equal(node->nics[0].name, "mlx5_9");
    assert_string_equal(node->nics[1].name, "mlx5_10");
    assert_int_equal(node->nics[0].kind[0], GT_LINK_PHB);
}

/* libpci would end the process at each of these. */
static void broken_devices_are_left_out(void **state)
{
    (void)state;
    add_gpu("0000:01:00.0");
    add_gpu("0000:02:00.0");
    add_gpu("0000:03:00.0");
    machine_remove(&machine, "sys/devices/pci0000:00/0000:00:01.0/0000:02:00.0/vendor");
    machine_remove(&machine, "sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0/class");
    machine_mkdir(&machine, "sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0/class");
    machine_symlink(&machine, "sys/bus/pci/devices/0000:04:00.0", "../../../devices/nowhere");
    machine_symlink(&machine, "sys/bus/pci/devices/rubbish", "../../../devices/nowhere");
    machine_symlink(&machine, "sys/bus/pci/devices/0000:zz:00.0", "../../../devices/nowhere");
    machine_symlink(&machine, "sys/bus/pci/devices/ffffffff:00:00.0", "../../../devices/nowhere");
    gt_auto_node struct gt_node *node = scan();
    assert_int_equal(node->gpu_count, 1);
    assert_string_equal(node->gpus[0].bdf, "0000:01:00.0");
    unsigned notes = 0;
    for (unsigned i = 0; i < node->missing_count; i++)
        if (strcmp(node->missing[i].what, "PCI devices") == 0) {
            assert_non_null(strstr(node->missing[i].why, "is left out"));
            notes++;
        }
    assert_int_equal(notes, 3);
}

static void missing_attributes_are_noted_once(void **state)
{
    (void)state;
    static const char *const names[] = {"numa_node",      "local_cpulist",      "current_link_speed",
                                        "max_link_speed", "current_link_width", "max_link_width"};
    for (int i = 1; i <= 3; i++) {
        char bdf[GT_BDF_SIZE], path[128];
        snprintf(bdf, sizeof(bdf), "0000:0%d:00.0", i);
        add_gpu(bdf);
        for (size_t k = 0; k < GT_COUNT(names) && i > 1; k++) {
            snprintf(path, sizeof(path), "sys/devices/pci0000:00/0000:00:01.0/%s/%s", bdf, names[k]);
            machine_remove(&machine, path);
        }
    }
    gt_auto_node struct gt_node *node = scan();
    assert_int_equal(node->gpu_count, 3);
    assert_string_equal(missing_why(node, "PCIe link speed and width"),
                        "not given for 2 of 3 GPUs, first 0000:02:00.0");
    assert_true(node->gpus[1].pci.now.speed == 0);
    assert_int_equal(node->gpus[1].pci.max.width, 0);
}

static void odd_attributes_are_unknown(void **state)
{
    (void)state;
    add_gpu("0000:01:00.0");
    machine_write(&machine, GPU "current_link_speed", "Unknown\n");
    machine_write(&machine, GPU "current_link_width", "255\n");
    machine_write(&machine, GPU "max_link_speed", "nan GT/s\n");
    machine_write(&machine, GPU "max_link_width", "-1\n");
    machine_write(&machine, GPU "numa_node", "-1\n");
    machine_write(&machine, GPU "local_cpulist", "0-1; rm\n");
    gt_auto_node struct gt_node *node = scan();
    assert_true(node->gpus[0].pci.now.speed == 0 && node->gpus[0].pci.now.width == 0);
    assert_true(node->gpus[0].pci.max.speed == 0 && node->gpus[0].pci.max.width == 0);
    assert_string_equal(node->gpus[0].cpu_set, "");
}

static void a_machine_without_gpus(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = scan();
    assert_int_equal(node->gpu_count, 0);
    assert_int_equal(node->link_count, 0);
    machine_remove(&machine, "sys/bus");
    gt_auto_node struct gt_node *bare = scan();
    assert_int_equal(bare->gpu_count, 0);
    assert_non_null(strstr(missing_why(bare, "PCI"), "No such file or directory"));
}

static void too_many_gpus(void **state)
{
    (void)state;
    for (int i = 0; i < 65; i++) {
        char bdf[GT_BDF_SIZE];
        snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", i + 1);
        add_gpu(bdf);
        if (i == 63) {
            gt_auto_node struct gt_node *node = scan();
            assert_int_equal(node->gpu_count, 64);
        }
    }
    struct gt_scan_options options = {.root = machine.root};
    scan_fails(&options, "65");
}

static void a_root_that_is_none(void **state)
{
    (void)state;
    struct gt_scan_options options = {.root = "/nonexistent/machine"};
    scan_fails(&options, "/nonexistent/machine: No such file or directory");
    options.root = "/dev/null";
    scan_fails(&options, "Not a directory");
    machine_remove(&machine, "sys");
    options.root = machine.root;
    scan_fails(&options, "there is no directory sys in it");
    options = (struct gt_scan_options){.from = machine.root};
    scan_fails(&options, "there is no directory sys in it");
}

static void reasons_and_names_come_through(void **state)
{
    (void)state;
    add_gpu("0000:01:00.0");
    struct gt_scan_options options = {
        .root = machine.root, .node_name = "worker-7", .no_probe_why = "switched off by the operator"};
    gt_auto_node struct gt_node *node = scan_ok(&options, NULL);
    assert_string_equal(node->name, "worker-7");
    assert_string_equal(missing_why(node, "vendor library"), "switched off by the operator");
}

/* The live machine, whatever it is. */
static void this_machine(void **state)
{
    (void)state;
    struct gt_scan_options options = {.root = NULL};
    struct gt_raw raw = {0};
    gt_auto_node struct gt_node *node = scan_ok(&options, &raw);
    assert_non_null(raw.pci);
    assert_in_range(node->gpu_count, 0, GT_GPUS_MAX);
    gt_raw_done(&raw);
}

static void facts_have_limits(void **state)
{
    (void)state;
    gt_auto_facts struct gt_facts facts = {0};
    struct gt_fact *fact;
    for (unsigned i = 0; i < GT_FACTS_MAX; i++) {
        char bdf[GT_BDF_SIZE];
        snprintf(bdf, sizeof(bdf), "%04x:00:00.0", i);
        assert_int_equal(gt_facts_add(&facts, bdf, &fact, NULL), 0);
    }
    assert_int_equal(gt_facts_add(&facts, "0000:00:00.0", &fact, NULL), -EEXIST);
    assert_int_equal(gt_facts_add(&facts, "0000:00:00.1", &fact, NULL), -E2BIG);
    for (unsigned i = 0; i < GT_DIRECT_MAX; i++)
        assert_int_equal(gt_facts_add_direct(&facts, "0000:00:00.0", "0000:00:01.0", 1, NULL), 0);
    assert_int_equal(gt_facts_add_direct(&facts, "0000:00:00.0", "0000:00:01.0", 1, NULL), -E2BIG);
}

#define ON_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* The scan fails, so that the state before is kept: the GPU is not gone. */
static void without_descriptors_nothing_is_said(void **state)
{
    (void)state;
    add_gpu("0000:01:00.0");
    struct gt_scan_options options = {.root = machine.root};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0);
    assert_true(next >= 0);
    close(next);
    for (unsigned left = 0; left < 8; left++) {
        struct rlimit scarce = {(rlim_t)next + left, before.rlim_max};
        struct gt_node *node = NULL;
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &scarce), 0);
        int r = gt_scan(&options, &node, NULL, &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(r, -EMFILE);
        assert_non_null(strstr(gt_err_text(err), "Too many open files"));
    }
    gt_auto_node struct gt_node *node = scan();
    assert_int_equal(node->gpu_count, 1);
}

/* Another thread may read the environment while a scan runs. */
static void a_prepared_scan_leaves_the_environment_alone(void **state)
{
    enum { ENTRIES = 512 };
    (void)state;
    add_gpu("0000:01:00.0");
    struct gt_scan_options options = {.root = machine.root};
    gt_scan_prepare(&options);
    char **before = environ, *entries[ENTRIES];
    unsigned count = 0;
    while (count < ENTRIES && (entries[count] = environ[count]))
        count++;
    assert_in_range(count, 1, ENTRIES - 1);
    for (int i = 0; i < 2; i++) {
        gt_auto_node struct gt_node *node = scan();
        assert_int_equal(node->gpu_count, 1);
        assert_string_equal(node->gpus[0].cpu_set, "0-1");
    }
    assert_ptr_equal(environ, before);
    for (unsigned i = 0; i <= count; i++)
        assert_ptr_equal(environ[i], entries[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MACHINE(one_gpu_is_read),
        ON_MACHINE(other_functions_of_the_vendor_are_none),
        ON_MACHINE(modes_are_told_apart),
        ON_MACHINE(drm_numbers_from_the_module),
        ON_MACHINE(nics_with_rdma_only),
        ON_MACHINE(broken_devices_are_left_out),
        ON_MACHINE(missing_attributes_are_noted_once),
        ON_MACHINE(odd_attributes_are_unknown),
        ON_MACHINE(a_machine_without_gpus),
        ON_MACHINE(too_many_gpus),
        ON_MACHINE(a_root_that_is_none),
        ON_MACHINE(reasons_and_names_come_through),
        ON_MACHINE(without_descriptors_nothing_is_said),
        ON_MACHINE(a_prepared_scan_leaves_the_environment_alone),
        cmocka_unit_test(this_machine),
        cmocka_unit_test(facts_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
