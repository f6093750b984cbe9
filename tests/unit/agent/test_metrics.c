/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/metrics.h"
#include "base/process.h"

static char *text_of(const struct gt_metrics *metrics)
{
    struct gt_buf text = GT_BUF(1 << 20);
    gt_metrics_write(metrics, &text);
    assert_false(text.failed);
    char *taken = gt_buf_take(&text);
    assert_non_null(taken);
    return taken;
}

static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *p = text; (p = strstr(p, line)); p++)
        if ((p == text || p[-1] == '\n') && p[len] == '\n')
            return true;
    return false;
}

static void expect_line(const char *text, const char *line)
{
    if (!has_line(text, line))
        fail_msg("\"%s\" is not a line of:\n%s", line, text);
}

/* Every family has HELP and TYPE once, right before its samples. */
static void check_form(const char *text)
{
    char family[128] = "";
    unsigned families = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        size_t len = strcspn(line, "\n");
        assert_int_equal(line[len], '\n');
        if (strncmp(line, "# HELP ", 7) == 0) {
            size_t name = strcspn(line + 7, " ");
            assert_true(name < sizeof(family));
            memcpy(family, line + 7, name);
            family[name] = '\0';
            char again[160];
            snprintf(again, sizeof(again), "# HELP %s ", family);
            assert_null(strstr(line + 1, again));
            snprintf(again, sizeof(again), "\n# TYPE %s ", family);
            assert_ptr_equal(strstr(line, again), line + len);
            families++;
        } else if (*line != '#') {
            assert_memory_equal(line, family, strlen(family));
            assert_non_null(memchr(line, ' ', len));
        }
    }
    assert_true(families > 5);
}

static void test_before_the_first_scan(void **state)
{
    struct gt_metrics metrics = {.has_plugin = true, .has_probe = true};
    (void)state;
    gt_auto_free char *text = text_of(&metrics);
    check_form(text);
    expect_line(text, "gputopo_gpus{health=\"healthy\"} 0");
    expect_line(text, "gputopo_plugin_devices 0");
    expect_line(text, "gputopo_plugin_registered 0");
    expect_line(text, "gputopo_scans_total{result=\"failed\"} 0");
    assert_null(strstr(text, "gputopo_last_scan_timestamp_seconds"));
    assert_null(strstr(text, "gputopo_probe_resource_registered")); /* there is none */
    assert_non_null(strstr(text, "gputopo_build_info{version=\""));
}

static void test_plans(void **state)
{
    const struct gt_plan_counts plans = {.pods = 2, .as_planned = 5, .otherwise = 1, .refused = 3};
    const struct gt_kube_recorder_counters events = {.written = 4, .dropped = 1};
    struct gt_metrics metrics = {.has_plugin = true, .honours_plans = true, .api.wanted = true};
    (void)state;
    metrics.plugin.plans[GT_PLAN_HIT] = 7;
    gt_auto_free char *without = text_of(&metrics);
    check_form(without);
    expect_line(without, "gputopo_plan_preferences_total{result=\"hit\"} 7");
    expect_line(without, "gputopo_plan_preferences_total{result=\"late\"} 0");
    expect_line(without, "gputopo_api_server_known 0");
    assert_null(strstr(without, "gputopo_planned_pods"));
    metrics.plans = &plans;
    metrics.api.events = &events;
    metrics.plans_current = metrics.api.used = true;
    gt_auto_free char *text = text_of(&metrics);
    check_form(text);
    expect_line(text, "gputopo_plans_current 1");
    expect_line(text, "gputopo_planned_pods 2");
    expect_line(text, "gputopo_planned_containers_total{result=\"as_planned\"} 5");
    expect_line(text, "gputopo_planned_containers_total{result=\"otherwise\"} 1");
    expect_line(text, "gputopo_plans_refused_total 3");
    expect_line(text, "gputopo_api_server_known 1");
    expect_line(text, "gputopo_events_total{result=\"dropped\"} 1");
}

static void test_publish(void **state)
{
    const struct gt_publish_stats stats = {.writes = {[GT_PUBLISH_USAGE] = 7}, .current = true};
    const struct gt_metrics metrics = {.api.publish = &stats, .api.client = {.unauthorized = 2}};
    (void)state;
    gt_auto_free char *text = text_of(&metrics);
    check_form(text);
    expect_line(text, "gputopo_publish_writes_total{what=\"usage\"} 7");
    expect_line(text, "gputopo_publish_failures_total{what=\"labels\"} 0");
    expect_line(text, "gputopo_publish_current 1");
    expect_line(text, "gputopo_publish_unauthorized_total 2");
}

