/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "topology/model/render.h"
#include "topology/model/svg.h"

/* The direct links, as arcs below the cards. */

static int center(const struct svg_layout *layout, unsigned gpu)
{
    return layout->gpus[gpu].x + layout->gpus[gpu].width / 2;
}

/* How far the row of panels with this GPU is below the first one. */
static int row_shift(const struct svg_layout *layout, unsigned gpu)
{
    return layout->gpus[gpu].y - layout->cards_top;
}

/*
 * Where the arc from `gpu` to `other` leaves the card. From left to right: arcs to the left, the nearest
 * first, then those to the right, the farthest first; so arcs of one card lie inside each other and do not
 * cross.
 */
static int port(const struct svg_layout *layout, unsigned gpu, unsigned other)
{
    unsigned count = 0, before = 0;
    int here = center(layout, gpu), there = center(layout, other);
    for (unsigned i = 0; i < layout->node->gpu_count; i++) {
        if (i == gpu || !svg_is_arc(layout, gt_node_link(layout->node, gpu, i)))
            continue;
        count++;
        int x = center(layout, i);
        bool left = x < here, other_left = there < here;
        if (i != other && (left != other_left ? left : x > there))
            before++;
    }
    int span = layout->card.width * 3 / 4;
    return here - span / 2 + (int)(span * (2 * before + 1) / (2 * (count ? count : 1)));
}

static void draw_arc(struct gt_buf *to, const struct svg_layout *layout, const struct gt_link *link,
                     int longest)
{
    unsigned left = center(layout, link->a) < center(layout, link->b) ? link->a : link->b;
    unsigned right = left == link->a ? link->b : link->a;
    int x1 = port(layout, left, right), x2 = port(layout, right, left);
    int y = layout->gpus[left].y + layout->gpus[left].height;
    int padding = layout->panels_bottom + row_shift(layout, left) - y;
    int depth = padding + layout->arcs_depth / 5 +
                (layout->arcs_depth - layout->arcs_depth / 5) *
                    (center(layout, right) - center(layout, left)) / (longest ? longest : 1);
    int pull = depth * 4 / 3; /* a cubic comes three quarters of the way to its control points */
    char color[8];
    unsigned n = layout->node->gpu_count;
    if (!svg_is_up(link)) {
        bool down = gt_link_is_down(link);
        gt_buf_printf(to,
                      "<path d=\"M%d %dC%d %d %d %d %d %d\" stroke=\"%s\" stroke-width=\"2\" "
                      "stroke-dasharray=\"%s\"><title>GPU %u - GPU %u: %s, %s%s</title></path>\n",
                      x1, y, x1, y + pull, x2, y + pull, x2, y, down ? SVG_BAD : SVG_MUTED,
                      down ? "6 5" : "2 4", link->a, link->b, down ? "link down" : "not linked",
                      gt_link_kind_name(down ? link->path_kind : link->kind), down ? " remains" : "");
        return;
    }
    svg_weight_color(link->weight, layout->links.low, layout->links.high, color);
    gt_buf_printf(to,
                  "<path d=\"M%d %dC%d %d %d %d %d %d\" stroke=\"%s\" stroke-width=\"%s\" "
                  "stroke-opacity=\"%s\"><title>GPU %u - GPU %u: %u GB/s</title></path>\n",
                  x1, y, x1, y + pull, x2, y + pull, x2, y, color,
                  n <= 8    ? "2.5"
                  : n <= 16 ? "1.6"
                            : "1",
                  n <= 8    ? "0.9"
                  : n <= 16 ? "0.75"
                            : "0.4",
                  link->a, link->b, link->weight);
}

/* The first and the last x of the members in the row of panels that is `shift` below the first one. False:
 * there are none. */
static bool extent(const struct svg_layout *layout, uint64_t members, int shift, int *ret_left,
                   int *ret_right)
{
    int left = layout->width, right = 0;
    for (unsigned i = 0; i < layout->node->gpu_count; i++)
        if (members >> i & 1 && row_shift(layout, i) == shift) {
            left = layout->gpus[i].x < left ? layout->gpus[i].x : left;
            right = layout->gpus[i].x + layout->card.width > right ? layout->gpus[i].x + layout->card.width
                                                                   : right;
        }
    *ret_left = left;
    *ret_right = right;
    return right > 0;
}

