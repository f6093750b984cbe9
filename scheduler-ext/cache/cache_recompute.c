/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/core/numa_room.h"
#include "topology/model/composite.h"

/*
 * Computes the state of a node from all facts about it. GPUs that no pod uses yet are assumed for its pods:
 * first for pods on the node with a plan; then for pods that are planned for it, as long as enough is left
 * for pods on the node without a plan; these get the agent's choice among the rest. Each kind is served by
 * age, but planned pods without a gate come before gated ones, since they can no longer be planned again.
 */

struct scene {
    struct gt_cache *cache;
    struct cache_node *node;
    uint64_t unused;  /* GPUs that no pod has */
    uint64_t unnamed; /* in use by an unknown user, as the CR says */
};

/* ---- adding to and removing from the cluster ---- */

static void recompute_take_out(struct gt_cache *cache, struct cache_node *node)
{
    cache->foreign_gpus -= gt_bit_count(gt_cluster_promised(cache->cluster, node->id, GT_PROMISE_FOREIGN));
    gt_cluster_remove_node(cache->cluster, node->id);
    cache->by_id[node->id] = NULL;
    node->id = GT_NONE;
    node->supernode = NULL;
}

static bool reserve_id(struct gt_cache *cache)
{
    if (gt_cluster_nodes(cache->cluster) < cache->by_id_size)
        return true;
    uint32_t size = cache->by_id_size ? cache->by_id_size * 2 : 64;
    void *new_;
    if (!CACHE_GROW(cache->by_id, cache->by_id_size, size) ||
        !CACHE_GROW(cache->row_of, cache->by_id_size, size))
        return false;
    cache->by_id_size = size;
    return true;
}

/* The supernode that a node is to be in; NULL: none. */
static struct cache_supernode *recompute_supernode_of(const struct cache_node *node)
{
    struct cache_supernode *best = NULL;
    for (const struct cache_membership *claim = node->claims; claim; claim = claim->next) {
        struct cache_supernode *other = claim->supernode;
        if (other->id == GT_NONE)
            continue;
        if (!best || other->tier < best->tier ||
            (other->tier == best->tier && strcmp(other->name, best->name) < 0))
            best = other;
    }
    return best;
}

static void recompute_enter(struct gt_cache *cache, struct cache_node *node)
{
    struct cache_supernode *supernode = recompute_supernode_of(node);
    uint32_t class, id;
    if (!reserve_id(cache) || gt_cluster_add_class(cache->cluster, node->cr.class, &class, NULL) < 0 ||
        gt_cluster_add_node(cache->cluster, node->name, class, supernode ? supernode->id : GT_NONE, &id,
                            NULL) < 0) {
        cache->refused++;
        return;
    }
    node->id = id;
    node->supernode = supernode;
    cache->by_id[id] = node;
    cache->row_of[id] = node->row;
    gt_cluster_set_eligible(cache->cluster, id, false); /* until its state is known */
}

/* Updates whether the node is in the cluster, and its class. */
static void recompute_place(struct gt_cache *cache, struct cache_node *node)
{
    struct gt_cluster_node at;
    bool in = node->id != GT_NONE && gt_cluster_get_node(cache->cluster, node->id, &at);
    if (in && (!node->has_topology || at.class != node->cr.class)) {
        recompute_take_out(cache, node);
        in = false;
    }
    if (!in && node->has_topology)
        recompute_enter(cache, node);
}

void gt_cache_follow_supernode(struct gt_cache *cache, struct cache_node *node)
{
    struct cache_supernode *supernode = recompute_supernode_of(node);
    if (node->id == GT_NONE || node->supernode == supernode)
        return;
    if (gt_cluster_move_node(cache->cluster, node->id, supernode ? supernode->id : GT_NONE, NULL) >= 0)
        node->supernode = supernode;
    else { /* no memory */
        recompute_take_out(cache, node);
        gt_cache_recompute(cache, node);
    }
}

