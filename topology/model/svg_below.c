/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "topology/model/render.h"
#include "topology/model/svg.h"

/* Heat map of the pair weights, legend, and notes. */

enum { NOTES_MAX = 18, NOTE_LINES = 3, NOTE_GAPS = 8 };

static const char bold[] = "font-weight=\"600\"";
static const char middle[] = "text-anchor=\"middle\"";
static const char end[] = "text-anchor=\"end\"";

static const char *const path_colors[] = {
    [GT_LINK_SELF] = "#f6f8fa", [GT_LINK_MX] = "#f6f8fa",      [GT_LINK_PIX] = "#b9c2d0",
    [GT_LINK_PXB] = "#c6cedb",  [GT_LINK_PHB] = "#d3dae4",     [GT_LINK_NODE] = "#e0e5ec",
    [GT_LINK_SYS] = "#ebeff4",  [GT_LINK_UNKNOWN] = "#f6f8fa",
};

static void draw_cell(struct gt_buf *to, const struct svg_layout *layout, const struct gt_link *link, int x,
                      int y, int cell)
{
    char color[8];
    bool up = svg_is_up(link), down = gt_link_is_down(link);
    if (up)
        svg_weight_color(link->weight, layout->links.low, layout->links.high, color);
    int inner = cell - 2;
    svg_rect(to, &(struct svg_box){x, y, inner, inner}, 4,
             up     ? color
             : down ? SVG_BAD_BACKGROUND
                    : path_colors[link->kind],
             down ? SVG_BAD : NULL);
    svg_text(to,
             (struct svg_text){x + inner / 2, y + inner / 2 + 4, link->weight < 1000 ? 11 : 8,
                               up     ? "#ffffff"
                               : down ? SVG_BAD
                                      : SVG_MUTED,
                               middle},
             "%u", link->weight);
}

/* Cells without numbers, as one path for each run of a colour: 64 GPUs have 4,032 of them. */
static void draw_small_row(struct gt_buf *to, const struct svg_layout *layout, unsigned row,
                           struct svg_box at)
{
    char last[8] = "", color[8];
    for (unsigned column = 0; column < layout->node->gpu_count; column++, at.x += at.width) {
        if (column == row)
            continue;
        const struct gt_link *link = gt_node_link(layout->node, row, column);
        if (svg_is_up(link))
            svg_weight_color(link->weight, layout->links.low, layout->links.high, color);
        else
            snprintf(color, sizeof(color), "%s", gt_link_is_down(link) ? SVG_BAD : path_colors[link->kind]);
        if (strcmp(color, last)) {
            gt_buf_printf(to, "%s<path fill=\"%s\" d=\"", last[0] ? "\"/>\n" : "", color);
            memcpy(last, color, sizeof(last));
        }
        int side = at.width - 1;
        gt_buf_printf(to, "M%d %dh%dv%dh-%dz", at.x, at.y, side, side, side);
    }
    gt_buf_puts(to, "\"/>\n");
}

static void draw_heat_map(struct gt_buf *to, const struct svg_layout *layout, int left, int top,
                          int *ret_width, int *ret_height)
{
    unsigned n = layout->node->gpu_count;
    int cell = n <= 8 ? 34 : n <= 16 ? 26 : n <= 32 ? 15 : 9;
    int x0 = left + 28, y0 = top + 40;
    svg_text(to, (struct svg_text){left, top + 4, 14, NULL, bold}, "Pair weight, GB/s");
    for (unsigned i = 0; i < n; i++) {
        if (cell < 26 && i % 4)
            continue;
        int at = (int)i * cell + cell / 2;
        svg_text(to, (struct svg_text){x0 + at - 1, y0 - 7, 11, SVG_MUTED, middle}, "%u", i);
        svg_text(to, (struct svg_text){x0 - 8, y0 + at + 3, 11, SVG_MUTED, end}, "%u", i);
    }
    for (unsigned row = 0; row < n; row++) {
        if (cell < 26) {
            draw_small_row(to, layout, row, (struct svg_box){x0, y0 + (int)row * cell, cell, cell});
            continue;
        }
        for (unsigned column = 0; column < n; column++)
            if (row != column)
                draw_cell(to, layout, gt_node_link(layout->node, row, column), x0 + (int)column * cell,
                          y0 + (int)row * cell, cell);
    }
    *ret_width = 28 + (int)n * cell;
    *ret_height = 40 + (int)n * cell;
}

struct svg_pen {
    struct gt_buf *to;
    int x, y;
};

static void legend_label(struct svg_pen *pen, const char *text)
{
    svg_text(pen->to, (struct svg_text){pen->x + 44, pen->y + 4, 12, NULL, NULL}, "%s", text);
    pen->y += 24;
}

