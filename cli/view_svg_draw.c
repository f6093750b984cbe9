/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "cli/view_svg.h"
#include "topology/model/render_internal.h"

/* Draws what view_svg_layout.c has placed. */

#define FREE_EDGE   "#8fcfa6"
#define TRACK       "#e8f5ec"
#define INNER       "#ffffff"
#define UNSURE      "#e5e7eb"
#define UNSURE_EDGE "#8a97a8"

enum { TITLE_MAX = 1000 };

static const char bold[] = "font-weight=\"600\"";

/* Told apart also by those who see red and green alike; red itself is kept for what is ill. */
static const char *const job_colors[PIC_COLORS] = {"#4e79a7", "#f28e2b", "#59a9a3", "#edc948",
                                                   "#8e6bbf", "#59a14f", "#9c755f", "#ff9da7",
                                                   "#2f4b7c", "#d37295", "#a0cbe8", "#b6992d"};

const char *pic_job_color(uint32_t group)
{
    return group < PIC_COLORS ? job_colors[group] : PIC_OTHER_JOBS;
}

void pic_patterns(struct gt_buf *to)
{
    gt_buf_puts(to, "<defs><pattern id=\"unknown\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
                    "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#f1f5f9\"/>"
                    "<rect width=\"2\" height=\"5\" fill=\"#cbd5e1\"/></pattern></defs>\n");
}

/* ---- GPUs ---- */

void pic_cell(struct gt_buf *to, int x, int y, int size, const char *fill, enum pic_look look,
              const char *title)
{
    static const struct {
        const char *paper, *edge;
    } looks[] = {
        [PIC_NOT_KNOWN] = {"url(#unknown)", "#cbd5e1"},
        [PIC_FREE] = {INNER, FREE_EDGE},
        [PIC_FREE_UNSURE] = {UNSURE, UNSURE_EDGE},
        [PIC_ILL] = {SVG_BAD_PAPER, SVG_BAD},
    };
    bool ill = look == PIC_ILL;
    const char *paper = fill ? fill : looks[look].paper, *edge = fill && !ill ? NULL : looks[look].edge;
    gt_buf_printf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"", x, y, size,
                  size, size > 12 ? 4 : 1, paper);
    if (edge)
        gt_buf_printf(to, " stroke=\"%s\"%s", edge, ill && size > 12 ? " stroke-width=\"1.8\"" : "");
    if (title && *title) {
        gt_buf_puts(to, "><title>");
        svg_escape(to, title);
        gt_buf_puts(to, "</title></rect>");
    } else {
        gt_buf_puts(to, "/>");
    }
    if (ill)
        gt_buf_printf(to, "<path d=\"M%d %dl%d %dm0 -%dl-%d %d\" stroke=\"%s\" stroke-width=\"%s\"/>",
                      x + size / 4, y + size / 4, size - size / 2, size - size / 2, size - size / 2,
                      size - size / 2, size - size / 2, fill ? SVG_PAPER : SVG_BAD, size > 12 ? "2" : "1.2");
    gt_buf_puts(to, "\n");
}

static const struct cli_pod *pod_of(const struct cli_view *view, const struct cli_node *node, unsigned gpu)
{
    for (uint32_t i = 0; i < node->pod_count; i++)
        if (view->pods[node->first_pod + i].mask >> gpu & 1)
            return &view->pods[node->first_pod + i];
    return NULL;
}

static void draw_gpus(struct gt_buf *to, const struct pic *pic, const struct cli_node *node, int x, int y)
{
    const struct pic_scale *s = &pic->scale;
    int step = s->cell + s->cell_gap;
    for (unsigned gpu = 0; gpu < node->gpus; gpu++) {
        const struct cli_pod *pod = pod_of(pic->view, node, gpu);
        bool ill = node->ill >> gpu & 1, free = node->free >> gpu & 1, used = node->used >> gpu & 1;
        bool unsure = node->unsure >> gpu & 1;
        char title[400] = "";
        if (s->titles)
            snprintf(title, sizeof(title), "GPU %u: %s%s%s", gpu, ill ? "ill, " : "",
                     pod    ? pod->name
                     : free ? "free"
                     : used ? "used"
                     : ill  ? "not offered"
                            : "not known",
                     unsure ? ", health unknown" : "");
        pic_cell(to, x + (int)gpu % s->per_row * step, y + (int)gpu / s->per_row * step, s->cell,
                 pod    ? pic_job_color(pod->group)
                 : used ? PIC_OTHER_JOBS
                        : NULL,
                 ill              ? PIC_ILL
                 : free && unsure ? PIC_FREE_UNSURE
                 : free           ? PIC_FREE
                                  : PIC_NOT_KNOWN,
                 title);
    }
}

