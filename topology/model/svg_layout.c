/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "topology/model/render.h"
#include "topology/model/svg.h"

static void draw_head(struct gt_buf *to, const struct svg_layout *layout)
{
    const struct gt_node *node = layout->node;
    char name[128], products[192];
    gt_shorten(node->name[0] ? node->name : "Node", 52, name, sizeof(name));
    svg_text(to, (struct svg_text){SVG_MARGIN, 48, 26, NULL, "font-weight=\"700\""}, "%s", name);
    gt_products_text(node, products, sizeof(products));
    svg_text(to, (struct svg_text){SVG_MARGIN, 74, 14, SVG_MUTED, NULL}, "%s%s%s%s%s",
             node->gpu_count ? products : "no GPUs", node->driver_version[0] ? ", driver " : "",
             node->driver_version, node->library_version[0] ? ", library " : "", node->library_version);
}

void gt_render_svg(const struct gt_node *node, struct gt_buf *to)
{
    struct svg_layout layout;
    if (!svg_layout_make(node, &layout)) {
        to->failed = true;
        return;
    }
    /* The height is known only when the notes are drawn. */
    gt_auto_buf struct gt_buf body = GT_BUF(to->max);
    draw_head(&body, &layout);
    if (layout.tree.count > 1) {
        svg_draw_tree(&body, &layout);
        if (layout.arcs_depth)
            svg_draw_arcs(&body, &layout);
    } else {
        svg_rect(&body, &(struct svg_box){SVG_MARGIN, layout.panels_top, layout.width - 2 * SVG_MARGIN, 120},
                 14, SVG_PANEL, SVG_PANEL_EDGE);
        svg_text(&body,
                 (struct svg_text){layout.width / 2, layout.panels_top + 66, 16, SVG_MUTED,
                                   "text-anchor=\"middle\""},
                 "There are no GPUs on this node");
    }
    layout.height = svg_draw_below(&body, &layout) + SVG_MARGIN;

    gt_buf_printf(
        to,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', "
        "sans-serif\">\n<title>",
        layout.width, layout.height, layout.width, layout.height);
    svg_escape(to, node->name[0] ? node->name : "Node");
    gt_buf_puts(to, "</title>\n");
    svg_rect(to, &(struct svg_box){0, 0, layout.width, layout.height}, 0, SVG_BACKGROUND, NULL);
    if (body.failed)
        to->failed = true;
    else
        gt_buf_add(to, body.data, body.len);
    gt_buf_puts(to, "</svg>\n");
    svg_layout_done(&layout);
}

/* NICs below one switch are in columns of three beside its GPUs. */
enum {
    NIC_STACK = 3,
    NIC_STEP_GAP = 8,
    PANEL_GAP = 20,
    CAPTION = 30,
    BAR_STEP_GAP = 16,
    HEAD = 96,
    GROUP_GAP = 14,
    ARCS_GPUS = 8, /* of a zone whose pairs are all drawn */
    GAPS_DRAWN = 16,
    BUS_DEPTH = 44,
    WIDE = 1800, /* wider panels stand below each other */
};

static void choose_sizes(struct svg_layout *layout)
{
    unsigned n = layout->node->gpu_count;
    layout->card.width = n <= 8 ? 136 : n <= 16 ? 100 : n <= 32 ? 58 : 42;
    layout->card.height = n <= 8 ? 116 : n <= 16 ? 100 : n <= 32 ? 60 : 44;
    layout->gap = n <= 8 ? 14 : n <= 16 ? 10 : 6;
    layout->nic.width = n <= 16 ? 84 : 56;
    layout->nic.height = layout->card.height >= 100 ? (layout->card.height - 2 * NIC_STEP_GAP) / NIC_STACK
                                                    : (layout->card.height - 6) / 2;
    layout->bar_height = 24;
}

