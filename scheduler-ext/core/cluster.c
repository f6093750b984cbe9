/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/cluster.h"

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "scheduler-ext/core/internal.h"
#include "scheduler-ext/core/plan_work.h"

/* ---- making and growing ---- */

int gt_cluster_new(struct gt_cluster **ret, struct gt_err **err)
{
    struct gt_cluster *cluster = calloc(1, sizeof(*cluster));
    GT_NEED(cluster, err, "cluster");
    cluster->slot_size[0] = 1;
    cluster->slot_sizes = 1;
    cluster->promise_free = GT_NONE;
    cluster->weights = GT_AWARE_DEFAULT;
    cluster->generation = 1;
    *ret = cluster;
    return 0;
}

void gt_cluster_free(struct gt_cluster *cluster)
{
    if (!cluster)
        return;
    gt_numa_end_passed(cluster, 0, UINT64_MAX);
    gt_score_done(cluster);
    gt_pod_gpus_done(cluster);
    gt_names_done(&cluster->node_names, cluster->node_capacity);
    gt_names_done(&cluster->super_names, cluster->super_capacity);
    for (uint32_t i = 0; i < cluster->class_count; i++)
        gt_class_unref(cluster->classes[i]);
    for (unsigned t = 0; t < SLOT_SIZES; t++) {
        free(cluster->slots[t]);
        free(cluster->whole[t]);
    }
    void *const arrays[] = {cluster->free,        cluster->healthy,       cluster->total,
                            cluster->assumed,     cluster->available,     cluster->count,
                            cluster->size,        cluster->usable,        cluster->class,
                            cluster->super,       cluster->next,          cluster->previous,
                            cluster->same,        cluster->eligible,      cluster->first_promise,
                            cluster->node_gaps,   cluster->supers,        cluster->mark,
                            cluster->super_gaps,  cluster->heap,          cluster->scratch,
                            cluster->promises,    cluster->draft_changed, cluster->draft_available,
                            cluster->draft_count, cluster->touched,       cluster->touched_unit,
                            cluster->leaves,      cluster->close[0],      cluster->close[1],
                            cluster->close[2],    cluster->slow,          cluster};
    for (size_t i = 0; i < GT_COUNT(arrays); i++)
        free(arrays[i]);
}

static uint32_t cluster_grown(uint32_t capacity, uint32_t max)
{
    uint32_t new = capacity ? capacity + capacity / 2 : 64;
    return new > max ? max : new;
}

/* True without memory; arrays that have grown already stay so, which does no harm. */
#define RESIZE(field, old, new)                                                                              \
    (!(grown_array = gt_core_grow(cluster->field, sizeof(*cluster->field), (old), (new))) ||                 \
     (cluster->field = grown_array, false))

static int grow_nodes(struct gt_cluster *cluster, struct gt_err **err)
{
    uint32_t old = cluster->node_capacity, new = cluster_grown(old, GT_CLUSTER_NODES_MAX);
    void *grown_array;
    if (old == GT_CLUSTER_NODES_MAX)
        return gt_fail(err, E2BIG, "cluster: more than %d nodes", GT_CLUSTER_NODES_MAX);
    if (RESIZE(free, old, new) || RESIZE(healthy, old, new) || RESIZE(slow, old, new) ||
        RESIZE(assumed, old, new) || RESIZE(available, old, new) || RESIZE(count, old, new) ||
        RESIZE(size, old, new) || RESIZE(usable, old, new) || RESIZE(class, old, new) ||
        RESIZE(same, old, new) || RESIZE(super, old, new) || RESIZE(next, old, new) ||
        RESIZE(previous, old, new) || RESIZE(eligible, old, new) || RESIZE(node_gaps, old, new) ||
        RESIZE(first_promise, old, new) || RESIZE(draft_changed, gt_core_words(old), gt_core_words(new)) ||
        RESIZE(draft_available, old, new) || RESIZE(draft_count, old, new) ||
        gt_names_grow(&cluster->node_names, old, new) < 0)
        return gt_fail_sys(err, ENOMEM, "cluster");
    cluster->node_capacity = new;
    return 0;
}