static void legend_stroke(struct svg_pen *pen, const char *color, bool dashed, const char *text)
{
    gt_buf_printf(pen->to,
                  "<path d=\"M%d %dh30\" stroke=\"%s\" stroke-width=\"3\" stroke-linecap=\"round\"%s/>\n",
                  pen->x, pen->y, color, dashed ? " stroke-dasharray=\"6 6\"" : "");
    legend_label(pen, text);
}

static void legend_chip(struct svg_pen *pen, const char *fill, const char *edge, const char *text)
{
    svg_rect(pen->to, &(struct svg_box){pen->x, pen->y - 8, 30, 16}, 5, fill, edge);
    legend_label(pen, text);
}

static void legend_weights(struct svg_pen *pen, const struct svg_layout *layout)
{
    /* Up to four weights by name, else the two ends of the scale. */
    uint32_t weights[5];
    unsigned count = 0;
    for (unsigned i = 0; i < layout->node->link_count && count < GT_COUNT(weights); i++) {
        const struct gt_link *link = &layout->node->links[i];
        if (!svg_is_up(link))
            continue;
        unsigned at = 0;
        while (at < count && weights[at] > link->weight)
            at++;
        if (at < count && weights[at] == link->weight)
            continue;
        for (unsigned j = count++; j > at; j--)
            weights[j] = weights[j - 1];
        weights[at] = link->weight;
    }
    if (count == GT_COUNT(weights)) {
        weights[0] = layout->links.high;
        weights[1] = layout->links.low;
        count = 2;
    }
    for (unsigned i = 0; i < count; i++) {
        char color[8], text[64];
        svg_weight_color(weights[i], layout->links.low, layout->links.high, color);
        snprintf(text, sizeof(text), "direct link, %u GB/s", weights[i]);
        legend_stroke(pen, color, false, text);
    }
}

static void svg_below_draw_legend(struct svg_pen *pen, const struct svg_layout *layout)
{
    bool host = false, bridges = false, degraded = false;
    for (unsigned i = 1; i < layout->tree.count; i++) {
        host |= layout->tree.items[i].type == GT_TREE_HOST;
        bridges |= layout->tree.items[i].type == GT_TREE_SWITCH;
    }
    for (unsigned i = 0; i < layout->node->gpu_count; i++)
        degraded |= gt_pcie_degraded(&layout->node->gpus[i]);
    svg_text(pen->to, (struct svg_text){pen->x, pen->y + 4, 14, NULL, bold}, "Legend");
    pen->y += 28;
    legend_weights(pen, layout);
    if (layout->links.has_down)
        legend_stroke(pen, SVG_BAD, true, "direct link that is down");
    if (layout->links.has_gaps)
        legend_stroke(pen, SVG_MUTED, true, "no direct link");
    for (enum gt_gpu_health health = GT_GPU_HEALTH_UNKNOWN; health <= GT_GPU_UNHEALTHY; health++) {
        const struct svg_health *style = svg_health(health);
        char text[32];
        snprintf(text, sizeof(text), "GPU, %s", style->word);
        if (gt_node_with_health(layout->node, health))
            legend_chip(pen, style->screen, style->edge, text);
    }
    if (layout->node->nic_count)
        legend_chip(pen, SVG_NIC, SVG_NIC_EDGE, "NIC");
    if (bridges)
        legend_chip(pen, SVG_SWITCH, NULL, "PCIe switch");
    if (host)
        legend_chip(pen, SVG_HOST, NULL, "PCIe host bridge");
    if (degraded) {
        svg_text(pen->to, (struct svg_text){pen->x, pen->y + 4, 11, SVG_WARN, NULL}, "x8");
        legend_label(pen, "PCIe link below what the GPU can do");
    }
}

/* Ends the text at the last space within so many characters; returns what follows, NULL if there is no need
 * or no space. */
static char *break_line(char *text, unsigned characters)
{
    char *space = NULL;
    for (unsigned count = 0; *text; count++) {
        if (count >= characters) {
            if (!space)
                return NULL;
            *space = '\0';
            return space + 1;
        }
        if (*text == ' ')
            space = text;
        unsigned n = gt_text_utf8_length(text);
        text += n ? n : 1;
    }
    return NULL;
}

