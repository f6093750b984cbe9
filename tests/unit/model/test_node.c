/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "samples.h"
#include "topology/model/node.h"

static struct gt_pcie_path path(const char *root, unsigned depth, const char *const *bridges)
{
    struct gt_pcie_path ret = {.depth = depth};
    snprintf(ret.root, sizeof(ret.root), "%s", root);
    for (unsigned i = 0; i < depth; i++)
        snprintf(ret.bridges[i], GT_BDF_SIZE, "%s", bridges[i]);
    return ret;
}
#define PATH(root, ...)                                                                                      \
    path(root, GT_COUNT(((const char *const[]){__VA_ARGS__})), (const char *const[]){__VA_ARGS__})

static void pcie_kinds(void **state)
{
    (void)state;
    struct gt_pcie_path unknown = {0};
    struct gt_pcie_path a = PATH("pci0000:00", "04:00.0", "03:00.0", "00:01.0");
    struct gt_pcie_path function = a;
    struct gt_pcie_path same_switch = PATH("pci0000:00", "04:01.0", "03:00.0", "00:01.0");
    struct gt_pcie_path same_root = PATH("pci0000:00", "24:00.0", "23:00.0", "00:02.0");
    struct gt_pcie_path other_root = PATH("pci0000:80", "84:00.0", "83:00.0", "80:01.0");
    struct gt_pcie_path on_root_bus = path("pci0000:00", 0, NULL);
    struct gt_pcie_path deep = PATH("pci0000:00", "0a:00.0", "09:00.0", "04:02.0", "03:00.0", "00:01.0");
    struct gt_pcie_path deep_twin = PATH("pci0000:00", "0a:01.0", "09:00.0", "04:02.0", "03:00.0", "00:01.0");
    struct gt_pcie_path no_root = PATH("", "84:00.0", "83:00.0", "80:01.0");
    const struct {
        const struct gt_pcie_path *a, *b;
        int numa_a, numa_b;
        enum gt_link_kind kind;
    } cases[] = {
        {&a, &function, 0, 0, GT_LINK_PIX},       {&a, &same_switch, 0, 0, GT_LINK_PIX},
        {&a, &same_switch, 0, 1, GT_LINK_PIX},    {&a, &same_switch, -1, -1, GT_LINK_PIX},
        {&a, &deep, 0, 0, GT_LINK_PXB},           {&deep, &deep_twin, 0, 0, GT_LINK_PIX},
        {&a, &same_root, 0, 0, GT_LINK_PHB},      {&a, &same_root, 0, 1, GT_LINK_PHB},
        {&a, &on_root_bus, -1, -1, GT_LINK_PHB},  {&a, &other_root, 0, 0, GT_LINK_NODE},
        {&a, &other_root, 0, 1, GT_LINK_SYS},     {&a, &other_root, -1, 0, GT_LINK_SYS},
        {&unknown, &unknown, 1, 1, GT_LINK_NODE}, {&unknown, &unknown, 0, 1, GT_LINK_SYS},
        {&unknown, &a, 0, -1, GT_LINK_UNKNOWN},   {&unknown, &unknown, -1, -1, GT_LINK_UNKNOWN},
        {&a, &no_root, -1, -1, GT_LINK_UNKNOWN},  {&other_root, &no_root, -1, -1, GT_LINK_PIX},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        assert_string_equal(
            gt_link_kind_name(gt_pcie_kind(cases[i].a, cases[i].numa_a, cases[i].b, cases[i].numa_b)),
            gt_link_kind_name(cases[i].kind));
        assert_int_equal(gt_pcie_kind(cases[i].b, cases[i].numa_b, cases[i].a, cases[i].numa_a),
                         cases[i].kind);
    }
}

