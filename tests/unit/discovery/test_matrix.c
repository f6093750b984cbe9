/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_write.h"
#include "topology/model/node_json.h"
#include "topology/model/render.h"

/* Texts with the matrix of mx-smi and of programs like it, read by --from. */

static struct machine machine;
static char file[128];

static int set_up(void **state)
{
    (void)state;
    machine_new(&machine);
    snprintf(file, sizeof(file), "%s/matrix.txt", machine.root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    machine_free(&machine);
    return 0;
}

static struct gt_node *read_text(const char *text)
{
    machine_write(&machine, "matrix.txt", text);
    struct gt_scan_options options = {.from = file};
    return scan_ok(&options, NULL);
}

static void refused(const char *text, const char *said)
{
    machine_write(&machine, "matrix.txt", text);
    struct gt_scan_options options = {.from = file};
    gt_auto_err struct gt_err *err = NULL;
    struct gt_node *node = NULL;
    assert_true(gt_scan(&options, &node, NULL, &err) < 0);
    if (!strstr(gt_err_text(err), said))
        fail_msg("\"%s\" does not say \"%s\"", gt_err_text(err), said);
    assert_null(node);
}

static enum gt_link_kind kind(const struct gt_node *node, unsigned a, unsigned b)
{
    return gt_node_link(node, a, b)->kind;
}

static bool lacks(const struct gt_node *node, const char *what)
{
    for (unsigned i = 0; i < node->missing_count; i++)
        if (strcmp(node->missing[i].what, what) == 0)
            return true;
    return false;
}

#define BANNER                                                                                               \
    "=================== MetaX System Management Interface Log ===================\n"                        \
    "Timestamp                                         : Thu Nov 26 10:00:00 2026\n\n"                       \
    "Attached GPUs                                     : 3\nDevice link type matrix\n"
#define ROWS                                                                                                 \
    "GPU0    X       MX      SYS     PIX     0              0-31,64-95\n"                                    \
    "GPU1    MX      X       SYS     NODE    0              0-31,64-95\n"                                    \
    "GPU2    SYS     SYS     X       SYS     1              32-63\n"                                         \
    "NIC0    PIX     NODE    SYS     X\n"
#define HEAD   "        GPU0    GPU1    GPU2    NIC0    Node Affinity  CPU Affinity\n"
#define LEGEND "\nLegend:\n  X    = Self\n  SYS  = far\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"

static void check_three(const struct gt_node *node, const char *nic)
{
    assert_int_equal(node->gpu_count, 3);
    assert_int_equal(kind(node, 0, 1), GT_LINK_MX);
    assert_int_equal(kind(node, 0, 2), GT_LINK_SYS);
    assert_int_equal(node->gpus[0].zone, 1);
    assert_int_equal(node->gpus[2].zone, 0);
    assert_int_equal(node->gpus[2].numa_node, 1);
    assert_string_equal(node->gpus[0].cpu_set, "0-31,64-95");
    assert_int_equal(node->nic_count, 1);
    assert_string_equal(node->nics[0].name, nic);
    assert_int_equal(node->nics[0].kind[0], GT_LINK_PIX);
    assert_int_equal(node->nics[0].kind[2], GT_LINK_SYS);
    assert_true(lacks(node, "PCI addresses"));
    assert_true(lacks(node, "bandwidth of direct links"));
}

static void test_with_and_without_what_surrounds_it(void **state)
{
    (void)state;
    static const struct {
        const char *text, *nic;
    } cases[] = {
        {BANNER HEAD ROWS LEGEND, "mlx5_0"},
        {HEAD ROWS, "NIC0"},
        {"$ mx-smi topo -m\r\n\r\n" HEAD "\n" ROWS "\n\n$ exit\n", "NIC0"},
        {"\t\033[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\n"
         "GPU0\t X \tNV4\tSYS\tPIX\t0-31,64-95\t0\t\tN/A\nGPU1\tNV4\t X \tSYS\tNODE\t0-31,64-95\t0\t\tN/A\n"
         "GPU2\tSYS\tSYS\t X \tSYS\t32-63\t1\t\tN/A\nNIC0\tPIX\tNODE\tSYS\t X \n",
         "NIC0"},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_node struct gt_node *node = read_text(cases[i].text);
        check_three(node, cases[i].nic);
    }
}

/* The same machine as mx-smi, nvidia-smi and gputopo print it. */
enum style { STYLE_MX_SMI, STYLE_NVIDIA_SMI, STYLE_OWN, STYLES };

static void print_text(struct gt_buf *to, enum style style, unsigned gpus, unsigned nics)
{
    static const char *const paths[] = {"PIX", "NODE", "SYS"};
    gt_buf_puts(to, "$ smi topo -m\n        ");
    for (unsigned i = 0; i < gpus + nics; i++)
        gt_buf_printf(to, "%s%-5u", i < gpus ? "GPU" : "NIC", i < gpus ? i : i - gpus);
    gt_buf_puts(to, style == STYLE_NVIDIA_SMI ? "CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
                                              : "Node Affinity  CPU Affinity\n");
    for (unsigned i = 0; i < gpus + (style == STYLE_OWN ? 0 : nics); i++) {
        gt_buf_printf(to, "%s%-5u", i < gpus ? "GPU" : "NIC", i < gpus ? i : i - gpus);
        for (unsigned k = 0; k < gpus + nics; k++)
            gt_buf_printf(to, "%-8s",
                          i == k                                   ? "X"
                          : i < gpus && k < gpus && i / 4 == k / 4 ? style == STYLE_NVIDIA_SMI ? "NV18" : "MX"
                                                                   : paths[(i + k) % 3]);
        const char *cpus = i % 2 ? "96-111,224-239" : "0-31,64-95";
        if (i < gpus && style == STYLE_NVIDIA_SMI)
            gt_buf_printf(to, "%-16s%-16u%s", cpus, i % 2, "N/A");
        else if (i < gpus)
            gt_buf_printf(to, "%-15u%s", i % 2, cpus);
        gt_buf_puts(to, "\n");
    }
    gt_buf_puts(
        to,
        "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect\n"
        "\nNIC Legend:\n\n");
    for (unsigned i = 0; i < nics; i++)
        gt_buf_printf(to, "  NIC%u: mlx5_%u\n", i, i);
}

/* The text in lines of `width` characters: of those that are longer the rest is cut off, or put on lines of
 * its own, as terminals do; some drop the blanks before these ends. */
enum change { CHANGE_CUT, CHANGE_WRAP, CHANGE_WRAP_BARE, CHANGES };

static void narrow(struct gt_buf *to, const char *text, unsigned width, enum change change)
{
    unsigned column = 0;
    for (; *text; text++) {
        if (*text == '\n')
            column = 0;
        else if (column++ == width && change != CHANGE_CUT) {
            while (change == CHANGE_WRAP_BARE && to->data[to->len - 1] == ' ')
                to->data[--to->len] = '\0';
            gt_buf_puts(to, "\n");
            column = 1;
        }
        if (column <= width)
            gt_buf_add(to, text, 1);
    }
}

static void print_json(const struct gt_node *node, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_node_add_json(node, "", to);
    gt_json_end(to, '}');
}

/* Wrapped lines are put together again. What cut ones lost is refused or said. */
static void check_narrow(const char *text, const struct gt_node *was, const char *json)
{
    for (unsigned width = 20; width <= 200; width++)
        for (enum change change = 0; change < CHANGES; change++) {
            gt_auto_buf struct gt_buf narrowed = GT_BUF(1 << 20), is_json = GT_BUF(1 << 20);
            narrow(&narrowed, text, width, change);
            unlink(file); /* ext4 waits for the disk when a file is truncated and written again */
            machine_write(&machine, "matrix.txt", narrowed.data);
            struct gt_scan_options options = {.from = file};
            gt_auto_err struct gt_err *err = NULL;
            gt_auto_node struct gt_node *is = NULL;
            if (gt_scan(&options, &is, NULL, &err) < 0) {
                if (change != CHANGE_CUT || strstr(gt_err_text(err), "locality"))
                    fail_msg("%u GPUs, width %u, %d: %s", was->gpu_count, width, change, gt_err_text(err));
                continue;
            }
            print_json(is, &is_json);
            bool is_said = change != CHANGE_WRAP && is->gpu_count == was->gpu_count &&
                           is->missing_count > was->missing_count;
            if (!is_said && strcmp(is_json.data, json) != 0)
                fail_msg("%u GPUs, width %u, %d: %s\n%s", was->gpu_count, width, change, is_json.data,
                         narrowed.data);
        }
}

static void test_narrow_lines(void **state)
{
    (void)state;
    static const unsigned gpus[] = {2, 8, 16, 64};
    for (unsigned i = 0; i < GT_COUNT(gpus); i++)
        for (unsigned nics = 0; nics <= 12; nics += 12)
            for (enum style style = 0; style < STYLES; style++) {
                gt_auto_buf struct gt_buf text = GT_BUF(1 << 20), json = GT_BUF(1 << 20);
                print_text(&text, style, gpus[i], nics);
                gt_auto_node struct gt_node *node = read_text(text.data);
                assert_int_equal(node->gpu_count, gpus[i]);
                assert_int_equal(node->nic_count, nics);
                assert_string_equal(node->gpus[1].cpu_set, "96-111,224-239");
                assert_int_equal(node->missing_count, 2);
                print_json(node, &json);
                check_narrow(text.data, node, json.data);
            }
}

/* Lines that break between words, at different widths. */
static void test_lines_wrapped_by_words(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node =
        read_text("GPU0 GPU1 GPU2\nNIC0 Node\nAffinity CPU Affinity\nGPU0 X MX SYS PIX\n0 0-31,64-95\n"
                  "GPU1 MX X\nSYS NODE 0 0-31,64-95\nGPU2 SYS SYS X SYS 1 32-63\n$ exit now\n");
    check_three(node, "NIC0");
}

static void test_cut_lines(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node =
        read_text("  GPU0 GPU1 NIC0 NIC1 Node Affinity\nGPU0 X MX PIX SYS 0\nGPU1 MX X PIX\n");
    assert_int_equal(node->nic_count, 1);
    assert_true(lacks(node, "NICs"));
    assert_true(lacks(node, "NUMA nodes"));
    assert_true(lacks(node, "CPU affinity"));
    refused("  GPU0 GPU1\nGPU0 X MX\nGPU1 MX X\nGPU2 MX MX\n",
            "row GPU2: there is no column GPU2: is the text cut?");
    refused("  GPU0 GPU1 NIC0\nGPU0 X MX PIX\nGPU1 MX X X\n", "row GPU1 says X of NIC0");
    refused("  GPU0 GPU1 NIC0\nGPU0 X\nMX P IX\nGPU1 MX X PIX\n", "row GPU0 has more cells than columns");
    gt_node_unref(node);
    node = read_text(
        "  GPU0 NIC0 Node Affinity CPU Affinity\nGPU0 X PIX 0 0-31,64-9\nNIC0 PIX X\nNIC1 SYS SYS\n");
    assert_int_equal(node->nic_count, 1);
    assert_true(lacks(node, "NICs"));
    assert_string_equal(node->gpus[0].cpu_set, "");
    assert_true(lacks(node, "CPU affinity"));
    refused("  GPU0 GPU1 GPU2\nGPU0 X MX MX\nGPU1 MX X MX\nGPU2 MX MX\n",
            "row GPU2 has cells for 2 of 3 GPUs");
    refused("  GPU0 GPU1 GPU2\nGPU0 X MX MX\nGPU1 MX X MX\n", "there is no row GPU2");
}

static void test_contradictions_are_named(void **state)
{
    (void)state;
    refused("  GPU0 GPU1\nGPU0 X MX\nGPU1 NODE X\n", "row GPU0 says MX of GPU1, and row GPU1 NODE of GPU0");
    refused("  GPU0 GPU1\nGPU0 X X\nGPU1 X X\n", "row GPU0 says X of GPU1");
    refused("  GPU0 GPU1\nGPU0 X MX\nGPU1 MX PIX\n", "row GPU1: PIX of itself");
    refused("  GPU0 GPU2\nGPU0 X MX\nGPU2 MX X\n", "GPU2 where GPU1 is expected");
}

/* As it comes out of mails, pages and issues. */
static void test_pasted_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\xef\xbb\xbf" HEAD ROWS,
        "> > Here it is:\n>\n> > \tGPU0 GPU1 GPU2 NIC0 Node Affinity CPU Affinity\n"
        "> > GPU0 X MX SYS PIX 0 0-31,64-95\n>> GPU1 MX X SYS NODE 0 0-31,64-95\n> >GPU2 SYS SYS X SYS 1 "
        "32-63\n",
        "\u00a0 GPU0\u00a0GPU1 GPU2\u00a0 NIC0 Node\u00a0Affinity CPU Affinity\nGPU0\u00a0X MX SYS PIX 0 "
        "0-31,64-95\n"
        "GPU1 MX X SYS NODE\u00a0 0 0-31,64-95\nGPU2 SYS SYS X SYS 1 32-63\n",
        "| | GPU0 | GPU1 | GPU2 | NIC0 | Node Affinity | CPU Affinity |\n|---|:--:|---|---|---|---|---|\n"
        "| GPU0 | X | MX | SYS | PIX | 0 | 0-31,64-95 |\n| GPU1 | MX | X | SYS | NODE | 0 | 0-31,64-95 |\n"
        "| GPU2 | SYS | SYS | X | SYS | 1 | 32-63 |\n",
    };
    for (unsigned i = 0; i < GT_COUNT(texts); i++) {
        gt_auto_node struct gt_node *node = read_text(texts[i]);
        check_three(node, "NIC0");
        assert_int_equal(node->missing_count, 2);
    }
}

