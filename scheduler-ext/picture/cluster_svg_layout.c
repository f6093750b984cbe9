/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/picture/cluster_svg.h"

#include <string.h>

/* Computes the positions in the picture of a cluster. */

enum { HEAD_HEIGHT = 132, LEAST_WIDTH = 760, MANY = 400, VERY_MANY = 3000, CHARACTER = 7, NAME_MOST = 26 };

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

uint32_t pic_columns(const struct pic *pic, uint32_t nodes)
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

int pic_lay_out(struct pic *pic, uint32_t loose)
{
    const struct gt_picture *picture = pic->picture;
    choose_scale(pic);
    struct shelf shelf = {.limit = pic->scale.width};
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
    make_absolute(pic);
    pic->width = (shelf.width > LEAST_WIDTH ? shelf.width : LEAST_WIDTH) + 2 * SVG_MARGIN;
    return HEAD_HEIGHT + shelf.y + 20;
}