static void weights(void **state)
{
    (void)state;
    const struct {
        struct gt_link link;
        uint32_t weight;
    } cases[] = {
        {{.kind = GT_LINK_MX}, 64},
        {{.kind = GT_LINK_PIX}, 32},
        {{.kind = GT_LINK_PXB}, 24},
        {{.kind = GT_LINK_PHB}, 16},
        {{.kind = GT_LINK_NODE}, 12},
        {{.kind = GT_LINK_SYS}, 8},
        {{.kind = GT_LINK_UNKNOWN}, 0},
        {{.kind = GT_LINK_MX, .bandwidth_mbps = 1}, 1},
        {{.kind = GT_LINK_MX, .bandwidth_mbps = 63499}, 63},
        {{.kind = GT_LINK_MX, .bandwidth_mbps = 63500}, 64},
        {{.kind = GT_LINK_MX, .bandwidth_mbps = UINT64_MAX}, 65535},
        {{.kind = GT_LINK_SYS, .bandwidth_mbps = 20000}, 20},
        {{.kind = GT_LINK_MX, .speed = 32, .width = 16}, 64},
        {{.kind = GT_LINK_MX, .speed = 32, .width = 16, .ports = 3}, 192},
        {{.kind = GT_LINK_MX, .speed = 2.5, .width = 1}, 1},
        {{.kind = GT_LINK_MX, .speed = 1e300, .width = 16, .ports = 7}, 65535},
        {{.kind = GT_LINK_MX, .speed = 32}, 64},
        {{.kind = GT_LINK_PIX, .speed = 32, .width = 8}, 32},
        {{.kind = GT_LINK_MX, .path_kind = GT_LINK_PXB, .state = GT_LINK_STATE_DOWN, .bandwidth_mbps = 64000},
         24},
        {{.kind = GT_LINK_MX, .path_kind = GT_LINK_UNKNOWN, .state = GT_LINK_STATE_DOWN}, 0},
        {{.kind = GT_LINK_MX, .path_kind = GT_LINK_SYS, .state = GT_LINK_STATE_UP, .bandwidth_mbps = 64000},
         64},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++)
        if (gt_link_weight(&cases[i].link) != cases[i].weight)
            fail_msg("case %u: %u, not %u", i, gt_link_weight(&cases[i].link), cases[i].weight);
}

static void names(void **state)
{
    (void)state;
    for (unsigned kind = GT_LINK_SELF; kind <= GT_LINK_UNKNOWN; kind++) {
        enum gt_link_kind back = (enum gt_link_kind)99;
        assert_true(gt_link_kind_by_name(gt_link_kind_name((enum gt_link_kind)kind), &back));
        assert_int_equal(back, kind);
    }
    enum gt_link_kind untouched = GT_LINK_PHB;
    assert_false(gt_link_kind_by_name("mx", &untouched));
    assert_false(gt_link_kind_by_name("", &untouched));
    assert_int_equal(untouched, GT_LINK_PHB);
    assert_string_equal(gt_link_kind_name(GT_LINK_UNKNOWN), "NA");
    assert_string_equal(gt_link_state_name(GT_LINK_STATE_DOWN), "down");
    assert_string_equal(gt_gpu_mode_name(GT_GPU_VFIO), "vfio");
}

static void bdfs(void **state)
{
    (void)state;
    const struct {
        const char *in, *out;
    } good[] = {
        {"0000:0e:00.0", "0000:0e:00.0"},         {"0E:1F.7", "0000:0e:1f.7"},
        {"10000:e1:00.0", "10000:e1:00.0"},       {"ABCD:ab:0c.1", "abcd:ab:0c.1"},
        {"ffffffff:ff:1f.7", "ffffffff:ff:1f.7"},
    };
    const char *const bad[] = {"",
                               "0000:0e:00",
                               "0000:0e:00.8",
                               "0000:0e:20.0",
                               "0000:0e:00.0 ",
                               " 0e:00.0",
                               "000:0e:00.0",
                               "0000:0e:00.00",
                               "0000:0e:0.0",
                               "g000:0e:00.0",
                               "0000-0e:00",
                               "fffffffff:0e:00.0",
                               "0000:0e:00.0x",
                               "0x00:0e:00.0",
                               ":::.",
                               "0000:0e:00.",
                               "0e:00.00"};
    char to[GT_BDF_SIZE] = "untouched";
    for (unsigned i = 0; i < GT_COUNT(bad); i++)
        if (gt_bdf_normalise(bad[i], to))
            fail_msg("%s was taken", bad[i]);
    assert_string_equal(to, "untouched");
    for (unsigned i = 0; i < GT_COUNT(good); i++) {
        assert_true(gt_bdf_normalise(good[i].in, to));
        assert_string_equal(to, good[i].out);
    }
    const char *const order[] = {"0000:00:00.0", "0000:00:00.1", "0000:00:01.0",  "0000:09:00.0",
                                 "0000:0a:00.0", "0001:00:00.0", "10000:00:00.0", "ffffffff:00:00.0"};
    for (unsigned i = 0; i < GT_COUNT(order); i++)
        for (unsigned j = 0; j < GT_COUNT(order); j++) {
            int sign = gt_bdf_compare(order[i], order[j]);
            assert_int_equal((sign > 0) - (sign < 0), (i > j) - (i < j));
        }
}