/* A zone gets a panel of its own where none of another zone's GPUs stands between its GPUs. */
static void draw_zone(struct gt_buf *to, const struct svg_layout *layout, unsigned zone,
                      const struct gt_zone_facts *facts, int shift)
{
    int left, right;
    if (!extent(layout, facts->members, shift, &left, &right))
        return;
    for (unsigned i = 0; i < layout->node->gpu_count; i++)
        if (layout->node->gpus[i].zone && layout->node->gpus[i].zone != zone &&
            row_shift(layout, i) == shift && layout->gpus[i].x > left && layout->gpus[i].x < right)
            return;
    char text[96];
    gt_zone_text(facts, text, sizeof(text));
    svg_rect(to,
             &(struct svg_box){left, layout->panels_bottom + shift + 8, right - left,
                               layout->zones_bottom - layout->panels_bottom - 8},
             14, SVG_ZONE, SVG_ZONE_EDGE);
    struct svg_text style = {(left + right) / 2, layout->zones_bottom + shift - 10, 12, "#1e40af",
                             "text-anchor=\"middle\""};
    if (right - left > 280)
        svg_text(to, style, "Zone %u: %u GPUs, %s", zone, facts->gpus, text);
    else
        svg_text(to, style, "Zone %u: %u GPUs", zone, facts->gpus);
}

enum { BUS_DROP = 26, BUS_HEIGHT = 10, SPINE_X = SVG_MARGIN / 2 };

/* One bar below the cards that each member is joined to; bars of several rows are joined on the left. */
static void draw_bus(struct gt_buf *to, const struct svg_layout *layout, const struct gt_zone_facts *facts)
{
    char color[8], text[96];
    int left, right, rows = 0, first = 0, last = 0;
    svg_weight_color(facts->weakest, layout->links.low, layout->links.high, color);
    gt_zone_text(facts, text, sizeof(text));
    gt_buf_printf(to, "<g><title>%u GPUs, %s</title>\n<path d=\"", facts->gpus, text);
    for (unsigned i = 0; i < layout->node->gpu_count; i++)
        if (facts->members >> i & 1)
            gt_buf_printf(to, "M%d %dV%d", center(layout, i), layout->gpus[i].y + layout->card.height,
                          layout->panels_bottom + row_shift(layout, i) + BUS_DROP);
    for (int shift = 0; shift < layout->below_top;
         shift += layout->row_height ? layout->row_height : layout->below_top)
        if (extent(layout, facts->members, shift, &left, &right)) {
            last = layout->panels_bottom + shift + BUS_DROP + BUS_HEIGHT / 2;
            first = rows++ ? first : last;
        }
    if (rows > 1)
        gt_buf_printf(to, "M%d %dV%d", SPINE_X, first, last);
    gt_buf_printf(to, "\" stroke=\"%s\" stroke-width=\"%d\" fill=\"none\"/>\n", color,
                  layout->node->gpu_count <= 16 ? 4 : 3);
    for (int shift = 0; shift < layout->below_top;
         shift += layout->row_height ? layout->row_height : layout->below_top)
        if (extent(layout, facts->members, shift, &left, &right)) {
            left = rows > 1 ? SPINE_X - 2 : left;
            svg_rect(
                to,
                &(struct svg_box){left, layout->panels_bottom + shift + BUS_DROP, right - left, BUS_HEIGHT},
                5, color, NULL);
        }
    gt_buf_puts(to, "</g>\n");
}

static void draw_zones(struct gt_buf *to, const struct svg_layout *layout)
{
    struct gt_zone_facts facts;
    for (unsigned zone = 1; zone <= GT_GPUS_MAX && gt_zone_facts(layout->node, zone, &facts); zone++) {
        for (int shift = 0; shift < layout->below_top;
             shift += layout->row_height ? layout->row_height : layout->below_top)
            draw_zone(to, layout, zone, &facts, shift);
        if (layout->on_bus & facts.members)
            draw_bus(to, layout, &facts);
    }
}

