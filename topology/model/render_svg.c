/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "topology/model/render.h"
#include "topology/model/render_internal.h"
#include "topology/model/svg.h"

static void draw_head(struct gt_buf *to, const struct svg_layout *l)
{
    const struct gt_node *node = l->node;
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
        svg_rect(&body, SVG_MARGIN, layout.panels_top, layout.width - 2 * SVG_MARGIN, 120, 14, SVG_PANEL,
                 SVG_PANEL_EDGE);
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
    svg_rect(to, 0, 0, layout.width, layout.height, 0, SVG_BACKGROUND, NULL);
    if (body.failed)
        to->failed = true;
    else
        gt_buf_add(to, body.data, body.len);
    gt_buf_puts(to, "</svg>\n");
    svg_layout_done(&layout);
}