static int grow_supers(struct gt_cluster *cluster, struct gt_err **err)
{
    uint32_t old = cluster->super_capacity, new = cluster_grown(old, SUPERS_MAX);
    void *grown_array;
    if (old == SUPERS_MAX)
        return gt_fail(err, E2BIG, "cluster: more than %d supernodes", GT_CLUSTER_SUPERNODES_MAX);
    if (RESIZE(supers, old, new) || RESIZE(super_gaps, old, new) || RESIZE(mark, old, new) ||
        RESIZE(heap, old, new) || RESIZE(total, old, new) || RESIZE(touched, old, new) ||
        RESIZE(leaves, old, new) || RESIZE(touched_unit, old, new) ||
        RESIZE(scratch, (size_t)old * SUPER_SCRATCH, (size_t) new *SUPER_SCRATCH) ||
        gt_names_grow(&cluster->super_names, old, new) < 0)
        return gt_fail_sys(err, ENOMEM, "cluster");
    for (unsigned t = 0; t < cluster->slot_sizes; t++)
        if (RESIZE(slots[t], old, new) || RESIZE(whole[t], old, new))
            return gt_fail_sys(err, ENOMEM, "cluster");
    cluster->super_capacity = new;
    return 0;
}

void gt_cluster_set_crowded(struct gt_cluster *cluster, bool crowded)
{
    cluster->crowded = crowded;
}

void gt_cluster_set_prefers_close(struct gt_cluster *cluster, bool prefers)
{
    cluster->prefers_close = prefers;
}

void gt_cluster_set_rule(struct gt_cluster *cluster, enum gt_rule rule)
{
    cluster->rule = rule;
}

int gt_cluster_add_class(struct gt_cluster *cluster, const struct gt_class *class, uint32_t *ret,
                         struct gt_err **err)
{
    for (uint32_t i = 0; i < cluster->class_count; i++)
        if (cluster->classes[i] == class) {
            *ret = i;
            return 0;
        }
    uint32_t id = cluster->class_count;
    if (id == GT_CLUSTER_CLASSES_MAX) {
        for (id = 0; id < cluster->class_count && cluster->class_nodes[id]; id++)
            ;
        if (id == cluster->class_count)
            return gt_fail(err, E2BIG, "cluster: more than %d hardware classes", GT_CLUSTER_CLASSES_MAX);
        gt_score_forget_class(cluster, id);
        gt_pod_gpus_forget_class(cluster, id);
        gt_class_unref(cluster->classes[id]);
    } else
        cluster->class_count++;
    cluster->classes[id] = gt_class_ref(class);
    *ret = id;
    return 0;
}

/* ---- supernodes ---- */

static int check_name(const char *what, const char *name, struct gt_err **err)
{
    size_t len = strnlen(name, GT_CLUSTER_NAME_MAX + 1);
    if (len == 0 || len > GT_CLUSTER_NAME_MAX)
        return gt_fail(err, EINVAL, "%s: a name of %s characters, expected 1 to %d", what,
                       len ? "too many" : "0", GT_CLUSTER_NAME_MAX);
    return 0;
}

static bool is_in_leaf(const struct gt_cluster *cluster, const struct super *super)
{
    return super->tier == 1 && super->parent != GT_NONE && cluster->supers[super->parent].tier == 2;
}

/* As for nodes, a new one is usually in front. */
static void link_super(struct gt_cluster *cluster, uint32_t id)
{
    struct super *supers = cluster->supers, *super = &supers[id];
    uint32_t before = GT_NONE, at = super->parent == GT_NONE ? GT_NONE : supers[super->parent].first_below;
    cluster->uppers += super->tier > 1;
    cluster->in_leaves += is_in_leaf(cluster, super);
    uint32_t leaf = cluster->tiers[super->tier]++;
    for (; super->tier == 2 && leaf && cluster->leaves[leaf - 1] > id; leaf--)
        cluster->leaves[leaf] = cluster->leaves[leaf - 1];
    if (super->tier == 2)
        cluster->leaves[leaf] = id;
    for (; at != GT_NONE && at > id; at = supers[at].next_beside)
        before = at;
    super->previous_beside = before;
    super->next_beside = at;
    if (at != GT_NONE)
        supers[at].previous_beside = id;
    if (before != GT_NONE)
        supers[before].next_beside = id;
    else if (super->parent != GT_NONE)
        supers[super->parent].first_below = id;
}

