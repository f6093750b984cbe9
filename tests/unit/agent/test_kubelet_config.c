/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kubelet_config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka needs those above */
#include <cmocka.h>

#include "tests/unit/discovery/machine.h"

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

/* Node 1 is offline, node 2 has memory alone, and node 3 does not say how much it has. */
static void reads_what_numa_nodes_have(void **state)
{
    (void)state;
    struct machine machine;
    gt_auto_node struct gt_node *node = NULL;
    assert_return_code(gt_node_new(0, 0, &node, NULL), 0);
    machine_new(&machine);
    gt_numa_nodes_read(machine.root, node);
    assert_int_equal(node->numa_node_count, 0);
    machine_write(&machine, "sys/devices/system/node/node0/cpulist", "0-31,64-95\n");
    machine_write(&machine, "sys/devices/system/node/node0/meminfo",
                  "Node 0 MemTotal:       1048576 kB\nNode 0 MemFree:          1024 kB\n");
    machine_write(&machine, "sys/devices/system/node/node2/cpulist", "\n");
    machine_write(&machine, "sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 2097152 kB\n");
    machine_write(&machine, "sys/devices/system/node/node3/cpulist", "32-63\n");
    gt_numa_nodes_read(machine.root, node);
    gt_numa_nodes_read(machine.root, node); /* again for the next scan */
    machine_free(&machine);
    assert_int_equal(node->numa_node_count, 3);
    static const struct gt_numa_node expected[] = {
        {0, "0-31,64-95", UINT64_C(1) << 30}, {2, "", UINT64_C(2) << 30}, {3, "32-63", 0}};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(node->numa_nodes[i].id, expected[i].id);
        assert_string_equal(node->numa_nodes[i].cpus, expected[i].cpus);
        assert_int_equal(node->numa_nodes[i].memory_bytes, expected[i].memory_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_policies),
        cmocka_unit_test(takes_the_kubelets_defaults),
        cmocka_unit_test(an_answer_without_a_configuration),
        cmocka_unit_test(says_what_it_cannot_read),
        cmocka_unit_test(says_that_there_is_no_file),
        cmocka_unit_test(reads_what_numa_nodes_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