/* Gives the children of an item their x from `x` on; returns the width of all. */
static int svg_layout_place(struct svg_layout *layout, unsigned parent, int x)
{
    int begin = x;
    unsigned nics = 0, stack = layout->card.height >= 100 ? NIC_STACK : 2;
    enum gt_tree_type before = GT_TREE_TOP;
    for (unsigned i = layout->tree.items[parent].first_child; i; i = layout->tree.items[i].next) {
        const struct gt_tree_item *item = &layout->tree.items[i];
        struct svg_box *box = &layout->boxes[i];
        bool new_column = item->type != GT_TREE_NIC || nics % stack == 0;
        if (before != GT_TREE_TOP && new_column)
            x += item->type >= GT_TREE_GPU ? layout->gap : GROUP_GAP;
        before = item->type;
        if (item->type == GT_TREE_GPU) {
            *box = (struct svg_box){.x = x, .width = layout->card.width, .height = layout->card.height};
            x += box->width;
        } else if (item->type == GT_TREE_NIC) {
            if (new_column)
                x += layout->nic.width;
            *box = (struct svg_box){
                .x = x - layout->nic.width, .width = layout->nic.width, .height = layout->nic.height};
            box->y = (int)(nics % stack) * (layout->nic.height + (stack == NIC_STACK ? NIC_STEP_GAP : 6));
            nics++;
        } else {
            int width = svg_layout_place(layout, i, x);
            *box = (struct svg_box){.x = x, .width = width, .height = layout->bar_height};
            x += width;
        }
    }
    return x - begin;
}

static int place_panels(struct svg_layout *layout)
{
    int x = SVG_MARGIN;
    for (unsigned i = layout->tree.items[0].first_child; i; i = layout->tree.items[i].next) {
        if (x > SVG_MARGIN)
            x += PANEL_GAP;
        int width = svg_layout_place(layout, i, x + SVG_PANEL_PADDING) + 2 * SVG_PANEL_PADDING;
        if (width < 190) { /* the caption needs room; what stands inside goes to the middle */
            svg_layout_place(layout, i, x + SVG_PANEL_PADDING + (190 - width) / 2);
            width = 190;
        }
        layout->boxes[i] = (struct svg_box){.x = x, .width = width};
        x += width;
    }
    return x - SVG_MARGIN;
}

static void set_rows(struct svg_layout *layout)
{
    int host_row = 0;
    for (unsigned i = 1; i < layout->tree.count; i++)
        if (layout->tree.items[i].type == GT_TREE_HOST)
            host_row = 1;
    int step = layout->bar_height + BAR_STEP_GAP;
    int first_bar = layout->panels_top + CAPTION + 6;
    int devices = first_bar + (host_row + (int)layout->tree.levels) * step;
    layout->panels_bottom = devices + layout->card.height + SVG_PANEL_PADDING;
    for (unsigned i = 1; i < layout->tree.count; i++) {
        const struct gt_tree_item *item = &layout->tree.items[i];
        struct svg_box *box = &layout->boxes[i];
        if (item->type == GT_TREE_NUMA) {
            box->y = layout->panels_top;
            box->height = layout->panels_bottom - layout->panels_top;
        } else if (item->type == GT_TREE_HOST)
            box->y = first_bar;
        else if (item->type == GT_TREE_SWITCH)
            box->y = first_bar + (host_row + (int)item->level) * step;
        else
            box->y += devices;
        if (item->type == GT_TREE_GPU)
            layout->gpus[item->number] = *box;
    }
}

/* A zone of many GPUs, of whose pairs at least three quarters are linked, some perhaps by a link that is
 * down. The heat map says what each pair has. */
static bool is_bus(const struct gt_node *node, const struct gt_zone_facts *facts)
{
    unsigned direct = facts->links;
    for (unsigned i = 0; i < node->link_count; i++)
        direct += gt_link_is_down(&node->links[i]) && facts->members >> node->links[i].a & 1 &&
                  facts->members >> node->links[i].b & 1;
    return facts->gpus > ARCS_GPUS && 4 * direct >= 3 * facts->gpus * (facts->gpus - 1) / 2;
}

/* Returns how many pairs the buses leave out. */
static unsigned find_buses(struct svg_layout *layout)
{
    struct gt_zone_facts facts;
    unsigned gaps = 0;
    for (unsigned zone = 1; zone <= GT_GPUS_MAX && gt_zone_facts(layout->node, zone, &facts); zone++)
        if (is_bus(layout->node, &facts)) {
            layout->on_bus |= facts.members;
            gaps += facts.gpus * (facts.gpus - 1) / 2 - facts.links;
        }
    return gaps;
}

