/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "topology/model/render_internal.h"
#include "topology/model/svg.h"

/* Panels, bridges, cards and chips. */

static const char mono[] = "font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\"";
static const char middle[] = "text-anchor=\"middle\"";

static void draw_panel(struct gt_buf *to, const struct svg_layout *l, unsigned i)
{
    const struct svg_box *box = &l->boxes[i];
    int numa = l->tree.items[i].number;
    const char *cpus = "";
    for (unsigned g = 0; g < l->node->gpu_count && !cpus[0]; g++)
        if (l->node->gpus[g].numa_node == numa)
            cpus = l->node->gpus[g].cpu_set;
    svg_rect(to, box->x, box->y, box->width, box->height, 14, SVG_PANEL, SVG_PANEL_EDGE);
    struct svg_text style = {box->x + SVG_PANEL_PADDING, box->y + 23, 13, NULL, "font-weight=\"600\""};
    if (numa >= 0)
        svg_text(to, style, "NUMA node %d", numa);
    else
        svg_text(to, style, "NUMA node not known");
    int room = (box->width - 120 - 2 * SVG_PANEL_PADDING) / 7 - 5;
    if (cpus[0] && room >= 4) {
        char list[256];
        gt_shorten(cpus, (unsigned)room, list, sizeof(list));
        style = (struct svg_text){box->x + box->width - SVG_PANEL_PADDING, box->y + 23, 11, SVG_MUTED,
                                  "text-anchor=\"end\""};
        svg_text(to, style, "CPUs %s", list);
    }
}

static void svg_tree_draw_bar(struct gt_buf *to, const struct svg_layout *l, unsigned i)
{
    const struct svg_box *box = &l->boxes[i];
    const struct gt_tree_item *item = &l->tree.items[i];
    bool host = item->type == GT_TREE_HOST;
    svg_rect(to, box->x, box->y, box->width, box->height, 7, host ? SVG_HOST : SVG_SWITCH, NULL);
    struct svg_text style = {box->x + box->width / 2, box->y + 16, 11, host ? "#475569" : SVG_SWITCH_INK,
                             middle};
    const char *name = host ? item->name : gt_short_bdf(item->name);
    if (box->width >= 190)
        svg_text(to, style, "%s %s", host ? "PCIe host bridge" : "PCIe switch", name);
    else if (box->width >= 124 && !host)
        svg_text(to, style, "switch %s", name);
    else if (box->width >= 76)
        svg_text(to, style, "%s", name);
}

static void draw_card_text(struct gt_buf *to, const struct gt_gpu *gpu, const struct svg_box *box)
{
    char text[64], link[48];
    bool wide = box->width >= 136;
    int x = box->x + 12, y = box->y + 47, room = (box->width - 20) / 7;
    svg_text(to, (struct svg_text){x, box->y + 28, wide ? 17 : 15, NULL, "font-weight=\"700\""}, "GPU %u",
             gpu->index);
    bool memory = wide && gpu->memory_bytes;
    if (gpu->product[0]) {
        gt_shorten(gpu->product, (unsigned)(memory ? room - 8 : room), text, sizeof(text));
        svg_text(to, (struct svg_text){x, y, 12, NULL, NULL}, "%s", text);
    }
    if (memory) {
        gt_memory_text(gpu->memory_bytes, text, sizeof(text));
        svg_text(to, (struct svg_text){box->x + box->width - 12, y, 12, SVG_MUTED, "text-anchor=\"end\""},
                 "%s", text);
    }
    if (gpu->product[0] || memory)
        y += 18;
    gt_shorten(gt_short_bdf(gpu->bdf), (unsigned)room, text, sizeof(text));
    svg_text(to, (struct svg_text){x, y, 11, SVG_MUTED, mono}, "%s", text);
    y += 16;
    if (wide && gpu->uuid[0]) {
        gt_shorten(gpu->uuid, 15, text, sizeof(text));
        svg_text(to, (struct svg_text){x, y, 11, SVG_MUTED, mono}, "%s", text);
        y += 18;
    }
    gt_pcie_link_text(&gpu->pcie_now, link, sizeof(link));
    gt_shorten(link, (unsigned)room + 2, text, sizeof(text));
    if (gpu->mode != GT_GPU_NATIVE)
        svg_text(to, (struct svg_text){x, y, 11, SVG_WARN, "font-weight=\"600\""}, "mode %s",
                 gt_gpu_mode_name(gpu->mode));
    else if (link[0])
        svg_text(to, (struct svg_text){x, y, 11, gt_pcie_degraded(gpu) ? SVG_WARN : SVG_MUTED, NULL}, "%s",
                 text);
}