void pic_mark(struct gt_buf *to, int x, int y)
{
    gt_buf_printf(to, "<circle cx=\"%d\" cy=\"%d\" r=\"7\" fill=\"" SVG_WARN "\"/>", x, y);
    svg_text(to, (struct svg_text){x, y + 4, 11, SVG_PAPER, "text-anchor=\"middle\" font-weight=\"700\""},
             "!");
}

static void draw_node(struct gt_buf *to, const struct pic *pic, const struct cli_node *node, int x, int y)
{
    const struct pic_scale *s = &pic->scale;
    gt_buf_puts(to, "<g><title>");
    char title[TITLE_MAX];
    snprintf(title, sizeof(title), "%s: %u GPUs, %u free%s%s", node->name, node->gpus,
             gt_bit_count(node->free), node->trouble[0] ? "; " : "", node->trouble);
    svg_escape(to, title);
    gt_buf_puts(to, "</title>\n");
    int middle = y + s->cell / 2;
    if (s->name) {
        char name[256];
        cli_view_label(pic->view, node, s->name_characters, name, sizeof(name));
        svg_text(
            to,
            (struct svg_text){x, middle + 4, 12, node->state == CLI_NODE_GOOD ? SVG_INK : SVG_FAINT, NULL},
            "%s", name);
    }
    if (node->state == CLI_NODE_GOOD && node->gpus)
        draw_gpus(to, pic, node, x + s->name, y);
    else if (s->name)
        svg_text(to, (struct svg_text){x + s->name, middle + 4, 12, SVG_FAINT, "font-style=\"italic\""}, "%s",
                 node->state == CLI_NODE_GOOD ? "no GPUs" : node->trouble);
    else
        svg_rect(to, x, y, s->strip, s->rows_height, 1, SVG_PANEL_EDGE, NULL);
    if (node->trouble[0] && node->state == CLI_NODE_GOOD) {
        if (s->name)
            pic_mark(to, x + s->name + s->strip + 13, middle);
        else
            svg_rect(to, x + s->strip + 3, y + 1, 3, s->rows_height - 2, 1, SVG_WARN, NULL);
    }
    gt_buf_puts(to, "</g>\n");
}

/* ---- frames ---- */

/* How much is free, used and ill, as one bar. */
static void draw_bar(struct gt_buf *to, const struct cli_counts *counts, int x, int y, int width, int height)
{
    if (!counts->gpus)
        return;
    int used = (int)((int64_t)width * counts->used / counts->gpus);
    int ill = (int)((int64_t)width * counts->ill / counts->gpus);
    int free = (int)((int64_t)width * counts->free / counts->gpus);
    ill = counts->ill && !ill ? 1 : ill;
    gt_buf_printf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"url(#unknown)\"/>\n", x, y,
                  width, height);
    if (used)
        svg_rect(to, x, y, used, height, 0, "#64748b", NULL);
    if (ill)
        svg_rect(to, x + used, y, ill, height, 0, SVG_BAD, NULL);
    if (counts->used + counts->ill + counts->free == counts->gpus)
        free = width - used - ill;
    int unsure = counts->free ? (int)((int64_t)free * counts->free_unsure / counts->free) : 0;
    if (free > unsure)
        svg_rect(to, x + used + ill, y, free - unsure, height, 0, "#a7dbb8", NULL);
    if (unsure)
        svg_rect(to, x + used + ill + free - unsure, y, unsure, height, 0, "#c3cad4", NULL);
}

const char *pic_plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

static void tell_counts(const struct cli_counts *counts, char *to, size_t size)
{
    int len = snprintf(to, size, "%u of %u GPU%s free", counts->free, counts->gpus, pic_plural(counts->gpus));
    if (counts->ill && len > 0 && (size_t)len < size)
        len += snprintf(to + len, size - (size_t)len, ", %u ill", counts->ill);
    if (counts->free_unsure && len > 0 && (size_t)len < size)
        snprintf(to + len, size - (size_t)len, ", health of %u unknown", counts->free_unsure);
}

static struct cli_counts counts_of(const struct cli_view *view, uint32_t first, uint32_t count)
{
    struct cli_counts counts = {0};
    for (uint32_t i = first; i < first + count; i++)
        cli_counts_add(&counts, &view->nodes[i]);
    return counts;
}

