/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/feed/feed_internal.h"

/*
 * What follows from the facts about one node. GPUs that nobody uses are given to the pods that sit on it:
 * first to those on the node with a plan; then to those that are planned for it, as long as enough is left
 * for pods on the node without a plan; these get the agent's choice among the rest. Each kind by age, but of
 * the planned ones those without a gate first: theirs can no more be planned anew.
 */
struct scene {
    struct gt_feed *feed;
    struct feed_node *node;
    uint64_t room;    /* nobody has it */
    uint64_t unnamed; /* the CR says that it is in use and not by whom */
};

static unsigned bits(uint64_t mask)
{
    return (unsigned)__builtin_popcountll(mask);
}

/* ---- in and out of the cluster ---- */

void gt_feed_pull(struct gt_feed *feed, struct feed_node *node)
{
    if (node->id == GT_NONE)
        return;
    gt_cluster_remove_node(feed->cluster, node->id);
    feed->by_id[node->id] = NULL;
    node->id = GT_NONE;
    node->supernode = NULL;
    for (struct feed_pod *pod = node->seats; pod; pod = pod->seat_next) {
        pod->pub.assumption = GT_NONE;
        pod->hold = 0;
    }
    if (!node->is_pulled) {
        node->is_pulled = true;
        node->next_pulled = feed->pulled;
        feed->pulled = node;
    }
}

/* Those that went last come first, so that each gets its number back. */
void gt_feed_settle_pulled(struct gt_feed *feed)
{
    while (feed->pulled) {
        struct feed_node *node = feed->pulled;
        feed->pulled = node->next_pulled;
        node->is_pulled = false;
        gt_feed_settle(feed, node);
    }
}

static bool reserve_id(struct gt_feed *feed)
{
    if (gt_cluster_nodes(feed->cluster) < feed->by_id_size)
        return true;
    uint32_t size = feed->by_id_size ? feed->by_id_size * 2 : 64;
    struct feed_node **by_id = gt_feed_alloc(&feed->bytes, size * sizeof(struct feed_node *));
    if (!by_id)
        return false;
    for (uint32_t i = 0; i < feed->by_id_size; i++)
        by_id[i] = feed->by_id[i];
    gt_feed_release(&feed->bytes, feed->by_id);
    feed->by_id = by_id;
    feed->by_id_size = size;
    return true;
}

static void enter(struct gt_feed *feed, struct feed_node *node, struct feed_supernode *supernode)
{
    uint32_t class, id;
    if (!reserve_id(feed) || gt_cluster_add_class(feed->cluster, node->class, &class, NULL) < 0 ||
        gt_cluster_add_node(feed->cluster, node->name, class, supernode ? supernode->id : GT_NONE, &id,
                            NULL) < 0) {
        feed->refused++;
        return;
    }
    node->id = id;
    node->supernode = supernode;
    feed->by_id[id] = node;
    gt_cluster_set_eligible(feed->cluster, id, false); /* until its state is known */
}

/* In the cluster as it should be: in its class and supernode, or not at all. */
static void place(struct gt_feed *feed, struct feed_node *node)
{
    struct feed_supernode *supernode = gt_feed_supernode_of(node);
    struct gt_cluster_node at;
    bool in = node->id != GT_NONE && gt_cluster_get_node(feed->cluster, node->id, &at);
    if (in && (!node->has_topology || at.class != node->class || node->supernode != supernode)) {
        gt_feed_pull(feed, node);
        feed->pulled = node->next_pulled;
        node->is_pulled = false;
        in = false;
    }
    if (!in && node->has_topology)
        enter(feed, node, supernode);
}

/* ---- who has what ---- */

bool gt_feed_may_be_named(const struct feed_node *node, const struct feed_pod *pod)
{
    return !node->owners_since_s || node->owners_since_s >= pod->pub.created_s;
}

static void find_owned(const struct scene *scene)
{
    const struct feed_node *node = scene->node;
    for (struct feed_pod *pod = node->seats; pod; pod = pod->seat_next) {
        pod->owned = pod->next_hold = 0;
        pod->need = 0;
    }
    for (uint32_t i = 0; i < node->owner_count; i++) {
        struct feed_pod *pod =
            gt_feed_pod_named(scene->feed, node->owners[i].namespace_, node->owners[i].pod);
        if (pod && pod->seat == node && gt_feed_may_be_named(node, pod))
            pod->owned = node->owners[i].mask;
    }
}

