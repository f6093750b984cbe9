/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kubelet_config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka needs those above */
#include <cmocka.h>

static struct gt_kubelet read_text(const char *text)
{
    struct gt_kubelet kubelet;
    memset(&kubelet, 'x', sizeof(kubelet));
    gt_kubelet_config_parse(text, strlen(text), "config.yaml", false, &kubelet);
    return kubelet;
}

static void reads_the_policies(void **state)
{
    (void)state;
    struct gt_kubelet kubelet =
        read_text("kind: KubeletConfiguration\ntopologyManagerPolicy: single-numa-node\n"
                  "topologyManagerScope: pod\ncpuManagerPolicy: static\n");
    assert_string_equal(kubelet.policy, "single-numa-node");
    assert_string_equal(kubelet.scope, "pod");
    assert_string_equal(kubelet.cpu_policy, "static");
    assert_string_equal(kubelet.source, "config.yaml");
    assert_string_equal(kubelet.unknown, "");
}

static void takes_the_kubelets_defaults(void **state)
{
    (void)state;
    struct gt_kubelet kubelet = read_text("{\"kubeletconfig\": {\"topologyManagerPolicy\": \"\"}}");
    assert_string_equal(kubelet.policy, "none");
    assert_string_equal(kubelet.scope, "container");
    assert_string_equal(kubelet.cpu_policy, "none");
}

/* Before the kubelet has one, or from something else than a kubelet. */
static void an_answer_without_a_configuration(void **state)
{
    struct gt_kubelet kubelet;
    (void)state;
    gt_kubelet_config_parse("{}", 2, "configz", true, &kubelet);
    assert_string_equal(kubelet.unknown, "configz: this is no KubeletConfiguration");
    assert_string_equal(kubelet.policy, "");
}

static void says_what_it_cannot_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"topologyManagerPolicy: strict\n", "topologyManagerPolicy: \"strict\" does not exist"},
        {"topologyManagerScope: [pod]\n", "topologyManagerScope: \"an array\" does not exist"},
        {"- a list\n", "config.yaml: this is no KubeletConfiguration"},
        {"", "config.yaml: this is no KubeletConfiguration"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct gt_kubelet kubelet = read_text(cases[i].text);
        assert_string_equal(kubelet.unknown, cases[i].why);
        assert_string_equal(kubelet.policy, "");
        assert_string_equal(kubelet.source, "");
    }
    assert_non_null(strstr(read_text("a: [").unknown, "config.yaml: "));
}

static void says_that_there_is_no_file(void **state)
{
    (void)state;
    struct gt_kubelet kubelet;
    assert_int_equal(gt_kubelet_config_read("/nonexistent/config.yaml", &kubelet), -ENOENT);
    assert_non_null(strstr(kubelet.unknown, "/nonexistent/config.yaml"));
    assert_string_equal(kubelet.policy, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_policies),
        cmocka_unit_test(takes_the_kubelets_defaults),
        cmocka_unit_test(an_answer_without_a_configuration),
        cmocka_unit_test(says_what_it_cannot_read),
        cmocka_unit_test(says_that_there_is_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