static void unlink_super(struct gt_cluster *cluster, uint32_t id)
{
    struct super *supers = cluster->supers;
    const struct super *super = &supers[id];
    uint32_t leaf = 0;
    cluster->uppers -= super->tier > 1;
    cluster->in_leaves -= is_in_leaf(cluster, super);
    cluster->tiers[super->tier]--;
    while (super->tier == 2 && cluster->leaves[leaf] != id)
        leaf++;
    for (; super->tier == 2 && leaf < cluster->tiers[2]; leaf++)
        cluster->leaves[leaf] = cluster->leaves[leaf + 1];
    if (super->next_beside != GT_NONE)
        supers[super->next_beside].previous_beside = super->previous_beside;
    if (super->previous_beside != GT_NONE)
        supers[super->previous_beside].next_beside = super->next_beside;
    else if (super->parent != GT_NONE)
        supers[super->parent].first_below = super->next_beside;
}

static void free_super(struct gt_cluster *cluster, uint32_t id)
{
    unlink_super(cluster, id);
    cluster->supers[id].tier = 0;
    cluster->super_gaps[cluster->super_gap_count++] = id;
}

int gt_cluster_set_ids(struct gt_cluster *cluster, const struct gt_cluster_ids *ids, struct gt_err **err)
{
    GT_ASSERT(!cluster->node_count && !cluster->super_count);
    while (cluster->node_capacity < ids->node_ids)
        GT_TRY(grow_nodes(cluster, err));
    while (cluster->super_capacity < ids->supernode_ids)
        GT_TRY(grow_supers(cluster, err));
    cluster->node_count = ids->node_ids;
    cluster->super_count = ids->supernode_ids;
    for (uint32_t i = ids->node_count; i > 0; i--)
        cluster->node_gaps[cluster->node_gap_count++] = ids->nodes[i - 1];
    for (uint32_t i = ids->supernode_count; i > 0; i--)
        cluster->super_gaps[cluster->super_gap_count++] = ids->supernodes[i - 1];
    return 0;
}

static int new_super(struct gt_cluster *cluster, unsigned tier, uint32_t parent, uint32_t self, uint32_t *ret,
                     struct gt_err **err)
{
    uint32_t id;
    if (cluster->super_gap_count)
        id = cluster->super_gaps[--cluster->super_gap_count];
    else {
        if (cluster->super_count == cluster->super_capacity)
            GT_TRY(grow_supers(cluster, err));
        id = cluster->super_count++;
    }
    cluster->supers[id] =
        (struct super){parent, GT_NONE, 0, self, GT_NONE, GT_NONE, GT_NONE, (uint8_t)tier, 0};
    cluster->total[id] = 0;
    link_super(cluster, id);
    for (unsigned t = 0; t < cluster->slot_sizes; t++)
        cluster->slots[t][id] = cluster->whole[t][id] = 0;
    *ret = id;
    return 0;
}

static bool super_exists(const struct gt_cluster *cluster, uint32_t id)
{
    return id < cluster->super_count && cluster->supers[id].tier;
}

int gt_cluster_add_supernode(struct gt_cluster *cluster, const char *name, unsigned tier, uint32_t parent,
                             uint32_t *ret, struct gt_err **err)
{
    GT_TRY(check_name("supernode", name, err));
    if (tier < 1 || tier > GT_TIERS_MAX)
        return gt_fail(err, EINVAL, "supernode %s: tier %u, expected 1 to %d", name, tier, GT_TIERS_MAX);
    if (gt_names_find(&cluster->super_names, name) != GT_NONE)
        return gt_fail(err, EEXIST, "supernode %s: there is one of that name already", name);
    if (parent != GT_NONE && (!super_exists(cluster, parent) || cluster->supers[parent].self != GT_NONE ||
                              cluster->supers[parent].tier <= tier))
        return gt_fail(err, EINVAL, "supernode %s: its parent must be a supernode of a tier above %u", name,
                       tier);
    uint32_t id;
    GT_TRY(new_super(cluster, tier, parent, GT_NONE, &id, err));
    if (gt_names_add(&cluster->super_names, id, name) < 0) {
        free_super(cluster, id);
        return gt_fail_sys(err, ENOMEM, "supernode %s", name);
    }
    cluster->shape++;
    *ret = id;
    return 0;
}

