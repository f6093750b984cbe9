/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/picture/picture.h"
#include "topology/model/render.h"
#include "topology/model/svg.h"

/* The picture of a cluster: supernodes as frames, nodes as rows in them, GPUs as cells. Lengths are in
 * pixels. */

enum {
    PIC_PADDING = 16, /* within a frame */
    PIC_GAP = 18,     /* between frames */
    PIC_MARK = 18,    /* room for the mark of a node with a problem */
    PIC_COLUMN_GAP = 22,
};

/* The sizes of all elements: small where there are many. */
struct pic_scale {
    int cell, cell_gap, per_row; /* of GPUs; per_row: number in one row */
    int name, row_gap;           /* width of a node's name, 0: not shown; gap between nodes */
    unsigned name_characters;
    int block, strip, rows_height; /* of a node: total width, width of its GPUs, height */
    int heading, least;            /* of a frame: height of name, numbers and bar; least width */
    uint32_t tall;                 /* most nodes in a column */
    int width;                     /* the width that rows of frames should not exceed */
    bool titles;                   /* also for single GPUs */
};

struct pic {
    const struct gt_picture *picture;
    struct pic_scale scale;
    struct svg_box *frames; /* [supernode], and one for nodes in none; absolute */
    int width, height;
};

/* Computes the positions in the picture of a cluster. */

enum { HEAD_HEIGHT = 132, LEAST_WIDTH = 760, MANY = 400, VERY_MANY = 3000, CHARACTER = 7, NAME_MOST = 26 };
enum { WIDEST = 16000, WIDER = 100 };

static unsigned longest_name(const struct gt_picture *picture)
{
    size_t most = 4;
    for (uint32_t i = 0; i < picture->node_count; i++) {
        size_t len = strlen(picture->nodes[i].name) - picture->domain;
        most = len > most ? len : most;
    }
    return most < NAME_MOST ? (unsigned)most : NAME_MOST;
}

static void choose_scale(struct pic *pic)
{
    const struct gt_picture *picture = pic->picture;
    struct pic_scale *s = &pic->scale;
    unsigned gpus = 1;
    for (uint32_t i = 0; i < picture->node_count; i++)
        gpus = picture->nodes[i].gpus > gpus ? picture->nodes[i].gpus : gpus;
    bool many = picture->node_count > MANY;
    s->cell = many ? 8 : gpus <= 16 ? 18 : 9;
    s->cell_gap = many ? 2 : gpus <= 16 ? 4 : 2;
    s->per_row = gpus <= 16 ? 8 : 16;
    s->name_characters = many ? 0 : longest_name(picture);
    s->name = many ? 0 : (int)s->name_characters * CHARACTER + 14;
    s->row_gap = many ? 3 : 9;
    s->strip = s->per_row * (s->cell + s->cell_gap) - s->cell_gap;
    s->block = s->name + s->strip + PIC_MARK;
    int rows = ((int)gpus + s->per_row - 1) / s->per_row;
    s->rows_height = rows * (s->cell + s->cell_gap) - s->cell_gap;
    s->tall = many ? 32 : 12;
    s->width = !many ? 1180 : picture->node_count <= VERY_MANY ? 1700 : 2600;
    s->heading = many ? 58 : 72;
    s->least = many ? 130 : 250;
    s->titles = picture->node_count <= 2000;
}

/* The number of columns for the nodes of one frame. */
static uint32_t pic_columns(const struct pic *pic, uint32_t nodes)
{
    const struct pic_scale *s = &pic->scale;
    uint32_t wanted = (nodes + s->tall - 1) / s->tall;
    uint32_t fit = (uint32_t)((s->width - 2 * PIC_PADDING) / (s->block + PIC_COLUMN_GAP));
    fit = fit ? fit : 1;
    return wanted < fit ? (wanted ? wanted : 1) : fit;
}

static void measure_nodes(const struct pic *pic, uint32_t nodes, struct svg_box *box)
{
    const struct pic_scale *s = &pic->scale;
    uint32_t columns = pic_columns(pic, nodes), rows = nodes ? (nodes + columns - 1) / columns : 0;
    box->width = (int)columns * (s->block + PIC_COLUMN_GAP) - PIC_COLUMN_GAP + 2 * PIC_PADDING;
    box->width = box->width > pic->scale.least ? box->width : pic->scale.least;
    int inside = (int)rows * (s->rows_height + s->row_gap) - (rows ? s->row_gap : 0);
    box->height = pic->scale.heading + inside + PIC_PADDING;
}

