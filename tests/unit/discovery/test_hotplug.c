/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <umockdev.h>

#include "topology/discovery/hotplug.h"

/* Run under umockdev-wrapper: devices that come and go in a machine that does not exist. */

static UMockdevTestbed *testbed;
static struct gt_hotplug *hotplug;

static int set_up(void **state)
{
    (void)state;
    testbed = umockdev_testbed_new();
    return gt_hotplug_new(&hotplug, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    gt_hotplug_free(hotplug);
    g_object_unref(testbed);
    return 0;
}

static char *add(const char *subsystem, const char *name, const char *parent, const char *id)
{
    char *no_attributes[] = {NULL};
    char id_name[] = "PCI_ID", type[] = "DEVTYPE", none[] = "";
    char *id_value = strdup(id ? id : "");
    char *properties[] = {id ? id_name : type, id ? id_value : none, NULL};
    char *path = umockdev_testbed_add_devicev(testbed, subsystem, name, parent, no_attributes, properties);
    free(id_value);
    assert_non_null(path);
    return path;
}

/* Drains when something waits; gives the monitor so long for it. */
static unsigned drained_within(int milliseconds)
{
    struct pollfd waiting = {.fd = gt_hotplug_fd(hotplug), .events = POLLIN};
    poll(&waiting, 1, milliseconds);
    return gt_hotplug_drain(hotplug, 0x9999);
}

static unsigned drained(void)
{
    return drained_within(20000);
}

static unsigned nothing(void)
{
    return drained_within(200);
}

static void gpus_that_come_and_go(void **state)
{
    (void)state;
    assert_int_equal(nothing(), 0);
    char *gpu = add("pci", "0000:01:00.0", NULL, "9999:0A01");
    unsigned adding = drained();
    assert_true(adding >= 1);
    umockdev_testbed_uevent(testbed, gpu, "remove");
    assert_int_equal(drained(), 1);
    umockdev_testbed_uevent(testbed, gpu, "add");
    umockdev_testbed_uevent(testbed, gpu, "change");
    assert_true(drained() >= 1);
    assert_int_equal(nothing(), 0);
    free(gpu);
}

static void others_are_ignored(void **state)
{
    (void)state;
    char *disk = add("block", "sda", NULL, NULL);
    char *other = add("pci", "0000:02:00.0", NULL, "8086:1234");
    char *bridge = add("net", "cni0", NULL, NULL);
    (void)nothing();
    umockdev_testbed_uevent(testbed, disk, "add");
    umockdev_testbed_uevent(testbed, other, "add");
    umockdev_testbed_uevent(testbed, bridge, "add");
    assert_int_equal(nothing(), 0);
    free(disk);
    free(other);
    free(bridge);
}

static void nics_and_drm_count(void **state)
{
    (void)state;
    char *function = add("pci", "pci0000:00/0000:03:00.0", NULL, "15b3:101b");
    char *rdma = add("infiniband", "mlx5_0", function, NULL);
    char *net = add("net", "eth0", function, NULL);
    char *card = add("drm", "card1", function, NULL);
    (void)nothing();
    umockdev_testbed_uevent(testbed, rdma, "remove");
    assert_int_equal(drained(), 1);
    umockdev_testbed_uevent(testbed, net, "remove");
    assert_int_equal(drained(), 1);
    umockdev_testbed_uevent(testbed, card, "change"); /* a monitor was plugged in */
    assert_int_equal(nothing(), 0);
    umockdev_testbed_uevent(testbed, card, "remove");
    assert_int_equal(drained(), 1);
    free(function);
    free(rdma);
    free(net);
    free(card);
}

int main(void)
{
    const char *preload = getenv("LD_PRELOAD");
    if (!preload || !strstr(preload, "umockdev")) {
        print_message("skipped: not run under umockdev-wrapper\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gpus_that_come_and_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others_are_ignored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nics_and_drm_count, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