/* ---- pods that a scheduler may be binding: numa_room.h ---- */

static uint64_t passed_owner(const struct gt_cache *cache, const char *namespace_, const char *name)
{
    return gt_digest_mix_text(gt_digest_mix_text(cache->seed, namespace_), name) | 1;
}

void gt_cache_pass(struct gt_cache *cache, const char *namespace_, const char *name, struct gt_numa_pod pod,
                   struct gt_node_set *nodes, uint64_t now_ms)
{
    struct gt_passed_pod passed = {passed_owner(cache, namespace_, name), now_ms + GT_CACHE_PASSED_MS, pod,
                                   *nodes};
    if (gt_numa_end_passed(cache->cluster, 0, now_ms)) /* of others, whose time is over */
        cache->more_room = true;
    gt_numa_end_passed(cache->cluster, passed.owner, now_ms);
    *nodes = (struct gt_node_set){0};
    if (passed.nodes.nodes && pod.gpus <= GT_GPUS_MAX)
        gt_numa_pass(cache->cluster, &passed);
    else
        gt_node_set_done(&passed.nodes);
}

/* A pod that passed with a plan needed no entry as long as its GPUs were promised. By now others have them on
 * the node, and it may still come there. The time of the cache is that of its last tick. */
static void recompute_pass(struct gt_cache *cache, const struct cache_pod *pod, uint32_t node)
{
    const struct gt_pod_meta *meta = &pod->pub.meta;
    struct gt_passed_pod passed = {.owner = passed_owner(cache, meta->namespace_, meta->name),
                                   .until_ms = cache->now_ms + UINT64_C(2) * GT_CACHE_PASSED_MS,
                                   .pod = {pod->pub.gpus, meta->requests}};
    if (!gt_numa_judges(cache->cluster, node) || gt_node_set_add(&passed.nodes, node, NULL) < 0)
        return;
    gt_numa_end_passed(cache->cluster, passed.owner, 0);
    gt_numa_pass(cache->cluster, &passed);
}

void gt_cache_end_passed(struct gt_cache *cache, const char *namespace_, const char *name)
{
    if (gt_numa_end_passed(cache->cluster, name ? passed_owner(cache, namespace_, name) : 0, cache->now_ms))
        cache->more_room = true;
}

/* ---- GPUs of pods ---- */

/* The mask of the plan's GPUs, from their IDs and those of the node. */
static void resolve(struct cache_pod *pod)
{
    if (!pod->plan) {
        pod->resolved = 0;
        pod->whole = false;
        return;
    }
    const struct cache_node *node = pod->plan->node;
    if (pod->resolved_version == node->devices_version)
        return;
    pod->resolved_version = node->devices_version;
    pod->resolved = 0;
    unsigned gpus = node->has_topology ? gt_class_gpus(node->cr.class) : 0;
    const char *id = pod->plan->ids;
    for (unsigned i = 0; i < pod->plan->count; i++, id += strlen(id) + 1)
        for (unsigned g = 0; g < gpus; g++)
            if (strcmp(id, node->cr.device_ids[g]) == 0)
                pod->resolved |= UINT64_C(1) << g;
    pod->whole = gt_bit_count(pod->resolved) == pod->plan->count;
}

bool gt_cache_may_be_named(const struct cache_node *node, const struct cache_pod *pod)
{
    return !node->owners_since_s || node->owners_since_s >= pod->pub.created_s;
}

static void find_owned(const struct scene *scene)
{
    const struct cache_node *node = scene->node;
    for (struct cache_pod *pod = node->pods; pod; pod = pod->node_next) {
        pod->owned = pod->next_promised = 0;
        pod->need = 0;
    }
    for (uint32_t i = 0; i < node->cr.owner_count; i++) {
        struct cache_pod *pod =
            gt_cache_pod_named(scene->cache, node->cr.owners[i].namespace_, node->cr.owners[i].pod);
        if (pod && pod->node == node && gt_cache_may_be_named(node, pod))
            pod->owned = node->cr.owners[i].mask;
    }
}

