/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/picture/cluster_svg.h"
#include "topology/model/render_internal.h"

/* Draws the layout of cluster_svg_layout.c. */

enum { TITLE_MAX = 1000 };

static const char bold[] = "font-weight=\"600\"";

const char *pic_job_color(uint32_t job)
{
    return job < GT_PICTURE_COLORS ? gt_picture_job_colors[job] : gt_picture_styles[GT_PICTURE_USED].screen;
}

void pic_patterns(struct gt_buf *to)
{
    gt_buf_puts(to, "<defs><pattern id=\"unknown\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
                    "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#f1f5f9\"/>"
                    "<rect width=\"2\" height=\"5\" fill=\"#cbd5e1\"/></pattern></defs>\n");
}

/* ---- GPUs ---- */

void pic_cell(struct gt_buf *to, int x, int y, int size, enum gt_picture_state state, const char *fill,
              const char *title)
{
    const struct gt_picture_style *style = &gt_picture_styles[state];
    bool unhealthy = state == GT_PICTURE_UNHEALTHY || state == GT_PICTURE_UNHEALTHY_AND_USED;
    gt_buf_printf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"", x, y, size,
                  size, size > 12 ? 4 : 1, fill ? fill : style->screen);
    if (style->edge)
        gt_buf_printf(to, " stroke=\"%s\"%s", style->edge,
                      unhealthy && size > 12 ? " stroke-width=\"1.8\"" : "");
    if (title && *title) {
        gt_buf_puts(to, "><title>");
        svg_escape(to, title);
        gt_buf_puts(to, "</title></rect>");
    } else {
        gt_buf_puts(to, "/>");
    }
    if (unhealthy)
        gt_buf_printf(to, "<path d=\"M%d %dl%d %dm0 -%dl-%d %d\" stroke=\"%s\" stroke-width=\"%s\"/>",
                      x + size / 4, y + size / 4, size - size / 2, size - size / 2, size - size / 2,
                      size - size / 2, size - size / 2,
                      state == GT_PICTURE_UNHEALTHY ? SVG_BAD : SVG_BACKGROUND, size > 12 ? "2" : "1.2");
    gt_buf_puts(to, "\n");
}

static void draw_gpus(struct gt_buf *to, const struct pic *pic, const struct gt_picture_node *node, int x,
                      int y)
{
    const struct pic_scale *s = &pic->scale;
    int step = s->cell + s->cell_gap;
    for (unsigned gpu = 0; gpu < node->gpus; gpu++) {
        const struct gt_picture_pod *pod;
        enum gt_picture_state state = gt_picture_gpu(node, gpu, &pod);
        char title[600] = "";
        if (s->titles && pod)
            snprintf(title, sizeof(title), "GPU %u: %s%s/%s%s", gpu,
                     state == GT_PICTURE_UNHEALTHY_AND_USED ? "unhealthy, " : "", pod->namespace_, pod->name,
                     node->unknown >> gpu & 1 ? ", health unknown" : "");
        else if (s->titles)
            snprintf(title, sizeof(title), "GPU %u: %s", gpu, gt_picture_styles[state].meaning);
        pic_cell(to, x + (int)gpu % s->per_row * step, y + (int)gpu / s->per_row * step, s->cell, state,
                 pod ? pic_job_color(pod->job_number) : NULL, title);
    }
}

void pic_mark(struct gt_buf *to, int x, int y)
{
    gt_buf_printf(to, "<circle cx=\"%d\" cy=\"%d\" r=\"7\" fill=\"" SVG_WARN "\"/>", x, y);
    svg_text(to,
             (struct svg_text){x, y + 4, 11, SVG_BACKGROUND, "text-anchor=\"middle\" font-weight=\"700\""},
             "!");
}

