/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "topology/model/node.h"
#include "topology/model/pcie_tree.h"

/* What the files that draw the picture of a node share. Lengths are in pixels of the picture. */

/* The palette. */
#define SVG_BACKGROUND     "#ffffff"
#define SVG_PANEL          "#f4f6fa"
#define SVG_PANEL_EDGE     "#dfe5ee"
#define SVG_INK            "#1f2937"
#define SVG_MUTED          "#64748b"
#define SVG_WIRE           "#b3bfd0"
#define SVG_HOST           "#d3dbe8"
#define SVG_SWITCH         "#e2e5fb"
#define SVG_SWITCH_INK     "#4338ca"
#define SVG_NIC            "#fdf0cf"
#define SVG_NIC_EDGE       "#e9c46a"
#define SVG_NIC_INK        "#7c5a10"
#define SVG_GOOD           "#16a34a"
#define SVG_BAD            "#dc2626"
#define SVG_BAD_BACKGROUND "#fef1f1"
#define SVG_WARN           "#b45309"
#define SVG_ZONE           "#f0f6ff"
#define SVG_ZONE_EDGE      "#d5e4fb"

/* How a GPU of this health is drawn and named. */
struct svg_health {
    const char *word;
    const char *dot; /* the fill of its dot, whose edge is dot_edge */
    const char *dot_edge;
    const char *screen, *edge; /* of its card */
};
const struct svg_health *svg_health(enum gt_gpu_health health);

struct svg_text {
    int x, y, size;
    const char *color; /* NULL: SVG_INK */
    const char *more;  /* further attributes, may be NULL */
};

struct svg_box {
    int x, y, width, height;
};

void svg_escape(struct gt_buf *to, const char *text);
void svg_text(struct gt_buf *to, struct svg_text style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void svg_rect(struct gt_buf *to, const struct svg_box *box, int radius, const char *fill, const char *edge);
void svg_line(struct gt_buf *to, int x1, int y1, int x2, int y2);
/* "#rrggbb" of a weight within the range of the direct links' weights. */
void svg_weight_color(uint32_t weight, uint32_t low, uint32_t high, char to[static 8]);

enum { SVG_MARGIN = 32, SVG_PANEL_PADDING = 16 };

/* The positions of all parts of the picture. */
struct svg_layout {
    const struct gt_node *node;
    struct gt_tree tree;
    struct svg_box *boxes;            /* by item of the tree */
    struct svg_box gpus[GT_GPUS_MAX]; /* by index */
    struct svg_size {
        int width, height;
    } card, nic;
    int gap;
    int bar_height;
    int panels_top, panels_bottom;
    int arcs_depth; /* of what joins GPUs below the cards; 0: no direct links */
    int zones_bottom;
    int cards_top;   /* like panels_top to zones_bottom, of the first row of panels */
    int row_height;  /* from one row of panels to the next; 0: there is one row */
    uint64_t on_bus; /* GPUs of zones that are drawn as one bus: too many arcs say nothing */
    bool bus_gaps;   /* pairs on a bus that have no link that works are drawn: they are few */
    int below_top;   /* y at which heat map, legend and notes begin */
    int width, height;
    struct {
        uint32_t low, high;              /* weights of those that are up */
        bool has_up, has_down, has_gaps; /* gaps: drawn, pairs of a bus without a link */
    } links;                             /* direct ones */
};

bool svg_layout_make(const struct gt_node *node, struct svg_layout *ret);
void svg_layout_done(struct svg_layout *layout);

void svg_draw_tree(struct gt_buf *to, const struct svg_layout *layout);
void svg_draw_arcs(struct gt_buf *to, const struct svg_layout *layout);

/* Heat map, legend and notes; returns the y below them. */
int svg_draw_below(struct gt_buf *to, const struct svg_layout *layout);

static inline bool svg_is_up(const struct gt_link *link)
{
    return link->kind == GT_LINK_MX && link->state != GT_LINK_STATE_DOWN;
}

static inline bool svg_is_on_bus(const struct svg_layout *layout, const struct gt_link *link)
{
    return layout->on_bus >> link->a & 1 &&
           layout->node->gpus[link->a].zone == layout->node->gpus[link->b].zone;
}

/* Whether the pair has an arc: each direct link has one, but on a bus only the pairs that it leaves out. */
static inline bool svg_is_arc(const struct svg_layout *layout, const struct gt_link *link)
{
    return svg_is_on_bus(layout, link) ? layout->bus_gaps && !svg_is_up(link) : link->kind == GT_LINK_MX;
}