static void set(struct gt_feed *feed, struct feed_pod *pod, const struct gt_feed_pod *is)
{
    struct gt_feed_pod *pub = &pod->pub;
    if (pub->state == is->state && pub->plan == is->plan && pub->node == is->node &&
        pub->plan_node == is->plan_node && pub->plan_mask == is->plan_mask)
        return;
    feed->pods_in[pub->state]--;
    feed->pods_in[is->state]++;
    pub->state = is->state;
    pub->plan = is->plan;
    pub->node = is->node;
    pub->plan_node = is->plan_node;
    pub->plan_mask = is->plan_mask;
    gt_feed_changed(feed, pod);
}

void gt_feed_settle_unseated(struct gt_feed *feed, struct feed_pod *pod)
{
    set(feed, pod,
        &(struct gt_feed_pod){.state = pod->gated ? GT_FEED_GATED : GT_FEED_WAITING,
                              .plan = GT_FEED_PLAN_NONE,
                              .node = GT_NONE,
                              .plan_node = GT_NONE});
}

static void set_seated(const struct scene *scene, struct feed_pod *pod, enum gt_feed_pod_state state,
                       enum gt_feed_plan plan)
{
    bool planned_here = pod->plan && pod->plan->node == scene->node;
    set(scene->feed, pod,
        &(struct gt_feed_pod){.state = state,
                              .plan = plan,
                              .node = pod->at ? scene->node->id : GT_NONE,
                              .plan_node = planned_here ? scene->node->id : GT_NONE,
                              .plan_mask = planned_here ? pod->resolved : 0});
}

/* Gives a plan's GPUs to its pod, those that it does not have already. */
static void take(struct scene *scene, struct feed_pod *pod, uint64_t mask)
{
    pod->next_hold |= mask & scene->room;
    scene->room &= ~mask;
    scene->unnamed &= ~mask;
}

/* A pod on the node, which the CR names for `owned`. */
static void seat_bound(struct scene *scene, struct feed_pod *pod)
{
    enum gt_feed_pod_state state = pod->owned ? GT_FEED_RUNNING : GT_FEED_BOUND;
    unsigned owned = bits(pod->owned), missing = owned < pod->pub.gpus ? pod->pub.gpus - owned : 0;
    uint64_t plan = pod->resolved, rest = plan & ~pod->owned;
    bool here = pod->plan && pod->plan->node == scene->node;
    if (here && pod->whole && pod->owned == plan)
        set_seated(scene, pod, state, GT_FEED_PLAN_KEPT);
    else if (here && pod->whole && !(pod->owned & ~plan) && !(rest & ~(scene->room | scene->unnamed))) {
        take(scene, pod, rest);
        set_seated(scene, pod, state, GT_FEED_PLAN_HELD);
        missing = 0;
    } else if (!pod->plan)
        set_seated(scene, pod, state, GT_FEED_PLAN_NONE);
    else
        set_seated(scene, pod, state,
                   here && !(pod->owned & ~plan) ? GT_FEED_PLAN_LOST : GT_FEED_PLAN_BROKEN);
    pod->need = missing;
}

/* GPUs in use by an unnamed pod count as those of pods on the node: the CR must not make them count twice.
 * Returns how many GPUs are to be guessed all in all. */
static unsigned count_needs(struct scene *scene)
{
    unsigned needs = 0;
    for (struct feed_pod *pod = scene->node->seats; pod; pod = pod->seat_next) {
        for (; pod->need && scene->unnamed; pod->need--)
            scene->unnamed &= scene->unnamed - 1;
        needs += pod->need;
    }
    return needs;
}

/* A pod that is planned for the node and on none. It is held while pods on the node need no more than what
 * the plan leaves them. */
static void seat_planned(struct scene *scene, struct feed_pod *pod, unsigned needs)
{
    enum gt_feed_pod_state state = pod->gated ? GT_FEED_GATED : GT_FEED_WAITING;
    uint64_t plan = pod->resolved;
    bool held = !pod->pub.refused && scene->node->id != GT_NONE && gt_feed_is_open(scene->node) &&
                !scene->node->left_alone && pod->whole && !(plan & ~(scene->room | pod->owned)) &&
                (!(plan & ~pod->owned) || bits(scene->room & ~plan) >= needs);
    if (held)
        take(scene, pod, plan);
    set_seated(scene, pod, state, held ? GT_FEED_PLAN_HELD : GT_FEED_PLAN_LOST);
}

