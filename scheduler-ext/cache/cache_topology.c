/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "api/node_gpu_topology.h"
#include "scheduler-ext/cache/cache_internal.h"
#include "topology/model/isolation.h"
#include "topology/model/node.h"

/* NodeGPUTopology: the report of a node's agent about its GPUs and their users. */

static void cache_topology_drop_facts(struct gt_cache *cache, struct cache_facts *facts)
{
    gt_class_unref(facts->class);
    gt_cache_string_drop(cache, facts->product);
    gt_cache_string_drop(cache, facts->owner_uid);
    free(facts->device_ids);
    free(facts->device_names);
    free(facts->zones);
    for (uint32_t i = 0; i < facts->owner_count; i++) {
        gt_cache_string_drop(cache, facts->owners[i].namespace_);
        gt_cache_string_drop(cache, facts->owners[i].pod);
    }
    free(facts->owners);
    *facts = (struct cache_facts){0};
}

/* Owners of GPUs as pods: a pod is listed once, even if several of its containers have GPUs. */
static int cache_topology_add_owner(struct gt_cache *cache, struct cache_facts *facts,
                                    const struct gt_gpu_owner *reported)
{
    uint64_t bit = UINT64_C(1) << reported->gpu;
    for (uint32_t i = 0; i < facts->owner_count; i++)
        if (strcmp(facts->owners[i].pod, reported->pod) == 0 &&
            strcmp(facts->owners[i].namespace_, reported->namespace_) == 0) {
            facts->owners[i].mask |= bit;
            return 0;
        }
    struct cache_owner *owner = &facts->owners[facts->owner_count++];
    *owner = (struct cache_owner){gt_cache_string(cache, reported->namespace_),
                                  gt_cache_string(cache, reported->pod), bit};
    return owner->namespace_ && owner->pod ? 0 : -ENOMEM;
}

static bool make_owners(struct gt_cache *cache, const struct gt_node_gpu_topology *topology,
                        struct cache_facts *facts)
{
    if (!topology->owner_count)
        return true;
    facts->owners = calloc(1, topology->owner_count * sizeof(*facts->owners));
    if (!facts->owners)
        return false;
    for (unsigned i = 0; i < topology->owner_count; i++)
        if (cache_topology_add_owner(cache, facts, &topology->owners[i]) < 0)
            return false;
    return true;
}

enum {
    DEVICE_TEXT_SIZE = (int)GT_ID_SIZE > (int)GT_DRA_DEVICE_SIZE ? (int)GT_ID_SIZE : (int)GT_DRA_DEVICE_SIZE
};

/* One block: pointers and the texts behind them; NULL without memory. */
static char **make_list(char texts[][DEVICE_TEXT_SIZE], unsigned count)
{
    size_t size = count * sizeof(char *);
    for (unsigned i = 0; i < count; i++)
        size += strlen(texts[i]) + 1;
    char **list = calloc(1, size);
    char *to = (char *)(list + count);
    for (unsigned i = 0; list && i < count; i++)
        list[i] = gt_cache_put_text(&to, texts[i]);
    return list;
}

static bool make_device_ids(struct gt_cache *cache, const struct gt_node *node, struct cache_facts *facts)
{
    char texts[GT_GPUS_MAX][DEVICE_TEXT_SIZE];
    for (unsigned i = 0; i < node->gpu_count; i++)
        gt_gpu_device_id(&node->gpus[i], texts[i]);
    facts->device_ids = make_list(texts, node->gpu_count);
    if (!cache->spec.claims || !facts->device_ids)
        return facts->device_ids;
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (!gt_dra_device_name(node->gpus[i].bdf, texts[i]))
            texts[i][0] = '\0';
    facts->device_names = make_list(texts, node->gpu_count);
    facts->zones = calloc(1, node->gpu_count);
    for (unsigned i = 0; facts->zones && i < node->gpu_count; i++)
        facts->zones[i] = (uint8_t)node->gpus[i].zone;
    return facts->device_names && facts->zones;
}

