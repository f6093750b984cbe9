/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/lease.h"
#include "base/err.h"
#include "scheduler-ext/cache/cache_internal.h"

/* Spare nodes for replacements: the last ones by name of each supernode's completely free nodes. */

static bool cache_spares_is_free(const struct gt_cache *cache, const struct cache_node *node)
{
    struct gt_cluster_node at;
    return node->id != GT_NONE && gt_cluster_get_node(cache->cluster, node->id, &at) && at.eligible &&
           at.available == at.all;
}

static uint32_t count_nodes(const struct cache_supernode *supernode)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < supernode->claim_count; i++)
        count +=
            supernode->claims[i].node->supernode == supernode && supernode->claims[i].node->id != GT_NONE;
    return count;
}

/* The last free node by name before this one; `before` NULL: of all nodes. */
static const struct cache_node *last_before(const struct gt_cache *cache,
                                            const struct cache_supernode *supernode, const char *before)
{
    const struct cache_node *last = NULL;
    for (uint32_t i = 0; i < supernode->claim_count; i++) {
        const struct cache_node *node = supernode->claims[i].node;
        if (node->supernode == supernode && (!before || strcmp(node->name, before) < 0) &&
            (!last || strcmp(node->name, last->name) > 0) && cache_spares_is_free(cache, node))
            last = node;
    }
    return last;
}

static uint64_t wanted(const struct cache_supernode *supernode, uint32_t standard)
{
    return supernode->spare_nodes < 0 ? standard : (uint64_t)supernode->spare_nodes;
}

bool gt_cache_has_spares(const struct gt_cache *cache)
{
    return cache->has_spares;
}

int gt_cache_spares(const struct gt_cache *cache, uint32_t standard, struct gt_node_set *ret,
                    struct gt_err **err)
{
    gt_node_set_clear(ret);
    if (!standard && !cache->has_spares)
        return 0;
    for (const struct cache_supernode *at = NULL; (at = gt_cache_next_supernode(cache, at));) {
        uint64_t spares = at->id == GT_NONE || at->tier != 1 ? 0 : wanted(at, standard);
        const struct cache_node *node = NULL;
        if (!spares || spares > count_nodes(at))
            continue;
        while (spares-- && (node = last_before(cache, at, node ? node->name : NULL)))
            GT_TRY(gt_node_set_add(ret, node->id, err));
    }
    return 0;
}

const char *gt_cache_next_excess(struct gt_cache *cache, uint32_t standard, uint64_t *ret_spares,
                                 uint32_t *ret_nodes)
{
    if (!standard && !cache->has_spares)
        return NULL;
    for (struct cache_supernode *at = NULL; (at = gt_cache_next_supernode(cache, at));) {
        uint64_t spares = at->id == GT_NONE || at->tier != 1 ? 0 : wanted(at, standard);
        uint32_t nodes = spares ? count_nodes(at) : 0;
        bool excess = nodes && spares > nodes, reported = at->spares_reported;
        at->spares_reported = excess;
        if (!excess || reported)
            continue;
        *ret_spares = spares;
        *ret_nodes = nodes;
        return at->name;
    }
    return NULL;
}

/* ---- what another scheduler of the cluster reserves for pods to come ---- */

/* A node of which something is reserved is kept, known or not. Without memory there are no reservations. */
void gt_cache_set_foreign(struct gt_cache *cache, const char *note, uint64_t until_ms)
{
    struct gt_lease_note_word word;
    uint64_t digest = *note && strlen(note) <= GT_LEASE_NOTE_MAX ? gt_digest_mix_text(cache->seed, note) : 0;
    cache->foreign_until_ms = until_ms;
    gt_cluster_renew_promises(cache->cluster, GT_PROMISE_FOREIGN, 0, until_ms);
    if (digest == cache->foreign_note)
        return;
    cache->foreign_note = digest;
    while (digest && gt_lease_note_next(&note, &word)) {
        struct cache_node *node = word.mask ? gt_cache_node_record(cache, word.node) : NULL;
        if (!node)
            continue;
        node->refs += !node->foreign_next;
        node->foreign_next |= word.mask;
    }
    for (struct cache_node *next = gt_cache_next_node(cache, NULL), *node; (node = next);) {
        next = gt_cache_next_node(cache, node);
        uint64_t before = node->foreign;
        node->foreign = node->foreign_next;
        node->foreign_next = 0;
        if (before != node->foreign)
            gt_cache_recompute(cache, node);
        if (before)
            gt_cache_node_drop(cache, node);
    }
    gt_cache_notify(cache);
}

uint32_t gt_cache_foreign_gpus(const struct gt_cache *cache)
{
    return cache->foreign_gpus;
}
