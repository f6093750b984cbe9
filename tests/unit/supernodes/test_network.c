/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "scheduler-ext/supernodes/join.h"
#include "tests/unit/seed.h"

static struct gt_network *read_network(const char *text)
{
    struct gt_network *network = NULL;
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_network_new(&network, NULL), 0);
    if (gt_network_read(network, text, strlen(text), &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return network;
}

static bool is_noted(const struct gt_network *network, const char *text)
{
    for (uint32_t i = 0; i < network->note_count; i++)
        if (strstr(network->notes[i], text))
            return true;
    for (uint32_t i = 0; i < network->note_count; i++)
        print_message("noted: %s\n", network->notes[i]);
    return false;
}

static struct gt_network_places *place(const struct gt_network *network, const char *const *names,
                                       uint32_t count)
{
    struct gt_network_places *places = NULL;
    assert_int_equal(gt_network_place(network, names, count, &places, NULL), 0);
    return places;
}

static bool is_told(const struct gt_network_places *places, const char *text)
{
    for (uint32_t i = 0; i < places->problem_count; i++)
        if (strstr(places->problems[i].text, text))
            return true;
    for (uint32_t i = 0; i < places->problem_count; i++)
        print_message("told: %s\n", places->problems[i].text);
    return false;
}

/* The name of the node's domain of a tier, "" for none. */
static const char *domain(const struct gt_network_places *places, uint32_t node, unsigned tier)
{
    uint32_t at = places->domain_of[node];
    while (at != GT_NETWORK_NONE && places->domains[at].tier != tier)
        at = places->domains[at].parent;
    return at == GT_NETWORK_NONE ? "" : places->domains[at].name;
}

static void test_a_table(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b.example.com", "c", "z", "e"};
    gt_auto_network struct gt_network *network =
        read_network("# ours\nnode, leaf,spine,hall\r\n"
                     "a,l1,s1,1\nb,l1,s1,1\n\nc,l2,s1,1\n"
                     "a,l2,s1,1\nz,,s2,1\ne,l1,s2,2\n,l1,s1,1\nf,l3,s");
    gt_auto_network_places struct gt_network_places *places = place(network, names, 5);
    assert_string_equal(domain(places, 0, 2), "l1");
    assert_string_equal(domain(places, 1, 2), "l1");
    assert_string_equal(domain(places, 2, 2), "l2");
    assert_string_equal(domain(places, 3, 2), "");
    assert_string_equal(domain(places, 3, 3), "s2");
    assert_string_equal(domain(places, 4, 3), "s1");
    assert_string_equal(domain(places, 3, 4), "1");
    assert_true(is_noted(network, "line 7: node a is in line 3 already, which counts"));
    assert_true(is_noted(network, "line 8: the leaf of node z has no name"));
    assert_true(is_noted(network, "line 9: l1 is in s2, but in s1 by 2 rows, which counts"));
    assert_true(is_noted(network, "line 10: the node has no name"));
    assert_true(is_noted(network, "line 11: 3 fields, expected 4: is the table complete?"));
    assert_int_equal(places->problem_count, 0);
}

static void test_a_table_of_ten_tiers(void **state)
{
    (void)state;
    const char *const names[] = {"a"};
    gt_auto_network struct gt_network *network =
        read_network("node,1,2,3,4,5,6,7,8,9,10\na,1,2,3,4,5,6,7,8,9,10\n");
    gt_auto_network_places struct gt_network_places *places = place(network, names, 1);
    assert_true(is_noted(network, "the table has 10 tiers, the 7 from tier 2 to 8 are used"));
    assert_string_equal(domain(places, 0, 8), "7");
    gt_auto_network struct gt_network *blocks = read_network("node,supernode,leaf\na,b1,l1\n");
    gt_auto_network_places struct gt_network_places *below = place(blocks, names, 1);
    assert_string_equal(domain(below, 0, 1), "b1");
    assert_string_equal(domain(below, 0, 2), "l1");
}

static void test_what_is_no_network(void **state)
{
    (void)state;
    static const char *const texts[] = {"leaf,node\n", "hello",  "<xml/>",
                                        "node\na\n",   "- a: [", "- {a: b}: c"};
    for (unsigned i = 0; i < GT_COUNT(texts); i++) {
        gt_auto_network struct gt_network *network = NULL;
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(gt_network_new(&network, NULL), 0);
        assert_true(gt_network_read(network, texts[i], strlen(texts[i]), &err) < 0);
        assert_true(gt_err_text(err)[0]);
    }
    gt_auto_network struct gt_network *nothing = read_network(" \n# only this\n");
    assert_int_equal(nothing->point_count, 0);
    gt_auto_network struct gt_network *marked = read_network("\xef\xbb\xbfnode,leaf\r\na,l1\r\n");
    assert_int_equal(marked->point_count, 2); /* as spreadsheets save a table */
}

/* What ibnetdiscover prints of groups of nodes with four rails, and two spines above all. `wrong` may move a
 * port to another leaf: it returns the leaf. */
static void print_rails(struct gt_buf *to, unsigned groups, unsigned nodes,
                        unsigned (*wrong)(unsigned node, unsigned port, unsigned leaf))
{
    for (unsigned g = 0; g < groups; g++)
        for (unsigned rail = 0; rail < 4; rail++) {
            unsigned leaf = g * 4 + rail;
            gt_buf_printf(
                to,
                "vendid=0x2c9\ndevid=0xd2f0\nswitchguid=0x%x(%x)\n"
                "Switch\t41 \"S-%04x\"\t\t# \"MF0;leaf-%02u:MQM8700/U1\" enhanced port 0 lid 5 lmc 0\n",
                leaf, leaf, leaf, leaf);
            for (unsigned n = 0; n < groups * nodes; n++)
                for (unsigned port = 0; port < 4; port++)
                    if (wrong(n, port, n / nodes * 4 + port) == leaf)
                        gt_buf_printf(to,
                                      "[%u]\t\"H-%x%u\"[1](%x%u) \t\t# \"gpu-%03u mlx5_%u\" lid 12 4xHDR\n",
                                      n % nodes + 1, n, port, n, port, n, port);
            gt_buf_printf(to, "[40]\t\"S-f%03u\"[%u]\t\t# \"MF0;spine-%u:MQM8700/U1\" lid 1 4xHDR\n\n",
                          rail % 2, leaf + 1, rail % 2);
            gt_buf_printf(to, "[39]\t\"S-f%03u\"[%u]\t\t# \"MF0;spine-%u:MQM8700/U1\" lid 1 4xHDR\n\n",
                          1 - rail % 2, leaf + 1, 1 - rail % 2);
        }
    for (unsigned n = 0; n < groups * nodes; n++)
        for (unsigned port = 0; port < 4; port++) {
            unsigned leaf = wrong(n, port, n / nodes * 4 + port);
            gt_buf_printf(
                to,
                "caguid=0x%x%u\nCa\t1 \"H-%x%u\"\t\t# \"gpu-%03u mlx5_%u\"\n"
                "[1](%x%u) \t\"S-%04x\"[%u]\t\t# lid 12 lmc 0 \"MF0;leaf-%02u:MQM8700/U1\" lid 5 4xHDR\n\n",
                n, port, n, port, n, port, n, port, leaf, n % nodes + 1, leaf);
        }
    gt_buf_puts(to, "Ca\t1 \"H-ff\"\t\t# \"Mellanox Technologies Aggregation Node\"\n"
                    "[1](ff)\t\"S-f000\"[60]\t\t# lid 3 lmc 0 \"MF0;spine-0:MQM8700/U1\" lid 1 4xHDR\n");
}

static unsigned all_right(unsigned node, unsigned port, unsigned leaf)
{
    (void)node;
    (void)port;
    return leaf;
}

static unsigned some_wrong(unsigned node, unsigned port, unsigned leaf)
{
    if (node == 1 && port == 2)
        return 6; /* the other group's */
    if (node == 5 && port < 2)
        return port; /* half here, half there */
    return leaf;
}

static const char *const gpus[] = {"gpu-000", "gpu-001", "gpu-002", "gpu-003",
                                   "gpu-004", "gpu-005", "gpu-006", "gpu-007"};

static void test_rails(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    print_rails(&text, 2, 4, all_right);
    gt_auto_network struct gt_network *network = read_network(text.data);
    gt_auto_network_places struct gt_network_places *places = place(network, gpus, 8);
    for (unsigned i = 0; i < 8; i++) {
        assert_string_equal(domain(places, i, 2), i < 4 ? "leaf-00" : "leaf-04");
        assert_string_equal(domain(places, i, 3), "spine-0");
    }
    assert_int_equal(places->domain_count, 3);
    assert_int_equal(places->problem_count, 0);
    assert_int_equal(network->note_count, 0);
}

static void test_wrong_cables(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    print_rails(&text, 2, 4, some_wrong);
    gt_auto_network struct gt_network *network = read_network(text.data);
    gt_auto_network_places struct gt_network_places *places = place(network, gpus, 8);
    for (unsigned i = 0; i < 8; i++)
        assert_string_equal(domain(places, i, 2), i == 5 ? "" : i < 4 ? "leaf-00" : "leaf-04");
    assert_true(is_told(
        places, "node gpu-001: port mlx5_2 is at switch leaf-06, expected leaf-02, as of 3 of 4 nodes"));
    assert_true(is_told(places, "node gpu-005 has cables to switches of several domains"));
    assert_int_equal(places->problem_count, 2);
    for (uint32_t i = 0; i < places->problem_count; i++)
        assert_true(places->problems[i].node == 1 || places->problems[i].node == 5);
}

/* A node at a spine makes no leaf of it, and half a file still gives what it has. */
static void test_odd_ib(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b", "c", "d", "s"};
    static const char text[] =
        "Switch 4 \"S-1\" # \"l1\" x\n[1] \"H-1\"[1] # \"a m\"\n[2] \"H-2\"[1] # \"b m\"\n"
        "[3] \"S-9\"[1] # \"\" lid 1\n"
        "Switch 4 \"S-2\" # \"l2\" x\n[1] \"H-3\"[1] # \"c m\"\n[2] \"H-4\"[1] # \"d m\"\n"
        "[3] \"S-9\"[2] # \"\" lid 1\n"
        "Switch 4 \"S-9\" # \"\" x\n[1] \"S-1\"[3] # \"l1\"\n[2] \"S-2\"[3] # \"l2\"\n"
        "[3] \"H-5\"[1] # \"s m\"\n[4] \"H-6\"[1] # \"\"\n[5] \"S-";
    gt_auto_network struct gt_network *network = read_network(text);
    gt_auto_network_places struct gt_network_places *places = place(network, names, 5);
    assert_string_equal(domain(places, 0, 2), "l1");
    assert_string_equal(domain(places, 3, 2), "l2");
    assert_string_equal(domain(places, 4, 2), "");
    assert_string_equal(domain(places, 4, 3), "S-9");
    assert_string_equal(domain(places, 0, 3), "S-9");
    assert_true(is_noted(network, "switch S-9 has no name"));
    assert_true(is_noted(network, "H-6 has no name"));
    assert_true(is_noted(network, "is the file complete?"));
}

static void test_slurm(void **state)
{
    (void)state;
    const char *const names[] = {"n01", "n02", "n03", "n04", "x"};
    static const char conf[] =
        "# topograph\nSwitchName=top Switches=l[1-2],l9\nSwitchName=l1 Nodes=n[01-02]\n"
        "SwitchName=l2 Nodes=n[02,03-04]\nSwitchName=l2 Nodes=x\nSwitchName=c1 Switches=c2\n"
        "SwitchName=c2 Switches=c1 Nodes=x\nSwitchName= Nodes=x\nBlockName=b1 Nodes=n[01-02]\n"
        "SwitchName=l3 Nodes=n[1\n";
    static const char yaml[] =
        "---\n- topology: a\n  cluster_default: true\n  tree:\n    switches:\n"
        "    - switch: top\n      children: l[1-2]\n    - {switch: l1, nodes: 'n[01-02]'}\n"
        "    - {switch: l2, nodes: 'n[03-04]'}\n"
        "- topology: b\n  block: {block_sizes: [2], blocks: [{block: b1, nodes: 'n[01-02]'}]}\n";
    for (unsigned form = 0; form < 2; form++) {
        gt_auto_network struct gt_network *network = read_network(form ? yaml : conf);
        gt_auto_network_places struct gt_network_places *places = place(network, names, 5);
        for (unsigned i = 0; i < 4; i++) {
            assert_string_equal(domain(places, i, 1), i < 2 ? "b1" : "");
            assert_string_equal(domain(places, i, 2), i < 2 ? "l1" : "l2");
            assert_string_equal(domain(places, i, 3), "top");
        }
        assert_string_equal(domain(places, 4, 2), "");
        if (form) {
            assert_int_equal(network->note_count, 0);
            continue;
        }
        assert_true(is_noted(network, "switch top: there is no switch l9"));
        assert_true(is_noted(network, "node n02 is in l1 already, which counts, not in l2"));
        assert_true(is_noted(network, "switch l2 is there twice, the first one counts"));
        assert_true(is_noted(network, "switch c1 is below itself"));
        assert_true(is_noted(network, "a switch has no name: it has nodes x"));
        assert_true(is_noted(network, "no list such as"));
    }
}

/* ---- many ---- */

static char many_names[16384][16];
static const char *many[16384];

/* Groups of 64 nodes with 4 rails; in each group some nodes have one port at another group's switch. */
static void test_many(void **state)
{
    (void)state;
    gt_auto_network struct gt_network *network = NULL;
    gt_auto_network_places struct gt_network_places *places = NULL;
    unsigned seed = (unsigned)test_seed(), moved = 0;
    char name[32], port[8];
    assert_int_equal(gt_network_new(&network, NULL), 0);
    for (unsigned n = 0; n < 16384; n++) {
        snprintf(many_names[n], sizeof(many_names[n]), "n%05u", n);
        many[n] = many_names[n];
        uint32_t node, high, spine;
        assert_int_equal(gt_network_node(network, many[n], &node, NULL), 0);
        bool wrong = n % 64 < 20 && rand_r(&seed) % 3 == 0;
        unsigned which = (unsigned)rand_r(&seed) % 4;
        moved += wrong;
        for (unsigned p = 0; p < 4; p++) {
            unsigned group = wrong && p == which ? (n / 64 + 1) % 256 : n / 64;
            snprintf(name, sizeof(name), "leaf-%03u-%u", group, p);
            snprintf(port, sizeof(port), "p%u", p);
            assert_int_equal(gt_network_switch(network, 0, name, name, &high, NULL), 0);
            assert_int_equal(gt_network_connect(network, node, port, high, "", NULL), 0);
            snprintf(name, sizeof(name), "spine-%02u", group / 32);
            if (n % 64 == 0) {
                assert_int_equal(gt_network_switch(network, 0, name, name, &spine, NULL), 0);
                assert_int_equal(gt_network_connect(network, high, "", spine, "", NULL), 0);
            }
        }
    }
    uint64_t begun = gt_clock_ms();
    assert_int_equal(gt_network_place(network, many, 16384, &places, NULL), 0);
    print_message("65536 ports in %llu ms, %u cables moved\n", (unsigned long long)(gt_clock_ms() - begun),
                  moved);
    for (unsigned n = 0; n < 16384; n++) {
        snprintf(name, sizeof(name), "leaf-%03u-0", n / 64);
        assert_string_equal(domain(places, n, 2), name);
        snprintf(name, sizeof(name), "spine-%02u", n / 64 / 32);
        assert_string_equal(domain(places, n, 3), name);
    }
    assert_int_equal(places->problem_count,
                     moved < GT_NETWORK_PROBLEMS_MAX ? moved : GT_NETWORK_PROBLEMS_MAX);
}

/* ---- joined with the other sources ---- */

static const struct gt_supernode *above(const struct gt_join *join, uint32_t node)
{
    const struct gt_supernode *own = &join->supernodes[join->supernode_of[node]];
    return own->parent == GT_JOIN_NONE ? NULL : &join->supernodes[own->parent];
}

static void test_tiers_above_supernodes(void **state)
{
    (void)state;
    const char *const at_b[] = {"B"}, *const at_a[] = {"A"};
    const struct gt_join_node nodes[] = {
        {"a", "A", at_b, 1, NULL, NULL},       {"b", "B", at_a, 1, NULL, NULL},
        {"c", NULL, NULL, 0, "rack", NULL},    {"z", NULL, NULL, 0, "rack", NULL},
        {"e", NULL, NULL, 0, "rack", NULL},    {"f.example.com", NULL, NULL, 0, NULL, NULL},
        {"outside", NULL, NULL, 0, NULL, NULL}};
    const struct gt_join_group hall = {.name = "h1", .tier = 3};
    gt_auto_network struct gt_network *network =
        read_network("node,leaf,hall\na,l1,h1\nb,l1,h1\nc,L_2,h1\nz,L_2,h1\ne,l3,h2\nf,rack,h2\n");
    const char *names[GT_COUNT(nodes)];
    for (unsigned i = 0; i < GT_COUNT(nodes); i++)
        names[i] = nodes[i].name;
    gt_auto_network_places struct gt_network_places *places = place(network, names, GT_COUNT(names));
    gt_auto_join struct gt_join *join = NULL;
    assert_int_equal(
        gt_join_supernodes(&(struct gt_join_input){nodes, GT_COUNT(nodes), &hall, 1, places}, &join, NULL),
        0);
    assert_string_equal(above(join, 0)->name, "l1");
    assert_int_equal(above(join, 0)->tier, 2);
    assert_int_equal(above(join, 0)->source, GT_JOIN_NETWORK);
    assert_string_equal(above(join, 2)->name, "l-2");
    assert_ptr_equal(above(join, 4), above(join, 2)); /* by majority */
    assert_string_equal(join->supernodes[above(join, 2)->parent].name, "h1");
    assert_int_equal(join->supernodes[above(join, 2)->parent].source, GT_JOIN_CONFIG);
    assert_string_equal(join->supernodes[join->supernode_of[5]].name, "f-example-com");
    assert_int_equal(strncmp(above(join, 5)->name, "rack-", 5), 0); /* its name is a supernode's */
    assert_int_equal(join->supernode_of[6], GT_JOIN_NONE);
    assert_int_equal(join->problem_count, 1);
    assert_non_null(
        strstr(join->problems[0].text, "node e of supernode rack is in l3, most others of it in L_2"));
    assert_int_equal(join->problems[0].kind, GT_JOIN_CABLING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_table),
        cmocka_unit_test(test_a_table_of_ten_tiers),
        cmocka_unit_test(test_what_is_no_network),
        cmocka_unit_test(test_rails),
        cmocka_unit_test(test_wrong_cables),
        cmocka_unit_test(test_odd_ib),
        cmocka_unit_test(test_slurm),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_tiers_above_supernodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
