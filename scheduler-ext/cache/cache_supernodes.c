/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/supernode.h"
#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/core/crossing.h"

/*
 * Supernode objects come in any order. A record has the contents of its object. Its position in the cluster
 * follows from it: below the parent that it names, if that is known and of a higher tier, else at the top.
 * The core cannot move a supernode, so one that moves is removed with all below it and added again.
 */

static struct cache_supernode *cache_supernodes_find(const struct gt_cache *cache, const char *name)
{
    return gt_cache_find_record(cache, &cache->supernodes, name);
}

static struct cache_supernode *cache_supernodes_record_of(struct gt_cache *cache, const char *name)
{
    struct cache_supernode *supernode = cache_supernodes_find(cache, name);
    uint32_t hash;
    if (supernode)
        return supernode;
    supernode = gt_cache_add_record(cache, &cache->supernodes, name, sizeof(*supernode), &hash);
    if (!supernode)
        return NULL;
    supernode->hash = hash;
    supernode->id = GT_NONE;
    supernode->spare_nodes = -1;
    return supernode;
}

/* Frees the record when neither an object nor a child names it. */
static void cache_supernodes_forget(struct gt_cache *cache, struct cache_supernode *supernode)
{
    if (supernode->known || supernode->children)
        return;
    gt_cache_set_reserved(cache, &supernode->reserved, NULL);
    gt_cache_remove_record(cache, &cache->supernodes, supernode->hash, supernode);
}

/* ---- its position in the cluster ---- */

static struct cache_supernode *parent_that_counts(const struct cache_supernode *supernode)
{
    struct cache_supernode *parent = supernode->parent;
    return parent && parent->known && parent->tier > supernode->tier ? parent : NULL;
}

static void members_follow(struct gt_cache *cache, const struct cache_supernode *supernode)
{
    for (uint32_t i = 0; i < supernode->claim_count; i++)
        gt_cache_follow_supernode(cache, supernode->claims[i].node);
}

/* Tiers ascend, so the recursion is at most as deep as the number of tiers. */
static void cache_supernodes_take_out(struct gt_cache *cache, struct cache_supernode *supernode)
{
    if (supernode->id == GT_NONE)
        return;
    for (struct cache_supernode *child = supernode->children; child; child = child->next_child)
        if (child->above == supernode)
            cache_supernodes_take_out(cache, child);
    uint32_t id = supernode->id;
    supernode->id = GT_NONE;
    members_follow(cache, supernode);
    gt_cluster_remove_supernode(cache->cluster, id, NULL);
    supernode->above = NULL;
}

static void cache_supernodes_put_in(struct gt_cache *cache, struct cache_supernode *supernode)
{
    if (!supernode->known || supernode->id != GT_NONE)
        return;
    struct cache_supernode *above = parent_that_counts(supernode);
    if (above && above->id == GT_NONE)
        return; /* it will be added below its parent */
    if (gt_cluster_add_supernode(cache->cluster, supernode->name, supernode->tier,
                                 above ? above->id : GT_NONE, &supernode->id, NULL) < 0) {
        supernode->id = GT_NONE;
        cache->refused++;
        return;
    }
    supernode->above = above;
    gt_cluster_set_bandwidth(cache->cluster, supernode->id, supernode->gbps);
    members_follow(cache, supernode);
    for (struct cache_supernode *child = supernode->children; child; child = child->next_child)
        cache_supernodes_put_in(cache, child);
}

/* ---- its members ---- */

static void drop_unlinked(struct gt_cache *cache, struct cache_membership *membership, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        gt_cache_node_drop(cache, membership[i].node);
    free(membership);
}

/* Makes the memberships, not yet linked to their nodes. False without memory. */
static bool make_claims(struct gt_cache *cache, const struct gt_supernode_object *object,
                        struct cache_membership **ret)
{
    *ret = NULL;
    if (!object->member_count)
        return true;
    struct cache_membership *claims = calloc(1, object->member_count * sizeof(*claims));
    for (uint32_t i = 0; claims && i < object->member_count; i++) {
        claims[i].node = gt_cache_node_record(cache, object->members[i].node);
        if (!claims[i].node) {
            drop_unlinked(cache, claims, i);
            return false;
        }
        claims[i].node->refs++;
    }
    *ret = claims;
    return claims;
}