void svg_draw_arcs(struct gt_buf *to, const struct svg_layout *layout)
{
    int longest = 1;
    for (unsigned i = 0; i < layout->node->link_count; i++) {
        const struct gt_link *link = &layout->node->links[i];
        int span = center(layout, link->a) - center(layout, link->b);
        if (svg_is_arc(layout, link) && (span < 0 ? -span : span) > longest)
            longest = span < 0 ? -span : span;
    }
    draw_zones(to, layout);
    gt_buf_puts(to, "<g fill=\"none\" stroke-linecap=\"round\">\n");
    for (unsigned down = 0; down <= 1; down++) /* dead ones on top */
        for (unsigned i = 0; i < layout->node->link_count; i++) {
            const struct gt_link *link = &layout->node->links[i];
            if (svg_is_arc(layout, link) && gt_link_is_down(link) == down)
                draw_arc(to, layout, link, longest);
        }
    gt_buf_puts(to, "</g>\n");
}

/* Panels, bridges, cards and chips. */

static const char mono[] = "font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\"";
static const char middle[] = "text-anchor=\"middle\"";

static void draw_panel(struct gt_buf *to, const struct svg_layout *layout, unsigned i)
{
    const struct svg_box *box = &layout->boxes[i];
    int numa = layout->tree.items[i].number;
    const char *cpus = "";
    for (unsigned g = 0; g < layout->node->gpu_count && !cpus[0]; g++)
        if (layout->node->gpus[g].numa_node == numa)
            cpus = layout->node->gpus[g].cpu_set;
    svg_rect(to, box, 14, SVG_PANEL, SVG_PANEL_EDGE);
    struct svg_text style = {box->x + SVG_PANEL_PADDING, box->y + 23, 13, NULL, "font-weight=\"600\""};
    if (numa >= 0)
        svg_text(to, style, "NUMA node %d", numa);
    else
        svg_text(to, style, "NUMA node not known");
    int capacity = (box->width - 120 - 2 * SVG_PANEL_PADDING) / 7 - 5;
    if (cpus[0] && capacity >= 4) {
        char list[256];
        gt_shorten(cpus, (unsigned)capacity, list, sizeof(list));
        style = (struct svg_text){box->x + box->width - SVG_PANEL_PADDING, box->y + 23, 11, SVG_MUTED,
                                  "text-anchor=\"end\""};
        svg_text(to, style, "CPUs %s", list);
    }
}

static void svg_tree_draw_bar(struct gt_buf *to, const struct svg_layout *layout, unsigned i)
{
    const struct svg_box *box = &layout->boxes[i];
    const struct gt_tree_item *item = &layout->tree.items[i];
    bool host = item->type == GT_TREE_HOST;
    svg_rect(to, box, 7, host ? SVG_HOST : SVG_SWITCH, NULL);
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
    int x = box->x + 12, y = box->y + 47, capacity = (box->width - 20) / 7;
    svg_text(to, (struct svg_text){x, box->y + 28, wide ? 17 : 15, NULL, "font-weight=\"700\""}, "GPU %u",
             gpu->index);
    bool memory = wide && gpu->memory_bytes;
    if (gpu->product[0]) {
        gt_shorten(gpu->product, (unsigned)(memory ? capacity - 8 : capacity), text, sizeof(text));
        svg_text(to, (struct svg_text){x, y, 12, NULL, NULL}, "%s", text);
    }
    if (memory) {
        gt_memory_text(gpu->memory_bytes, text, sizeof(text));
        svg_text(to, (struct svg_text){box->x + box->width - 12, y, 12, SVG_MUTED, "text-anchor=\"end\""},
                 "%s", text);
    }
    if (gpu->product[0] || memory)
        y += 18;
    gt_shorten(gt_short_bdf(gpu->bdf), (unsigned)capacity, text, sizeof(text));
    svg_text(to, (struct svg_text){x, y, 11, SVG_MUTED, mono}, "%s", text);
    y += 16;
    if (wide && gpu->uuid[0]) {
        gt_shorten(gpu->uuid, 15, text, sizeof(text));
        svg_text(to, (struct svg_text){x, y, 11, SVG_MUTED, mono}, "%s", text);
        y += 18;
    }
    gt_pcie_link_text(&gpu->pci.now, link, sizeof(link));
    gt_shorten(link, (unsigned)capacity + 2, text, sizeof(text));
    if (gpu->mode != GT_GPU_NATIVE)
        svg_text(to, (struct svg_text){x, y, 11, SVG_WARN, "font-weight=\"600\""}, "mode %s",
                 gt_gpu_mode_name(gpu->mode));
    else if (link[0])
        svg_text(to, (struct svg_text){x, y, 11, gt_pcie_degraded(gpu) ? SVG_WARN : SVG_MUTED, NULL}, "%s",
                 text);
}

