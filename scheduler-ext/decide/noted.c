/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/noted.h"

#include <stdlib.h>
#include <string.h>

#include "api/lease_note.h"

void gt_noted_done(struct gt_noted *noted)
{
    free(noted->places);
    gt_node_set_done(&noted->nodes);
    *noted = (struct gt_noted){0};
}

static int by_node(const void *a, const void *b)
{
    const struct gt_noted_place *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

static void take_word(struct gt_noted *noted, const struct gt_cluster *cluster,
                      const struct gt_lease_note_word *word)
{
    uint32_t node = gt_cluster_find_node(cluster, word->node);
    if (node == GT_NONE)
        return;
    if (word->is_whole)
        gt_node_set_add(&noted->nodes, node, NULL);
    else
        noted->places[noted->count++] = (struct gt_noted_place){node, word->mask};
}

void gt_noted_read(struct gt_noted *noted, const struct gt_cluster *cluster, const char *note)
{
    struct gt_lease_note_word word;
    gt_noted_done(noted);
    if (!*note)
        return;
    noted->places = calloc(strlen(note) / 4 + 1, sizeof(*noted->places)); /* "n=0 " is the shortest word */
    while (noted->places && gt_lease_note_next(&note, &word))
        take_word(noted, cluster, &word);
    if (noted->places)
        qsort(noted->places, noted->count, sizeof(*noted->places), by_node);
}

uint64_t gt_noted_gpus(const struct gt_noted *noted, uint32_t node)
{
    uint32_t low = 0, high = noted->count;
    uint64_t mask = 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (noted->places[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < noted->count && noted->places[low].node == node; low++)
        mask |= noted->places[low].mask;
    return mask;
}
