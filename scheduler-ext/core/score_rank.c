/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/core/internal.h"

/* A heap of nodes, the best in front. Only the value of the front node changes, so only this node is
 * moved. */
struct gt_score_rank {
    struct gt_cluster *cluster;
    unsigned k;
    enum gt_slow_use use;
    double *value;   /* [node] */
    uint32_t *order; /* the heap */
    uint32_t size;
    bool asked; /* the front node was returned: its value may be lower now */
};

static bool score_rank_goes_before(const struct gt_score_rank *rank, uint32_t a, uint32_t b)
{
    const struct gt_cluster *cluster = rank->cluster;
    if (rank->value[a] != rank->value[b])
        return rank->value[a] > rank->value[b];
    if (cluster->count[a] != cluster->count[b])
        return cluster->count[a] < cluster->count[b];
    if (cluster->size[a] != cluster->size[b])
        return cluster->size[a] > cluster->size[b];
    return strcmp(cluster->node_names.text[a], cluster->node_names.text[b]) < 0;
}

static void sift_down(struct gt_score_rank *rank, uint32_t at)
{
    uint32_t *order = rank->order, moving = order[at];
    for (uint32_t child; (child = 2 * at + 1) < rank->size; at = child) {
        child += child + 1 < rank->size && score_rank_goes_before(rank, order[child + 1], order[child]);
        if (!score_rank_goes_before(rank, order[child], moving))
            break;
        order[at] = order[child];
    }
    order[at] = moving;
}

int gt_score_rank_new(struct gt_cluster *cluster, unsigned k, enum gt_slow_use use,
                      struct gt_score_rank **ret, struct gt_err **err)
{
    size_t nodes = cluster->node_count;
    struct gt_score_rank *rank = calloc(1, sizeof(*rank));
    if (rank) {
        *rank = (struct gt_score_rank){.cluster = cluster, .k = k, .use = use};
        rank->value = malloc((nodes + 1) * sizeof(*rank->value));
        rank->order = malloc((nodes + 1) * sizeof(*rank->order));
    }
    if (!rank || !rank->value || !rank->order) {
        gt_score_rank_free(rank);
        return gt_fail_sys(err, ENOMEM, "cluster");
    }
    gt_score_all(cluster, k, rank->value);
    for (uint32_t node = 0; node < nodes && cluster->slow_nodes; node++)
        rank->value[node] =
            gt_score_slow(cluster, node, UINT64_MAX, (struct gt_numa_pod){k, 0}, use, rank->value[node]);
    for (uint32_t node = 0; node < nodes; node++)
        if (!isnan(rank->value[node]))
            rank->order[rank->size++] = node;
    for (uint32_t i = rank->size / 2; i-- > 0;)
        sift_down(rank, i);
    *ret = rank;
    return 0;
}

uint32_t gt_score_rank_best(struct gt_score_rank *rank)
{
    struct gt_score_parts parts;
    if (rank->asked && rank->size) {
        uint32_t node = rank->order[0];
        double value = gt_score_one(rank->cluster, node, rank->k, &parts) ? parts.value : (double)NAN;
        rank->value[node] = gt_score_slow(rank->cluster, node, UINT64_MAX, (struct gt_numa_pod){rank->k, 0},
                                          rank->use, value);
        if (isnan(rank->value[node]))
            rank->order[0] = rank->order[--rank->size];
        if (rank->size)
            sift_down(rank, 0);
    }
    rank->asked = true;
    return rank->size ? rank->order[0] : GT_NONE;
}

void gt_score_rank_free(struct gt_score_rank *rank)
{
    if (!rank)
        return;
    free(rank->value);
    free(rank->order);
    free(rank);
}
