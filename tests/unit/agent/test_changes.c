/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/changes.h"
#include "base/log.h"

enum { SAID_MAX = 64 };

/* A node of two GPUs with one link. */
static struct gt_inventory *inventory(enum gt_link_kind kind, enum gt_link_state state)
{
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_class_cache struct gt_class_cache *classes = NULL;
    struct gt_inventory *made = NULL;
    assert_int_equal(gt_node_new(2, 0, &node, NULL), 0);
    snprintf(node->gpus[0].bdf, sizeof(node->gpus[0].bdf), "0000:0e:00.0");
    snprintf(node->gpus[1].bdf, sizeof(node->gpus[1].bdf), "0000:0f:00.0");
    node->links[0].kind = kind;
    node->links[0].state = state;
    assert_int_equal(gt_node_finish(node, NULL), 0);
    assert_int_equal(gt_class_cache_new(1, &classes, NULL), 0);
    assert_int_equal(gt_inventory_next(node, classes, NULL, NULL, 0, &made, NULL), 0);
    return made;
}

static void on_change(void *arg, bool warning, const char *reason, const char *note)
{
    char *said = arg;
    (void)warning;
    assert_non_null(strstr(note, "0000:0e:00.0 - 0000:0f:00.0"));
    snprintf(said + strlen(said), SAID_MAX - strlen(said), "%s", reason);
}

static void expect_reported(struct gt_inventory *before, struct gt_inventory *after, const char *expected)
{
    char said[SAID_MAX] = "";
    gt_changes_log(before, after, on_change, said);
    assert_string_equal(said, expected);
}

static void links(void **state)
{
    struct gt_inventory *up = inventory(GT_LINK_MX, GT_LINK_STATE_UP),
                        *down = inventory(GT_LINK_MX, GT_LINK_STATE_DOWN),
                        *default_amount = inventory(GT_LINK_MX, GT_LINK_STATE_UNKNOWN),
                        *silent = inventory(GT_LINK_PXB, GT_LINK_STATE_UNKNOWN); /* the vendor library is */
    (void)state;
    expect_reported(NULL, up, "");
    expect_reported(NULL, down, "LinkDown");
    expect_reported(up, down, "LinkDown");
    expect_reported(down, down, "");
    expect_reported(down, up, "LinkUp");
    expect_reported(down, silent, "");
    expect_reported(down, default_amount, "");
    expect_reported(silent, down, "LinkDown");
    expect_reported(silent, up, "");
    gt_inventory_unref(up);
    gt_inventory_unref(down);
    gt_inventory_unref(default_amount);
    gt_inventory_unref(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(links)};
    gt_log_setup(GT_LOG_ERROR, GT_LOG_TEXT);
    return cmocka_run_group_tests_name("changes", tests, NULL, NULL);
}
