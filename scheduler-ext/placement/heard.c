/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "scheduler-ext/placement/internal.h"

/*
 * What the replica that acts keeps, told to the others. They do not assume it in their feed: a pod gets its
 * place there as soon as its plan is written, which they see at once, and the note about it is older.
 */

enum { SEATS_MAX = 1 << 16, WORD_MAX = GT_CLUSTER_NAME_MAX + 256 };

void gt_heard_done(struct heard *heard)
{
    free(heard->seats);
    gt_node_set_done(&heard->kept);
    *heard = (struct heard){0};
}

/* `mask` 0: the whole node. */
static void add_word(const struct gt_cluster *cluster, uint32_t id, uint64_t mask, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf word = GT_BUF(WORD_MAX);
    struct gt_cluster_node node;
    if (!gt_cluster_get_node(cluster, id, &node))
        return;
    gt_buf_printf(&word, "%s%s=", to->len ? " " : "", node.name);
    if (mask)
        gt_text_add_mask(&word, mask);
    else
        gt_buf_puts(&word, "*");
    if (!word.failed && to->len + word.len <= to->max)
        gt_buf_add(to, word.data, word.len);
}

void gt_placement_tell(const struct gt_placement *placement, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_feed_cluster(placement->spec.feed);
    for (uint32_t n = 0; placement->holder && n < placement->kept.nodes; n++)
        if (gt_node_set_has(&placement->kept, n))
            add_word(cluster, n, 0, to);
    for (const struct pjob *pjob = placement->jobs; pjob; pjob = pjob->next)
        for (uint32_t i = 0; pjob->keeps && i < pjob->seats.count; i++)
            if (pjob->seats.seats[i].state == GT_SEAT_RESERVED)
                add_word(cluster, gt_seats_node(&pjob->seats, cluster, i), pjob->seats.seats[i].mask, to);
}

static int by_node(const void *a, const void *b)
{
    const struct heard_seat *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

static void take_word(struct heard *heard, const struct gt_cluster *cluster, char *word, uint32_t room)
{
    char *equals = strchr(word, '=');
    uint64_t mask;
    if (!equals)
        return;
    *equals = '\0';
    uint32_t node = gt_cluster_find_node(cluster, word);
    if (node == GT_NONE)
        return;
    if (strcmp(equals + 1, "*") == 0)
        gt_node_set_add(&heard->kept, node, NULL);
    else if (heard->count < room && gt_text_to_mask(equals + 1, 64, "GPUs", &mask, NULL) == 0)
        heard->seats[heard->count++] = (struct heard_seat){node, mask};
}

void gt_placement_hear(struct gt_placement *placement, const char *note)
{
    const struct gt_cluster *cluster = gt_feed_cluster(placement->spec.feed);
    struct heard *heard = &placement->heard;
    gt_heard_done(heard);
    if (placement->started || !*note)
        return;
    gt_auto_free char *copy = strdup(note);
    heard->seats = calloc(SEATS_MAX, sizeof(*heard->seats));
    char *rest = copy;
    for (char *word; copy && heard->seats && (word = strsep(&rest, " "));)
        take_word(heard, cluster, word, SEATS_MAX);
    if (heard->seats)
        qsort(heard->seats, heard->count, sizeof(*heard->seats), by_node);
}

uint64_t gt_placement_heard(const struct gt_placement *placement, uint32_t node)
{
    uint32_t low = 0, high = placement->heard.count;
    uint64_t mask = 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (placement->heard.seats[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < placement->heard.count && placement->heard.seats[low].node == node; low++)
        mask |= placement->heard.seats[low].mask;
    return mask;
}