int gt_cluster_remove_supernode(struct gt_cluster *cluster, uint32_t supernode, struct gt_err **err)
{
    if (!super_exists(cluster, supernode) || cluster->supers[supernode].self != GT_NONE)
        return gt_fail(err, ENOENT, "there is no supernode %u", supernode);
    bool used = cluster->supers[supernode].nodes;
    for (uint32_t s = 0; s < cluster->super_count && !used; s++)
        used = cluster->supers[s].tier && cluster->supers[s].parent == supernode;
    if (used)
        return gt_fail(err, EBUSY, "supernode %s: there is something in it still",
                       cluster->super_names.text[supernode]);
    cluster->shape++;
    gt_names_remove(&cluster->super_names, supernode);
    free_super(cluster, supernode);
    return 0;
}

/* ---- nodes ---- */

/* The list of a supernode's nodes has descending ids: a new node is usually added in front, and plans do not
 * depend on the order of adding. */
static void link_node(struct gt_cluster *cluster, uint32_t id)
{
    struct super *super = &cluster->supers[cluster->super[id]];
    uint32_t previous = GT_NONE, next = super->first_node;
    while (next != GT_NONE && next > id) {
        previous = next;
        next = cluster->next[next];
    }
    cluster->previous[id] = previous;
    cluster->next[id] = next;
    if (next != GT_NONE)
        cluster->previous[next] = id;
    if (previous != GT_NONE)
        cluster->next[previous] = id;
    else
        super->first_node = id;
}

static void unlink_node(struct gt_cluster *cluster, uint32_t id)
{
    uint32_t previous = cluster->previous[id], next = cluster->next[id];
    if (previous != GT_NONE)
        cluster->next[previous] = next;
    else
        cluster->supers[cluster->super[id]].first_node = next;
    if (next != GT_NONE)
        cluster->previous[next] = previous;
}

/* The tier-1 supernode for a node: `supernode` if it is of tier 1, else a new one for the node, below it. */
static int new_leaf(struct gt_cluster *cluster, const char *name, uint32_t id, uint32_t supernode,
                    uint32_t *ret, struct gt_err **err)
{
    if (supernode != GT_NONE &&
        (!super_exists(cluster, supernode) || cluster->supers[supernode].self != GT_NONE))
        return gt_fail(err, EINVAL, "node %s: its supernode does not exist", name);
    if (supernode == GT_NONE || cluster->supers[supernode].tier > 1)
        return new_super(cluster, 1, supernode, id, ret, err);
    *ret = supernode;
    return 0;
}

/* Adds the node, without counting it yet. */
static void cluster_join(struct gt_cluster *cluster, uint32_t id, uint32_t leaf)
{
    cluster->shape++;
    cluster->super[id] = leaf;
    link_node(cluster, id);
    for (uint32_t s = leaf; s != GT_NONE; s = cluster->supers[s].parent)
        cluster->supers[s].nodes++;
}

static void cluster_unlink(struct gt_cluster *cluster, uint32_t id)
{
    gt_cluster_set_eligible(cluster, id, false); /* removes it from every count */
    uint32_t leaf = cluster->super[id];
    cluster->shape++;
    unlink_node(cluster, id);
    for (uint32_t s = leaf; s != GT_NONE; s = cluster->supers[s].parent)
        cluster->supers[s].nodes--;
    if (cluster->supers[leaf].self != GT_NONE)
        free_super(cluster, leaf);
}

