/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/picture/picture.h"
#include "topology/model/svg.h"

/* What the files of a cluster's SVG picture share. Lengths are in pixels. */

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

/* Chooses the scale and the position of every frame; `loose`: number of nodes in no supernode. Returns the y
 * below all frames. */
int pic_lay_out(struct pic *pic, uint32_t loose);

/* The number of columns for the nodes of one frame. */
uint32_t pic_columns(const struct pic *pic, uint32_t nodes);

/* Heading, bar and nodes of a supernode; `supernode` is GT_NONE for the nodes in none. */
void pic_frame(struct gt_buf *to, const struct pic *pic, uint32_t supernode, uint32_t first, uint32_t count);

/* Title, numbers and the bar of the whole cluster. */
void pic_head(struct gt_buf *to, const struct pic *pic);

/* Legend and notes; returns the y below them. */
int pic_below(struct gt_buf *to, const struct pic *pic, int top);

/* Parts that frames and legend share. `fill` is the colour of a job, NULL: that of the state. */
const char *pic_job_color(uint32_t job);
void pic_cell(struct gt_buf *to, int x, int y, int size, enum gt_picture_state state, const char *fill,
              const char *title);
void pic_mark(struct gt_buf *to, int x, int y);

/* Patterns that cells are filled with. */
void pic_patterns(struct gt_buf *to);