static bool recompute_has_device(const struct cache_slice *slice, uint64_t digest)
{
    for (uint32_t i = 0; i < slice->count; i++)
        if (slice->devices[i] == digest)
            return true;
    return false;
}

uint64_t gt_cache_sliced_gpus(const struct gt_cache *cache, const struct cache_node *node)
{
    int64_t newest = INT64_MIN, missing = 0;
    uint64_t mask = 0;
    if (!cache->slices_known || !node->has_topology || !node->by_claims || !node->cr.device_names)
        return UINT64_MAX;
    for (const struct cache_slice *slice = node->slices; slice; slice = slice->node_next)
        if (slice->generation > newest) {
            newest = slice->generation;
            missing = slice->of_pool;
        }
    for (const struct cache_slice *slice = node->slices; slice; slice = slice->node_next)
        missing -= slice->generation == newest;
    if (missing > 0)
        return 0;
    for (unsigned i = 0; i < gt_class_gpus(node->cr.class); i++) {
        uint64_t digest = gt_digest_mix_text(cache->seed, node->cr.device_names[i]);
        for (const struct cache_slice *slice = node->slices; slice; slice = slice->node_next)
            if (slice->generation == newest && recompute_has_device(slice, digest))
                mask |= UINT64_C(1) << i;
    }
    return mask;
}

uint64_t gt_cache_claimed_gpus(const struct cache_claim *claim)
{
    const struct cache_node *node = claim->at;
    unsigned gpus = node && node->cr.device_names ? gt_class_gpus(node->cr.class) : 0;
    uint64_t mask = 0;
    for (unsigned i = 0; gpus && i < claim->device_count; i++) {
        const struct gt_composite_gpus of = {gpus, (const char *const *)node->cr.device_names,
                                             node->cr.zones};
        mask |= gt_composite_find(&of, claim->devices[i]);
        for (unsigned g = 0; g < gpus; g++)
            if (strcmp(claim->devices[i], node->cr.device_names[g]) == 0)
                mask |= UINT64_C(1) << g;
    }
    return mask;
}

/* The GPUs of allocated claims. The claim of a planned pod is left out: the plan's GPUs are assumed in any
 * case until the CR names the pod. */
static uint64_t find_claimed(const struct scene *scene)
{
    uint64_t claimed = 0;
    for (const struct cache_claim *claim = scene->node->allocated; claim; claim = claim->node_next) {
        struct cache_pod *pod = gt_cache_pod_named(scene->cache, claim->pub.namespace_, claim->pub.pod);
        uint64_t mask = gt_cache_claimed_gpus(claim);
        /* The name must not mean an earlier pod with the same name. */
        if (pod && pod->node == scene->node &&
            (!*claim->pub.pod_uid || strcmp(claim->pub.pod_uid, pod->pub.uid) == 0)) {
            resolve(pod);
            if (pod->whole && pod->plan->node == scene->node && pod->resolved == mask)
                continue;
            pod->owned |= mask;
        }
        claimed |= mask;
    }
    return claimed;
}

static void set(struct gt_cache *cache, struct cache_pod *pod, const struct gt_cache_pod *is)
{
    struct gt_cache_pod *pub = &pod->pub;
    if (pub->state == is->state && pub->plan == is->plan && pub->node == is->node &&
        pub->planned.node == is->planned.node && pub->planned.mask == is->planned.mask) {
        gt_cache_count_gpus(pod); /* it may ask for others */
        gt_cache_charge_plan(cache, pod);
        return;
    }
    cache->pods_in[pub->state]--;
    cache->pods_in[is->state]++;
    pub->state = is->state;
    pub->plan = is->plan;
    pub->node = is->node;
    pub->planned.node = is->planned.node;
    pub->planned.mask = is->planned.mask;
    gt_cache_count_gpus(pod);
    gt_cache_charge_plan(cache, pod);
    gt_cache_changed(cache, pod);
}