static void measure_links(struct svg_layout *layout)
{
    const struct gt_node *node = layout->node;
    bool arcs = false;
    layout->links.low = UINT32_MAX;
    for (unsigned i = 0; i < node->link_count; i++) {
        const struct gt_link *link = &node->links[i];
        layout->links.has_down |= gt_link_is_down(link);
        arcs |= svg_is_arc(layout, link);
        layout->links.has_gaps |= svg_is_arc(layout, link) && link->kind != GT_LINK_MX;
        if (!svg_is_up(link))
            continue;
        layout->links.has_up = true;
        layout->links.low = link->weight < layout->links.low ? link->weight : layout->links.low;
        layout->links.high = link->weight > layout->links.high ? link->weight : layout->links.high;
    }
    if (arcs)
        layout->arcs_depth = node->gpu_count <= 2    ? 70
                             : node->gpu_count <= 4  ? 130
                             : node->gpu_count <= 16 ? 190
                                                     : 260;
    else if (layout->links.has_up)
        layout->arcs_depth = BUS_DEPTH;
}

static unsigned panel_of(const struct svg_layout *layout, unsigned item)
{
    while (layout->tree.items[item].parent)
        item = layout->tree.items[item].parent;
    return item;
}

/* Whether no arc goes from one panel to another. */
static bool may_wrap(const struct svg_layout *layout)
{
    unsigned panel[GT_GPUS_MAX] = {0};
    for (unsigned i = 1; i < layout->tree.count; i++)
        if (layout->tree.items[i].type == GT_TREE_GPU)
            panel[layout->tree.items[i].number] = panel_of(layout, i);
    for (unsigned i = 0; i < layout->node->link_count; i++) {
        const struct gt_link *link = &layout->node->links[i];
        if (svg_is_arc(layout, link) && panel[link->a] != panel[link->b])
            return false;
    }
    return true;
}

/* Each panel in a row of its own. Returns the width of the widest. */
static int wrap_panels(struct svg_layout *layout)
{
    int widest = 0, row = 0;
    layout->row_height = layout->zones_bottom - layout->panels_top + PANEL_GAP;
    for (unsigned panel = layout->tree.items[0].first_child; panel;
         panel = layout->tree.items[panel].next, row++) {
        int back = layout->boxes[panel].x - SVG_MARGIN;
        widest = layout->boxes[panel].width > widest ? layout->boxes[panel].width : widest;
        for (unsigned i = 1; i < layout->tree.count; i++)
            if (panel_of(layout, i) == panel) {
                layout->boxes[i].x -= back;
                layout->boxes[i].y += row * layout->row_height;
                if (layout->tree.items[i].type == GT_TREE_GPU)
                    layout->gpus[layout->tree.items[i].number] = layout->boxes[i];
            }
    }
    layout->below_top += (row - 1) * layout->row_height;
    return widest;
}

bool svg_layout_make(const struct gt_node *node, struct svg_layout *ret)
{
    struct svg_layout layout = {.node = node}, *l = &layout;
    if (!gt_tree_make(node, &l->tree))
        return false;
    l->boxes = calloc(l->tree.count, sizeof(*l->boxes));
    if (!l->boxes) {
        gt_tree_done(&l->tree);
        return false;
    }
    choose_sizes(l);
    l->panels_top = HEAD;
    int panels = place_panels(l);
    unsigned gaps = find_buses(l);
    bool wraps =
        panels > WIDE && may_wrap(l); /* no gap is worth a very wide picture: the notes tell them, too */
    l->bus_gaps = gaps <= GAPS_DRAWN;
    l->bus_gaps = l->bus_gaps && (!wraps || may_wrap(l));
    measure_links(l);
    if (l->tree.count > 1)
        set_rows(l);
    else
        l->panels_bottom = l->panels_top + 120;
    l->zones_bottom = l->panels_bottom + (l->arcs_depth ? l->arcs_depth + 34 : 0);
    l->below_top = l->zones_bottom + 40;
    l->cards_top = l->panels_bottom - SVG_PANEL_PADDING - l->card.height;
    if (wraps)
        panels = wrap_panels(l);
    l->width = (panels < 880 ? 880 : panels) + 2 * SVG_MARGIN;
    *ret = layout;
    return true;
}

void svg_layout_done(struct svg_layout *layout)
{
    free(layout->boxes);
    gt_tree_done(&layout->tree);
}
