/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/pcie_tree.h"
#include "topology/model/render.h"

/* A DOT string: quotes and backslashes escaped, `\n` is written by the caller. */
static void add_escaped(struct gt_buf *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            gt_buf_puts(to, "\\");
        gt_buf_add(to, text, 1);
    }
}

static void render_dot_add_name(struct gt_buf *to, const struct gt_tree *tree, unsigned i)
{
    const struct gt_tree_item *item = &tree->items[i];
    if (item->type == GT_TREE_GPU)
        gt_buf_printf(to, "gpu%d", item->number);
    else if (item->type == GT_TREE_NIC)
        gt_buf_printf(to, "nic%d", item->number);
    else
        gt_buf_printf(to, "bridge%u", i);
}

static void render_dot_add_gpu(struct gt_buf *to, const struct gt_gpu *gpu)
{
    static const char *const fills[] = {
        [GT_GPU_HEALTH_UNKNOWN] = "#e5e7eb", [GT_GPU_HEALTHY] = "#dcfce7", [GT_GPU_UNHEALTHY] = "#fee2e2"};
    char memory[32];
    gt_memory_text(gpu->memory_bytes, memory, sizeof(memory));
    gt_buf_printf(to, "[shape=box, style=\"rounded,filled\", fillcolor=\"%s\", label=\"GPU %u\\n",
                  fills[gpu->health], gpu->index);
    if (gpu->product[0]) {
        add_escaped(to, gpu->product);
        gt_buf_puts(to, "\\n");
    }
    if (gpu->memory_bytes)
        gt_buf_printf(to, "%s\\n", memory);
    add_escaped(to, gt_short_bdf(gpu->bdf));
    if (gpu->health != GT_GPU_HEALTHY)
        gt_buf_puts(to, gt_gpu_usable(gpu) ? "\\nhealth unknown" : "\\nill");
    gt_buf_puts(to, "\"];\n");
}

static void render_dot_add_item(struct gt_buf *to, const struct gt_node *node, const struct gt_tree *tree,
                                unsigned i)
{
    const struct gt_tree_item *item = &tree->items[i];
    gt_buf_puts(to, "        ");
    render_dot_add_name(to, tree, i);
    gt_buf_puts(to, " ");
    if (item->type == GT_TREE_GPU) {
        render_dot_add_gpu(to, &node->gpus[item->number]);
        return;
    }
    if (item->type == GT_TREE_NIC) {
        gt_buf_puts(to, "[shape=box, style=\"rounded,filled\", fillcolor=\"#fef3c7\", label=\"");
        add_escaped(to, node->nics[item->number].name);
    } else {
        gt_buf_printf(to, "[shape=box, style=filled, fillcolor=\"%s\", label=\"%s",
                      item->type == GT_TREE_HOST ? "#cbd5e1" : "#e0e7ff",
                      item->type == GT_TREE_HOST ? "" : "switch ");
        add_escaped(to, gt_short_bdf(item->name));
    }
    gt_buf_puts(to, "\"];\n");
}

static void render_dot_add_below(struct gt_buf *to, const struct gt_node *node, const struct gt_tree *tree,
                                 unsigned parent)
{
    for (unsigned i = tree->items[parent].first_child; i; i = tree->items[i].next) {
        render_dot_add_item(to, node, tree, i);
        if (tree->items[parent].type != GT_TREE_NUMA) {
            gt_buf_puts(to, "        ");
            render_dot_add_name(to, tree, parent);
            gt_buf_puts(to, " -- ");
            render_dot_add_name(to, tree, i);
            gt_buf_puts(to, " [color=\"#94a3b8\"];\n");
        }
        render_dot_add_below(to, node, tree, i);
    }
}

static void add_links(struct gt_buf *to, const struct gt_node *node)
{
    for (unsigned i = 0; i < node->link_count; i++) {
        const struct gt_link *link = &node->links[i];
        if (link->kind != GT_LINK_MX)
            continue;
        gt_buf_printf(to, "    gpu%u -- gpu%u [constraint=false, ", link->a, link->b);
        if (link->state == GT_LINK_STATE_DOWN)
            gt_buf_puts(to, "color=\"#dc2626\", style=dashed, tooltip=\"MX, down\"];\n");
        else
            gt_buf_printf(to, "color=\"#2563eb\", penwidth=2, tooltip=\"MX, %u GB/s\"];\n", link->weight);
    }
}

void gt_render_dot(const struct gt_node *node, struct gt_buf *to)
{
    gt_auto_tree struct gt_tree tree = {0};
    if (!gt_tree_make(node, &tree)) {
        to->failed = true;
        return;
    }
    gt_buf_puts(to, "graph \"");
    add_escaped(to, node->name[0] ? node->name : "node");
    gt_buf_puts(to, "\" {\n    graph [fontname=\"sans-serif\", label=\"");
    add_escaped(to, node->name);
    if (!node->gpu_count)
        gt_buf_puts(to, node->name[0] ? ": no GPUs" : "no GPUs");
    gt_buf_puts(to, "\", labelloc=t, ranksep=0.5];\n    node [fontname=\"sans-serif\", fontsize=11];\n");
    for (unsigned i = tree.items[0].first_child; i; i = tree.items[i].next) {
        int numa = tree.items[i].number;
        gt_buf_printf(to,
                      "    subgraph \"cluster_numa%d\" {\n        style=\"rounded,filled\";\n"
                      "        color=\"#e2e8f0\";\n        fillcolor=\"#f8fafc\";\n",
                      numa);
        if (numa >= 0)
            gt_buf_printf(to, "        label=\"NUMA node %d\";\n", numa);
        else
            gt_buf_puts(to, "        label=\"NUMA node not known\";\n");
        render_dot_add_below(to, node, &tree, i);
        gt_buf_puts(to, "    }\n");
    }
    add_links(to, node);
    gt_buf_puts(to, "}\n");
}