static void test_node(void **state)
{
    gt_auto_node struct gt_node *node = NULL;
    struct gt_inventory *inventory = calloc(1, sizeof(*inventory));
    (void)state;
    assert_non_null(inventory);
    assert_return_code(gt_node_new(3, 0, &node, NULL), 0);
    node->gpus[1].health = GT_GPU_UNHEALTHY;
    node->gpus[2].health = GT_GPU_HEALTHY;
    for (unsigned i = 0; i < 3; i++)
        node->links[i].kind = GT_LINK_PIX;
    gt_node_link(node, 0, 1)->kind = GT_LINK_MX;
    gt_node_link(node, 0, 1)->state = GT_LINK_STATE_DOWN;
    snprintf(node->name, sizeof(node->name), "a\"b\\c\ne");
    snprintf(node->gpus[0].product, sizeof(node->gpus[0].product),
             "C5\xff"
             "00");
    gt_node_missing(node, "vendor library", "absent");
    inventory->node = node;
    inventory->device_count = 4;
    inventory->devices[3].gpu = -1;
    struct gt_metrics metrics = {.inventory = inventory};
    gt_auto_free char *text = text_of(&metrics);
    free(inventory);
    check_form(text);
    expect_line(text, "gputopo_gpus{health=\"healthy\"} 1");
    expect_line(text, "gputopo_gpus{health=\"unknown\"} 1");
    expect_line(text, "gputopo_gpus{health=\"unhealthy\"} 1");
    expect_line(text, "gputopo_gpus{health=\"lost\"} 1");
    expect_line(text, "gputopo_links{kind=\"MX\",state=\"down\"} 1");
    expect_line(text, "gputopo_links{kind=\"MX\",state=\"up\"} 0");
    expect_line(text, "gputopo_links{kind=\"PIX\",state=\"unknown\"} 2");
    expect_line(text, "gputopo_missing 1");
    expect_line(text, "gputopo_node_info{node=\"a\\\"b\\\\c\\ne\",product=\"C5\xef\xbf\xbd"
                      "00\",driver=\"\"} 1");
    assert_null(strstr(text, "gputopo_registrations_total")); /* no plugin */
}

static void test_counts(void **state)
{
    struct gt_metrics metrics = {
        .has_plugin = true, .has_probe = true, .scans = {.done = 3, .last_s = 1.5e9}};
    (void)state;
    gt_scan_counts_add(&metrics.scans, 0.001);
    gt_scan_counts_add(&metrics.scans, 0.05);
    gt_scan_counts_add(&metrics.scans, 99);
    metrics.plugin.registration.registered = metrics.plugin.registration.streaming = true;
    metrics.plugin.registration.registrations = 2;
    metrics.plugin.allocations = 7;
    metrics.plugin.allocate.bucket[0] = 4;
    metrics.plugin.allocate.bucket[GT_LATENCY_BUCKETS - 1] = 1;
    metrics.plugin.allocate.sum_us = 250000;
    metrics.probe.restarts = 9;
    metrics.has_nodes_plugin = metrics.nodes_registered = true;
    gt_auto_free char *text = text_of(&metrics);
    check_form(text);
    expect_line(text, "gputopo_scans_total{result=\"done\"} 3");
    expect_line(text, "gputopo_scan_duration_seconds_bucket{le=\"0.005\"} 1");
    expect_line(text, "gputopo_scan_duration_seconds_bucket{le=\"0.05\"} 2");
    expect_line(text, "gputopo_scan_duration_seconds_bucket{le=\"10\"} 2");
    expect_line(text, "gputopo_scan_duration_seconds_bucket{le=\"+Inf\"} 3");
    expect_line(text, "gputopo_scan_duration_seconds_count 3");
    expect_line(text, "gputopo_last_scan_timestamp_seconds 1500000000.000");
    expect_line(text, "gputopo_plugin_registered 1");
    expect_line(text, "gputopo_registrations_total 2");
    expect_line(text, "gputopo_allocations_total 7");
    expect_line(text, "gputopo_allocate_duration_seconds_bucket{le=\"1e-05\"} 4");
    expect_line(text, "gputopo_allocate_duration_seconds_bucket{le=\"0.1\"} 4");
    expect_line(text, "gputopo_allocate_duration_seconds_bucket{le=\"+Inf\"} 5");
    expect_line(text, "gputopo_allocate_duration_seconds_sum 0.25");
    expect_line(text, "gputopo_probe_restarts_total 9");
    expect_line(text, "gputopo_probe_resource_registered 1");
}

static void test_process(void **state)
{
    struct gt_process process;
    (void)state;
    assert_true(gt_process_read(&process));
    assert_true(process.resident_bytes > 100000);
    assert_true(process.descriptors >= 1 && process.descriptors < 1000);
    assert_true(process.start_s > 1e9);
    assert_true(process.cpu_s >= 0 && process.cpu_s < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_the_first_scan),
        cmocka_unit_test(test_publish),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_node),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