static void test_no_matrix(void **state)
{
    (void)state;
    static const char *const texts[] = {"GPU0 is the first\n",
                                        "hello",
                                        "> quoted",
                                        "\xff\xfeG",
                                        "12",
                                        "\"GPU0\"",
                                        "\xef\xbb\xbfmx-smi: command not found\n"};
    for (unsigned i = 0; i < GT_COUNT(texts); i++)
        refused(texts[i],
                "no matrix was found: expected a line of names that begins with GPU0, and a row for each "
                "GPU below it, as mx-smi topo -m prints them; or a recording, or hwloc's XML");
    refused("\xef\xbb\xbf{\"a\":}", "line 1, column 6: expected a value");
}

static void test_new_cells(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node =
        read_text("  GPU0 GPU1 GPU2\nGPU0 X ETH MX!\nGPU1 ETH X NA\nGPU2 MX! NA X\n");
    assert_int_equal(kind(node, 0, 1), GT_LINK_UNKNOWN);
    assert_true(lacks(node, "cells \"ETH\""));
    assert_true(gt_link_is_down(gt_node_link(node, 0, 2)));
}

static void test_sizes(void **state)
{
    (void)state;
    for (unsigned gpus = 1; gpus <= GT_GPUS_MAX + 1; gpus++) {
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
        for (unsigned i = 0; i < gpus; i++)
            gt_buf_printf(&text, " GPU%u", i);
        gt_buf_puts(&text, " Node Affinity\n");
        for (unsigned i = 0; i < gpus; i++) {
            gt_buf_printf(&text, "GPU%u", i);
            for (unsigned j = 0; j < gpus; j++)
                gt_buf_puts(&text, i == j ? " X" : " MX");
            gt_buf_puts(&text, " 0\n");
        }
        if (gpus > GT_GPUS_MAX) {
            refused(text.data, "65 GPUs, the limit is 64");
            break;
        }
        gt_auto_node struct gt_node *node = read_text(text.data);
        assert_int_equal(node->gpu_count, gpus);
        assert_int_equal(node->gpus[gpus - 1].numa_node, 0);
    }
}

