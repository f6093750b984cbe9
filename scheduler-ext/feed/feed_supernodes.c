/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/feed/feed_internal.h"

/*
 * Supernode objects come in any order. A record says what its object says; where it stands in the cluster
 * follows: below the parent that it names if that is known and of a higher tier, else at the top. The core
 * cannot move a supernode, so one that moves is taken out with all below it and put in again.
 */

static bool is(const void *item, const void *key)
{
    return strcmp(((const struct feed_supernode *)item)->name, key) == 0;
}

static struct feed_supernode *find(const struct gt_feed *feed, const char *name)
{
    return gt_feed_table_find(&feed->supernodes, gt_feed_hash(gt_feed_mix_text(feed->seed, name)), is, name);
}

static struct feed_supernode *record_of(struct gt_feed *feed, const char *name)
{
    struct feed_supernode *supernode = find(feed, name);
    if (supernode)
        return supernode;
    supernode = gt_feed_alloc(&feed->bytes, sizeof(*supernode));
    const char *text = supernode ? gt_feed_text(feed, name) : NULL;
    if (!text) {
        gt_feed_release(&feed->bytes, supernode);
        return NULL;
    }
    supernode->name = text;
    supernode->hash = gt_feed_hash(gt_feed_mix_text(feed->seed, name));
    supernode->id = GT_NONE;
    if (gt_feed_table_add(&feed->supernodes, &feed->bytes, supernode->hash, supernode) < 0) {
        gt_feed_text_drop(feed, text);
        gt_feed_release(&feed->bytes, supernode);
        return NULL;
    }
    return supernode;
}

/* Frees the record when neither an object nor a child names it. */
static void forget(struct gt_feed *feed, struct feed_supernode *supernode)
{
    if (supernode->known || supernode->children)
        return;
    gt_feed_table_remove(&feed->supernodes, supernode->hash, supernode);
    gt_feed_text_drop(feed, supernode->name);
    gt_feed_release(&feed->bytes, supernode);
}

/* ---- where it stands in the cluster ---- */

static struct feed_supernode *parent_that_counts(const struct feed_supernode *supernode)
{
    struct feed_supernode *parent = supernode->parent;
    return parent && parent->known && parent->tier > supernode->tier ? parent : NULL;
}

/* Tiers ascend, so that recursion is no deeper than there are tiers. */
static void take_out(struct gt_feed *feed, struct feed_supernode *supernode)
{
    if (supernode->id == GT_NONE)
        return;
    for (struct feed_supernode *child = supernode->children; child; child = child->next_child)
        if (child->above == supernode)
            take_out(feed, child);
    for (uint32_t i = 0; i < supernode->claim_count; i++)
        if (supernode->claims[i].node->supernode == supernode)
            gt_feed_pull(feed, supernode->claims[i].node);
    gt_cluster_remove_supernode(feed->cluster, supernode->id, NULL);
    supernode->id = GT_NONE;
    supernode->above = NULL;
}

static void put_in(struct gt_feed *feed, struct feed_supernode *supernode)
{
    if (!supernode->known || supernode->id != GT_NONE)
        return;
    struct feed_supernode *above = parent_that_counts(supernode);
    if (above && above->id == GT_NONE)
        return; /* it will be put in below it */
    if (gt_cluster_add_supernode(feed->cluster, supernode->name, supernode->tier, above ? above->id : GT_NONE,
                                 &supernode->id, NULL) < 0) {
        supernode->id = GT_NONE;
        feed->refused++;
        return;
    }
    supernode->above = above;
    for (struct feed_supernode *child = supernode->children; child; child = child->next_child)
        put_in(feed, child);
}

/* Out with it, and with the children that it has or will have. */
static void take_out_all(struct gt_feed *feed, struct feed_supernode *supernode)
{
    take_out(feed, supernode);
    for (struct feed_supernode *child = supernode->children; child; child = child->next_child)
        take_out(feed, child);
}

static void put_in_all(struct gt_feed *feed, struct feed_supernode *supernode)
{
    put_in(feed, supernode);
    for (struct feed_supernode *child = supernode->children; child; child = child->next_child)
        put_in(feed, child);
}

struct feed_supernode *gt_feed_supernode_of(const struct feed_node *node)
{
    struct feed_supernode *best = NULL;
    for (const struct feed_claim *claim = node->claims; claim; claim = claim->next) {
        struct feed_supernode *other = claim->supernode;
        if (other->id == GT_NONE)
            continue;
        if (!best || other->tier < best->tier ||
            (other->tier == best->tier && strcmp(other->name, best->name) < 0))
            best = other;
    }
    return best;
}

/* ---- its members ---- */

static void unlink_claim(struct feed_claim *claim)
{
    struct feed_claim **at = &claim->node->claims;
    while (*at != claim)
        at = &(*at)->next;
    *at = claim->next;
}

static void drop_unlinked(struct gt_feed *feed, struct feed_claim *claims, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        gt_feed_node_drop(feed, claims[i].node);
    gt_feed_release(&feed->bytes, claims);
}

/* Reads the members; claims are not linked to their nodes yet. */
static bool read_members(struct gt_feed *feed, const cJSON *status, struct feed_claim **ret,
                         uint32_t *ret_count)
{
    const cJSON *members = gt_feed_get(status, "members");
    int count = members ? cJSON_GetArraySize(members) : 0;
    *ret = NULL;
    *ret_count = 0;
    if (!count)
        return true;
    if (!cJSON_IsArray(members) || count > FEED_MEMBERS_MAX)
        return false;
    struct feed_claim *claims = gt_feed_alloc(&feed->bytes, (size_t)count * sizeof(*claims));
    bool sound = claims;
    for (const cJSON *item = members->child; item && sound; item = item->next) {
        bool bad = false;
        const char *name = gt_feed_get_text(item, "node", GT_CLUSTER_NAME_MAX, &bad);
        struct feed_node *node = name ? gt_feed_node_record(feed, name) : NULL;
        sound = node;
        if (node) {
            node->refs++;
            claims[(*ret_count)++].node = node;
        }
    }
    if (!sound) {
        drop_unlinked(feed, claims, *ret_count);
        *ret_count = 0;
        return false;
    }
    *ret = claims;
    return true;
}

