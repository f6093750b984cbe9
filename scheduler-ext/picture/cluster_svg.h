/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PICTURE_CLUSTER_SVG_H
#define GPUTOPO_PICTURE_CLUSTER_SVG_H

#include "scheduler-ext/picture/picture.h"
#include "topology/model/svg.h"

/* What the files of a cluster's picture share. Lengths are in pixels. */

enum {
    PIC_PADDING = 16, /* within a frame */
    PIC_GAP = 18,     /* between frames */
    PIC_MARK = 18,    /* room for the mark of a node that is not well */
    PIC_COLUMN_GAP = 22,
};

/* How large things are drawn: small, where there are many. */
struct pic_scale {
    int cell, cell_gap, per_row; /* GPUs, so many beside each other */
    int name, row_gap;           /* width of a node's name, 0: not shown; between nodes */
    unsigned name_characters;
    int block, strip, rows_height; /* of one node: whole width, its GPUs' width, height */
    int heading, least;            /* of a frame: the height of name, numbers and bar; the width at least */
    uint32_t tall;                 /* so many nodes stand below each other before a second column begins */
    int width;                     /* what rows of frames try to keep within */
    bool titles;                   /* of single GPUs too */
};

struct pic {
    const struct gt_picture *picture;
    struct pic_scale scale;
    struct svg_box *frames; /* by supernode, and one more for the nodes in none; absolute */
    int width, height;
};

/* Chooses the scale and the place of every frame; `loose` nodes are in no supernode. Returns the y below all.
 */
int pic_lay_out(struct pic *pic, uint32_t loose);

/* The nodes of one frame in columns. */
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

#endif