void gt_cache_recompute_detached(struct gt_cache *cache, struct cache_pod *pod)
{
    set(cache, pod,
        &(struct gt_cache_pod){.state = pod->gated ? GT_CACHE_GATED : GT_CACHE_WAITING,
                               .plan = GT_CACHE_PLAN_NONE,
                               .node = GT_NONE,
                               .planned.node = GT_NONE});
}

static void set_placed(const struct scene *scene, struct cache_pod *pod, enum gt_cache_pod_state state,
                       enum gt_cache_plan plan)
{
    bool planned_here = pod->plan && pod->plan->node == scene->node;
    set(scene->cache, pod,
        &(struct gt_cache_pod){.state = state,
                               .plan = plan,
                               .node = pod->at ? scene->node->id : GT_NONE,
                               .planned.node = planned_here ? scene->node->id : GT_NONE,
                               .planned.mask = planned_here ? pod->resolved : 0});
}

/* Assumes a plan's GPUs for its pod, except those that it has already. */
static void recompute_take(struct scene *scene, struct cache_pod *pod, uint64_t mask)
{
    pod->next_promised |= mask & scene->unused;
    scene->unused &= ~mask;
    scene->unnamed &= ~mask;
}

/* A pod on the node, with the GPUs `owned` by the CR. */
static void locate_bound(struct scene *scene, struct cache_pod *pod)
{
    enum gt_cache_pod_state state = pod->owned ? GT_CACHE_RUNNING : GT_CACHE_BOUND;
    unsigned owned = gt_bit_count(pod->owned), missing = owned < pod->pub.gpus ? pod->pub.gpus - owned : 0;
    uint64_t plan = pod->resolved, rest = plan & ~pod->owned;
    bool here = pod->plan && pod->plan->node == scene->node;
    if (here && pod->whole && pod->owned == plan)
        set_placed(scene, pod, state, GT_CACHE_PLAN_RUNNING);
    else if (here && pod->whole && !(pod->owned & ~plan) && !(rest & ~(scene->unused | scene->unnamed))) {
        recompute_take(scene, pod, rest);
        set_placed(scene, pod, state, GT_CACHE_PLAN_ASSUMED);
        missing = 0;
    } else if (!pod->plan)
        set_placed(scene, pod, state, GT_CACHE_PLAN_NONE);
    else
        set_placed(scene, pod, state,
                   here && !(pod->owned & ~plan) ? GT_CACHE_PLAN_LOST : GT_CACHE_PLAN_BROKEN);
    pod->need = (uint16_t)missing;
}

/* GPUs in use by an unknown user count as those of unnamed pods on the node, so that they are not counted
 * twice. Returns how many GPUs are to be guessed in all. */
static unsigned count_needs(struct scene *scene)
{
    unsigned needs = 0;
    for (struct cache_pod *pod = scene->node->pods; pod; pod = pod->node_next) {
        for (; pod->need && scene->unnamed; pod->need--)
            scene->unnamed &= scene->unnamed - 1;
        needs += pod->need;
    }
    return needs;
}

/* A pod without a node that is planned for this one. Its GPUs are assumed as long as enough is left for pods
 * on the node. A pod that is being deleted is never bound. */