static void cluster_svg_draw_node(struct gt_buf *to, const struct pic *pic,
                                  const struct gt_picture_node *node, int x, int y)
{
    const struct pic_scale *s = &pic->scale;
    gt_buf_puts(to, "<g><title>");
    char title[TITLE_MAX];
    snprintf(title, sizeof(title), "%s: %u GPUs, %u free%s%s", node->name, node->gpus,
             gt_bit_count(node->free), node->note[0] ? "; " : "", node->note);
    svg_escape(to, title);
    gt_buf_puts(to, "</title>\n");
    int middle = y + s->cell / 2;
    if (s->name) {
        char name[256];
        gt_picture_label(pic->picture, node, s->name_characters, name, sizeof(name));
        svg_text(to, (struct svg_text){x, middle + 4, 12, node->known ? SVG_INK : SVG_MUTED, NULL}, "%s",
                 name);
    }
    if (node->known && node->gpus)
        draw_gpus(to, pic, node, x + s->name, y);
    else if (s->name)
        svg_text(to, (struct svg_text){x + s->name, middle + 4, 12, SVG_MUTED, "font-style=\"italic\""}, "%s",
                 node->known ? "no GPUs" : node->note);
    else
        svg_rect(to, x, y, s->strip, s->rows_height, 1, SVG_PANEL_EDGE, NULL);
    if (node->note[0] && node->known) {
        if (s->name)
            pic_mark(to, x + s->name + s->strip + 13, middle);
        else
            svg_rect(to, x + s->strip + 3, y + 1, 3, s->rows_height - 2, 1, SVG_WARN, NULL);
    }
    gt_buf_puts(to, "</g>\n");
}

/* ---- frames ---- */

/* The shares of free, used and unhealthy GPUs as one bar. */
static void cluster_svg_draw_bar(struct gt_buf *to, const struct gt_picture_counts *counts, int x, int y,
                                 int width, int height)
{
    if (!counts->gpus)
        return;
    int used = (int)((int64_t)width * counts->used / counts->gpus);
    int unhealthy = (int)((int64_t)width * counts->unhealthy / counts->gpus);
    int free = (int)((int64_t)width * counts->free / counts->gpus);
    unhealthy = counts->unhealthy && !unhealthy ? 1 : unhealthy;
    gt_buf_printf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"url(#unknown)\"/>\n", x, y,
                  width, height);
    if (used)
        svg_rect(to, x, y, used, height, 0, "#64748b", NULL);
    if (unhealthy)
        svg_rect(to, x + used, y, unhealthy, height, 0, SVG_BAD, NULL);
    if (counts->used + counts->unhealthy + counts->free == counts->gpus)
        free = width - used - unhealthy;
    int unknown = counts->free ? (int)((int64_t)free * counts->free_unknown / counts->free) : 0;
    if (free > unknown)
        svg_rect(to, x + used + unhealthy, y, free - unknown, height, 0, "#a7dbb8", NULL);
    if (unknown)
        svg_rect(to, x + used + unhealthy + free - unknown, y, unknown, height, 0, "#c3cad4", NULL);
}

static void cluster_svg_draw_write_counts(const struct gt_picture_counts *counts, char *to, size_t size)
{
    int len = snprintf(to, size, "%u of %u GPU%s free", counts->free, counts->gpus, gt_plural(counts->gpus));
    if (counts->unhealthy && len > 0 && (size_t)len < size)
        len += snprintf(to + len, size - (size_t)len, ", %u unhealthy", counts->unhealthy);
    if (counts->free_unknown && len > 0 && (size_t)len < size)
        snprintf(to + len, size - (size_t)len, ", health of %u unknown", counts->free_unknown);
}

static struct gt_picture_counts counts_of(const struct gt_picture *picture, uint32_t first, uint32_t count)
{
    struct gt_picture_counts counts = {0};
    for (uint32_t i = first; i < first + count; i++)
        gt_picture_count(&counts, &picture->nodes[i]);
    return counts;
}

