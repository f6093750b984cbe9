/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/brake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "scheduler-ext/core/cluster.h"

void gt_brake_done(struct gt_brake *brake)
{
    free(brake->entries);
    free(brake->none_why);
    brake->none_why = NULL;
    gt_node_set_done(&brake->counted);
    brake->entries = NULL;
    brake->count = brake->capacity = 0;
}

static bool brake_is_silent(const struct gt_cache *cache, uint32_t node, bool taints)
{
    struct gt_cache_node found;
    return gt_cache_get_node(cache, node, &found) && found.has_node &&
           (!found.ready || (taints && found.taint));
}

static bool brake_is_cordoned(const struct gt_cache *cache, uint32_t node)
{
    struct gt_cache_node found;
    return gt_cache_get_node(cache, node, &found) && found.cordoned;
}

/* Drops what has had its time, and what was of an earlier node of the id. */
static void brake_prune(struct gt_brake *brake, const struct gt_cluster *cluster, uint64_t now_ms)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < brake->count; i++) {
        struct gt_cluster_node node;
        const struct gt_brake_entry *entry = &brake->entries[i];
        if (entry->until_ms > now_ms && gt_cluster_get_node(cluster, entry->node, &node) &&
            gt_digest_keyed(node.name) == entry->name)
            brake->entries[kept++] = *entry;
    }
    brake->count = kept;
}

/* Of the nodes in the cluster, or in the tier-1 supernode. */
struct brake_tally {
    uint32_t nodes, counted, may;
};

static struct brake_tally brake_tally_of(const struct gt_brake *brake, uint32_t supernode)
{
    const struct gt_cluster *cluster = gt_cache_cluster(brake->cache);
    struct brake_tally tally = {0};
    struct gt_cluster_node node;
    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++)
        if (gt_cluster_get_node(cluster, id, &node) &&
            (supernode == GT_NONE || node.supernode == supernode)) {
            tally.nodes++;
            tally.counted += gt_node_set_has(&brake->counted, id) && !brake_is_cordoned(brake->cache, id);
        }
    uint64_t may = tally.nodes * brake->percent / 100;
    tally.may = may ? (uint32_t)may : 1;
    return tally;
}

/* Which nodes count beside those that are not Ready: those that were let go of late, and tainted ones. */
enum gt_brake_count {
    BRAKE_EVICTIONS,   /* of late */
    BRAKE_TAINTS,      /* both */
    BRAKE_NOT_OF_LATE, /* neither */
};

/* False without memory. */
static bool brake_collect(struct gt_brake *brake, enum gt_brake_count count, uint64_t now_ms)
{
    const struct gt_cluster *cluster = gt_cache_cluster(brake->cache);
    int r = 0;
    brake_prune(brake, cluster, now_ms);
    gt_node_set_clear(&brake->counted);
    for (uint32_t i = 0; count != BRAKE_NOT_OF_LATE && r >= 0 && i < brake->count; i++)
        if (!(count == BRAKE_TAINTS && brake->entries[i].tainted)) /* its taint counts while it is there */
            r = gt_node_set_add(&brake->counted, brake->entries[i].node, NULL);
    for (uint32_t id = 0; r >= 0 && id < gt_cluster_nodes(cluster); id++)
        if (brake_is_silent(brake->cache, id, count == BRAKE_TAINTS))
            r = gt_node_set_add(&brake->counted, id, NULL);
    return r >= 0;
}

/* `asked`: some of the nodes are only asked about. */
static bool brake_is_reached(const struct gt_brake *brake, uint32_t supernode, bool asked,
                             char why[static GT_BRAKE_WHY_SIZE])
{
    struct gt_cluster_supernode super = {.name = ""};
    struct brake_tally tally = brake_tally_of(brake, supernode);
    if (tally.counted <= tally.may)
        return false;
    if (supernode != GT_NONE)
        gt_cluster_get_supernode(gt_cache_cluster(brake->cache), supernode, &super);
    snprintf(why, GT_BRAKE_WHY_SIZE,
             "%s%u of the %u nodes of %s%.253s %s not Ready, tainted, or have lost their pods of late, and "
             "%s lets %u go at once",
             asked ? "with it " : "", tally.counted, tally.nodes, *super.name ? "supernode " : "the cluster",
             super.name, asked ? "would be" : "are", brake->option, tally.may);
    return true;
}