static bool same_members(const struct cache_supernode *supernode, const struct cache_membership *membership,
                         uint32_t count)
{
    if (supernode->claim_count != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (supernode->claims[i].node != membership[i].node)
            return false;
    return true;
}

static void set_members(struct gt_cache *cache, struct cache_supernode *supernode,
                        struct cache_membership *membership, uint32_t count)
{
    struct cache_membership *old = supernode->claims;
    uint32_t old_count = supernode->claim_count;
    for (uint32_t i = 0; i < old_count; i++)
        CACHE_UNLINK(&old[i].node->claims, &old[i], next);
    supernode->claims = membership;
    supernode->claim_count = count;
    for (uint32_t i = 0; i < count; i++) {
        membership[i].supernode = supernode;
        membership[i].next = membership[i].node->claims;
        membership[i].node->claims = &membership[i];
    }
    for (uint32_t i = 0; i < old_count; i++)
        gt_cache_follow_supernode(cache, old[i].node);
    members_follow(cache, supernode);
    drop_unlinked(cache, old, old_count);
}

/* ---- objects ---- */

static void cache_supernodes_detach(struct gt_cache *cache, struct cache_supernode *supernode)
{
    struct cache_supernode *parent = supernode->parent;
    if (!parent)
        return;
    CACHE_UNLINK(&parent->children, supernode, next_child);
    supernode->parent = supernode->next_child = NULL;
    cache_supernodes_forget(cache, parent);
}

static void cache_supernodes_move(struct gt_cache *cache, struct cache_supernode *supernode, bool known,
                                  unsigned tier, struct cache_supernode *parent)
{
    cache_supernodes_take_out(cache, supernode);
    for (struct cache_supernode *child = supernode->children; child; child = child->next_child)
        cache_supernodes_take_out(cache, child);
    if (supernode->parent != parent) {
        cache_supernodes_detach(cache, supernode);
        supernode->parent = parent;
        if (parent) {
            supernode->next_child = parent->children;
            parent->children = supernode;
        }
    }
    supernode->known = known;
    supernode->tier = (uint8_t)tier;
    cache_supernodes_put_in(cache, supernode);
    for (struct cache_supernode *child = supernode->children; child; child = child->next_child)
        cache_supernodes_put_in(cache, child);
    cache->more_room = true;
}

/* The records of a supernode, of its parent and of its members. False without memory. */
static bool make_records(struct gt_cache *cache, const struct gt_supernode_object *object,
                         struct cache_supernode **ret, struct cache_supernode **ret_parent,
                         struct cache_membership **ret_claims)
{
    *ret_parent = NULL;
    *ret = cache_supernodes_record_of(cache, object->name);
    if (*ret && object->parent[0])
        *ret_parent = cache_supernodes_record_of(cache, object->parent);
    if (*ret && (*ret_parent || !object->parent[0]) && make_claims(cache, object, ret_claims))
        return true;
    if (*ret_parent)
        cache_supernodes_forget(cache, *ret_parent);
    if (*ret)
        cache_supernodes_forget(cache, *ret);
    return false;
}

static void cache_supernodes_put(struct gt_cache *cache, const struct gt_supernode_object *object)
{
    struct cache_supernode *supernode, *parent;
    struct cache_membership *claims;
    if (!make_records(cache, object, &supernode, &parent, &claims)) {
        cache->refused++;
        return;
    }
    if (parent && parent->known && parent->tier <= object->tier)
        cache->refused++; /* a parent of that tier cannot be one */
    if (supernode->spare_nodes != object->spare_nodes) {
        supernode->spare_nodes = object->spare_nodes;
        supernode->spares_reported = false;
        cache->has_spares = true;
        cache->more_room = true;
        cache->reports_changed = true;
    }
    gt_cache_set_reserved(cache, &supernode->reserved, object->reserved);
    supernode->gbps = object->gbps;
    if (supernode->id != GT_NONE)
        gt_cluster_set_bandwidth(cache->cluster, supernode->id, supernode->gbps);
    bool moves = !supernode->known || supernode->tier != object->tier || supernode->parent != parent;
    bool same = same_members(supernode, claims, object->member_count);
    if (moves)
        cache_supernodes_move(cache, supernode, true, object->tier, parent);
    if (moves || !same) {
        set_members(cache, supernode, claims, object->member_count);
        cache->more_room = true;
    } else
        drop_unlinked(cache, claims, object->member_count);
}

uint64_t gt_cache_spares_of(const struct gt_cache *cache, const char *name, uint32_t standard)
{
    const struct cache_supernode *supernode = cache_supernodes_find(cache, name);
    return supernode && supernode->spare_nodes >= 0 ? (uint64_t)supernode->spare_nodes : standard;
}

void gt_cache_supernode(struct gt_cache *cache, const cJSON *json)
{
    gt_auto_supernode_object struct gt_supernode_object object = {0};
    if (cache->spec.reports_only)
        return;
    if (gt_supernode_object_read(json, &object, NULL) < 0)
        cache->refused++;
    else if (object.tier) /* otherwise it was created and is not filled yet */
        cache_supernodes_put(cache, &object);
    gt_cache_notify(cache);
}

void gt_cache_supernode_deleted(struct gt_cache *cache, const char *name)
{
    struct cache_supernode *supernode = cache_supernodes_find(cache, name);
    if (supernode && supernode->known) {
        cache_supernodes_move(cache, supernode, false, 0, NULL);
        set_members(cache, supernode, NULL, 0);
        cache_supernodes_forget(cache, supernode);
    }
    gt_cache_notify(cache);
}

void gt_cache_supernodes_done(struct gt_cache *cache)
{
    for (struct cache_supernode *at = NULL, *next = gt_cache_next_supernode(cache, NULL); (at = next);) {
        next = gt_cache_next_supernode(cache, at);
        for (uint32_t i = 0; i < at->claim_count; i++)
            CACHE_UNLINK(&at->claims[i].node->claims, &at->claims[i], next);
        drop_unlinked(cache, at->claims, at->claim_count);
        gt_cache_string_drop(cache, at->reserved.text);
        gt_cache_string_drop(cache, at->name);
        free(at);
    }
    gt_table_done(&cache->supernodes);
}
