/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "agent/options.h"
#include "base/buf.h"

enum { ARGS_MAX = 16 };

static const char *host = "here"; /* the host's name */

int gethostname(char *name, size_t len)
{
    snprintf(name, len, "%s", host);
    return 0;
}

/* Words are separated by blanks; "" stands for an empty argument. */
static int read_line(const char *line, const char *node, struct gt_agent_options *ret, struct gt_err **err)
{
    static char copy[1024];
    static char name[] = "gputopo-agent", empty[] = "";
    char *argv[ARGS_MAX + 2] = {name}, *save = NULL;
    int argc = 1;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok_r(copy, " ", &save); word && argc <= ARGS_MAX; word = strtok_r(NULL, " ", &save))
        argv[argc++] = strcmp(word, "\"\"") == 0 ? empty : word;
    return gt_agent_options_read(argc, argv, node, ret, err);
}

static void test_defaults(void **state)
{
    struct gt_agent_options options;
    (void)state;
    host = "bare-7.example.com";
    assert_return_code(read_line("", NULL, &options, NULL), 0);
    assert_null(options.from);
    assert_null(options.root);
    assert_null(options.probe);
    assert_null(options.probe_resource); /* nothing but GPUs is advertised unless asked for */
    assert_int_equal(options.probe_patience_s, 5);
    assert_string_equal(options.dev_root, "/dev");
    assert_string_equal(options.kubelet_dir, "/var/lib/kubelet");
    assert_string_equal(options.resource, "metax-tech.com/gpu");
    assert_string_equal(options.http, "127.0.0.1:9400");
    assert_int_equal(options.vendor, 0);
    assert_true(options.device_plugin);
    assert_false(options.oneshot);
    assert_int_equal(options.publish, GT_PUBLISH_ALL);
    assert_null(options.kubeconfig);
    assert_int_equal(options.heartbeat_s, 300);
    assert_string_equal(options.node_name, host);
}

static void test_honour_plan(void **state)
{
    struct gt_agent_options options;
    gt_auto_err struct gt_err *err = NULL;
    (void)state;
    assert_return_code(read_line("", NULL, &options, NULL), 0);
    assert_true(options.honour_plan);
    assert_return_code(read_line("--honour-plan=false", NULL, &options, NULL), 0);
    assert_false(options.honour_plan);
    assert_return_code(read_line("--honour-plan=false --honour-plan", NULL, &options, NULL), 0);
    assert_true(options.honour_plan);
    assert_return_code(read_line("--honour-plan=true", NULL, &options, NULL), 0);
    assert_true(options.honour_plan);
    assert_int_equal(read_line("--honour-plan=maybe", NULL, &options, &err), -EINVAL);
    assert_non_null(strstr(gt_err_text(err), "--honour-plan"));
    /* it must be one argument */
    assert_int_equal(read_line("--honour-plan false", NULL, &options, NULL), -EINVAL);
}

static void test_publish(void **state)
{
    struct gt_agent_options options;
    (void)state;
    assert_return_code(read_line("--kubeconfig /x --heartbeat 10 --no-publish", NULL, &options, NULL), 0);
    assert_string_equal(options.kubeconfig, "/x");
    assert_int_equal(options.heartbeat_s, 10);
    assert_int_equal(options.publish, GT_PUBLISH_NOTHING);
    assert_return_code(read_line("--publish=annotations", NULL, &options, NULL), 0);
    assert_int_equal(options.publish, GT_PUBLISH_NODE_ONLY);
    assert_return_code(read_line("--publish=none", NULL, &options, NULL), 0);
    assert_int_equal(options.publish, GT_PUBLISH_NOTHING);
    assert_return_code(read_line("--no-publish --publish all", NULL, &options, NULL), 0);
    assert_int_equal(options.publish, GT_PUBLISH_ALL);
    assert_int_equal(read_line("--publish=labels", NULL, &options, NULL), -EINVAL);
    assert_int_equal(read_line("--heartbeat 0", NULL, &options, NULL), -EINVAL);
    assert_int_equal(read_line("--kubeconfig \"\"", NULL, &options, NULL), -EINVAL);
}

static void test_node_name(void **state)
{
    struct gt_agent_options options;
    (void)state;
    assert_return_code(read_line("", "from-env", &options, NULL), 0);
    assert_string_equal(options.node_name, "from-env");
    assert_return_code(read_line("--node-name given", "from-env", &options, NULL), 0);
    assert_string_equal(options.node_name, "given");
    assert_int_equal(read_line("", "a b", &options, NULL), -EINVAL);
}

static void test_host_name(void **state)
{
    struct gt_agent_options options;
    gt_auto_err struct gt_err *err = NULL;
    (void)state;
    host = "GPU-Node-07"; /* the kubelet registers it in lower case */
    assert_return_code(read_line("", NULL, &options, NULL), 0);
    assert_string_equal(options.node_name, "gpu-node-07");
    host = "a b";
    assert_int_equal(read_line("", NULL, &options, &err), -EINVAL);
    assert_non_null(strstr(gt_err_text(err), "the host's name"));
    host = "here";
}