/* Frames arranged in rows, from left to right. */
struct shelf {
    int x, y, row_height, width; /* of the content so far; width is the widest row */
    int limit;
    uint32_t row[64], in_row; /* the frames of this row, which get one height */
};

static void cluster_svg_layout_end_row(struct pic *pic, struct shelf *shelf)
{
    for (uint32_t i = 0; i < shelf->in_row; i++)
        pic->frames[shelf->row[i]].height = shelf->row_height;
    if (shelf->in_row)
        shelf->y += shelf->row_height + PIC_GAP;
    shelf->x = shelf->row_height = 0;
    shelf->in_row = 0;
}

static void cluster_svg_layout_put(struct pic *pic, struct shelf *shelf, uint32_t frame)
{
    struct svg_box *box = &pic->frames[frame];
    if (shelf->in_row == GT_COUNT(shelf->row) || (shelf->in_row && shelf->x + box->width > shelf->limit))
        cluster_svg_layout_end_row(pic, shelf);
    box->x = shelf->x;
    box->y = shelf->y;
    shelf->row[shelf->in_row++] = frame;
    shelf->x += box->width + PIC_GAP;
    shelf->width = shelf->x - PIC_GAP > shelf->width ? shelf->x - PIC_GAP : shelf->width;
    shelf->row_height = box->height > shelf->row_height ? box->height : shelf->row_height;
}

/* Computes the size of a supernode and the positions of those below, within it. The recursion is at most as
 * deep as the number of tiers. */
static void cluster_svg_layout_measure(struct pic *pic, uint32_t at, int limit)
{
    const struct gt_picture *picture = pic->picture;
    const struct gt_picture_supernode *supernode = &picture->supernodes[at];
    struct svg_box *box = &pic->frames[at];
    struct shelf shelf = {.limit = limit - 2 * PIC_PADDING};
    if (supernode->node_count || at + 1 == picture->supernode_count ||
        picture->supernodes[at + 1].depth <= supernode->depth) {
        measure_nodes(pic, supernode->node_count, box);
        return;
    }
    for (uint32_t i = at + 1; i < picture->supernode_count && picture->supernodes[i].depth > supernode->depth;
         i++)
        if (picture->supernodes[i].parent == at) {
            cluster_svg_layout_measure(pic, i, shelf.limit);
            cluster_svg_layout_put(pic, &shelf, i);
        }
    cluster_svg_layout_end_row(pic, &shelf);
    box->width = shelf.width + 2 * PIC_PADDING;
    box->width = box->width > pic->scale.least ? box->width : pic->scale.least;
    box->height = pic->scale.heading + shelf.y - PIC_GAP + PIC_PADDING;
}

/* Until here positions are relative to the parent frame. */
static void make_absolute(struct pic *pic)
{
    const struct gt_picture *picture = pic->picture;
    for (uint32_t i = 0; i <= picture->supernode_count; i++) { /* parents come first */
        struct svg_box *box = &pic->frames[i];
        uint32_t parent = i < picture->supernode_count ? picture->supernodes[i].parent : GT_NONE;
        box->x += parent == GT_NONE ? SVG_MARGIN : pic->frames[parent].x + PIC_PADDING;
        box->y += parent == GT_NONE ? HEAD_HEIGHT : pic->frames[parent].y + pic->scale.heading;
    }
}

/* The position of every frame; `loose`: number of nodes in no supernode. Returns the height of all. */
static int pic_lay_out_within(struct pic *pic, uint32_t loose, int width)
{
    const struct gt_picture *picture = pic->picture;
    struct shelf shelf = {.limit = width};
    pic->scale.width = width;
    for (uint32_t i = 0; i < picture->supernode_count; i++)
        if (picture->supernodes[i].parent == GT_NONE) {
            cluster_svg_layout_measure(pic, i, shelf.limit);
            cluster_svg_layout_put(pic, &shelf, i);
        }
    if (loose || !picture->supernode_count) {
        measure_nodes(pic, loose, &pic->frames[picture->supernode_count]);
        cluster_svg_layout_put(pic, &shelf, picture->supernode_count);
    }
    cluster_svg_layout_end_row(pic, &shelf);
    pic->width = (shelf.width > LEAST_WIDTH ? shelf.width : LEAST_WIDTH) + 2 * SVG_MARGIN;
    return shelf.y;
}