/* In a few lines; what does not fit is cut. */
static void add_note(struct svg_pen *pen, unsigned *count, int width, const char *color, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));
static void add_note(struct svg_pen *pen, unsigned *count, int width, const char *color, const char *format,
                     ...)
{
    if (++*count > NOTES_MAX)
        return;
    char text[512], shown[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    char *rest = text;
    for (unsigned line = 1, characters = (unsigned)(width / 7); rest; line++) {
        char *next = line < NOTE_LINES ? break_line(rest, characters) : NULL;
        gt_shorten(rest, characters, shown, sizeof(shown));
        svg_text(pen->to, (struct svg_text){pen->x, pen->y + 4, 12, color, NULL}, "%s", shown);
        pen->y += next ? 16 : 22;
        rest = next;
    }
}

/* The pairs of a bus that have no direct link, in one line. */
static void svg_note_gaps(struct svg_pen *pen, const struct svg_layout *layout, unsigned *notes, int width)
{
    gt_auto_buf struct gt_buf text = GT_BUF(NOTE_GAPS * 32);
    unsigned count = 0;
    for (unsigned i = 0; i < layout->node->link_count; i++) {
        const struct gt_link *link = &layout->node->links[i];
        if (!svg_is_on_bus(layout, link) || link->kind == GT_LINK_MX || count++ >= NOTE_GAPS)
            continue;
        gt_buf_printf(&text, "%s%u-%u %s", count > 1 ? ", " : "", link->a, link->b,
                      gt_link_kind_name(link->kind));
    }
    if (count > NOTE_GAPS)
        gt_buf_printf(&text, " and %u more", count - NOTE_GAPS);
    if (count)
        add_note(pen, notes, width, SVG_WARN, "Not linked: %s", text.data ? text.data : "");
}

static void svg_below_draw_notes(struct svg_pen *pen, const struct svg_layout *layout, int width)
{
    const struct gt_node *node = layout->node;
    unsigned count = 0;
    svg_text(pen->to, (struct svg_text){pen->x, pen->y + 4, 14, NULL, bold}, "Notes");
    pen->y += 28;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const struct gt_gpu *gpu = &node->gpus[i];
        if (!gt_gpu_usable(gpu))
            add_note(pen, &count, width, SVG_BAD, "GPU %u is unhealthy%s%s", i,
                     gpu->unhealthy_reason[0] ? ": " : "", gpu->unhealthy_reason);
    }
    for (unsigned i = 0; i < node->link_count; i++)
        if (gt_link_is_down(&node->links[i]))
            add_note(pen, &count, width, SVG_BAD, "The link of GPU %u and GPU %u is down, PCIe (%s) remains",
                     node->links[i].a, node->links[i].b, gt_link_kind_name(node->links[i].path_kind));
    svg_note_gaps(pen, layout, &count, width);
    for (unsigned i = 0; i < node->gpu_count; i++) {
        char now[48], max[48];
        gt_pcie_link_text(&node->gpus[i].pci.now, now, sizeof(now));
        gt_pcie_link_text(&node->gpus[i].pci.max, max, sizeof(max));
        if (gt_pcie_degraded(&node->gpus[i]))
            add_note(pen, &count, width, SVG_WARN, "GPU %u runs at PCIe %s of %s", i, now, max);
    }
    for (unsigned i = 0; i < node->missing_count; i++)
        add_note(pen, &count, width, SVG_MUTED, "Not known: %s (%s)", node->missing[i].what,
                 node->missing[i].why);
    if (node->server_uuid[0])
        add_note(pen, &count, width, NULL, "Server %s", node->server_uuid);
    if (node->remote_count)
        add_note(pen, &count, width, NULL, "Reaches %u server%s over direct links", node->remote_count,
                 node->remote_count == 1 ? "" : "s");
    if (count > NOTES_MAX) {
        svg_text(pen->to, (struct svg_text){pen->x, pen->y + 4, 12, SVG_MUTED, NULL}, "and %u more",
                 count - NOTES_MAX);
        pen->y += 22;
    }
    if (!count)
        add_note(pen, &count, width, SVG_MUTED, "None.");
}

int svg_draw_below(struct gt_buf *to, const struct svg_layout *layout)
{
    int x = SVG_MARGIN, width, height, bottom = layout->below_top;
    if (layout->node->gpu_count >= 2) {
        draw_heat_map(to, layout, x, layout->below_top, &width, &height);
        x += width + 48;
        bottom += height;
    }
    struct svg_pen pen = {to, x, layout->below_top};
    if (layout->tree.count > 1) {
        svg_below_draw_legend(&pen, layout);
        x += 300;
        bottom = pen.y > bottom ? pen.y : bottom;
    }
    /* The notes stand beside the legend where there is room for their lines, else below it. */
    if (layout->width - SVG_MARGIN - x >= 330)
        pen = (struct svg_pen){to, x, layout->below_top};
    else
        pen.y += 20;
    svg_below_draw_notes(&pen, layout, layout->width - SVG_MARGIN - pen.x);
    return pen.y > bottom ? pen.y : bottom;
}
