/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "scheduler-ext/placement/state.h"

/*
 * What the replica that acts keeps, told to the others. They do not assume it in their cache: a pod gets its
 * place there as soon as its plan is written, which they see at once, and the note about it is older.
 */

enum { RESERVATIONS_MAX = 1 << 16, WORD_MAX = GT_CLUSTER_NAME_MAX + 256 };

void gt_remote_reservations_done(struct remote_reservations *remote)
{
    free(remote->reservations);
    gt_node_set_done(&remote->kept);
    *remote = (struct remote_reservations){0};
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

void gt_placement_write_note(const struct gt_placement *placement, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    for (uint32_t n = placement->holder ? gt_node_set_next(&placement->kept, 0) : GT_NONE; n != GT_NONE;
         n = gt_node_set_next(&placement->kept, n + 1))
        add_word(cluster, n, 0, to);
    for (const struct pjob *pjob = placement->jobs; pjob; pjob = pjob->next)
        for (uint32_t i = 0; pjob->keeps && i < pjob->reservations.count; i++)
            if (pjob->reservations.reservations[i].state == GT_RESERVATION_HELD)
                add_word(cluster, gt_reservations_node(&pjob->reservations, cluster, i),
                         pjob->reservations.reservations[i].mask, to);
}

static int by_node(const void *a, const void *b)
{
    const struct remote_reservation *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

static void take_word(struct remote_reservations *remote, const struct gt_cluster *cluster, char *word,
                      uint32_t room)
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
        gt_node_set_add(&remote->kept, node, NULL);
    else if (remote->count < room && gt_text_to_mask(equals + 1, 64, "GPUs", &mask, NULL) == 0)
        remote->reservations[remote->count++] = (struct remote_reservation){node, mask};
}

void gt_placement_read_note(struct gt_placement *placement, const char *note)
{
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    struct remote_reservations *remote = &placement->remote;
    gt_remote_reservations_done(remote);
    if (placement->started || !*note)
        return;
    gt_auto_free char *copy = strdup(note);
    remote->reservations = calloc(RESERVATIONS_MAX, sizeof(*remote->reservations));
    char *rest = copy;
    for (char *word; copy && remote->reservations && (word = strsep(&rest, " "));)
        take_word(remote, cluster, word, RESERVATIONS_MAX);
    if (remote->reservations)
        qsort(remote->reservations, remote->count, sizeof(*remote->reservations), by_node);
}

uint64_t gt_placement_remote_gpus(const struct gt_placement *placement, uint32_t node)
{
    uint32_t low = 0, high = placement->remote.count;
    uint64_t mask = 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (placement->remote.reservations[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < placement->remote.count && placement->remote.reservations[low].node == node; low++)
        mask |= placement->remote.reservations[low].mask;
    return mask;
}