static void limits(void **state)
{
    (void)state;
    struct gt_node *node = NULL;
    gt_auto_err struct gt_err *err = NULL, *second = NULL;
    assert_int_equal(gt_node_new(65, 0, &node, &err), -E2BIG);
    assert_string_equal(gt_err_text(err), "65 GPUs, the limit is 64");
    assert_int_equal(gt_node_new(0, 65, &node, &second), -E2BIG);
    assert_null(node);
    assert_int_equal(gt_node_new(64, 64, &node, NULL), 0);
    assert_int_equal(node->link_count, 2016);
    assert_true(gt_node_all(node) == UINT64_MAX);
    assert_true(gt_node_usable(node) == UINT64_MAX);
    assert_int_equal(node->links[2015].a, 62);
    assert_int_equal(node->links[2015].b, 63);
    for (unsigned b = 0; b < 64; b++)
        for (unsigned a = 0; a < 64; a++) {
            struct gt_link *link = gt_node_link(node, a, b);
            if (a == b) {
                assert_null(link);
                continue;
            }
            assert_int_equal(link->a, a < b ? a : b);
            assert_int_equal(link->b, a < b ? b : a);
        }
    assert_null(gt_node_link(node, 0, 64));
    assert_null(gt_node_link(node, UINT32_MAX, 0));
    gt_node_unref(node);
    assert_int_equal(gt_node_new(0, 0, &node, NULL), 0);
    assert_int_equal(gt_node_finish(node, NULL), 0);
    assert_true(gt_node_all(node) == 0);
    gt_node_unref(node);
}

static void references(void **state)
{
    (void)state;
    struct gt_node *node = sample_node("one");
    struct gt_node *same = gt_node_ref(node);
    assert_ptr_equal(node, same);
    gt_node_unref(node);
    assert_int_equal(same->gpu_count, 1); /* still there */
    gt_node_unref(same);
    gt_node_unref(NULL);
}

static void sorting(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = NULL;
    assert_int_equal(gt_node_new(4, 5, &node, NULL), 0);
    const char *const bdfs_in[] = {"0001:00:00.0", "0000:0a:00.0", "10000:00:00.0", "0000:09:00.0"};
    const char *const bdfs_out[] = {"0000:09:00.0", "0000:0a:00.0", "0001:00:00.0", "10000:00:00.0"};
    const char *const nics_in[] = {"mlx5_10", "eth0", "mlx5_2", "mlx5_02", "mlx5"};
    const char *const nics_out[] = {"eth0", "mlx5", "mlx5_02", "mlx5_2", "mlx5_10"};
    for (unsigned i = 0; i < 4; i++)
        snprintf(node->gpus[i].bdf, GT_BDF_SIZE, "%s", bdfs_in[i]);
    for (unsigned i = 0; i < 5; i++)
        snprintf(node->nics[i].name, sizeof(node->nics[i].name), "%s", nics_in[i]);
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_node_finish(node, &err), -EINVAL); /* not sorted yet */
    assert_non_null(strstr(gt_err_text(err), "stands behind"));
    gt_node_sort(node);
    for (unsigned i = 0; i < 4; i++) {
        assert_string_equal(node->gpus[i].bdf, bdfs_out[i]);
        assert_int_equal(node->gpus[i].index, i);
    }
    for (unsigned i = 0; i < 5; i++)
        assert_string_equal(node->nics[i].name, nics_out[i]);
    assert_int_equal(gt_node_finish(node, NULL), 0);
}

static struct gt_node *plain(unsigned gpus, unsigned nics)
{
    struct gt_node *node = NULL;
    assert_int_equal(gt_node_new(gpus, nics, &node, NULL), 0);
    for (unsigned i = 0; i < gpus; i++)
        snprintf(node->gpus[i].bdf, GT_BDF_SIZE, "0000:%02x:00.0", i);
    return node;
}

static void expect_refused(struct gt_node *node, const char *text)
{
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_node_finish(node, &err), -EINVAL);
    if (!strstr(gt_err_text(err), text))
        fail_msg("\"%s\" does not hold \"%s\"", gt_err_text(err), text);
    gt_node_unref(node);
}