static void locate_planned(struct scene *scene, struct cache_pod *pod, unsigned needs)
{
    enum gt_cache_pod_state state = pod->gated ? GT_CACHE_GATED : GT_CACHE_WAITING;
    uint64_t plan = pod->resolved;
    bool assumed = !pod->pub.refused && !pod->pub.deleting && scene->node->id != GT_NONE &&
                   gt_cache_is_open(scene->node) && !scene->node->left_alone && !scene->node->outlived &&
                   gt_cache_taints_fit(pod->constraints, scene->node) && pod->whole &&
                   !(plan & ~(scene->unused | pod->owned)) &&
                   (!(plan & ~pod->owned) || gt_bit_count(scene->unused & ~plan) >= needs);
    if (assumed)
        recompute_take(scene, pod, plan);
    else if (pod->pub.state == GT_CACHE_WAITING && pod->pub.plan == GT_CACHE_PLAN_ASSUMED &&
             !pod->pub.deleting)
        recompute_pass(scene->cache, pod, scene->node->id);
    set_placed(scene, pod, state, assumed ? GT_CACHE_PLAN_ASSUMED : GT_CACHE_PLAN_LOST);
}

/* The GPUs that the node's agent would choose; at least their number is right. Where the kubelet would refuse
 * the pod, it knows of more GPUs than we do, and nobody knows which ones will be left. */
static void guess(struct scene *scene, struct cache_pod *pod)
{
    unsigned room = gt_bit_count(scene->unused), need = pod->need < room ? pod->need : room;
    struct gt_choice choice;
    if (need && gt_choose(scene->node->cr.class, scene->unused, 0, need, CACHE_SEARCH_US, &choice))
        recompute_take(scene, pod, choice.mask);
    else if (need && !pod->owned && gt_class_numa(scene->node->cr.class)->count)
        recompute_take(scene, pod, scene->unused);
}

static void locate_all(struct scene *scene)
{
    struct cache_pod *pods = scene->node->pods;
    for (struct cache_pod *pod = pods; pod; pod = pod->node_next) {
        resolve(pod);
        if (pod->at)
            locate_bound(scene, pod);
    }
    unsigned needs = count_needs(scene);
    for (struct cache_pod *pod = pods; pod; pod = pod->node_next)
        if (!pod->at && !pod->gated)
            locate_planned(scene, pod, needs);
    for (struct cache_pod *pod = pods; pod; pod = pod->node_next)
        if (!pod->at && pod->gated)
            locate_planned(scene, pod, needs);
    for (struct cache_pod *pod = pods; pod; pod = pod->node_next)
        if (pod->need)
            guess(scene, pod);
}

/* ---- into the cluster ---- */

static void forget_promises(const struct scene *scene)
{
    struct gt_cluster *cluster = scene->cache->cluster;
    struct cache_node *node = scene->node;
    for (struct cache_pod *pod = node->pods; pod; pod = pod->node_next)
        if (gt_cache_promised(scene->cache, pod) != pod->next_promised)
            gt_cluster_end_promise(cluster, pod->pub.promise);
    scene->cache->foreign_gpus -= gt_bit_count(gt_cluster_promised(cluster, node->id, GT_PROMISE_FOREIGN));
    gt_cluster_end_promise(cluster, node->foreign_promise);
}

/* False: it was refused. */
static bool recompute_promise(const struct scene *scene, const struct gt_promise *promise,
                              struct gt_promise_id *ret)
{
    struct gt_cluster *cluster = scene->cache->cluster;
    /* Only available GPUs can be promised, and those of an ineligible node are not available. */
    gt_cluster_set_eligible(cluster, scene->node->id, true);
    return gt_cluster_promise(cluster, promise, ret, NULL) == 0;
}

static void recompute_assume_promised(const struct scene *scene)
{
    for (struct cache_pod *pod = scene->node->pods; pod; pod = pod->node_next) {
        const struct gt_promise promise = {GT_PROMISE_PLANNED,
                                           {scene->node->id, pod->next_promised},
                                           pod->pub.job->number,
                                           pod->pub.meta.requests};
        if (gt_cache_promised(scene->cache, pod) != pod->next_promised &&
            !recompute_promise(scene, &promise, &pod->pub.promise))
            scene->cache->refused++;
    }
}