static bool same_members(const struct feed_supernode *supernode, const struct feed_claim *claims,
                         uint32_t count)
{
    if (supernode->claim_count != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (supernode->claims[i].node != claims[i].node)
            return false;
    return true;
}

/* Nodes that were taken out come back, each below the supernode that it belongs to now; then the others that
 * were or are members follow. */
static void set_members(struct gt_feed *feed, struct feed_supernode *supernode, struct feed_claim *claims,
                        uint32_t count)
{
    struct feed_claim *old = supernode->claims;
    uint32_t old_count = supernode->claim_count;
    for (uint32_t i = 0; i < old_count; i++)
        unlink_claim(&old[i]);
    supernode->claims = claims;
    supernode->claim_count = count;
    for (uint32_t i = 0; i < count; i++) {
        claims[i].supernode = supernode;
        claims[i].next = claims[i].node->claims;
        claims[i].node->claims = &claims[i];
    }
    gt_feed_settle_pulled(feed);
    for (uint32_t i = 0; i < old_count; i++)
        gt_feed_settle(feed, old[i].node);
    for (uint32_t i = 0; i < count; i++)
        gt_feed_settle(feed, claims[i].node);
    drop_unlinked(feed, old, old_count);
}

/* ---- objects ---- */

static void leave_parent(struct gt_feed *feed, struct feed_supernode *supernode)
{
    struct feed_supernode *parent = supernode->parent;
    if (!parent)
        return;
    struct feed_supernode **at = &parent->children;
    while (*at != supernode)
        at = &(*at)->next_child;
    *at = supernode->next_child;
    supernode->parent = supernode->next_child = NULL;
    forget(feed, parent);
}

static void move(struct gt_feed *feed, struct feed_supernode *supernode, bool known, unsigned tier,
                 struct feed_supernode *parent)
{
    take_out_all(feed, supernode);
    if (supernode->parent != parent) {
        leave_parent(feed, supernode);
        supernode->parent = parent;
        if (parent) {
            supernode->next_child = parent->children;
            parent->children = supernode;
        }
    }
    supernode->known = known;
    supernode->tier = (uint8_t)tier;
    put_in_all(feed, supernode);
    feed->room = true;
}

struct said {
    const char *name, *parent;
    unsigned tier;
    struct feed_claim *claims;
    uint32_t claim_count;
};

static bool read_object(struct gt_feed *feed, const cJSON *object, struct said *said)
{
    const cJSON *status = gt_feed_get(object, "status"), *tier = gt_feed_get(status, "tier");
    bool bad = false;
    said->name = gt_feed_name_of(object);
    said->parent = gt_feed_get_text(status, "parent", GT_CLUSTER_NAME_MAX, &bad);
    if (!said->name || bad || !gt_feed_quantity(tier, GT_TIERS_MAX, &said->tier) || !said->tier)
        return false;
    if (said->parent && strcmp(said->parent, said->name) == 0)
        return false;
    return read_members(feed, status, &said->claims, &said->claim_count);
}

void gt_feed_supernode(struct gt_feed *feed, const cJSON *object)
{
    struct said said = {0};
    if (!gt_feed_get(gt_feed_get(object, "status"), "tier")) /* somebody has made it and not filled it yet */
        return;
    bool sound = read_object(feed, object, &said);
    struct feed_supernode *supernode = sound ? record_of(feed, said.name) : NULL;
    struct feed_supernode *parent = supernode && said.parent ? record_of(feed, said.parent) : NULL;
    if (!supernode || (said.parent && !parent)) {
        drop_unlinked(feed, said.claims, said.claim_count);
        if (supernode)
            forget(feed, supernode);
        feed->refused++;
        gt_feed_deliver(feed);
        return;
    }
    if (parent && parent->known && parent->tier <= said.tier)
        feed->refused++; /* a parent of that tier cannot be one */
    bool moves = !supernode->known || supernode->tier != said.tier || supernode->parent != parent;
    bool same = same_members(supernode, said.claims, said.claim_count);
    if (moves)
        move(feed, supernode, true, said.tier, parent);
    if (moves || !same) {
        set_members(feed, supernode, said.claims, said.claim_count);
        feed->room = true;
    } else
        drop_unlinked(feed, said.claims, said.claim_count);
    gt_feed_deliver(feed);
}

void gt_feed_supernode_gone(struct gt_feed *feed, const char *name)
{
    struct feed_supernode *supernode = find(feed, name);
    if (supernode && supernode->known) {
        move(feed, supernode, false, 0, NULL);
        set_members(feed, supernode, NULL, 0);
        forget(feed, supernode);
    }
    gt_feed_deliver(feed);
}

void gt_feed_supernodes_done(struct gt_feed *feed)
{
    for (struct feed_supernode *at = NULL, *next = gt_feed_table_after(&feed->supernodes, 0, NULL);
         (at = next);) {
        next = gt_feed_table_after(&feed->supernodes, at->hash, at);
        for (uint32_t i = 0; i < at->claim_count; i++)
            unlink_claim(&at->claims[i]);
        drop_unlinked(feed, at->claims, at->claim_count);
        gt_feed_text_drop(feed, at->name);
        gt_feed_release(&feed->bytes, at);
    }
    gt_feed_table_done(&feed->supernodes, &feed->bytes);
}
