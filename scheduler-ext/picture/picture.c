/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/picture/picture.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "topology/model/svg.h"

#define OTHER_JOBS "#94a3b8"

const struct gt_picture_style gt_picture_styles[GT_PICTURE_STATES] = {
    [GT_PICTURE_FREE] = {"free", '.', "free", "#ffffff", "#8fcfa6"},
    [GT_PICTURE_NOT_KNOWN] = {"free", '~', "free, health unknown", "#e5e7eb", "#8a97a8"},
    [GT_PICTURE_USED] = {"used", '#', "used", OTHER_JOBS, NULL},
    [GT_PICTURE_USED_BY_OTHERS] = {"used", '#', "used, by whom is not clear", OTHER_JOBS, NULL},
    [GT_PICTURE_ASSUMED] = {"assumed", '+', "planned or starting", "#ffffff", SVG_MUTED},
    [GT_PICTURE_UNHEALTHY] = {"unhealthy", 'x', "unhealthy", SVG_BAD_BACKGROUND, SVG_BAD},
    [GT_PICTURE_UNHEALTHY_AND_USED] = {"unhealthy", 'X', "unhealthy and used", OTHER_JOBS, SVG_BAD},
    [GT_PICTURE_UNKNOWN] = {"unknown", '?', "not known, or not offered", "url(#unknown)", "#cbd5e1"},
};

/* Distinguishable also with red-green colour blindness, on light and dark backgrounds; red is used for
 * unhealthy GPUs only. */
const char *const gt_picture_job_colors[GT_PICTURE_COLORS] = {"#4e79a7", "#f28e2b", "#59a9a3", "#edc948",
                                                              "#8e6bbf", "#59a14f", "#9c755f", "#ff9da7",
                                                              "#4f5bd5", "#d37295", "#a0cbe8", "#b6992d"};

enum gt_picture_state gt_picture_gpu(const struct gt_picture_node *node, unsigned gpu,
                                     const struct gt_picture_pod **ret_pod)
{
    uint64_t bit = UINT64_C(1) << gpu;
    const struct gt_picture_pod *pod = NULL;
    for (uint32_t i = 0; i < node->pod_count && !pod; i++)
        if (node->pods[i].place.mask & bit)
            pod = &node->pods[i];
    if (ret_pod)
        *ret_pod = pod;
    if (node->unhealthy & bit)
        return node->used & bit ? GT_PICTURE_UNHEALTHY_AND_USED : GT_PICTURE_UNHEALTHY;
    if (node->used & bit)
        return pod ? GT_PICTURE_USED : GT_PICTURE_USED_BY_OTHERS;
    if (node->assumed & bit)
        return GT_PICTURE_ASSUMED;
    if (node->free & bit)
        return node->unknown & bit ? GT_PICTURE_NOT_KNOWN : GT_PICTURE_FREE;
    return GT_PICTURE_UNKNOWN;
}

void gt_picture_states(const struct gt_picture *picture, bool seen[static GT_PICTURE_STATES])
{
    memset(seen, 0, GT_PICTURE_STATES * sizeof(*seen));
    for (uint32_t i = 0; i < picture->node_count; i++)
        for (unsigned gpu = 0; gpu < picture->nodes[i].gpus; gpu++)
            seen[gt_picture_gpu(&picture->nodes[i], gpu, NULL)] = true;
}

void gt_picture_add_note(struct gt_buf *note, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (note->len + strlen(text) + 2 <= note->max)
        gt_buf_printf(note, "%s%s", note->len ? ", " : "", text);
}

void gt_picture_count(struct gt_picture_counts *to, const struct gt_picture_node *node)
{
    to->nodes++;
    to->gpus += node->gpus;
    to->free += gt_bit_count(node->free);
    to->used += gt_bit_count(node->used & ~node->unhealthy);
    to->unhealthy += gt_bit_count(node->unhealthy);
    to->free_unknown += gt_bit_count(node->free & node->unknown);
}

void gt_picture_label(const struct gt_picture *picture, const struct gt_picture_node *node,
                      unsigned characters, char *to, size_t size)
{
    size_t len = strlen(node->name) - picture->domain, most = characters ? characters : len;
    if (len <= most || most < 8) {
        snprintf(to, size, "%.*s", (int)len, node->name);
        return;
    }
    size_t head = (most - 1) / 2, tail = most - 1 - head;
    snprintf(to, size, "%.*s\xe2\x80\xa6%.*s", (int)head, node->name, (int)tail, node->name + len - tail);
}