/* GPUs that pods have or are planned for do not count as reserved by the other scheduler. */
static void promise_foreign(const struct scene *scene, uint64_t promised)
{
    const struct gt_promise promise = {.kind = GT_PROMISE_FOREIGN, .place = {scene->node->id, promised}};
    if (promised && recompute_promise(scene, &promise, &scene->node->foreign_promise))
        scene->cache->foreign_gpus += gt_bit_count(promised);
}

/* Whether the CR tells of an earlier machine of this name. The API server's clock has whole seconds. */
static bool is_outlived(const struct cache_node *node)
{
    bool by_uid = node->cr.owner_uid && node->object.uid &&
                  node->cr.owner_uid != node->object.uid; /* equal texts are shared */
    bool by_age = node->written_s && node->created_s && node->written_s < node->created_s;
    return node->has_topology && node->has_node && (by_uid || by_age);
}

/* A Node that says nothing has none where its device plugin is to offer them. */
static int64_t offered_gpus(const struct cache_node *node)
{
    if (!node->has_topology || !node->has_node || node->by_claims)
        return -1;
    return node->allocatable < 0 && node->by_plugin ? 0 : node->allocatable;
}

/* The mask of callers' promises on the node. */
static uint64_t others_assumed(const struct gt_cluster *cluster, const struct cache_node *node,
                               const struct gt_cluster_node *at)
{
    return at->assumed ? at->assumed & ~gt_cluster_promised(cluster, node->id, GT_PROMISE_PLANNED) &
                             ~gt_cluster_promised(cluster, node->id, GT_PROMISE_FOREIGN)
                       : 0;
}

static uint64_t recompute_usable(const struct gt_cluster_node *at)
{
    return at->eligible ? at->free & at->healthy : 0;
}

void gt_cache_recompute(struct gt_cache *cache, struct cache_node *node)
{
    struct scene scene = {.cache = cache, .node = node};
    struct gt_cluster_node before = {0}, at = {0};
    if (node->id != GT_NONE)
        gt_cluster_get_node(cache->cluster, node->id, &before);
    before.available &= ~node->freed;
    node->freed = 0;
    cache->outlived -= node->outlived;
    node->outlived = is_outlived(node);
    cache->outlived += node->outlived;
    node->offered = offered_gpus(node);
    gt_cache_set_offered(cache, node->row, node->offered);
    gt_cache_count_taints(node);
    recompute_place(cache, node);
    bool in = node->id != GT_NONE && gt_cluster_get_node(cache->cluster, node->id, &at);
    uint64_t sliced = gt_cache_sliced_gpus(cache, node);
    if (in) {
        uint64_t others = others_assumed(cache->cluster, node, &at);
        node->is_shared = others != 0;
        scene.unused = at.all & node->healthy & sliced & ~node->used & ~others;
        scene.unnamed = node->used & ~node->owned;
    }
    find_owned(&scene);
    uint64_t claimed = find_claimed(&scene);
    scene.unused &= ~claimed;
    scene.unnamed &= ~claimed;
    locate_all(&scene);
    if (!in) {
        cache->more_room = cache->more_room || node->is_shared;
        node->is_shared = false;
        return;
    }
    forget_promises(&scene);
    gt_cluster_set_free(cache->cluster, node->id, sliced & ~(node->used | claimed));
    gt_cluster_set_healthy(cache->cluster, node->id, node->healthy);
    cache->more_room = cache->more_room || at.slow & ~node->slow; /* a job that never takes them may fit */
    gt_cluster_set_slow(cache->cluster, node->id, node->slow);
    recompute_assume_promised(&scene);
    promise_foreign(&scene, node->foreign & scene.unused);
    gt_cluster_set_eligible(cache->cluster, node->id,
                            gt_cache_is_open(node) && !node->stale && !node->left_alone && !node->outlived);
    gt_cluster_get_node(cache->cluster, node->id, &at);
    if (at.available & ~before.available ||
        others_assumed(cache->cluster, node, &at) & recompute_usable(&before) & ~recompute_usable(&at))
        cache->more_room = true;
}
