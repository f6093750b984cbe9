/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "samples.h"
#include "topology/model/node_json.h"
#include "topology/model/render.h"

typedef void renderer(const struct gt_node *node, struct gt_buf *to);

static void yaml_of_node(const struct gt_node *node, struct gt_buf *to)
{
    gt_auto_json cJSON *json = gt_node_to_json(node);
    assert_non_null(json);
    gt_render_yaml(json, to);
}

static renderer *const renderers[] = {gt_render_matrix, gt_render_json, yaml_of_node, gt_render_dot,
                                      gt_render_svg};

static char *render(renderer *how, const char *sample)
{
    gt_auto_node struct gt_node *node = sample_node(sample);
    assert_non_null(node);
    struct gt_buf text = GT_BUF(16 << 20);
    how(node, &text);
    assert_false(text.failed);
    return gt_buf_take(&text);
}

static void matrix(void **state)
{
    (void)state;
    gt_auto_free char *text = render(gt_render_matrix, "dead-link");
    assert_string_equal(
        text, "Node gpu-node-03: 4 GPUs, MXC500, driver 3.0.11, library 2.2.9\n"
              "\n"
              "GPU  Product  PCI address   Memory  NUMA  PCIe                         UUID                   "
              "                   Health\n"
              "0    MXC500   0000:08:00.0  64 GiB  0     32 GT/s x16                  "
              "GPU-c500a0d1-1c2d-4e5f-8a9b-000000000001  ok\n"
              "1    MXC500   0000:09:00.0  64 GiB  0     32 GT/s x16                  "
              "GPU-c601a1d2-1c2d-4e5f-8a9b-000000000002  ok, slow: memory bandwidth 70 %\n"
              "2    MXC500   0000:28:00.0  64 GiB  1     16 GT/s x8 (of 32 GT/s x16)  "
              "GPU-c702a2d3-1c2d-4e5f-8a9b-000000000003  ok\n"
              "3    MXC500   0000:29:00.0  64 GiB  1     32 GT/s x16                  "
              "GPU-c803a3d4-1c2d-4e5f-8a9b-000000000004  ok\n"
              "\n"
              "        GPU0    GPU1    GPU2    GPU3    NIC0    NIC1    Node Affinity  CPU Affinity\n"
              "GPU0    X       MX      MX      MX      PIX     SYS     0              0-31,64-95\n"
              "GPU1    MX      X       MX      MX!     PIX     SYS     0              0-31,64-95\n"
              "GPU2    MX      MX      X       MX      SYS     PIX     1              32-63,96-127\n"
              "GPU3    MX      MX!     MX      X       SYS     PIX     1              32-63,96-127\n"
              "\n"
              "Link zones:\n"
              "  Zone 1: GPU 0-3, 5 of 6 pairs linked, 64 GB/s\n"
              "\n"
              "Stale: the vendor library is silent, and last reported 1 link at 2026-01-01T00:00:00Z\n"
              "\n"
              "Links that are down (the PCIe path that remains):\n"
              "  GPU1 - GPU3 (SYS)\n"
              "\n"
              "Legend:\n"
              "  X    = The GPU itself\n"
              "  MX   = A direct link between the GPUs (MetaXLink)\n"
              "  MX!  = A direct link that is down\n"
              "  PIX  = PCIe, at most one switch between them\n"
              "  SYS  = PCIe, and the interconnect between NUMA nodes\n"
              "\n"
              "NIC Legend:\n"
              "  NIC0: mlx5_0\n"
              "  NIC1: mlx5_1\n"
              "\n"
              "Supernode: this server is 7f0c1f5e-90ab-4cde-8123-00000000000a, and reaches "
              "7f0c1f5e-90ab-4cde-8123-00000000000b, 7f0c1f5e-90ab-4cde-8123-00000000000c, "
              "7f0c1f5e-90ab-4cde-8123-00000000000d\n");
}

static void matrix_of_others(void **state)
{
    (void)state;
    gt_auto_free char *none = render(gt_render_matrix, "none");
    assert_string_equal(none, "Node cpu-node-06: no GPUs\n");
    gt_auto_free char *unhealthy = render(gt_render_matrix, "unhealthy");
    assert_non_null(strstr(unhealthy, "UNHEALTHY: double-bit ECC errors in DRAM\n"));
    assert_non_null(strstr(unhealthy, "ok, sgpu\n"));
    assert_non_null(
        strstr(unhealthy,
               "\nNot known: links of GPU 0000:08:00.0 (the vendor library did not answer within 3 s)\n"));
    gt_auto_free char *bare = render(gt_render_matrix, "bare");
    assert_non_null(strstr(bare, "GPU1    NA      X       NA      NA      N/A            N/A\n"));
    assert_null(strstr(bare, "MX  "));
    assert_null(strstr(bare, "Link zones"));
    /* No control character reaches a terminal. */
    gt_auto_free char *hostile = render(gt_render_matrix, "hostile");
    for (const char *p = hostile; *p; p++)
        assert_true((unsigned char)*p >= 0x20 || *p == '\n');
}

