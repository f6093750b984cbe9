/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/cache/cache.h"

#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/cache/cache_internal.h"

enum { STALE_MS = 15 * 60 * 1000 };

int gt_cache_new(const struct gt_cache_spec *spec, struct gt_cache **ret, struct gt_err **err)
{
    gt_auto_cache struct gt_cache *cache = calloc(1, sizeof(*cache));
    GT_NEED(cache, err, "cache");
    if (spec)
        cache->spec = *spec;
    if (!cache->spec.stale_ms)
        cache->spec.stale_ms = STALE_MS;
    /* A seed that cannot be predicted, so that names cannot be chosen to collide in the hash tables. */
    cache->seed = gt_digest_keyed("cache");
    GT_TRY(gt_cluster_new(&cache->cluster, err));
    GT_TRY(gt_class_cache_new(CACHE_CLASSES_MAX, &cache->classes, err));
    GT_TRY(gt_mix_new(&cache->mix, err));
    *ret = gt_steal(cache);
    return 0;
}

static void free_nodes(struct gt_cache *cache)
{
    for (struct cache_node *next = gt_cache_next_node(cache, NULL), *node; (node = next);) {
        next = gt_cache_next_node(cache, node);
        gt_cache_forget_topology(cache, node);
        gt_cache_forget_labels(cache, node);
        gt_cache_forget_report(cache, node);
        gt_cache_forget_report_labels(cache, node);
        gt_cache_string_drop(cache, node->reserved.text);
        gt_cache_string_drop(cache, node->name);
        free(node);
    }
}

void gt_cache_free(struct gt_cache *cache)
{
    if (!cache)
        return;
    for (struct cache_pod *next = gt_table_after(&cache->pods, 0, NULL), *pod; (pod = next);) {
        next = gt_table_after(&cache->pods, pod->hash, pod);
        gt_cache_remove_from_job(pod);
        gt_cache_free_pod(cache, pod);
    }
    gt_cache_charges_done(cache);
    gt_cache_claims_done(cache);
    gt_cache_slices_done(cache);
    gt_cache_related_done(cache);
    gt_cache_supernodes_done(cache);
    free_nodes(cache);
    gt_cache_resources_done(cache);
    for (unsigned i = 0; i < cache->scheduler_count; i++)
        gt_cache_string_drop(cache, cache->schedulers[i]);
    struct gt_table *const tables[] = {&cache->pods,  &cache->jobs,        &cache->namespaces,
                                       &cache->nodes, &cache->constraints, &cache->taints,
                                       &cache->texts, &cache->requests,    &cache->peers};
    for (size_t i = 0; i < GT_COUNT(tables); i++)
        gt_table_done(tables[i]);
    free(cache->by_id);
    gt_cluster_free(cache->cluster);
    gt_class_cache_free(cache->classes);
    gt_mix_free(cache->mix);
    free(cache);
}

struct gt_cluster *gt_cache_cluster(struct gt_cache *cache)
{
    return cache->cluster;
}

void gt_cache_tick(struct gt_cache *cache, uint64_t now_ms)
{
    if (now_ms > cache->now_ms)
        cache->now_ms = now_ms;
    if (cache->foreign_note && cache->now_ms >= cache->foreign_until_ms)
        gt_cache_set_foreign(cache, "", 0);
    gt_cache_end_passed(cache, NULL, NULL);
    for (struct cache_node *node = NULL; (node = gt_cache_next_node(cache, node));) {
        gt_cache_calm_wiring(cache, node);
        if (!node->has_topology)
            continue;
        bool stale = cache->now_ms - node->observed_ms > cache->spec.stale_ms;
        if (stale == node->stale && !node->is_shared) /* callers may have ended promises of theirs there */
            continue;
        node->stale = stale;
        gt_cache_recompute(cache, node);
    }
    gt_cache_notify(cache);
}

/* ---- questions ---- */

const char *gt_cache_device_id(const struct gt_cache *cache, uint32_t node_id, unsigned gpu)
{
    const struct cache_node *node = gt_cache_node_of(cache, node_id);
    return node && gpu < gt_class_gpus(node->cr.class) ? node->cr.device_ids[gpu] : NULL;
}