static void refused(void **state)
{
    (void)state;
    struct gt_node *node = plain(2, 0);
    snprintf(node->gpus[1].bdf, GT_BDF_SIZE, "0000:00:00.0");
    expect_refused(node, "gpus[1].bdf: 0000:00:00.0 is there twice");
    node = plain(3, 0);
    snprintf(node->gpus[0].uuid, GT_ID_SIZE, "GPU-1");
    snprintf(node->gpus[2].uuid, GT_ID_SIZE, "GPU-1");
    expect_refused(node, "gpus[2].uuid: GPU-1 is that of 0000:00:00.0 too");
    node = plain(1, 0);
    node->gpus[0].bdf[0] = '\0';
    expect_refused(node, "is no PCI address");
    node = plain(1, 2);
    snprintf(node->nics[0].name, sizeof(node->nics[0].name), "mlx5_0");
    snprintf(node->nics[1].name, sizeof(node->nics[1].name), "mlx5_0");
    expect_refused(node, "nics[1].name: mlx5_0 is there twice");
    expect_refused(plain(1, 1), "nics[0]: neither a name nor a PCI address");
    node = plain(1, 1);
    snprintf(node->nics[0].bdf, GT_BDF_SIZE, "0000:0a:00.0");
    node->nics[0].kind[0] = GT_LINK_MX;
    expect_refused(node, "nics[0].locality[0]");
    node = plain(2, 0);
    node->links[0].kind = GT_LINK_SELF;
    expect_refused(node, "no kind of a link");
    node = plain(2, 0);
    node->links[0].path_kind = GT_LINK_MX;
    expect_refused(node, "no kind of a PCIe path");
    node = plain(3, 0);
    node->links[2].a = 0;
    expect_refused(node, "link of GPU 1 and GPU 2");
    node = plain(2, 0);
    node->links[0].speed = (double)NAN;
    expect_refused(node, "speed out of range");
    node = plain(1, 0);
    node->gpus[0].pci.path.depth = GT_PATH_MAX_DEPTH + 1;
    expect_refused(node, "bridges above it");
}

static void derived(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = plain(6, 1);
    for (unsigned i = 0; i < 6; i++)
        node->gpus[i].numa_node = (int)i / 3;
    node->nics[0].numa_node = 1;
    snprintf(node->nics[0].bdf, GT_BDF_SIZE, "0000:0a:00.0");
    /* A chain 1-3-5 and a pair 0-4 whose link is down; 2 and the pair stay alone. */
    gt_node_link(node, 1, 3)->kind = GT_LINK_MX;
    gt_node_link(node, 5, 3)->kind = GT_LINK_MX;
    gt_node_link(node, 0, 4)->kind = GT_LINK_MX;
    gt_node_link(node, 0, 4)->state = GT_LINK_STATE_DOWN;
    gt_node_link(node, 0, 1)->kind = GT_LINK_PHB; /* said by somebody: stays */
    node->gpus[3].health = GT_GPU_UNHEALTHY;
    snprintf(node->gpus[0].unhealthy_reason, sizeof(node->gpus[0].unhealthy_reason), "old");
    node->gpus[1].pci.now.speed = -1;
    node->gpus[2].pci.now.speed = (double)NAN;
    snprintf(node->gpus[4].product, sizeof(node->gpus[4].product), "a\x1b[m\xff\xc2\x85\xc3\xa9");
    snprintf(node->server_uuid, GT_ID_SIZE, "own");
    const char *const remotes[] = {"b", "own", "", "a", "b"};
    for (unsigned i = 0; i < GT_COUNT(remotes); i++)
        snprintf(node->remotes[i], GT_ID_SIZE, "%s", remotes[i]);
    node->remote_count = GT_COUNT(remotes);
    assert_int_equal(gt_node_finish(node, NULL), 0);

    const unsigned zones[] = {0, 1, 0, 1, 0, 1};
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(node->gpus[i].zone, zones[i]);
    assert_int_equal(gt_node_link(node, 1, 3)->path_kind, GT_LINK_SYS);
    assert_int_equal(gt_node_link(node, 1, 3)->weight, 64);
    assert_int_equal(gt_node_link(node, 0, 4)->kind, GT_LINK_MX);
    assert_int_equal(gt_node_link(node, 0, 4)->weight, 8);
    assert_int_equal(gt_node_link(node, 0, 1)->path_kind, GT_LINK_PHB);
    assert_int_equal(gt_node_link(node, 0, 1)->weight, 16);
    assert_int_equal(gt_node_link(node, 0, 2)->kind, GT_LINK_NODE);
    assert_string_equal(node->nics[0].name, "0000:0a:00.0");
    assert_int_equal(node->nics[0].kind[0], GT_LINK_SYS);
    assert_int_equal(node->nics[0].kind[5], GT_LINK_NODE);
    assert_true(gt_node_usable(node) == 0x37);
    assert_string_equal(node->gpus[0].unhealthy_reason, "");
    assert_true(node->gpus[1].pci.now.speed == 0 && node->gpus[2].pci.now.speed == 0);
    assert_string_equal(node->gpus[4].product, "a?[m???\xc3\xa9");
    assert_int_equal(node->remote_count, 2);
    assert_string_equal(node->remotes[0], "a");
    assert_string_equal(node->remotes[1], "b");
}