void pic_frame(struct gt_buf *to, const struct pic *pic, uint32_t at, uint32_t first, uint32_t count)
{
    const struct gt_picture *picture = pic->picture;
    const struct pic_scale *s = &pic->scale;
    const struct gt_picture_supernode *supernode = at == GT_NONE ? NULL : &picture->supernodes[at];
    const struct svg_box *box = &pic->frames[supernode ? at : picture->supernode_count];
    struct gt_picture_counts counts = supernode ? supernode->counts : counts_of(picture, first, count);
    bool bad = supernode && (supernode->note[0] || supernode->links_down);
    int x = box->x + PIC_PADDING, inside = box->width - 2 * PIC_PADDING;

    gt_buf_puts(to, "<g>");
    svg_rect(to, box->x, box->y, box->width, box->height, 14,
             supernode && supernode->tier > 1 ? "#fbfcfe" : SVG_PANEL, bad ? SVG_WARN : SVG_PANEL_EDGE);
    char name[300], numbers[128], tier[32] = "";
    unsigned room = (unsigned)inside / 10;
    const char *loose = picture->supernode_count ? "In no supernode" : "Nodes";
    gt_shorten(supernode ? supernode->name : loose, room, name, sizeof(name));
    svg_text(to, (struct svg_text){x, box->y + 26, 15, NULL, bold}, "%s", name);
    if (supernode && s->name) {
        snprintf(tier, sizeof(tier), "tier %u", supernode->tier);
        svg_text(to, (struct svg_text){x + inside, box->y + 26, 12, SVG_MUTED, "text-anchor=\"end\""}, "%s",
                 tier);
    }
    if (s->name)
        cluster_svg_draw_write_counts(&counts, numbers, sizeof(numbers));
    else
        snprintf(numbers, sizeof(numbers), "%u of %u free", counts.free, counts.gpus);
    svg_text(to, (struct svg_text){x, box->y + 44, 12, SVG_MUTED, NULL}, "%s", numbers);
    if (bad && s->name)
        svg_text(to,
                 (struct svg_text){x + inside, box->y + 44, 12, SVG_WARN,
                                   "text-anchor=\"end\" font-weight=\"600\""},
                 "%s", supernode->note[0] ? "conflict" : "links down");
    cluster_svg_draw_bar(to, &counts, x, box->y + s->heading - (s->name ? 19 : 9), inside, s->name ? 4 : 3);
    gt_buf_puts(to, "</g>\n");

    uint32_t columns = pic_columns(pic, count), rows = (count + columns - 1) / columns;
    for (uint32_t i = 0; i < count; i++)
        cluster_svg_draw_node(to, pic, &picture->nodes[first + i],
                              x + (int)(i / rows) * (s->block + PIC_COLUMN_GAP),
                              box->y + s->heading + (int)(i % rows) * (s->rows_height + s->row_gap));
}

/* ---- head ---- */

void pic_head(struct gt_buf *to, const struct pic *pic)
{
    const struct gt_picture *picture = pic->picture;
    const struct gt_picture_counts *c = &picture->counts;
    char when[GT_TIME_TEXT_SIZE] = "";
    gt_time_text(picture->now, when); /* "2026-01-31T12:00:00Z" */
    svg_text(to, (struct svg_text){SVG_MARGIN, 48, 26, NULL, "font-weight=\"700\""}, "%u of %u GPU%s free",
             c->free, c->gpus, gt_plural(c->gpus));
    svg_text(to, (struct svg_text){pic->width - SVG_MARGIN, 48, 13, SVG_MUTED, "text-anchor=\"end\""},
             "%.10s %.5s UTC", when, when + 11);
    gt_auto_buf struct gt_buf line = GT_BUF(400);
    gt_buf_printf(&line, "%u node%s", c->nodes, gt_plural(c->nodes));
    if (picture->tier1_count)
        gt_buf_printf(&line, ", %u supernode%s", picture->tier1_count, gt_plural(picture->tier1_count));
    gt_buf_printf(&line, "; %u used by %u pod%s", c->used, picture->pod_count, gt_plural(picture->pod_count));
    if (c->unhealthy)
        gt_buf_printf(&line, ", %u unhealthy", c->unhealthy);
    if (c->free_unknown)
        gt_buf_printf(&line, "; of the free ones %u of unknown health", c->free_unknown);
    svg_text(to, (struct svg_text){SVG_MARGIN, 74, 14, SVG_MUTED, NULL}, "%s", line.data ? line.data : "");
    cluster_svg_draw_bar(to, c, SVG_MARGIN, 92, pic->width - 2 * SVG_MARGIN, 12);
}
