/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/picture/cluster_svg.h"

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