/* What the node's agent would give, in number at least. */
static void guess(struct scene *scene, struct feed_pod *pod)
{
    unsigned room = bits(scene->room), need = pod->need < room ? pod->need : room;
    struct gt_choice choice;
    if (need && gt_choose(scene->node->class, scene->room, 0, need, FEED_SEARCH_US, &choice))
        take(scene, pod, choice.mask);
}

static void seat_all(struct scene *scene)
{
    struct feed_pod *seats = scene->node->seats;
    for (struct feed_pod *pod = seats; pod; pod = pod->seat_next) {
        gt_feed_resolve(pod);
        if (pod->at)
            seat_bound(scene, pod);
    }
    unsigned needs = count_needs(scene);
    for (struct feed_pod *pod = seats; pod; pod = pod->seat_next)
        if (!pod->at && !pod->gated)
            seat_planned(scene, pod, needs);
    for (struct feed_pod *pod = seats; pod; pod = pod->seat_next)
        if (!pod->at && pod->gated)
            seat_planned(scene, pod, needs);
    for (struct feed_pod *pod = seats; pod; pod = pod->seat_next)
        if (pod->need)
            guess(scene, pod);
}

/* ---- into the cluster ---- */

static void forget_holds(const struct scene *scene)
{
    for (struct feed_pod *pod = scene->node->seats; pod; pod = pod->seat_next)
        if (pod->hold && pod->hold != pod->next_hold) {
            gt_cluster_forget(scene->feed->cluster, pod->pub.assumption);
            pod->pub.assumption = GT_NONE;
            pod->hold = 0;
        }
}

static void assume_holds(const struct scene *scene)
{
    struct gt_cluster *cluster = scene->feed->cluster;
    for (struct feed_pod *pod = scene->node->seats; pod; pod = pod->seat_next) {
        if (pod->hold == pod->next_hold)
            continue;
        /* An assumption is one of available GPUs, and those of a node that is not eligible are not. */
        gt_cluster_set_eligible(cluster, scene->node->id, true);
        if (gt_cluster_assume(cluster, scene->node->id, pod->next_hold, pod->pub.job->number, UINT64_MAX,
                              &pod->pub.assumption, NULL) == 0)
            pod->hold = pod->next_hold;
        else
            scene->feed->refused++;
    }
}

static bool is_eligible(const struct feed_node *node)
{
    return gt_feed_is_open(node) && !node->stale && !node->left_alone;
}

/* What callers have assumed on the node. */
static uint64_t others_assumed(const struct feed_node *node, const struct gt_cluster_node *at)
{
    uint64_t ours = 0;
    for (const struct feed_pod *pod = node->seats; pod; pod = pod->seat_next)
        ours |= pod->hold;
    return at->assumed & ~ours;
}

static uint64_t usable(const struct gt_cluster_node *at)
{
    return at->eligible ? at->free & at->healthy : 0;
}

void gt_feed_settle(struct gt_feed *feed, struct feed_node *node)
{
    struct scene scene = {.feed = feed, .node = node};
    struct gt_cluster_node before = {0}, at = {0};
    if (node->id != GT_NONE)
        gt_cluster_get_node(feed->cluster, node->id, &before);
    before.available &= ~node->freed;
    node->freed = 0;
    gt_feed_count_taints(node);
    place(feed, node);
    bool in = node->id != GT_NONE && gt_cluster_get_node(feed->cluster, node->id, &at);
    if (in) {
        uint64_t others = others_assumed(node, &at);
        node->is_shared = others != 0;
        scene.room = at.all & node->healthy & ~node->used & ~others;
        scene.unnamed = node->used & ~node->owned;
    }
    find_owned(&scene);
    seat_all(&scene);
    if (!in) {
        feed->room = feed->room || node->is_shared;
        node->is_shared = false;
        return;
    }
    forget_holds(&scene);
    gt_cluster_set_free(feed->cluster, node->id, ~node->used);
    gt_cluster_set_healthy(feed->cluster, node->id, node->healthy);
    assume_holds(&scene);
    gt_cluster_set_eligible(feed->cluster, node->id, is_eligible(node));
    gt_cluster_get_node(feed->cluster, node->id, &at);
    if (at.available & ~before.available || others_assumed(node, &at) & usable(&before) & ~usable(&at))
        feed->room = true;
}