int gt_cluster_add_node(struct gt_cluster *cluster, const char *name, uint32_t class, uint32_t supernode,
                        uint32_t *ret, struct gt_err **err)
{
    GT_TRY(check_name("node", name, err));
    if (class >= cluster->class_count)
        return gt_fail(err, EINVAL, "node %s: there is no hardware class %u", name, class);
    if (gt_names_find(&cluster->node_names, name) != GT_NONE)
        return gt_fail(err, EEXIST, "node %s: there is one of that name already", name);
    if (!cluster->node_gap_count && cluster->node_count == cluster->node_capacity)
        GT_TRY(grow_nodes(cluster, err));
    uint32_t id =
        cluster->node_gap_count ? cluster->node_gaps[cluster->node_gap_count - 1] : cluster->node_count;
    uint32_t leaf;
    GT_TRY(new_leaf(cluster, name, id, supernode, &leaf, err));
    if (gt_names_add(&cluster->node_names, id, name) < 0) {
        if (leaf != supernode)
            free_super(cluster, leaf);
        return gt_fail_sys(err, ENOMEM, "node %s", name);
    }
    if (cluster->node_gap_count)
        cluster->node_gap_count--;
    else
        cluster->node_count++;

    unsigned gpus = gt_class_gpus(cluster->classes[class]);
    cluster->size[id] = (uint8_t)gpus;
    cluster->free[id] = cluster->healthy[id] = gt_core_all(cluster, id);
    cluster->assumed[id] = cluster->available[id] = cluster->slow[id] = 0;
    cluster->class[id] = (uint16_t) class;
    cluster->eligible[id] = true;
    cluster->first_promise[id] = GT_NONE;
    cluster->count[id] = cluster->usable[id] = cluster->draft_count[id] = 0;
    cluster->nodes_of[gpus]++;
    cluster->numa_nodes += gt_class_numa(cluster->classes[class])->count > 0;
    cluster_join(cluster, id, leaf);
    if (cluster->class_nodes[class]++ == 0)
        cluster->generation++; /* the best score of an empty node may change */
    gt_core_refresh_usable(cluster, id);
    gt_core_refresh(cluster, id);
    *ret = id;
    return 0;
}

int gt_cluster_move_node(struct gt_cluster *cluster, uint32_t node, uint32_t supernode, struct gt_err **err)
{
    if (!gt_core_has_node(cluster, node))
        return gt_fail(err, ENOENT, "there is no node %u", node);
    uint32_t leaf;
    GT_TRY(new_leaf(cluster, cluster->node_names.text[node], node, supernode, &leaf, err));
    bool eligible = cluster->eligible[node];
    cluster_unlink(cluster, node);
    cluster_join(cluster, node, leaf);
    gt_cluster_set_eligible(cluster, node, eligible);
    return 0;
}

void gt_cluster_remove_node(struct gt_cluster *cluster, uint32_t node)
{
    if (!gt_core_has_node(cluster, node))
        return;
    while (cluster->first_promise[node] != GT_NONE)
        gt_core_end_promise(cluster, cluster->first_promise[node]);
    cluster_unlink(cluster, node);
    cluster->nodes_of[cluster->size[node]]--;
    cluster->numa_nodes -= gt_class_numa(cluster->classes[cluster->class[node]])->count > 0;
    if (--cluster->class_nodes[cluster->class[node]] == 0)
        cluster->generation++;
    gt_cluster_set_slow(cluster, node, 0);
    gt_names_remove(&cluster->node_names, node);
    cluster->free[node] = 0;
    cluster->node_gaps[cluster->node_gap_count++] = node;
}

void gt_cluster_set_free(struct gt_cluster *cluster, uint32_t node, uint64_t mask)
{
    if (!gt_core_has_node(cluster, node))
        return;
    cluster->free[node] = mask & gt_core_all(cluster, node);
    gt_core_refresh(cluster, node);
}

void gt_cluster_set_healthy(struct gt_cluster *cluster, uint32_t node, uint64_t mask)
{
    if (!gt_core_has_node(cluster, node))
        return;
    cluster->healthy[node] = mask & gt_core_all(cluster, node);
    gt_core_refresh_usable(cluster, node);
    gt_core_refresh(cluster, node);
}