/* Chooses the scale, and a width at which the picture is not higher than wide. Returns the y below all
 * frames. */
static int pic_lay_out(struct pic *pic, uint32_t loose)
{
    choose_scale(pic);
    int width = pic->scale.width, height = pic_lay_out_within(pic, loose, width);
    while (height > width && width < WIDEST)
        height = pic_lay_out_within(pic, loose, width += WIDER);
    make_absolute(pic);
    return HEAD_HEIGHT + height + 20;
}

/* ---- drawing ---- */

enum { TITLE_MAX = 1000 };

static const char bold[] = "font-weight=\"600\"";

/* Parts that frames and legend share. `fill` is the colour of a job, NULL: that of the state. */
static const char *pic_job_color(uint32_t job)
{
    return job < GT_PICTURE_COLORS ? gt_picture_job_colors[job] : gt_picture_styles[GT_PICTURE_USED].screen;
}

/* ---- GPUs ---- */

/* A square. */
static void pic_cell(struct gt_buf *to, const struct svg_box *box, enum gt_picture_state state,
                     const char *fill, const char *title)
{
    int x = box->x, y = box->y, size = box->width;
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
        const struct svg_box box = {x + (int)gpu % s->per_row * step, y + (int)gpu / s->per_row * step,
                                    s->cell, s->cell};
        pic_cell(to, &box, state, pod ? pic_job_color(pod->job_number) : NULL, title);
    }
}

