/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "topology/model/render_internal.h"
#include "topology/model/svg.h"

/* The direct links, as arcs below the cards. */

static int center(const struct svg_layout *l, unsigned gpu)
{
    return l->gpus[gpu].x + l->gpus[gpu].width / 2;
}

static bool direct(const struct gt_link *link)
{
    return link && link->kind == GT_LINK_MX;
}

/*
 * Where the arc from `gpu` to `other` leaves the card. From left to right: arcs to the left, the nearest
 * first, then those to the right, the farthest first; so arcs of one card lie inside each other and do not
 * cross.
 */
static int port(const struct svg_layout *l, unsigned gpu, unsigned other)
{
    unsigned count = 0, before = 0;
    int here = center(l, gpu), there = center(l, other);
    for (unsigned i = 0; i < l->node->gpu_count; i++) {
        if (i == gpu || !direct(gt_node_link(l->node, gpu, i)))
            continue;
        count++;
        int x = center(l, i);
        bool left = x < here, other_left = there < here;
        if (i != other && (left != other_left ? left : x > there))
            before++;
    }
    int span = l->card_width * 3 / 4;
    return here - span / 2 + (int)(span * (2 * before + 1) / (2 * (count ? count : 1)));
}

static void draw_arc(struct gt_buf *to, const struct svg_layout *l, const struct gt_link *link, int longest)
{
    unsigned left = center(l, link->a) < center(l, link->b) ? link->a : link->b;
    unsigned right = left == link->a ? link->b : link->a;
    int x1 = port(l, left, right), x2 = port(l, right, left);
    int y = l->gpus[left].y + l->gpus[left].height;
    int padding = l->panels_bottom - y;
    int depth =
        padding + l->arcs_depth / 5 +
        (l->arcs_depth - l->arcs_depth / 5) * (center(l, right) - center(l, left)) / (longest ? longest : 1);
    int pull = depth * 4 / 3; /* a cubic comes three quarters of the way to its control points */
    char color[8];
    unsigned n = l->node->gpu_count;
    if (gt_link_is_down(link)) {
        gt_buf_printf(to,
                      "<path d=\"M%d %dC%d %d %d %d %d %d\" stroke=\"" SVG_BAD
                      "\" stroke-width=\"2\" stroke-dasharray=\"6 5\"><title>GPU %u - GPU %u: link down, %s "
                      "remains</title></path>\n",
                      x1, y, x1, y + pull, x2, y + pull, x2, y, link->a, link->b,
                      gt_link_kind_name(link->path_kind));
        return;
    }
    svg_weight_color(link->weight, l->low, l->high, color);
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

static void extent(const struct svg_layout *l, uint64_t members, int *ret_left, int *ret_right)
{
    int left = l->width, right = 0;
    for (unsigned i = 0; i < l->node->gpu_count; i++)
        if (members >> i & 1) {
            left = l->gpus[i].x < left ? l->gpus[i].x : left;
            right = l->gpus[i].x + l->card_width > right ? l->gpus[i].x + l->card_width : right;
        }
    *ret_left = left;
    *ret_right = right;
}

/* A zone gets a panel of its own where none of another zone's GPUs stands between its GPUs. */
static void draw_zone(struct gt_buf *to, const struct svg_layout *l, unsigned zone,
                      const struct gt_zone_facts *facts)
{
    int left, right;
    extent(l, facts->members, &left, &right);
    for (unsigned i = 0; i < l->node->gpu_count; i++)
        if (l->node->gpus[i].zone && l->node->gpus[i].zone != zone && l->gpus[i].x > left &&
            l->gpus[i].x < right)
            return;
    char text[96];
    gt_zone_text(facts, text, sizeof(text));
    svg_rect(to, left, l->panels_bottom + 8, right - left, l->zones_bottom - l->panels_bottom - 8, 14,
             SVG_ZONE, SVG_ZONE_EDGE);
    struct svg_text style = {(left + right) / 2, l->zones_bottom - 10, 12, "#1e40af",
                             "text-anchor=\"middle\""};
    if (right - left > 280)
        svg_text(to, style, "Zone %u: %u GPUs, %s", zone, facts->gpus, text);
    else
        svg_text(to, style, "Zone %u: %u GPUs", zone, facts->gpus);
}

void svg_draw_arcs(struct gt_buf *to, const struct svg_layout *l)
{
    int longest = 1;
    for (unsigned i = 0; i < l->node->link_count; i++) {
        const struct gt_link *link = &l->node->links[i];
        int span = center(l, link->a) - center(l, link->b);
        if (direct(link) && (span < 0 ? -span : span) > longest)
            longest = span < 0 ? -span : span;
    }
    for (unsigned zone = 1; zone <= GT_GPUS_MAX; zone++) {
        struct gt_zone_facts facts;
        if (!gt_zone_facts(l->node, zone, &facts))
            break;
        draw_zone(to, l, zone, &facts);
    }
    gt_buf_puts(to, "<g fill=\"none\" stroke-linecap=\"round\">\n");
    for (unsigned down = 0; down <= 1; down++) /* dead ones on top */
        for (unsigned i = 0; i < l->node->link_count; i++) {
            const struct gt_link *link = &l->node->links[i];
            if (direct(link) && gt_link_is_down(link) == down)
                draw_arc(to, l, link, longest);
        }
    gt_buf_puts(to, "</g>\n");
}