static void draw_dot(struct gt_buf *to, int x, int y, int radius, const struct svg_health *style)
{
    gt_buf_printf(to, "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"%s\" stroke=\"%s\"/>\n", x, y, radius,
                  style->dot, style->dot_edge);
}

static void draw_gpu(struct gt_buf *to, const struct svg_layout *l, const struct gt_gpu *gpu)
{
    const struct svg_box *box = &l->gpus[gpu->index];
    const struct svg_health *style = svg_health(gpu->health);
    char memory[32], link[48];
    gt_memory_text(gpu->memory_bytes, memory, sizeof(memory));
    gt_pcie_link_text(&gpu->pcie_now, link, sizeof(link));
    gt_buf_puts(to, "<g><title>");
    gt_buf_printf(to, "GPU %u ", gpu->index);
    svg_escape(to, gpu->product);
    gt_buf_printf(to, ", %s, %s, ", memory, gpu->bdf);
    svg_escape(to, gpu->uuid[0] ? gpu->uuid : "UUID not known");
    gt_buf_printf(to, ", PCIe %s, %s ", link[0] ? link : "not known", style->word);
    svg_escape(to, gpu->unhealthy_reason);
    gt_buf_puts(to, "</title>\n");

    svg_rect(to, box->x + 1, box->y + 3, box->width, box->height, 10, "#e3e8f0", NULL); /* its shadow */
    svg_rect(to, box->x, box->y, box->width, box->height, 10, style->screen, style->edge);
    if (box->width >= 100) {
        draw_dot(to, box->x + box->width - 16, box->y + 22, 5, style);
        draw_card_text(to, gpu, box);
    } else {
        int x = box->x + box->width / 2;
        draw_dot(to, x, box->y + 10, 3, style);
        svg_text(to,
                 (struct svg_text){x, box->y + 30, 15, NULL, "text-anchor=\"middle\" font-weight=\"700\""},
                 "%u", gpu->index);
        if (box->height >= 60)
            svg_text(to, (struct svg_text){x, box->y + 48, 9, SVG_MUTED, middle}, "%s",
                     gt_short_bdf(gpu->bdf));
    }
    gt_buf_puts(to, "</g>\n");
}

static void draw_nic(struct gt_buf *to, const struct svg_layout *l, unsigned i)
{
    const struct svg_box *box = &l->boxes[i];
    const struct gt_nic *nic = &l->node->nics[l->tree.items[i].number];
    char text[64];
    gt_buf_puts(to, "<g><title>");
    svg_escape(to, nic->name);
    gt_buf_printf(to, " %s</title>\n", nic->bdf);
    svg_rect(to, box->x, box->y, box->width, box->height, 7, SVG_NIC, SVG_NIC_EDGE);
    gt_shorten(nic->name, (unsigned)(box->width - 8) / 6, text, sizeof(text));
    svg_text(
        to, (struct svg_text){box->x + box->width / 2, box->y + box->height / 2 + 4, 10, SVG_NIC_INK, middle},
        "%s", text);
    gt_buf_puts(to, "</g>\n");
}

/* From the bar above; that of a lower NIC runs behind the ones on top of it. */
static void draw_wire(struct gt_buf *to, const struct svg_layout *l, unsigned i)
{
    const struct gt_tree_item *item = &l->tree.items[i];
    const struct svg_box *box = &l->boxes[i], *above = &l->boxes[item->parent];
    enum gt_tree_type type = l->tree.items[item->parent].type;
    if (type != GT_TREE_HOST && type != GT_TREE_SWITCH)
        return;
    int x = box->x + box->width / 2;
    svg_line(to, x, above->y + above->height, x, box->y);
}

void svg_draw_tree(struct gt_buf *to, const struct svg_layout *l)
{
    for (unsigned i = 1; i < l->tree.count; i++)
        if (l->tree.items[i].type == GT_TREE_NUMA)
            draw_panel(to, l, i);
    for (unsigned i = 1; i < l->tree.count; i++)
        draw_wire(to, l, i);
    for (unsigned i = 1; i < l->tree.count; i++) {
        enum gt_tree_type type = l->tree.items[i].type;
        if (type == GT_TREE_HOST || type == GT_TREE_SWITCH)
            svg_tree_draw_bar(to, l, i);
        else if (type == GT_TREE_GPU)
            draw_gpu(to, l, &l->node->gpus[l->tree.items[i].number]);
        else if (type == GT_TREE_NIC)
            draw_nic(to, l, i);
    }
}