static void pic_mark(struct gt_buf *to, int x, int y)
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
        svg_rect(to, &(struct svg_box){x, y, s->strip, s->rows_height}, 1, SVG_PANEL_EDGE, NULL);
    if (node->note[0] && node->known) {
        if (s->name)
            pic_mark(to, x + s->name + s->strip + 13, middle);
        else
            svg_rect(to, &(struct svg_box){x + s->strip + 3, y + 1, 3, s->rows_height - 2}, 1, SVG_WARN,
                     NULL);
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
        svg_rect(to, &(struct svg_box){x, y, used, height}, 0, "#64748b", NULL);
    if (unhealthy)
        svg_rect(to, &(struct svg_box){x + used, y, unhealthy, height}, 0, SVG_BAD, NULL);
    if (counts->used + counts->unhealthy + counts->free == counts->gpus)
        free = width - used - unhealthy;
    int unknown = counts->free ? (int)((int64_t)free * counts->free_unknown / counts->free) : 0;
    if (free > unknown)
        svg_rect(to, &(struct svg_box){x + used + unhealthy, y, free - unknown, height}, 0, "#a7dbb8", NULL);
    if (unknown)
        svg_rect(to, &(struct svg_box){x + used + unhealthy + free - unknown, y, unknown, height}, 0,
                 "#c3cad4", NULL);
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

/* Heading, bar and nodes of a supernode; `supernode` is GT_NONE for the nodes in none. */
static void pic_frame(struct gt_buf *to, const struct pic *pic, uint32_t at, uint32_t first, uint32_t count)
{
    const struct gt_picture *picture = pic->picture;
    const struct pic_scale *s = &pic->scale;
    const struct gt_picture_supernode *supernode = at == GT_NONE ? NULL : &picture->supernodes[at];
    const struct svg_box *box = &pic->frames[supernode ? at : picture->supernode_count];
    struct gt_picture_counts counts = supernode ? supernode->counts : counts_of(picture, first, count);
    bool bad = supernode && (supernode->note[0] || supernode->links_down);
    int x = box->x + PIC_PADDING, inside = box->width - 2 * PIC_PADDING;

    gt_buf_puts(to, "<g>");
    svg_rect(to, box, 14, supernode && supernode->tier > 1 ? "#fbfcfe" : SVG_PANEL,
             bad ? SVG_WARN : SVG_PANEL_EDGE);
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

/* Title, numbers and the bar of the whole cluster. */
static void pic_head(struct gt_buf *to, const struct pic *pic)
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

/* Legend and notes of a cluster's picture. */

enum { PIC_NOTES_MAX = 18, NOTES_TALL = 6, NOTE_WIDTH = 440, LEGEND_STEP = 24, NOTE_STEP = 21, CHIP = 18 };

struct pic_pen {
    struct gt_buf *to;
    int x, y;
};

static void legend_line(struct pic_pen *pen, enum gt_picture_state state, const char *fill, const char *text)
{
    pic_cell(pen->to, &(struct svg_box){pen->x, pen->y - CHIP / 2, CHIP, CHIP}, state, fill, NULL);
    svg_text(pen->to, (struct svg_text){pen->x + CHIP + 10, pen->y + 4, 12, NULL, NULL}, "%s", text);
    pen->y += LEGEND_STEP;
}

static void legend_group(struct pic_pen *pen, const char *color, const char *name, uint32_t gpus,
                         uint32_t pods)
{
    char shown[256], text[320];
    gt_shorten(name, 28, shown, sizeof(shown));
    snprintf(text, sizeof(text), "%s: %u GPU%s, %u pod%s", shown, gpus, gt_plural(gpus), pods,
             gt_plural(pods));
    legend_line(pen, GT_PICTURE_USED, color, text);
}

/* States in one column, jobs in two beside it. */
static int cluster_svg_below_draw_legend(struct gt_buf *to, const struct pic *pic, int top)
{
    const struct gt_picture *picture = pic->picture;
    bool seen[GT_PICTURE_STATES], mark = false;
    gt_picture_states(picture, seen);
    for (uint32_t i = 0; i < picture->node_count; i++)
        mark |= picture->nodes[i].note[0] && picture->nodes[i].known;
    struct pic_pen pen = {to, SVG_MARGIN, top};
    svg_text(to, (struct svg_text){pen.x, pen.y + 4, 14, NULL, bold}, "GPUs");
    pen.y += 28;
    for (unsigned i = 0; i < GT_PICTURE_STATES; i++)
        if (seen[i] && i != GT_PICTURE_USED)
            legend_line(&pen, i, NULL, gt_picture_styles[i].meaning);
    if (mark) {
        if (pic->scale.name)
            pic_mark(to, pen.x + CHIP / 2, pen.y);
        else
            svg_rect(to, &(struct svg_box){pen.x + CHIP / 2 - 1, pen.y - CHIP / 2, 3, CHIP}, 1, SVG_WARN,
                     NULL);
        svg_text(to, (struct svg_text){pen.x + CHIP + 10, pen.y + 4, 12, NULL, NULL}, "node with a note");
        pen.y += LEGEND_STEP;
    }
    int bottom = pen.y;
    if (!picture->job_count)
        return bottom;

    struct pic_pen jobs = {to, SVG_MARGIN + 210, top};
    svg_text(to, (struct svg_text){jobs.x, jobs.y + 4, 14, NULL, bold},
             "Used by (jobs by the names of their pods)");
    jobs.y += 28;
    uint32_t named = picture->job_count < GT_PICTURE_COLORS ? picture->job_count : GT_PICTURE_COLORS;
    uint32_t half = named > 6 ? (named + (picture->job_count > named) + 1) / 2 : named + 1;
    for (uint32_t i = 0; i < named; i++) {
        if (i == half) {
            bottom = jobs.y > bottom ? jobs.y : bottom;
            jobs = (struct pic_pen){to, jobs.x + 290, top + 28};
        }
        legend_group(&jobs, pic_job_color(i), picture->jobs[i].name, picture->jobs[i].gpus,
                     picture->jobs[i].pods);
    }
    uint32_t gpus = 0, pods = 0;
    for (uint32_t i = named; i < picture->job_count; i++) {
        gpus += picture->jobs[i].gpus;
        pods += picture->jobs[i].pods;
    }
    if (named < picture->job_count) {
        char text[64];
        snprintf(text, sizeof(text), "%u other job%s", picture->job_count - named,
                 gt_plural(picture->job_count - named));
        legend_group(&jobs, pic_job_color(GT_NONE), text, gpus, pods);
    }
    return jobs.y > bottom ? jobs.y : bottom;
}

/* The notes in their order: supernodes, then nodes. */
static const char *next_note(const struct gt_picture *picture, uint32_t *at, const char **ret_name)
{
    for (; *at < picture->supernode_count + picture->node_count; ++*at) {
        uint32_t i = *at;
        bool is_node = i >= picture->supernode_count;
        const char *text =
            is_node ? picture->nodes[i - picture->supernode_count].note : picture->supernodes[i].note;
        *ret_name = is_node ? picture->nodes[i - picture->supernode_count].name : picture->supernodes[i].name;
        if (!text[0])
            continue;
        ++*at;
        return text;
    }
    return NULL;
}

static int cluster_svg_below_draw_notes(struct gt_buf *to, const struct pic *pic, int top)
{
    const char *name = "", *text;
    uint32_t count = 0, at = 0;
    while (next_note(pic->picture, &at, &name))
        count++;
    if (!count)
        return top;
    svg_text(to, (struct svg_text){SVG_MARGIN, top + 4, 14, NULL, bold}, "Notes");
    int inside = pic->width - 2 * SVG_MARGIN;
    uint32_t shown = count < PIC_NOTES_MAX ? count : PIC_NOTES_MAX;
    uint32_t columns = shown > NOTES_TALL && inside >= 2 * NOTE_WIDTH ? (uint32_t)(inside / NOTE_WIDTH) : 1;
    columns = columns > PIC_NOTES_MAX / NOTES_TALL ? PIC_NOTES_MAX / NOTES_TALL : columns;
    uint32_t rows = (shown + columns - 1) / columns;
    int width = inside / (int)columns;
    at = 0;
    for (uint32_t i = 0; i < shown; i++) {
        char line[700], cut[700];
        text = next_note(pic->picture, &at, &name);
        snprintf(line, sizeof(line), "%s: %s", name, text);
        gt_shorten(line, (unsigned)(width - 20) / 7, cut, sizeof(cut));
        svg_text(to,
                 (struct svg_text){SVG_MARGIN + (int)(i / rows) * width,
                                   top + 32 + (int)(i % rows) * NOTE_STEP, 12, NULL, NULL},
                 "%s", cut);
    }
    int bottom = top + 28 + (int)rows * NOTE_STEP;
    if (count > shown) {
        svg_text(to, (struct svg_text){SVG_MARGIN, bottom + 4, 12, SVG_MUTED, NULL}, "and %u more",
                 count - shown);
        bottom += NOTE_STEP;
    }
    return bottom;
}

void gt_picture_svg(const struct gt_picture *picture, struct gt_buf *to)
{
    struct pic pic = {.picture = picture};
    pic.frames = calloc((size_t)picture->supernode_count + 1, sizeof(*pic.frames));
    if (!pic.frames) {
        to->failed = true;
        return;
    }
    uint32_t placed = 0;
    for (uint32_t i = 0; i < picture->supernode_count; i++)
        placed += picture->supernodes[i].node_count;
    int bottom = pic_lay_out(&pic, picture->node_count - placed);

    /* The height is only known after the notes are drawn. */
    gt_auto_buf struct gt_buf body = GT_BUF(to->max);
    pic_head(&body, &pic);
    for (uint32_t i = 0; i < picture->supernode_count; i++)
        pic_frame(&body, &pic, i, picture->supernodes[i].first_node, picture->supernodes[i].node_count);
    if (placed < picture->node_count || !picture->supernode_count)
        pic_frame(&body, &pic, GT_NONE, placed, picture->node_count - placed);
    bottom = cluster_svg_below_draw_legend(&body, &pic, bottom);
    pic.height = cluster_svg_below_draw_notes(&body, &pic, bottom + 20) + SVG_MARGIN;
    free(pic.frames);

    gt_buf_printf(
        to,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', "
        "sans-serif\">\n<title>The GPUs of a cluster</title>\n"
        "<defs><pattern id=\"unknown\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#f1f5f9\"/>"
        "<rect width=\"2\" height=\"5\" fill=\"#cbd5e1\"/></pattern></defs>\n",
        pic.width, pic.height, pic.width, pic.height);
    svg_rect(to, &(struct svg_box){0, 0, pic.width, pic.height}, 0, SVG_BACKGROUND, NULL);
    if (body.failed)
        to->failed = true;
    else
        gt_buf_add(to, body.data, body.len);
    gt_buf_puts(to, "</svg>\n");
}