/* For the cluster, and for each supernode of these nodes. */
static bool brake_is_reached_any(const struct gt_brake *brake, const struct gt_node_set *nodes, bool asked,
                                 char why[static GT_BRAKE_WHY_SIZE])
{
    struct gt_cluster_node node;
    bool reached = brake_is_reached(brake, GT_NONE, asked, why);
    for (uint32_t id = gt_node_set_next(nodes, 0); !reached && id != GT_NONE;
         id = gt_node_set_next(nodes, id + 1))
        reached = gt_cluster_get_node(gt_cache_cluster(brake->cache), id, &node) &&
                  brake_is_reached(brake, node.supernode, asked, why);
    return reached;
}

static bool brake_lets(struct gt_brake *brake, const struct gt_node_set *nodes, bool taints, uint64_t now_ms,
                       char why[static GT_BRAKE_WHY_SIZE])
{
    if (!taints && brake->none_why && brake->none_ms == now_ms) {
        snprintf(why, GT_BRAKE_WHY_SIZE, "%s", brake->none_why);
        brake->refused++;
        return false;
    }
    free(brake->none_why);
    brake->none_why = NULL;
    snprintf(why, GT_BRAKE_WHY_SIZE, "there is no memory to count the nodes that have failed");
    bool known = brake_collect(brake, taints ? BRAKE_TAINTS : BRAKE_EVICTIONS, now_ms);
    bool reached = !known || brake_is_reached(brake, GT_NONE, true, why);
    if (known && reached && !taints) {
        brake->none_why = strdup(why);
        brake->none_ms = now_ms;
    }
    for (uint32_t id = gt_node_set_next(nodes, 0); !reached && id != GT_NONE;
         id = gt_node_set_next(nodes, id + 1))
        reached = gt_node_set_add(&brake->counted, id, NULL) < 0;
    reached = reached || brake_is_reached_any(brake, nodes, true, why);
    brake->refused += reached;
    return !reached;
}

bool gt_brake_is_on(struct gt_brake *brake, const struct gt_node_set *nodes, bool of_late, uint64_t now_ms,
                    char why[static GT_BRAKE_WHY_SIZE])
{
    snprintf(why, GT_BRAKE_WHY_SIZE, "there is no memory to count the nodes that have failed");
    bool reached = !brake_collect(brake, of_late ? BRAKE_EVICTIONS : BRAKE_NOT_OF_LATE, now_ms) ||
                   brake_is_reached_any(brake, nodes, false, why);
    brake->refused += reached;
    return reached;
}

bool gt_brake_lets(struct gt_brake *brake, const struct gt_node_set *nodes, uint64_t now_ms,
                   char why[static GT_BRAKE_WHY_SIZE])
{
    return brake_lets(brake, nodes, false, now_ms, why);
}

bool gt_brake_lets_taint(struct gt_brake *brake, const struct gt_node_set *nodes, uint64_t now_ms,
                         char why[static GT_BRAKE_WHY_SIZE])
{
    return brake_lets(brake, nodes, true, now_ms, why);
}

void gt_brake_take(struct gt_brake *brake, const struct gt_node_set *nodes, bool tainted, uint64_t now_ms)
{
    struct gt_cluster_node node;
    for (uint32_t id = gt_node_set_next(nodes, 0); id != GT_NONE; id = gt_node_set_next(nodes, id + 1)) {
        uint32_t at = 0;
        while (at < brake->count && brake->entries[at].node != id)
            at++;
        if (!gt_cluster_get_node(gt_cache_cluster(brake->cache), id, &node))
            continue;
        if (!GT_GROW(brake->entries, at, brake->capacity, 16))
            return;
        brake->entries[at] =
            (struct gt_brake_entry){.node = id,
                                    .name = gt_digest_keyed(node.name),
                                    .until_ms = now_ms + brake->span_ms,
                                    .tainted = tainted && (at == brake->count || brake->entries[at].tainted)};
        brake->count += at == brake->count;
    }
}
