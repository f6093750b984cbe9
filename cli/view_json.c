/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "cli/view.h"

/* A view as a cluster file: docs/reference/cluster-file.md. */

static void add_list(struct gt_buf *to, uint64_t mask)
{
    const char *comma = "";
    gt_buf_puts(to, "[");
    for (; mask; mask &= mask - 1) {
        gt_buf_printf(to, "%s%u", comma, gt_bit_first(mask));
        comma = ", ";
    }
    gt_buf_puts(to, "]");
}

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
    gt_buf_puts(to, "    { \"name\": ");
    gt_text_quote(to, node->name);
    if (node->supernode != CLI_NONE) {
        gt_buf_puts(to, ", \"supernode\": ");
        gt_text_quote(to, view->supernodes[node->supernode].name);
    }
    gt_buf_puts(to, ", \"free\": "); /* not known counts as none: a plan must not rely on it */
    add_list(to, node->free);
    if (node->topology) {
        gt_buf_puts(to, ", \"topology\": ");
        add_indented(to, node->topology, 6);
    } else {
        if (node->ill) {
            gt_buf_puts(to, ", \"unhealthy\": ");
            add_list(to, node->ill);
        }
        gt_buf_puts(to, ", \"like\": ");
        gt_text_quote(to, like);
    }
    gt_buf_puts(to, " }");
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
    const char *comma = "\n";
    for (unsigned round = 0; round < 2; round++) /* first those that others are like */
        for (uint32_t i = 0; i < view->node_count; i++) {
            const struct cli_node *node = &view->nodes[i];
            if (node->state != CLI_NODE_GOOD || stands_for_itself(node) != (round == 0))
                continue;
            gt_buf_puts(to, comma);
            add_node(view, node, like[node->wiring], to);
            if (!like[node->wiring])
                like[node->wiring] = node->name;
            comma = ",\n";
        }
}

void cli_view_json(const struct cli_view *view, struct gt_buf *to)
{
    const char *comma = "\n";
    gt_buf_puts(to, "{\n  \"supernodes\": [");
    for (uint32_t i = 0; i < view->supernode_count; i++, comma = ",\n") {
        const struct cli_supernode *supernode = &view->supernodes[i];
        gt_buf_printf(to, "%s    { \"name\": ", comma);
        gt_text_quote(to, supernode->name);
        gt_buf_printf(to, ", \"tier\": %u", supernode->tier);
        if (supernode->parent != CLI_NONE) {
            gt_buf_puts(to, ", \"parent\": ");
            gt_text_quote(to, view->supernodes[supernode->parent].name);
        }
        gt_buf_puts(to, " }");
    }
    gt_buf_puts(to, "\n  ],\n  \"nodes\": [");
    add_nodes(view, to);
    gt_buf_puts(to, "\n  ],\n  \"pods\": [");
    comma = "\n";
    for (uint32_t i = 0; i < view->pod_count; i++, comma = ",\n") {
        const struct cli_pod *pod = &view->pods[i];
        gt_buf_printf(to, "%s    { \"name\": ", comma);
        gt_text_quote(to, pod->name);
        gt_buf_puts(to, ", \"node\": ");
        gt_text_quote(to, view->nodes[pod->node].name);
        gt_buf_puts(to, ", \"gpus\": ");
        add_list(to, pod->mask);
        gt_buf_puts(to, ", \"movable\": true }");
    }
    gt_buf_puts(to, "\n  ]\n}\n");
}

static void add_count(struct gt_buf *to, const char *key, uint32_t count)
{
    if (count != CLI_NONE)
        gt_buf_printf(to, ", \"%s\": %u", key, count);
}

void cli_view_supernodes_json(const struct cli_view *view, struct gt_buf *to)
{
    const char *comma = "\n";
    gt_buf_puts(to, "{\n  \"supernodes\": [");
    for (uint32_t i = 0; i < view->supernode_count; i++, comma = ",\n") {
        const struct cli_supernode *supernode = &view->supernodes[i];
        gt_buf_printf(to, "%s    { \"name\": ", comma);
        gt_text_quote(to, supernode->name);
        gt_buf_printf(to, ", \"tier\": %u, \"parent\": ", supernode->tier);
        if (supernode->parent != CLI_NONE)
            gt_text_quote(to, view->supernodes[supernode->parent].name);
        else
            gt_buf_puts(to, "null");
        gt_buf_puts(to, ", \"source\": ");
        gt_text_quote(to, supernode->source);
        add_count(to, "nodes", supernode->told_nodes);
        add_count(to, "gpus", supernode->told_gpus);
        add_count(to, "free", supernode->told_free);
        if (supernode->links >= 0)
            gt_buf_printf(to, ", \"linksHealthy\": %s", supernode->links ? "true" : "false");
        gt_buf_puts(to, ", \"conflict\": ");
        if (supernode->trouble[0])
            gt_text_quote(to, supernode->trouble);
        else
            gt_buf_puts(to, "null");
        gt_buf_puts(to, ",\n      \"members\": [");
        for (uint32_t m = 0; m < supernode->member_count; m++) {
            gt_buf_puts(to, m ? ", " : "");
            gt_text_quote(to, supernode->members[m]);
        }
        gt_buf_puts(to, "] }");
    }
    gt_buf_puts(to, "\n  ]\n}\n");
}