static void draw_dot(struct gt_buf *to, int x, int y, int radius, const struct svg_health *health)
{
    gt_buf_printf(to, "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"%s\" stroke=\"%s\"/>\n", x, y, radius,
                  health->dot, health->dot_edge);
}

static void draw_gpu(struct gt_buf *to, const struct svg_layout *layout, const struct gt_gpu *gpu)
{
    const struct svg_box *box = &layout->gpus[gpu->index];
    const struct svg_health *style = svg_health(gpu->health);
    char memory[32], link[48];
    gt_memory_text(gpu->memory_bytes, memory, sizeof(memory));
    gt_pcie_link_text(&gpu->pci.now, link, sizeof(link));
    gt_buf_puts(to, "<g><title>");
    gt_buf_printf(to, "GPU %u ", gpu->index);
    svg_escape(to, gpu->product);
    gt_buf_printf(to, ", %s, %s, ", memory, gpu->bdf);
    svg_escape(to, gpu->uuid[0] ? gpu->uuid : "UUID not known");
    gt_buf_printf(to, ", PCIe %s, %s ", link[0] ? link : "not known", style->word);
    svg_escape(to, gpu->unhealthy_reason);
    gt_buf_puts(to, "</title>\n");

    svg_rect(to, &(struct svg_box){box->x + 1, box->y + 3, box->width, box->height}, 10, "#e3e8f0",
             NULL); /* its shadow */
    svg_rect(to, box, 10, style->screen, style->edge);
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

static void draw_nic(struct gt_buf *to, const struct svg_layout *layout, unsigned i)
{
    const struct svg_box *box = &layout->boxes[i];
    const struct gt_nic *nic = &layout->node->nics[layout->tree.items[i].number];
    char text[64];
    gt_buf_puts(to, "<g><title>");
    svg_escape(to, nic->name);
    gt_buf_printf(to, " %s</title>\n", nic->bdf);
    svg_rect(to, box, 7, SVG_NIC, SVG_NIC_EDGE);
    gt_shorten(nic->name, (unsigned)(box->width - 8) / 6, text, sizeof(text));
    svg_text(
        to, (struct svg_text){box->x + box->width / 2, box->y + box->height / 2 + 4, 10, SVG_NIC_INK, middle},
        "%s", text);
    gt_buf_puts(to, "</g>\n");
}

/* From the bar above; that of a lower NIC runs behind the ones on top of it. */
static void draw_wire(struct gt_buf *to, const struct svg_layout *layout, unsigned i)
{
    const struct gt_tree_item *item = &layout->tree.items[i];
    const struct svg_box *box = &layout->boxes[i], *above = &layout->boxes[item->parent];
    enum gt_tree_type type = layout->tree.items[item->parent].type;
    if (type != GT_TREE_HOST && type != GT_TREE_SWITCH)
        return;
    int x = box->x + box->width / 2;
    svg_line(to, x, above->y + above->height, x, box->y);
}

void svg_draw_tree(struct gt_buf *to, const struct svg_layout *layout)
{
    for (unsigned i = 1; i < layout->tree.count; i++)
        if (layout->tree.items[i].type == GT_TREE_NUMA)
            draw_panel(to, layout, i);
    for (unsigned i = 1; i < layout->tree.count; i++)
        draw_wire(to, layout, i);
    for (unsigned i = 1; i < layout->tree.count; i++) {
        enum gt_tree_type type = layout->tree.items[i].type;
        if (type == GT_TREE_HOST || type == GT_TREE_SWITCH)
            svg_tree_draw_bar(to, layout, i);
        else if (type == GT_TREE_GPU)
            draw_gpu(to, layout, &layout->node->gpus[layout->tree.items[i].number]);
        else if (type == GT_TREE_NIC)
            draw_nic(to, layout, i);
    }
}
