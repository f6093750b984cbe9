/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/core_checks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/core/internal.h"
#include "scheduler-ext/core/plan_work.h"

/* The invariants of a cluster: every number that is kept, computed again. */

static int check_masks(const struct gt_cluster *cluster, uint32_t id, struct gt_err **err)
{
    const char *name = cluster->node_names.text[id];
    uint64_t assumed = 0;
    uint32_t previous = GT_NONE;
    for (uint32_t a = cluster->first_promise[id]; a != GT_NONE; a = cluster->promises[a].next) {
        const struct promise *at = &cluster->promises[a];
        if (at->told.place.node != id || at->taken & assumed || at->previous != previous)
            return gt_fail(err, EUCLEAN, "node %s: its assumptions overlap or are not its own", name);
        assumed |= at->taken;
        previous = a;
    }
    if (assumed != cluster->assumed[id])
        return gt_fail(err, EUCLEAN, "node %s: the assumed mask is not the union of its assumptions", name);
    uint64_t available = cluster->free[id] & cluster->healthy[id] & ~assumed;
    if (cluster->available[id] != (cluster->eligible[id] ? available : 0) ||
        cluster->count[id] != gt_core_bits(cluster->available[id]))
        return gt_fail(err, EUCLEAN, "node %s: what is available is stale", name);
    if ((cluster->free[id] | cluster->healthy[id] | assumed) & ~gt_core_all(cluster, id))
        return gt_fail(err, EUCLEAN, "node %s: a mask has GPUs that the node has not", name);
    return 0;
}

static int check_node(const struct gt_cluster *cluster, uint32_t id, struct gt_err **err)
{
    const char *name = cluster->node_names.text[id];
    if (!name) {
        if (cluster->count[id] || cluster->available[id])
            return gt_fail(err, EUCLEAN, "node %u is removed and has GPUs", id);
        return 0;
    }
    if (gt_names_find(&cluster->node_names, name) != id)
        return gt_fail(err, EUCLEAN, "node %s: not found by its name", name);
    uint32_t super = cluster->super[id];
    if (super >= cluster->super_count || cluster->supers[super].tier != 1)
        return gt_fail(err, EUCLEAN, "node %s: its supernode is none of tier 1", name);
    return check_masks(cluster, id, err);
}

static int check_list(const struct gt_cluster *cluster, uint32_t id, uint32_t *listed, struct gt_err **err)
{
    uint32_t previous = GT_NONE;
    for (uint32_t n = cluster->supers[id].first_node; n != GT_NONE; n = cluster->next[n]) {
        if (cluster->super[n] != id || cluster->previous[n] != previous || n >= previous)
            return gt_fail(err, EUCLEAN, "supernode %u: the list of its nodes is broken", id);
        previous = n;
        ++*listed;
    }
    return 0;
}

/* What the counts of supernodes must be: nodes with all below, slots of their own, available GPUs with all
 * below, slots of their own if all usable GPUs were available. */
struct counts {
    uint32_t nodes, own, total, whole;
};

static unsigned usable(const struct gt_cluster *cluster, uint32_t node)
{
    return cluster->eligible[node] ? gt_core_bits(cluster->healthy[node]) : 0;
}

static int check_counts(const struct gt_cluster *cluster, unsigned t, struct counts *counts,
                        struct gt_err **err)
{
    memset(counts, 0, cluster->super_count * sizeof(*counts));
    for (uint32_t n = 0; n < cluster->node_count; n++) {
        if (!cluster->node_names.text[n])
            continue;
        counts[cluster->super[n]].own += gt_core_slots(cluster->slot_size[t], cluster->count[n]);
        counts[cluster->super[n]].whole += gt_core_slots(cluster->slot_size[t], usable(cluster, n));
        for (uint32_t s = cluster->super[n]; s != GT_NONE; s = cluster->supers[s].parent) {
            counts[s].total += cluster->count[n];
            counts[s].nodes++;
        }
    }
    for (uint32_t s = 0; s < cluster->super_count; s++)
        if (cluster->supers[s].tier &&
            (counts[s].own != cluster->slots[t][s] || counts[s].total != cluster->total[s] ||
             counts[s].whole != cluster->whole[t][s] || counts[s].nodes != cluster->supers[s].nodes))
            return gt_fail(err, EUCLEAN, "supernode %u: its counts for %u GPUs are stale", s,
                           cluster->slot_size[t]);
    return 0;
}

static int check_supers(const struct gt_cluster *cluster, uint32_t nodes, struct gt_err **err)
{
    uint32_t listed = 0;
    for (uint32_t id = 0; id < cluster->super_count; id++) {
        const struct super *super = &cluster->supers[id];
        if (!super->tier)
            continue;
        if (super->parent != GT_NONE && cluster->supers[super->parent].tier <= super->tier)
            return gt_fail(err, EUCLEAN, "supernode %u: its parent is not of a higher tier", id);
        int r = check_list(cluster, id, &listed, err);
        if (r < 0)
            return r;
    }
    if (listed != nodes)
        return gt_fail(err, EUCLEAN, "%u nodes are in the lists of supernodes, %u exist", listed, nodes);
    return 0;
}