/* No text or colour shows a GPU as healthy if no source has said so. */
static void health_unknown(void **state)
{
    static const struct {
        renderer *how;
        const char *is, *is_not[3];
    } cases[] = {
        {gt_render_matrix, "-     unknown\n", {"ok\n", "healthy", NULL}},
        {gt_render_dot, "\\nhealth unknown\"", {"#dcfce7", "healthy", NULL}},
        {gt_render_svg, ">GPU, health unknown<", {"#16a34a", ", healthy", NULL}},
        {gt_render_json, "\"health\": \"unknown\"", {"\"healthy\",", NULL}},
        {yaml_of_node, "health: unknown\n", {"health: healthy", NULL}},
    };
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_free char *none = render(cases[i].how, "no-vendor"),
                          *known = render(cases[i].how, "two-mesh");
        assert_non_null(strstr(none, cases[i].is));
        assert_null(strstr(known, cases[i].is));
        for (unsigned word = 0; cases[i].is_not[word]; word++) {
            assert_null(strstr(none, cases[i].is_not[word]));
        }
        assert_non_null(strstr(known, cases[i].is_not[0]));
    }
}

static void pictures(void **state)
{
    (void)state;
    gt_auto_free char *svg = render(gt_render_svg, "dead-link");
    assert_non_null(strstr(svg, "GPU 1 - GPU 3: link down, SYS remains"));
    assert_non_null(strstr(svg, "stroke-dasharray"));
    assert_null(strstr(svg, "href"));
    assert_null(strstr(svg, "<script"));
    gt_auto_free char *hostile = render(gt_render_svg, "hostile");
    assert_null(strstr(hostile, "<script"));
    gt_auto_free char *dot = render(gt_render_dot, "two-mesh");
    assert_non_null(strstr(dot, "gpu0 -- gpu1 [constraint=false, color="));
    assert_null(strstr(dot, "gpu0 -- gpu4"));
}

/* What is not known is told to its end; only a note without spaces is cut. */
static void notes(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = sample_node("nvswitch-16");
    gt_auto_buf struct gt_buf whole = GT_BUF(1 << 20), cut = GT_BUF(1 << 20);
    node->missing_count = 0;
    gt_node_missing(node, "PCIe link speed and width",
                    "not given for 16 of 16 GPUs, first 0000:34:00.0: the file has none");
    gt_render_svg(node, &whole);
    assert_non_null(strstr(whole.data, ">Not known: PCIe link speed"));
    assert_non_null(strstr(whole.data, "the file has none)<"));
    memset(node->missing[0].why, 'w', sizeof(node->missing[0].why) - 1);
    gt_render_svg(node, &cut);
    assert_non_null(strstr(cut.data, "www\xe2\x80\xa6<"));
}

static unsigned svg_width(const char *svg)
{
    unsigned width = 0;
    const char *at = strstr(svg, " width=\"");
    assert_true(at && sscanf(at, " width=\"%u\"", &width) == 1);
    return width;
}

/* As a matrix in a text tells of 64 GPUs: no NUMA node, no PCIe path. */
static void rows_without_numa_nodes(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = sample_node("big-64");
    for (unsigned i = 0; i < node->gpu_count; i++) {
        node->gpus[i].numa_node = -1;
        node->gpus[i].pci.path = (struct gt_pcie_path){0};
    }
    gt_auto_buf struct gt_buf picture = GT_BUF(4 << 20);
    gt_render_svg(node, &picture);
    assert_false(picture.failed);
    assert_in_range(svg_width(picture.data), 1000, 2000);
}

/* Many GPUs that are all linked are on a bus; a link of it that is down is drawn by itself. */
static void buses(void **state)
{
    (void)state;
    gt_auto_free char *few = render(gt_render_svg, "mesh-8"), *bus = render(gt_render_svg, "nvswitch-16"),
                      *most = render(gt_render_svg, "big-64");
    assert_non_null(strstr(few, "<title>GPU 0 - GPU 1: "));
    assert_null(strstr(few, "<title>8 GPUs, "));
    assert_non_null(strstr(bus, "<title>16 GPUs, every pair linked, "));
    assert_null(strstr(bus, "<title>GPU 0 - GPU 1: "));
    assert_in_range(svg_width(bus), 900, 2000);
    assert_in_range(svg_width(most), 1000, 2000);
    gt_auto_node struct gt_node *node = sample_node("nvswitch-16");
    gt_auto_buf struct gt_buf broken = GT_BUF(1 << 20);
    node->links[0].state = GT_LINK_STATE_DOWN;
    gt_render_svg(node, &broken);
    assert_non_null(strstr(broken.data, "<title>16 GPUs, "));
    assert_non_null(strstr(broken.data, ": link down"));
    assert_null(strstr(broken.data, "<title>GPU 1 - GPU 2: "));
}