void pic_frame(struct gt_buf *to, const struct pic *pic, uint32_t at, uint32_t first, uint32_t count)
{
    const struct cli_view *view = pic->view;
    const struct pic_scale *s = &pic->scale;
    const struct cli_supernode *supernode = at == CLI_NONE ? NULL : &view->supernodes[at];
    const struct svg_box *box = &pic->frames[supernode ? at : view->supernode_count];
    struct cli_counts counts = supernode ? supernode->counts : counts_of(view, first, count);
    bool bad = supernode && (supernode->trouble[0] || supernode->links == 0);
    int x = box->x + PIC_PADDING, inside = box->width - 2 * PIC_PADDING;

    gt_buf_puts(to, "<g>");
    svg_rect(to, box->x, box->y, box->width, box->height, 14,
             supernode && supernode->tier > 1 ? "#fbfcfe" : SVG_PANEL, bad ? SVG_WARN : SVG_PANEL_EDGE);
    char name[300], numbers[128], tier[32] = "";
    unsigned room = (unsigned)inside / 10;
    const char *loose = view->supernode_count ? "In no supernode" : "Nodes";
    gt_shorten(supernode ? supernode->name : loose, room, name, sizeof(name));
    svg_text(to, (struct svg_text){x, box->y + 26, 15, NULL, bold}, "%s", name);
    if (supernode && s->name) {
        snprintf(tier, sizeof(tier), "tier %u", supernode->tier);
        svg_text(to, (struct svg_text){x + inside, box->y + 26, 12, SVG_FAINT, "text-anchor=\"end\""}, "%s",
                 tier);
    }
    if (s->name)
        tell_counts(&counts, numbers, sizeof(numbers));
    else
        snprintf(numbers, sizeof(numbers), "%u of %u free", counts.free, counts.gpus);
    svg_text(to, (struct svg_text){x, box->y + 44, 12, SVG_FAINT, NULL}, "%s", numbers);
    if (bad && s->name)
        svg_text(to,
                 (struct svg_text){x + inside, box->y + 44, 12, SVG_WARN,
                                   "text-anchor=\"end\" font-weight=\"600\""},
                 "%s", supernode->trouble[0] ? "conflict" : "links down");
    draw_bar(to, &counts, x, box->y + s->heading - (s->name ? 19 : 9), inside, s->name ? 4 : 3);
    gt_buf_puts(to, "</g>\n");

    uint32_t columns = pic_columns(pic, count), rows = (count + columns - 1) / columns;
    for (uint32_t i = 0; i < count; i++)
        draw_node(to, pic, &view->nodes[first + i], x + (int)(i / rows) * (s->block + PIC_COLUMN_GAP),
                  box->y + s->heading + (int)(i % rows) * (s->rows_height + s->row_gap));
}

/* ---- head ---- */

void pic_head(struct gt_buf *to, const struct pic *pic)
{
    const struct cli_view *view = pic->view;
    const struct cli_counts *c = &view->counts;
    char when[64] = "";
    time_t now = (time_t)view->now;
    struct tm tm;
    if (gmtime_r(&now, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &tm);
    svg_text(to, (struct svg_text){SVG_MARGIN, 48, 26, NULL, "font-weight=\"700\""}, "%u of %u GPU%s free",
             c->free, c->gpus, pic_plural(c->gpus));
    svg_text(to, (struct svg_text){pic->width - SVG_MARGIN, 48, 13, SVG_FAINT, "text-anchor=\"end\""}, "%s",
             when);
    gt_auto_buf struct gt_buf line = GT_BUF(400);
    gt_buf_printf(&line, "%u node%s", c->nodes, pic_plural(c->nodes));
    if (view->tier1_count)
        gt_buf_printf(&line, ", %u supernode%s", view->tier1_count, pic_plural(view->tier1_count));
    gt_buf_printf(&line, "; %u used by %u pod%s", c->used, view->pod_count, pic_plural(view->pod_count));
    if (c->ill)
        gt_buf_printf(&line, ", %u ill", c->ill);
    if (c->free_unsure)
        gt_buf_printf(&line, "; of the free ones %u of unknown health", c->free_unsure);
    svg_text(to, (struct svg_text){SVG_MARGIN, 74, 14, SVG_FAINT, NULL}, "%s", line.data ? line.data : "");
    draw_bar(to, c, SVG_MARGIN, 92, pic->width - 2 * SVG_MARGIN, 12);
}