static bool is_by_claims(const struct gt_node_gpu_topology *topology)
{
    return strcmp(topology->conditions[GT_TOPOLOGY_REGISTERED].reason, GT_REASON_BY_CLAIMS) == 0;
}

/* False without memory. `known`: the node's class so far, NULL: none. */
static bool make_facts(struct gt_cache *cache, const struct gt_class *known,
                       const struct gt_node_gpu_topology *topology, struct cache_facts *facts)
{
    const struct gt_node *node = topology->node;
    struct gt_weights weights;
    gt_weights_of(node, &weights);
    if (is_by_claims(topology)) /* the kubelet's topology manager does not judge claims */
        weights.numa.count = 0;
    if (node->gpus[0].product[0] && !(facts->product = gt_cache_string(cache, node->gpus[0].product)))
        return false;
    if (*topology->node_uid && !(facts->owner_uid = gt_cache_string(cache, topology->node_uid)))
        return false;
    if (known && gt_class_is_of(known, &weights))
        facts->class = gt_class_ref(known);
    else if (gt_class_cache_get(cache->classes, &weights, &facts->class, NULL) < 0)
        return false;
    return make_owners(cache, topology, facts) && make_device_ids(cache, node, facts);
}

static bool same_ids(const struct cache_node *node, const struct cache_facts *facts)
{
    unsigned gpus = gt_class_gpus(facts->class);
    if (!node->has_topology || gt_class_gpus(node->cr.class) != gpus)
        return false;
    for (unsigned i = 0; i < gpus; i++)
        if (strcmp(node->cr.device_ids[i], facts->device_ids[i]) != 0 ||
            (facts->device_names && strcmp(node->cr.device_names[i], facts->device_names[i]) != 0))
            return false;
    return true;
}

void gt_cache_forget_topology(struct gt_cache *cache, struct cache_node *node)
{
    if (!node->has_topology)
        return;
    cache_topology_drop_facts(cache, &node->cr);
    node->has_topology = false;
    cache->by_plugin -= !node->by_claims;
    node->resource_version = 0;
    node->stale = node->by_plugin = false;
    node->written_s = 0;
    node->devices_version++;
}

/* ---- how often its wiring changes ---- */

void gt_cache_calm_wiring(const struct gt_cache *cache, struct cache_node *node)
{
    uint64_t last = node->rewired ? node->rewired_ms[(node->rewired - 1) % GT_CACHE_REWIRED_MAX] : 0;
    node->rewires = node->rewires && cache->now_ms - last <= GT_CACHE_REWIRED_MS;
}

static void note_rewired(const struct gt_cache *cache, struct cache_node *node)
{
    uint64_t *oldest = &node->rewired_ms[node->rewired % GT_CACHE_REWIRED_MAX];
    bool often = node->rewired >= GT_CACHE_REWIRED_MAX && cache->now_ms - *oldest <= GT_CACHE_REWIRED_MS;
    gt_cache_calm_wiring(cache, node);
    *oldest = cache->now_ms;
    node->rewired++;
    if (!often || node->rewires)
        return;
    node->rewires = true;
    if (cache->spec.on_rewires)
        cache->spec.on_rewires(cache->spec.arg, node->name);
}

