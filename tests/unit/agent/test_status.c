/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/status.h"

static void expect(const struct gt_status *status, bool ready, const char *part)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    assert_int_equal(gt_status_ready(status, &text), ready);
    if (!strstr(text.data, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text.data);
    assert_ptr_equal(strchr(text.data, '\n'), text.data + text.len - 1); /* one line */
}

static void test_ready(void **state)
{
    gt_auto_node struct gt_node *node = NULL;
    struct gt_status status = {.has_plugin = true, .scan_busy_s = 3};
    struct gt_inventory *inventory = calloc(1, sizeof(*inventory));
    (void)state;
    assert_non_null(inventory);
    assert_return_code(gt_node_new(1, 0, &node, NULL), 0);
    expect(&status, false, "first scan");
    inventory->node = node;
    status.inventory = inventory;
    expect(&status, true, "no GPU");
    node->gpus[0].mode = GT_GPU_VFIO;
    expect(&status, true, gt_node_not_advertised(node));
    node->gpus[0].mode = GT_GPU_NATIVE;
    inventory->device_count = 1;
    expect(&status, false, "not registered with the kubelet yet");
    status.registration_error = "refused";
    expect(&status, false, "refused");
    status.kubelet_socket = "/k/kubelet.sock";
    expect(&status, false, "/k/kubelet.sock does not exist");
    status.kubelet_socket = NULL;
    status.registered = true;
    expect(&status, false, "does not listen");
    status.streaming = true;
    expect(&status, true, "ok");
    status = (struct gt_status){.inventory = inventory};
    expect(&status, true, "without the device plugin");
    free(inventory);
}

static void test_healthy(void **state)
{
    struct gt_status status = {.scan_busy_s = GT_SCAN_STUCK_S - 1};
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    (void)state;
    assert_true(gt_status_healthy(&status, &text));
    status.scan_busy_s = GT_SCAN_STUCK_S + 1;
    assert_false(gt_status_healthy(&status, &text));
    status = (struct gt_status){.handler_busy_s = GT_HANDLER_STUCK_S - 1};
    assert_true(gt_status_healthy(&status, &text));
    status.handler_busy_s = GT_HANDLER_STUCK_S + 1;
    assert_false(gt_status_healthy(&status, &text));
    assert_non_null(strstr(text.data, "running for 121 s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ready), cmocka_unit_test(test_healthy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
