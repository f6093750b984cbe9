/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "scheduler-ext/companion/options.h"

enum { ARGUMENTS_MAX = 24 };

static int parse(struct gt_companion_options *to, struct gt_err **err, const char *first, ...)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char *)(uintptr_t) "gputopo-scheduler"};
    int argc = 1;
    va_list args;
    va_start(args, first);
    for (const char *a = first; a && argc <= ARGUMENTS_MAX; a = va_arg(args, const char *))
        argv[argc++] = (char *)(uintptr_t)a;
    va_end(args);
    return gt_companion_options_read(argc, argv, to, err);
}

static void test_defaults(void **state)
{
    struct gt_companion_options options;
    (void)state;
    assert_int_equal(parse(&options, NULL, NULL), 0);
    assert_string_equal(options.serve.http, "127.0.0.1:9401");
    assert_string_equal(options.supernode_label, "node-restriction.kubernetes.io/gputopo-supernode");
    assert_string_equal(options.supernodes_config, "gputopo-supernodes");
    assert_int_equal(options.placement.reserve.gpus, 512);
    assert_true(options.parts & 1);
    assert_true(options.leader_elect);
    assert_false(options.project_hypernodes || options.project_nodefeatures);
    assert_null(options.kubeconfig);
    assert_string_equal(options.serve.extender_clients, "kube-scheduler,system:kube-scheduler");
    assert_string_equal(options.serve.webhook_except, "kube-system");
}

static void test_values(void **state)
{
    struct gt_companion_options options;
    (void)state;
    assert_int_equal(parse(&options, NULL, "--http=none", "--only", "supernodes", "--supernode-label=none",
                           "--supernodes-config", "./x", "--project=hypernodes", "--project", "nodefeatures",
                           "--leader-elect=false", "--namespace=a-b", "--log-level=error",
                           "--log-format=json", "--reserve=90", "--reserve-gpus", "64", NULL),
                     0);
    assert_int_equal(options.placement.reserve.coming_ms, 90000);
    assert_int_equal(options.placement.reserve.gpus, 64);
    assert_int_equal(options.placement.reserve.gpus_per_namespace, 64);
    assert_null(options.serve.http);
    assert_null(options.supernode_label);
    assert_string_equal(options.supernodes_config, "./x");
    assert_true(options.project_hypernodes && options.project_nodefeatures);
    assert_false(options.leader_elect);
    assert_string_equal(options.namespace_, "a-b");
    assert_int_equal(options.log_level, GT_LOG_ERROR);
    assert_int_equal(parse(&options, NULL, "--webhook-except=none", "--extender-clients=a,b.c", NULL), 0);
    assert_string_equal(options.serve.webhook_except, "");
    assert_string_equal(options.serve.extender_clients, "a,b.c");
    assert_int_equal(parse(&options, NULL, "--project=hypernodes,nodefeatures", "--project=none", NULL), 0);
    assert_false(options.project_hypernodes || options.project_nodefeatures);
}

static void test_wrong(void **state)
{
    static const char *const wrong[] = {
        "--only=",
        "--only=supernodes,",
        "--only=x",
        "--http=nowhere",
        "--project=x",
        "--leader-elect=yes",
        "x",
        "--namespace=",
        "--namespace=-a",
        "--supernode-label=a b",
        "--supernode-label=/",
        "--supernode-label=a/b,",
        "--supernode-label=,a/b",
        "--supernode-label=a/b,a/b/c",
        "--log-level=loud",
        "--reserve=0",
        "--reserve-gpus=0",
        "--reserve-gpus=1.5",
        "--supernodes-config=-",
        "--unknown",
        "--version=1",
        "--kubeconfig",
        "--extender-clients=",
        "--extender-clients=a,,b",
        "--extender-clients=a b",
        "--webhook-except=,",
    };
    struct gt_companion_options options;
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(wrong); i++) {
        gt_auto_err struct gt_err *err = NULL;
        if (parse(&options, &err, wrong[i], NULL) >= 0)
            fail_msg("%s is taken", wrong[i]);
        assert_null(strchr(gt_err_text(err), '\n'));
        assert_true(strlen(gt_err_text(err)) > 10);
    }
}

static void test_a_label_that_would_feed_itself(void **state)
{
    struct gt_companion_options options;
    (void)state;
    assert_true(parse(&options, NULL, "--project=nodefeatures",
                      "--supernode-label=topology.metax-tech.com/member-of", NULL) < 0);
    assert_true(parse(&options, NULL, "--project=nodefeatures",
                      "--supernode-label=a/b,topology.metax-tech.com/member-of", NULL) < 0);
    assert_int_equal(parse(&options, NULL, "--supernode-label=topology.metax-tech.com/member-of,a/b", NULL),
                     0);
    assert_string_equal(options.supernode_label, "topology.metax-tech.com/member-of,a/b");
}

static void test_gone(void **state)
{
    static const char *const gone[][2] = {
        {"--reserve-waiting=60", "--reserve-waiting is gone: nodes are reserved for 600 seconds at a time"},
        {"--reserve-waiting-percent=80",
         "--reserve-waiting-percent is gone: at most half of the GPUs are reserved for a waiting job"},
        {"--score-weight=2", "--score-weight is gone: divide --loss-weight and --closeness-weight by it, "
                             "multiply --weight by it"},
        {"--taint-unhealthy-above=30",
         "--taint-unhealthy-above is gone: a Node gets the taint where half of its GPUs are bad"},
        {"--moves-at-once", "--moves-at-once is gone: two units or single pods move at the same time"},
        {"--lift-gates=false", "--lift-gates is gone: gputopo withdraw --gates removes the gates"},
        {"--kueue-reject-after",
         "--kueue-reject-after is gone: a unit larger than any supernode waits, and its message says so"},
    };
    struct gt_companion_options options;
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(gone); i++) {
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(parse(&options, &err, gone[i][0], NULL), -EINVAL);
        assert_string_equal(gt_err_text(err), gone[i][1]);
    }
}

static void test_help(void **state)
{
    gt_auto_buf struct gt_buf text = GT_BUF(16 << 10);
    (void)state;
    gt_companion_options_help(&text);
    assert_int_equal(gt_buf_check(&text, "help", NULL), 0);
    assert_non_null(strstr(text.data, "--supernode-label KEYS"));
    assert_null(strstr(text.data, "--reserve-missing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_values),
        cmocka_unit_test(test_wrong),    cmocka_unit_test(test_a_label_that_would_feed_itself),
        cmocka_unit_test(test_gone),     cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