/* What `gputopo show` prints of the recorded machines is read as the same matrix. */
static void test_our_own_matrix(void **state)
{
    (void)state;
    static const char *const machines[] = {"c500-8", "c500-8-deadlink", "c550-8", "c500-4"};
    for (unsigned i = 0; i < GT_COUNT(machines); i++) {
        char path[256];
        snprintf(path, sizeof(path), MACHINES_DIR "/%s.json", machines[i]);
        struct gt_scan_options options = {.from = path};
        gt_auto_node struct gt_node *was = scan_ok(&options, NULL);
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
        gt_render_matrix(was, &text);
        gt_auto_node struct gt_node *is = read_text(text.data);
        assert_int_equal(is->gpu_count, was->gpu_count);
        for (unsigned k = 0; k < was->link_count; k++) {
            assert_int_equal(is->links[k].kind, was->links[k].kind);
            assert_int_equal(gt_link_is_down(&is->links[k]), gt_link_is_down(&was->links[k]));
        }
        assert_int_equal(is->nic_count, was->nic_count);
        for (unsigned k = 0; k < was->nic_count; k++) {
            assert_string_equal(is->nics[k].name, was->nics[k].name);
            assert_memory_equal(is->nics[k].kind, was->nics[k].kind,
                                was->gpu_count * sizeof(is->nics[k].kind[0]));
        }
    }
}