static void missing(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = plain(0, 0);
    gt_node_missing(node, "x", "because %d", 1);
    gt_node_missing(node, "x", "because %d", 1);
    gt_node_missing(node, "x", "because %d", 2);
    assert_int_equal(node->missing_count, 2);
    assert_string_equal(node->missing[1].why, "because 2");
    for (unsigned i = 0; i < 200; i++)
        gt_node_missing(node, "y", "%u", i);
    assert_int_equal(node->missing_count, GT_MISSING_MAX);
    assert_string_equal(node->missing[GT_MISSING_MAX - 1].what, "more");
    char huge[1000];
    memset(huge, 'z', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    gt_auto_node struct gt_node *other = plain(0, 0);
    gt_node_missing(other, huge, "%s\n", huge);
    assert_int_equal(strlen(other->missing[0].what), sizeof(other->missing[0].what) - 1);
    assert_int_equal(strlen(other->missing[0].why), sizeof(other->missing[0].why) - 1);
}

static void device_ids(void **state)
{
    (void)state;
    const struct {
        const char *uuid, *id;
    } cases[] = {
        {"GPU-1a2b", "GPU-1a2b"},
        {"", "PCI-0000:0e:00.0"},
        {"with space", "PCI-0000:0e:00.0"},
        {"a,b", "PCI-0000:0e:00.0"},
        {"\xc3\xa9", "PCI-0000:0e:00.0"},
        {"a\nb", "PCI-0000:0e:00.0"},
        {"PCI-0000:0f:00.0", "PCI-0000:0e:00.0"}, /* the ID of another GPU, which has no UUID */
        {"012345678901234567890123456789012345678901234567890123456789012",
         "012345678901234567890123456789012345678901234567890123456789012"},
        {"0123456789012345678901234567890123456789012345678901234567890123", "PCI-0000:0e:00.0"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        struct gt_gpu gpu = {.bdf = "0000:0e:00.0"};
        char id[GT_ID_SIZE];
        snprintf(gpu.uuid, sizeof(gpu.uuid), "%s", cases[i].uuid);
        gt_gpu_device_id(&gpu, id);
        assert_string_equal(id, cases[i].id);
    }
}

static void advertised(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = plain(2, 0);
    assert_null(gt_node_not_advertised(node));
    node->gpus[1].mode = GT_GPU_SGPU;
    assert_non_null(strstr(gt_node_not_advertised(node), "sGPU"));
    node->gpus[1].mode = GT_GPU_VFIO;
    assert_null(gt_node_not_advertised(node)); /* the other one is served */
    assert_return_code(gt_node_finish(node, NULL), 0);
    assert_int_equal(gt_node_usable(node), 1);
    assert_string_equal(node->gpus[1].unhealthy_reason, "bound to vfio-pci, for virtual machines");
    node->gpus[0].mode = GT_GPU_VFIO;
    assert_non_null(strstr(gt_node_not_advertised(node), "vfio"));
    node->gpus[1].mode = GT_GPU_VF;
    assert_non_null(strstr(gt_node_not_advertised(node), "virtual functions"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pcie_kinds), cmocka_unit_test(weights),    cmocka_unit_test(names),
        cmocka_unit_test(bdfs),       cmocka_unit_test(limits),     cmocka_unit_test(references),
        cmocka_unit_test(sorting),    cmocka_unit_test(refused),    cmocka_unit_test(derived),
        cmocka_unit_test(missing),    cmocka_unit_test(device_ids), cmocka_unit_test(advertised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
