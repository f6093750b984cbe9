/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "topology/probe/prober.h"

static const char remote[] = "mxSmlGetMetaXLinkRemoteInfo", affinity[] = "mxSmlGetNodeAffinity";

static void add(struct gt_culprits *culprits, const char *call, uint32_t device, uint32_t second)
{
    gt_culprits_add(culprits, call, 2, (uint32_t[]){device, second});
}

static bool has(const struct gt_culprits *culprits, const char *call, uint32_t device, uint32_t second)
{
    return gt_culprits_has(culprits, call, 2, (uint32_t[]){device, second});
}

static void one_link_is_one_link(void **state)
{
    struct gt_culprits culprits = {0};
    (void)state;
    add(&culprits, remote, 0, 3);
    add(&culprits, remote, 5, 3); /* its other end */
    assert_true(has(&culprits, remote, 0, 3));
    assert_false(has(&culprits, remote, 0, 4));
    assert_false(has(&culprits, remote, 5, 4));
    assert_false(has(&culprits, remote, 6, 3));
    assert_false(has(&culprits, "mxSmlGetDeviceTopology", 0, 3));
}

static void two_links_are_a_device(void **state)
{
    struct gt_culprits culprits = {0};
    (void)state;
    add(&culprits, remote, 0, 3);
    add(&culprits, remote, 0, 4);
    assert_true(has(&culprits, remote, 0, 6));
    add(&culprits, remote, 3, 0);
    add(&culprits, remote, 4, 0); /* the other ends: GPUs 1, 2, 5... still have a say */
    assert_false(has(&culprits, remote, 5, 0));
}

static void two_devices_are_all(void **state)
{
    struct gt_culprits culprits = {0};
    (void)state;
    for (uint32_t device = 0; device < 2; device++)
        for (uint32_t link = 0; link < 2; link++) {
            assert_false(has(&culprits, remote, 7, 0));
            add(&culprits, remote, device, link);
        }
    assert_true(has(&culprits, remote, 7, 0));

    /* The second number of this one is no link: it is asked once a device. */
    culprits.count = 0;
    add(&culprits, affinity, 0, 4);
    assert_true(has(&culprits, affinity, 0, 4));
    assert_false(has(&culprits, affinity, 1, 4));
    add(&culprits, affinity, 1, 4);
    assert_true(has(&culprits, affinity, 2, 4));
}

static void workers_are_bounded(void **state)
{
    struct gt_culprits culprits = {0};
    (void)state;
    for (uint32_t device = 0; device < GT_CULPRITS_PER_CALL; device++) {
        assert_false(has(&culprits, remote, 60, 7));
        add(&culprits, remote, device, 0);
    }
    assert_true(has(&culprits, remote, 60, 7));
    for (uint32_t i = 0; i < 100; i++)
        gt_culprits_add(&culprits, affinity, 0, NULL);
    assert_int_equal(culprits.count, GT_CULPRITS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_link_is_one_link),
        cmocka_unit_test(two_links_are_a_device),
        cmocka_unit_test(two_devices_are_all),
        cmocka_unit_test(workers_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
