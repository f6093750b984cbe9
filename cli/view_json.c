/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/json_write.h"
#include "cli/view.h"

/* A view as a cluster file: docs/reference/cluster-file.md. */

/* A JSON text of several lines, moved to the right. */
static void add_indented(struct gt_buf *to, const char *text, unsigned indent)
{
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        if (line != text)
            gt_buf_printf(to, "\n%*s", (int)indent, "");
        gt_buf_add(to, line, len);
        line += len + (line[len] == '\n');
    }
}

static void add_node(const struct cli_view *view, const struct cli_node *node, const char *like,
                     struct gt_buf *to)
{
    gt_json_new_line(to, 4);
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "name", node->name);
    if (node->supernode != CLI_NONE)
        gt_json_add_text(to, "supernode", view->supernodes[node->supernode].name);
    gt_json_add_mask(to, "free", node->free); /* not known counts as none: a plan must not rely on it */
    if (node->topology) {
        gt_json_key(to, "topology");
        add_indented(to, node->topology, 6);
    } else {
        if (node->ill)
            gt_json_add_mask(to, "unhealthy", node->ill);
        gt_json_add_text(to, "like", like);
    }
    gt_json_end(to, '}');
}

static bool stands_for_itself(const struct cli_node *node)
{
    return node->state == CLI_NODE_GOOD && node->topology;
}

static void add_nodes(const struct cli_view *view, struct gt_buf *to)
{
    gt_auto_free const char **like = calloc((size_t)view->wiring_count + 1, sizeof(*like));
    if (!like) {
        to->failed = true;
        return;
    }
    for (unsigned round = 0; round < 2; round++) /* first those that others are like */
        for (uint32_t i = 0; i < view->node_count; i++) {
            const struct cli_node *node = &view->nodes[i];
            if (node->state != CLI_NODE_GOOD || stands_for_itself(node) != (round == 0))
                continue;
            add_node(view, node, like[node->wiring], to);
            if (!like[node->wiring])
                like[node->wiring] = node->name;
        }
}

static void begin_list(struct gt_buf *to, const char *key)
{
    gt_json_new_line(to, 2);
    gt_json_begin(to, key, '[');
}

void cli_view_json(const struct cli_view *view, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    begin_list(to, "supernodes");
    for (uint32_t i = 0; i < view->supernode_count; i++) {
        const struct cli_supernode *supernode = &view->supernodes[i];
        gt_json_new_line(to, 4);
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "name", supernode->name);
        gt_json_add_unsigned(to, "tier", supernode->tier);
        if (supernode->parent != CLI_NONE)
            gt_json_add_text(to, "parent", view->supernodes[supernode->parent].name);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
    begin_list(to, "nodes");
    add_nodes(view, to);
    gt_json_end(to, ']');
    begin_list(to, "pods");
    for (uint32_t i = 0; i < view->pod_count; i++) {
        const struct cli_pod *pod = &view->pods[i];
        gt_json_new_line(to, 4);
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "name", pod->name);
        gt_json_add_text(to, "node", view->nodes[pod->node].name);
        gt_json_add_mask(to, "gpus", pod->mask);
        gt_json_add_bool(to, "movable", true);
        gt_json_end(to, '}');
    }
    gt_buf_puts(to, "]\n}\n");
}

static void add_count(struct gt_buf *to, const char *key, uint32_t count)
{
    if (count != CLI_NONE)
        gt_json_add_unsigned(to, key, count);
}

void cli_view_supernodes_json(const struct cli_view *view, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    begin_list(to, "supernodes");
    for (uint32_t i = 0; i < view->supernode_count; i++) {
        const struct cli_supernode *supernode = &view->supernodes[i];
        const char *parent = supernode->parent != CLI_NONE ? view->supernodes[supernode->parent].name : NULL;
        gt_json_new_line(to, 4);
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "name", supernode->name);
        gt_json_add_unsigned(to, "tier", supernode->tier);
        gt_json_add_text_or_null(to, "parent", parent);
        gt_json_add_text(to, "source", supernode->source);
        add_count(to, "nodes", supernode->told_nodes);
        add_count(to, "gpus", supernode->told_gpus);
        add_count(to, "free", supernode->told_free);
        if (supernode->links >= 0)
            gt_json_add_bool(to, "linksHealthy", supernode->links);
        gt_json_add_text_or_null(to, "conflict", *supernode->trouble ? supernode->trouble : NULL);
        gt_json_begin(to, "members", '[');
        for (uint32_t m = 0; m < supernode->member_count; m++)
            gt_json_add_text(to, NULL, supernode->members[m]);
        gt_json_end(to, ']');
        gt_json_end(to, '}');
    }
    gt_buf_puts(to, "]\n}\n");
}