const struct gt_cache_pod *gt_cache_gpu_user(const struct gt_cache *cache, uint32_t node_id, unsigned gpu)
{
    const struct cache_node *node = gt_cache_node_of(cache, node_id);
    if (!node || gpu >= gt_class_gpus(node->cr.class))
        return NULL;
    uint64_t bit = UINT64_C(1) << gpu;
    for (uint32_t i = 0; i < node->cr.owner_count; i++)
        if (node->cr.owners[i].mask & bit) {
            struct cache_pod *pod =
                gt_cache_pod_named(cache, node->cr.owners[i].namespace_, node->cr.owners[i].pod);
            return pod && pod->node == node && gt_cache_may_be_named(node, pod) ? &pod->pub : NULL;
        }
    for (const struct cache_pod *pod = node->pods; pod; pod = pod->node_next)
        if (gt_cache_promised(cache, pod) & bit)
            return &pod->pub;
    return NULL;
}

uint64_t gt_cache_pod_gpus(const struct gt_cache *cache, const struct gt_cache_pod *pod)
{
    const struct cache_node *node = gt_cache_node_of(cache, pod->node);
    uint64_t mask = 0;
    for (unsigned gpu = 0; node && gpu < gt_class_gpus(node->cr.class); gpu++)
        if (gt_cache_gpu_user(cache, pod->node, gpu) == pod)
            mask |= UINT64_C(1) << gpu;
    return mask;
}

uint32_t gt_cache_pod_number(const struct gt_cache_pod *pod, enum gt_pod_key key)
{
    const char *text = gt_pod_annotation(&pod->meta, key);
    uint64_t number;
    return text && gt_text_to_unsigned(text, GT_NONE - 1, &number) ? (uint32_t)number : GT_NONE;
}

bool gt_cache_pod_is_unplaced(const struct gt_cache_pod *pod)
{
    return pod->state >= GT_CACHE_BOUND && pod->plan == GT_CACHE_PLAN_NONE && !pod->deleting &&
           !pod->identity.ignored && !gt_pod_annotation(&pod->meta, GT_KEY_PLAN_RANK);
}

uint32_t gt_cache_outlived_nodes(const struct gt_cache *cache)
{
    return cache->outlived;
}

bool gt_cache_get_node(const struct gt_cache *cache, uint32_t node_id, struct gt_cache_node *ret)
{
    const struct cache_node *node = gt_cache_node_of(cache, node_id);
    if (!node)
        return false;
    *ret = (struct gt_cache_node){.has_node = node->has_node,
                                  .ready = node->ready,
                                  .cordoned = node->cordoned,
                                  .stale = node->stale,
                                  .links_down = node->links_down,
                                  .left_alone = node->left_alone,
                                  .outlived = node->outlived,
                                  .taint = node->gpu_taint,
                                  .offered = node->offered,
                                  .sliced = gt_cache_sliced_gpus(cache, node),
                                  .foreign = gt_cluster_promised(cache->cluster, node_id, GT_PROMISE_FOREIGN),
                                  .health_unknown = node->health_unknown,
                                  .isolated = node->isolated & ~node->healthy,
                                  .observed_ms = node->observed_ms,
                                  .product = node->cr.product};
    return true;
}

void gt_cache_counters(const struct gt_cache *cache, struct gt_cache_counters *ret)
{
    struct gt_cache_counters counters = {.jobs = cache->jobs.count,
                                         .nodes_outlived = cache->outlived,
                                         .refused = cache->refused,
                                         .pods_beyond = cache->pods_beyond};
    memcpy(counters.pods, cache->pods_in, sizeof(counters.pods));
    for (const struct cache_node *node = NULL; (node = gt_cache_next_node(cache, node));) {
        counters.nodes += node->id != GT_NONE;
        counters.nodes_without_topology += node->has_node && node->has_gpus && !node->has_topology;
        counters.nodes_stale += node->stale;
        bool fewer = node->offered >= 0 && node->offered < (int64_t)gt_bit_count(node->healthy);
        fewer =
            fewer || (node->has_topology && node->healthy & ~node->used & ~gt_cache_sliced_gpus(cache, node));
        counters.nodes_offering_less += fewer && !node->left_alone;
        counters.nodes_rewired += node->rewires;
    }
    for (const struct cache_supernode *at = NULL; (at = gt_cache_next_supernode(cache, at));)
        counters.supernodes += at->known;
    *ret = counters;
}

uint32_t gt_cache_absent_nodes(const struct gt_cache *cache, const char *names[], uint32_t max)
{
    uint32_t count = 0;
    for (const struct cache_node *node = NULL; (node = gt_cache_next_node(cache, node));) {
        if (node->has_topology || node->report.is_filled ||
            !(node->claims || (node->has_node && node->has_gpus)))
            continue;
        uint32_t at = count < max ? count : max;
        for (; at && strcmp(node->name, names[at - 1]) < 0; at--)
            if (at < max)
                names[at] = names[at - 1];
        if (at < max)
            names[at] = node->name;
        count++;
    }
    return count;
}