void gt_cluster_set_slow(struct gt_cluster *cluster, uint32_t node, uint64_t mask)
{
    if (!gt_core_has_node(cluster, node))
        return;
    mask &= gt_core_all(cluster, node);
    cluster->slow_nodes += (mask != 0) - (cluster->slow[node] != 0);
    cluster->slow[node] = mask;
}

bool gt_cluster_has_slow(const struct gt_cluster *cluster)
{
    return cluster->slow_nodes > 0;
}

uint32_t gt_core_next_slow(const struct gt_cluster *cluster, uint32_t from)
{
    while (from < cluster->node_count && !(cluster->usable[from] && gt_core_slow(cluster, from)))
        from++;
    return cluster->slow_nodes && from < cluster->node_count ? from : GT_NONE;
}

void gt_cluster_set_eligible(struct gt_cluster *cluster, uint32_t node, bool eligible)
{
    if (!gt_core_has_node(cluster, node))
        return;
    cluster->eligible[node] = eligible;
    gt_core_refresh_usable(cluster, node);
    gt_core_refresh(cluster, node);
}

/* ---- questions ---- */

uint32_t gt_cluster_find_node(const struct gt_cluster *cluster, const char *name)
{
    return gt_names_find(&cluster->node_names, name);
}

uint32_t gt_cluster_find_supernode(const struct gt_cluster *cluster, const char *name)
{
    return gt_names_find(&cluster->super_names, name);
}

uint32_t gt_cluster_nodes(const struct gt_cluster *cluster)
{
    return cluster->node_count;
}

const uint8_t *gt_cluster_available(const struct gt_cluster *cluster)
{
    return cluster->count;
}

uint32_t gt_cluster_supernodes(const struct gt_cluster *cluster)
{
    return cluster->super_count;
}

bool gt_cluster_get_node(const struct gt_cluster *cluster, uint32_t node, struct gt_cluster_node *ret)
{
    if (!gt_core_has_node(cluster, node))
        return false;
    *ret = (struct gt_cluster_node){
        .name = cluster->node_names.text[node],
        .class = cluster->classes[cluster->class[node]],
        .supernode = cluster->super[node],
        .all = gt_core_all(cluster, node),
        .free = cluster->free[node],
        .healthy = cluster->healthy[node],
        .assumed = cluster->assumed[node],
        .available = cluster->available[node],
        .slow = cluster->slow[node],
        .eligible = cluster->eligible[node],
    };
    return true;
}

bool gt_cluster_get_supernode(const struct gt_cluster *cluster, uint32_t supernode,
                              struct gt_cluster_supernode *ret)
{
    if (!super_exists(cluster, supernode))
        return false;
    const struct super *s = &cluster->supers[supernode];
    bool is_node = s->self != GT_NONE;
    *ret = (struct gt_cluster_supernode){
        .name = is_node ? cluster->node_names.text[s->self] : cluster->super_names.text[supernode],
        .tier = s->tier,
        .parent = s->parent,
        .is_node = is_node,
        .nodes = s->nodes,
        .available = cluster->total[supernode],
    };
    return true;
}

static bool is_within(const struct gt_cluster *cluster, uint32_t supernode, uint32_t above)
{
    struct gt_cluster_supernode info;
    while (supernode != above && gt_cluster_get_supernode(cluster, supernode, &info))
        supernode = info.parent;
    return supernode == above;
}

bool gt_cluster_widen(const struct gt_cluster *cluster, uint32_t node, uint32_t *common)
{
    struct gt_cluster_node info;
    struct gt_cluster_supernode supernode;
    if (!gt_cluster_get_node(cluster, node, &info))
        return false;
    uint32_t wider = *common == GT_NONE ? info.supernode : *common;
    while (!is_within(cluster, info.supernode, wider)) {
        if (!gt_cluster_get_supernode(cluster, wider, &supernode) || supernode.parent == GT_NONE)
            return false;
        wider = supernode.parent;
    }
    *common = wider;
    return true;
}