static void cache_topology_commit(struct gt_cache *cache, struct cache_node *node,
                                  const struct gt_node_gpu_topology *topology, struct cache_facts *facts)
{
    const char *version = topology->resource_version;
    uint64_t digest = *version ? gt_digest_mix_text(cache->seed, version) | 1 : 0;
    /* A repeated list contains the same object, which is no new report of the agent. */
    if (!node->has_topology || !digest || digest != node->resource_version)
        node->observed_ms = cache->now_ms;
    uint64_t observed_ms = node->observed_ms;
    uint32_t versions = node->devices_version;
    uint64_t healthy = node->has_topology ? node->healthy : 0,
             isolated = node->has_topology ? node->isolated : 0, slow = node->has_topology ? node->slow : 0;
    bool same = same_ids(node, facts);
    if (node->cr.class && node->cr.class != facts->class)
        note_rewired(cache, node);
    gt_cache_forget_topology(cache, node);
    node->devices_version = same ? versions : versions + 1;
    node->observed_ms = observed_ms;
    node->resource_version = digest;
    node->has_topology = true;
    const char *registered = topology->conditions[GT_TOPOLOGY_REGISTERED].reason;
    node->by_claims = is_by_claims(topology);
    node->by_plugin = *registered && !node->by_claims && strcmp(registered, GT_REASON_NO_DEVICE_PLUGIN) != 0;
    node->cr = *facts;
    node->written_s = topology->written_s;
    cache->by_plugin += !node->by_claims;
    node->healthy = gt_node_usable(topology->node);
    node->isolated = gt_node_isolated(topology->node);
    node->slow = gt_node_graded(topology->node);
    if (!same || (healthy | isolated) & ~(node->healthy | node->isolated))
        node->unhealthy_ms = cache->now_ms;
    if (!same || healthy != node->healthy || isolated != node->isolated || slow != node->slow)
        gt_cache_node_changed(cache, node);
    node->health_unknown = gt_node_with_health(topology->node, GT_GPU_HEALTH_UNKNOWN);
    node->owned = topology->owned;
    node->used = topology->owned | (topology->use_known ? node->healthy & ~topology->free : 0);
    node->left_alone = gt_node_not_advertised(topology->node) != NULL;
    node->links_down = topology->conditions[GT_TOPOLOGY_LINKS_HEALTHY].status == GT_CONDITION_FALSE;
    node->owners_since_s = (uint64_t)topology->owners_written_s;
    node->stale = cache->now_ms - observed_ms > cache->spec.stale_ms;
}

/* The node leaves the cluster. */
static void cache_topology_remove_node(struct gt_cache *cache, struct cache_node *node)
{
    if (!node->has_topology)
        return;
    gt_cache_forget_topology(cache, node);
    gt_cache_recompute(cache, node);
}

static void lose_topology(struct gt_cache *cache, const char *name)
{
    struct cache_node *node = gt_cache_find_node(cache, name);
    if (!node || !(node->has_topology || node->report.is_filled))
        return;
    gt_cache_forget_report(cache, node);
    cache_topology_remove_node(cache, node);
    gt_cache_node_forget(cache, node);
}

static bool cache_topology_enter(struct gt_cache *cache, struct cache_node *node,
                                 const struct gt_node_gpu_topology *topology)
{
    struct cache_facts facts = {0};
    if (!make_facts(cache, node->cr.class, topology, &facts)) {
        cache_topology_drop_facts(cache, &facts);
        return false;
    }
    cache_topology_commit(cache, node, topology, &facts);
    gt_cache_recompute(cache, node);
    return true;
}

static void cache_topology_put(struct gt_cache *cache, const struct gt_node_gpu_topology *topology)
{
    struct cache_node *node = gt_cache_node_record(cache, topology->name);
    bool whole = node && (!cache->spec.reports || gt_cache_set_report(cache, node, topology));
    if (whole && topology->node->gpu_count && !cache->spec.reports_only)
        whole = cache_topology_enter(cache, node, topology);
    else if (whole) /* it may still be in a supernode */
        cache_topology_remove_node(cache, node);
    if (node)
        gt_cache_node_forget(cache, node);
    cache->refused += !whole;
}

void gt_cache_topology(struct gt_cache *cache, const cJSON *object, uint64_t now_ms)
{
    gt_auto_node_gpu_topology struct gt_node_gpu_topology topology = {0};
    if (now_ms > cache->now_ms)
        cache->now_ms = now_ms;
    if (gt_node_gpu_topology_read(object, &topology, NULL) < 0)
        cache->refused++;
    else if (topology.node)
        cache_topology_put(cache, &topology);
    else /* its agent created it and has not filled it yet */
        lose_topology(cache, topology.name);
    gt_cache_notify(cache);
}

void gt_cache_topology_deleted(struct gt_cache *cache, const char *name)
{
    lose_topology(cache, name);
    gt_cache_notify(cache);
}