/* Pairs of a bus that are not linked are drawn and listed where they are few, else only counted. */
static void buses_with_gaps(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned gaps, drawn;
        const char *said;
    } cases[] = {
        {"nvswitch-16", 1, 1, "Not linked: 0-1 SYS<"}, {"nvswitch-16", 16, 16, " and 8 more<"},
        {"nvswitch-16", 30, 0, " and 22 more<"},       {"big-64", 1, 1, "Not linked: 0-1 SYS<"},
        {"big-64", 500, 0, " and 492 more<"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_node struct gt_node *node = sample_node(cases[i].name);
        gt_auto_buf struct gt_buf picture = GT_BUF(4 << 20);
        for (unsigned at = 0; at < cases[i].gaps; at++)
            node->links[at] = (struct gt_link){
                .a = node->links[at].a, .b = node->links[at].b, .kind = GT_LINK_SYS, .weight = 8};
        gt_render_svg(node, &picture);
        assert_false(picture.failed);
        unsigned drawn = 0;
        for (const char *at = picture.data; (at = strstr(at, ": not linked, SYS<")); at++)
            drawn++;
        assert_int_equal(drawn, cases[i].drawn);
        assert_null(strstr(picture.data, " GB/s</title></path>"));
        assert_non_null(strstr(picture.data, cases[i].said));
        assert_in_range(svg_width(picture.data), 900, 2000);
    }
}

/* A buffer that is too small fails and never writes beyond its limit. */
static void too_small(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = sample_node("two-mesh");
    for (unsigned r = 0; r < GT_COUNT(renderers); r++) {
        struct gt_buf whole = GT_BUF(1 << 20);
        renderers[r](node, &whole);
        assert_false(whole.failed);
        for (size_t limit = 0; limit < whole.len; limit += 1 + whole.len / 50) {
            struct gt_buf text = GT_BUF(limit);
            renderers[r](node, &text);
            assert_true(text.failed);
            assert_true(text.len <= limit);
            gt_buf_done(&text);
        }
        struct gt_buf exact = GT_BUF(whole.len);
        renderers[r](node, &exact);
        assert_false(exact.failed);
        assert_string_equal(exact.data, whole.data);
        gt_buf_done(&exact);
        gt_buf_done(&whole);
    }
}

static void phrases(void **state)
{
    (void)state;
    char text[64];
    gt_memory_text(0, text, sizeof(text));
    assert_string_equal(text, "-");
    gt_memory_text(UINT64_C(64) << 30, text, sizeof(text));
    assert_string_equal(text, "64 GiB");
    gt_memory_text(UINT64_C(1536) << 20, text, sizeof(text));
    assert_string_equal(text, "1.5 GiB");
    gt_memory_text(1000, text, sizeof(text));
    assert_string_equal(text, "1000 B");
    gt_shorten("abc", 3, text, sizeof(text));
    assert_string_equal(text, "abc");
    gt_shorten("abcd", 3, text, sizeof(text));
    assert_string_equal(text, "ab\xe2\x80\xa6");
    gt_shorten("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 3, text, sizeof(text));
    assert_string_equal(text, "\xc3\xa9\xc3\xa9\xe2\x80\xa6");
    gt_shorten("abcdefghij", 10, text, 8); /* few bytes */
    assert_string_equal(text, "abcd\xe2\x80\xa6");
    gt_shorten("", 5, text, sizeof(text));
    assert_string_equal(text, "");
    assert_string_equal(gt_short_bdf("0000:0e:00.0"), "0e:00.0");
    assert_string_equal(gt_short_bdf("0001:0e:00.0"), "0001:0e:00.0");
}

/* Read by PyYAML as what they are in JSON: YAML 1.1 takes 1e-05 for a string. */
static void yaml_of_numbers_and_texts(void **state)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_auto_json cJSON *json =
        cJSON_Parse("{\"small\":0.00001,\"part\":1.5e-7,\"large\":1e20,\"text\":\"1e5\",\"off\":\"\"}");
    (void)state;
    assert_non_null(json);
    gt_render_yaml(json, &text);
    assert_false(text.failed);
    assert_string_equal(text.data,
                        "small: 1.0e-05\npart: 1.5e-07\nlarge: 1.0e+20\ntext: \"1e5\"\n\"off\": \"\"\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix),
        cmocka_unit_test(matrix_of_others),
        cmocka_unit_test(health_unknown),
        cmocka_unit_test(pictures),
        cmocka_unit_test(notes),
        cmocka_unit_test(buses),
        cmocka_unit_test(buses_with_gaps),
        cmocka_unit_test(rows_without_numa_nodes),
        cmocka_unit_test(too_small),
        cmocka_unit_test(phrases),
        cmocka_unit_test(yaml_of_numbers_and_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