static void test_real_texts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned nics;
    } texts[] = {{"mx-smi-2.2.9-c500-topo-m.txt", 0}, {"mx-smi-2.2.9-c500-topo-n.txt", 6}};
    for (unsigned i = 0; i < GT_COUNT(texts); i++) {
        char path[512];
        snprintf(path, sizeof(path), SHARED_DATA_DIR "/metax/%s", texts[i].name);
        if (gt_file_check(SHARED_DATA_DIR "/metax", texts[i].name, NULL) < 0) {
            print_message("skipped: %s is not there\n", texts[i].name);
            skip();
        }
        struct gt_scan_options options = {.from = path};
        gt_auto_node struct gt_node *node = scan_ok(&options, NULL);
        assert_int_equal(node->gpu_count, 8);
        assert_int_equal(node->nic_count, texts[i].nics);
        assert_int_equal(kind(node, 4, 7), GT_LINK_MX);
        assert_int_equal(kind(node, 3, 4), GT_LINK_NODE);
        if (texts[i].nics)
            assert_string_equal(node->nics[5].name, "mlx5_5");
    }
}

/* A GPU without an address cannot be given to a container. */
static void test_an_agent_needs_more(void **state)
{
    (void)state;
    machine_write(&machine, "matrix.txt", HEAD ROWS);
    struct gt_scan_options options = {.from = file, .needs_devices = true};
    gt_auto_err struct gt_err *err = NULL;
    struct gt_node *node = NULL;
    assert_true(gt_scan(&options, &node, NULL, &err) < 0);
    assert_non_null(strstr(gt_err_text(err), "a recording is needed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_and_without_what_surrounds_it),
        cmocka_unit_test(test_narrow_lines),
        cmocka_unit_test(test_lines_wrapped_by_words),
        cmocka_unit_test(test_cut_lines),
        cmocka_unit_test(test_contradictions_are_named),
        cmocka_unit_test(test_pasted_texts),
        cmocka_unit_test(test_no_matrix),
        cmocka_unit_test(test_new_cells),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_our_own_matrix),
        cmocka_unit_test(test_real_texts),
        cmocka_unit_test(test_an_agent_needs_more),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