static void test_values(void **state)
{
    struct gt_agent_options options;
    (void)state;
    assert_return_code(read_line("--from=a.json --root /host --dev-root /tmp/dev --kubelet-dir /tmp/k "
                                 "--vendor 0x10DE --http none --resource example.com/x_1",
                                 NULL, &options, NULL),
                       0);
    assert_string_equal(options.from, "a.json");
    assert_string_equal(options.root, "/host");
    assert_string_equal(options.dev_root, "/tmp/dev");
    assert_string_equal(options.kubelet_dir, "/tmp/k");
    assert_int_equal(options.vendor, 0x10de);
    assert_null(options.http);
    assert_string_equal(options.resource, "example.com/x_1");
    assert_return_code(read_line("--http \"\" --no-device-plugin --oneshot --log-level debug "
                                 "--log-format json --rescan-interval 0 --health-interval 7",
                                 NULL, &options, NULL),
                       0);
    assert_null(options.http);
    assert_false(options.device_plugin);
    assert_true(options.oneshot);
    assert_int_equal(options.log_level, GT_LOG_DEBUG);
    assert_int_equal(options.log_format, GT_LOG_JSON);
    assert_int_equal(options.rescan_s, 0);
    assert_int_equal(options.health_s, 7);
    assert_return_code(read_line("--probe none", NULL, &options, NULL), 0);
    assert_string_equal(options.probe, "none");
    assert_return_code(
        read_line("--probe-resource example.com/probe --probe-patience 0", NULL, &options, NULL), 0);
    assert_string_equal(options.probe_resource, "example.com/probe");
    assert_int_equal(options.probe_patience_s, 0);
    assert_return_code(read_line("--probe-resource none", NULL, &options, NULL), 0);
    assert_null(options.probe_resource);
}

static void test_wrong_usage(void **state)
{
    static const struct {
        const char *line, *culprit;
    } wrong[] = {
        {"--nonsense", "--nonsense"},
        {"--nonsense=3 --from a", "--nonsense"},
        {"--oneshot --from", "--from"},
        {"-x", "-x"},
        {"-f a", "-f"},
        {"--oneshot=yes", "--oneshot"},
        {"--http 127.0.0.1:99999", "--http"},
        {"--http 1.2.3", "--http"},
        {"--no", "--no"},
        {"word", "word"},
        {"--oneshot -- word", "word"},
        {"--from \"\"", "--from"},
        {"--vendor 12345", "--vendor"},
        {"--vendor xyz", "--vendor"},
        {"--vendor 0", "--vendor"},
        {"--vendor 0x", "--vendor"},
        {"--vendor -1", "--vendor"},
        {"--resource gpu", "--resource"},
        {"--resource /gpu", "--resource"},
        {"--resource a/", "--resource"},
        {"--resource a/b/c", "--resource"},
        {"--resource a/b\"c", "--resource"},
        {"--probe-resource gpu", "--probe-resource"},
        {"--probe-resource metax-tech.com/gpu", "--probe-resource"},
        {"--probe-patience 61", "--probe-patience"},
        {"--rescan-interval x", "--rescan-interval"},
        {"--rescan-interval -5", "--rescan-interval"},
        {"--rescan-interval 86401", "--rescan-interval"},
        {"--health-interval 1s", "--health-interval"},
        {"--fault-conditions Disk", "--fault-conditions"},
        {"--fault-conditions Disk=evict", "--fault-conditions"},
        {"--fault-conditions Disk=report,", "--fault-conditions"},
        {"--fault-conditions =report", "--fault-conditions"},
        {"--fault-conditions Disk=reports", "--fault-conditions"},
        {"--fault-conditions Disk=report,MetaXGPUHealthy=isolate", "--fault-conditions"},
        {"--log-level loud", "--log-level"},
        {"--log-format xml", "--log-format"},
        {"--node-name a/b", "--node-name"},
        {"--node-name \"\"", "--node-name"},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(wrong); i++) {
        gt_auto_err struct gt_err *err = NULL;
        struct gt_agent_options options;
        int r = read_line(wrong[i].line, NULL, &options, &err);
        if (r != -EINVAL || !strstr(gt_err_text(err), wrong[i].culprit))
            fail_msg("%s: %d \"%s\"", wrong[i].line, r, gt_err_text(err));
        assert_null(strchr(gt_err_text(err), '\n'));
    }
}

static void test_help_names_every_option(void **state)
{
    static const char *const names[] = {"--from",        "--root",       "--dev-root",
                                        "--kubelet-dir", "--resource",   "--vendor",
                                        "--node-name",   "--probe",      "--http",
                                        "--oneshot",     "--version",    "--rescan-interval",
                                        "--log-level",   "--log-format", "--no-device-plugin"};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    (void)state;
    gt_options_help(&gt_agent_command, &text);
    assert_false(text.failed);
    for (size_t i = 0; i < GT_COUNT(names); i++)
        assert_non_null(strstr(text.data, names[i]));
    for (const char *line = text.data; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") < 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),    cmocka_unit_test(test_node_name),
        cmocka_unit_test(test_host_name),   cmocka_unit_test(test_publish),
        cmocka_unit_test(test_honour_plan), cmocka_unit_test(test_values),
        cmocka_unit_test(test_wrong_usage), cmocka_unit_test(test_help_names_every_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