/* Nodes by the number of their GPUs, and of those available. */
static int check_numbers(const struct gt_cluster *cluster, struct gt_err **err)
{
    uint32_t with[GT_GPUS_MAX + 1] = {0}, idle[GT_GPUS_MAX + 1] = {0}, of[GT_GPUS_MAX + 1] = {0};
    for (uint32_t n = 0; n < cluster->node_count; n++) {
        if (!cluster->node_names.text[n])
            continue;
        unsigned size = gt_class_gpus(cluster->classes[cluster->class[n]]);
        if (size != cluster->size[n] || usable(cluster, n) != cluster->usable[n])
            return gt_fail(err, EUCLEAN, "node %s: its numbers of GPUs are stale",
                           cluster->node_names.text[n]);
        of[size]++;
        with[cluster->count[n]]++;
        idle[cluster->count[n]] += cluster->count[n] == size;
    }
    for (unsigned n = 1; n <= GT_GPUS_MAX; n++)
        if (with[n] != cluster->nodes_with[n] || idle[n] != cluster->idle_with[n] ||
            of[n] != cluster->nodes_of[n])
            return gt_fail(err, EUCLEAN, "the numbers of nodes with %u GPUs are stale", n);
    return 0;
}

static int check_rest(const struct gt_cluster *cluster, uint32_t nodes, struct gt_err **err)
{
    uint32_t live = gt_cluster_assumptions(cluster), of_classes = 0, free = 0;
    for (uint32_t a = cluster->promise_free; a != GT_NONE && free <= cluster->promise_count;
         a = cluster->promises[a].next)
        free++;
    if (live + free != cluster->promise_count)
        return gt_fail(err, EUCLEAN, "%u assumptions have a place, %u are there and %u places free",
                       cluster->promise_count, live, free);
    for (uint32_t c = 0; c < cluster->class_count; c++)
        of_classes += cluster->class_nodes[c];
    if (of_classes != nodes || nodes + cluster->node_gap_count != cluster->node_count)
        return gt_fail(err, EUCLEAN, "%u nodes exist, %u of classes, %u removed of %u", nodes, of_classes,
                       cluster->node_gap_count, cluster->node_count);
    return 0;
}

int gt_cluster_check(const struct gt_cluster *cluster, struct gt_err **err)
{
    uint32_t nodes = 0;
    int r = 0;
    for (uint32_t id = 0; id < cluster->node_count && r == 0; id++) {
        nodes += cluster->node_names.text[id] != NULL;
        r = check_node(cluster, id, err);
    }
    if (r < 0)
        return r;
    struct counts *counts = calloc(cluster->super_count + 1, sizeof(*counts));
    if (!counts)
        return gt_fail_sys(err, ENOMEM, "cluster");
    r = check_supers(cluster, nodes, err);
    for (unsigned t = 0; t < cluster->slot_sizes && r == 0; t++)
        r = check_counts(cluster, t, counts, err);
    free(counts);
    if (r == 0)
        r = check_numbers(cluster, err);
    return r < 0 ? r : check_rest(cluster, nodes, err);
}

uint32_t gt_cluster_assumptions(const struct gt_cluster *cluster)
{
    uint32_t live = 0;
    for (uint32_t a = 0; a < cluster->promise_count; a++)
        live += cluster->promises[a].told.place.node != GT_NONE;
    return live;
}

void gt_cluster_confirm(struct gt_cluster *cluster, struct gt_promise_id assumption)
{
    const struct gt_promise *it = gt_cluster_find_promise(cluster, assumption);
    if (!it)
        return;
    /* In this order nothing becomes available in between. */
    gt_cluster_set_free(cluster, it->place.node, cluster->free[it->place.node] & ~it->place.mask);
    gt_cluster_end_promise(cluster, assumption);
}

int gt_plan_assume(struct gt_cluster *cluster, const struct gt_plan_pod *pods, uint32_t pod_count,
                   uint64_t owner, struct gt_promise_id *ret_assumptions, struct gt_err **err)
{
    for (uint32_t i = 0; i < pod_count; i++) {
        ret_assumptions[i] = (struct gt_promise_id){0};
        if (pods[i].running)
            continue;
        int r = gt_cluster_promise(cluster,
                                   &(struct gt_promise){GT_PROMISE_PLANNED, pods[i].place, owner, 0, 0, 0},
                                   &ret_assumptions[i], err);
        if (r < 0) {
            while (i--)
                gt_cluster_end_promise(cluster, ret_assumptions[i]);
            return r;
        }
    }
    return 0;
}

/* ---- scores ---- */

uint32_t gt_score_best(struct gt_cluster *cluster, const struct gt_node_set *excluded, unsigned k)
{
    uint32_t count = gt_cluster_nodes(cluster), *ids = calloc(count + 1, sizeof(*ids));
    double *values = calloc(count + 1, sizeof(*values));
    if (!ids || !values)
        abort();
    gt_score_all(cluster, k, values);
    for (uint32_t node = 0; node < count; node++) {
        ids[node] = node;
        if (excluded && gt_node_set_has(excluded, node))
            values[node] = (double)NAN;
    }
    uint32_t best = gt_score_first(cluster, values, ids, count);
    free(ids);
    free(values);
    return best;
}
