/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "scheduler-ext/picture/cluster_svg.h"
#include "topology/model/render_internal.h"

/* The picture of a cluster: supernodes as frames, nodes as rows in them, GPUs as cells. cluster_svg_layout.c
 * computes positions, cluster_svg_draw.c draws. */

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
    pic.height = pic_below(&body, &pic, bottom) + SVG_MARGIN;
    free(pic.frames);

    gt_buf_printf(
        to,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', "
        "sans-serif\">\n<title>The GPUs of a cluster</title>\n",
        pic.width, pic.height, pic.width, pic.height);
    pic_patterns(to);
    svg_rect(to, 0, 0, pic.width, pic.height, 0, SVG_BACKGROUND, NULL);
    if (body.failed)
        to->failed = true;
    else
        gt_buf_add(to, body.data, body.len);
    gt_buf_puts(to, "</svg>\n");
}

/* Legend and notes of a cluster's picture. */

enum { PIC_NOTES_MAX = 18, NOTES_TALL = 6, NOTE_WIDTH = 440, LEGEND_STEP = 24, NOTE_STEP = 21, CHIP = 18 };

static const char bold[] = "font-weight=\"600\"";

struct pic_pen {
    struct gt_buf *to;
    int x, y;
};

static void legend_line(struct pic_pen *pen, enum gt_picture_state state, const char *fill, const char *text)
{
    pic_cell(pen->to, pen->x, pen->y - CHIP / 2, CHIP, state, fill, NULL);
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
            svg_rect(to, pen.x + CHIP / 2 - 1, pen.y - CHIP / 2, 3, CHIP, 1, SVG_WARN, NULL);
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

int pic_below(struct gt_buf *to, const struct pic *pic, int top)
{
    int bottom = cluster_svg_below_draw_legend(to, pic, top);
    return cluster_svg_below_draw_notes(to, pic, bottom + 20);
}
