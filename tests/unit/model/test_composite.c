/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/composite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka needs those above */
#include <cmocka.h>

/* GPUs 0 to 2 in a chain of direct links, 4 and 5 linked, 3 alone, 6 and 7 by a link that is down. */
static struct gt_node *make_node(unsigned gpus)
{
    struct gt_node *node = NULL;
    assert_return_code(gt_node_new(gpus, 0, &node, NULL), 0);
    for (unsigned i = 0; i < gpus; i++)
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:%02x:00.0", 0x10 + i);
    for (unsigned i = 0; i < node->link_count; i++) {
        struct gt_link *link = &node->links[i];
        bool down = link->a == 6 && link->b == 7;
        bool direct = link->b == link->a + 1 && (link->b <= 2 || link->a == 4 || down);
        link->kind = direct ? GT_LINK_MX : GT_LINK_SYS;
        link->path_kind = GT_LINK_SYS;
        link->state = down ? GT_LINK_STATE_DOWN : link->state;
    }
    assert_return_code(gt_node_finish(node, NULL), 0);
    return node;
}

static void check_list(const struct gt_node *node, enum gt_composite_type type, unsigned count,
                       const uint64_t *expected)
{
    uint64_t list[GT_COMPOSITES_MAX];
    assert_int_equal(gt_composite_list(node, type, list), count);
    for (unsigned i = 0; i < count; i++) {
        char name[GT_DRA_DEVICE_SIZE];
        assert_int_equal(list[i], expected[i]);
        gt_composite_name(node, type, list[i], name);
        assert_true(gt_composite_is_name(name));
        assert_int_equal(gt_composite_of_node(node, name), list[i]);
    }
}

static void all_of_a_node(void **state)
{
    static const uint64_t pairs[] = {0x03, 0x06, 0x30}, zones[] = {0x07, 0x30}, whole[] = {0xff};
    gt_auto_node struct gt_node *node = make_node(8), *one = make_node(1), *large = make_node(33);
    (void)state;
    check_list(node, GT_COMPOSITE_PAIR, 3, pairs);
    check_list(node, GT_COMPOSITE_ZONE, 2, zones);
    check_list(node, GT_COMPOSITE_NODE, 1, whole);
    for (unsigned type = 0; type < GT_COMPOSITE_TYPES; type++) {
        check_list(one, (enum gt_composite_type)type, 0, NULL);
        check_list(large, (enum gt_composite_type)type, 0, NULL);
    }
}

static void names(void **state)
{
    static const struct {
        const char *name;
        uint64_t gpus;
    } found[] = {
        {"node-8", 0xff},
        {"zone-0000-10-00-0-3", 0x07},
        {"zone-0000-14-00-0-2", 0x30},
        {"pair-0000-10-00-0-0000-11-00-0", 0x03},
        {"pair-0000-16-00-0-0000-17-00-0", 0xc0}, /* also if the link is down now */
        {"node-7", 0},
        {"node-08", 0},
        {"node-", 0},
        {"node", 0},
        {"zone-0000-10-00-0-4", 0},
        {"zone-0000-10-00-0", 0},
        {"zone-0000-11-00-0-3", 0}, /* not the first */
        {"zone-0000-13-00-0-1", 0}, /* in no zone */
        {"pair-0000-11-00-0-0000-10-00-0", 0},
        {"pair-0000-10-00-0-0000-10-00-0", 0},
        {"pair-0000-10-00-0-0000-1", 0},
        {"pair-0000-10-00-0-0000-11-00-0-0", 0},
        {"pair-0000-10-00-0", 0},
        {"gpu-0000-10-00-0", 0},
        {"", 0},
    };
    static const char *const wrong[] = {"",         "pair",   "gpu-0000-10-00-0", "node-",
                                        "node-../", "Node-8", "zone-A",           "mesh-4"};
    gt_auto_node struct gt_node *node = make_node(8);
    char longest[GT_DRA_DEVICE_SIZE + 1];
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(found); i++)
        if (gt_composite_of_node(node, found[i].name) != found[i].gpus)
            fail_msg("%s", found[i].name);
    for (unsigned i = 0; i < GT_COUNT(wrong); i++)
        if (gt_composite_is_name(wrong[i]))
            fail_msg("%s", wrong[i]);
    memset(longest, '1', sizeof(longest));
    memcpy(longest, "node-", 5);
    longest[GT_DRA_DEVICE_SIZE] = '\0';
    assert_false(gt_composite_is_name(longest));
    longest[GT_DRA_DEVICE_SIZE - 1] = '\0';
    assert_true(gt_composite_is_name(longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_of_a_node), cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
