/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "api/pod_plan.h"
#include "base/bits.h"
#include "base/err.h"
#include "scheduler-ext/cache/cache_internal.h"

/* Plans of pods: from their annotations, or from the caller until the annotations are there. */

void gt_cache_free_plan(struct gt_cache *cache, struct cache_plan *plan)
{
    if (!plan)
        return;
    gt_cache_node_drop(cache, plan->node);
    free(plan);
}

/* Collects the different IDs of a plan (an ordinary init container shares GPUs with others). Returns their
 * length with NULs; 0 where there are not `count` of them. */
static size_t cache_plan_measure(const struct gt_pod_plan *plan, unsigned count,
                                 const char *ids[static GT_GPUS_MAX])
{
    size_t size = 0;
    unsigned found = 0;
    for (unsigned c = 0; c < plan->count; c++)
        for (unsigned i = 0; i < plan->containers[c].count; i++) {
            const char *id = plan->containers[c].ids[i];
            unsigned known = 0;
            while (known < found && strcmp(ids[known], id) != 0)
                known++;
            if (known < found)
                continue;
            if (found == count)
                return 0;
            ids[found++] = id;
            size += strlen(id) + 1;
        }
    return found == count ? size : 0;
}

static struct cache_plan *new_plan(struct gt_cache *cache, const char *node_name, unsigned count, size_t size)
{
    struct cache_plan *plan = calloc(1, offsetof(struct cache_plan, ids) + size);
    struct cache_node *node = plan ? gt_cache_node_record(cache, node_name) : NULL;
    if (!node) {
        free(plan);
        return NULL;
    }
    plan->node = node;
    plan->count = (uint8_t)count;
    node->refs++;
    return plan;
}

int gt_cache_read_plan(struct gt_cache *cache, const char *node, const char *gpus, unsigned count,
                       struct cache_plan **ret)
{
    *ret = NULL;
    if (!node && !gpus)
        return 0;
    gt_auto_free struct gt_pod_plan *read = NULL;
    const char *ids[GT_GPUS_MAX];
    if (!node || !gpus || count > GT_GPUS_MAX || gt_pod_plan_read(gpus, &read, NULL) < 0)
        return -EINVAL;
    size_t size = cache_plan_measure(read, count, ids);
    struct cache_plan *plan = size ? new_plan(cache, node, count, size) : NULL;
    if (plan) {
        char *to = plan->ids;
        for (unsigned i = 0; i < count; i++)
            to = stpcpy(to, ids[i]) + 1;
    }
    *ret = plan;
    return plan ? 0 : -EINVAL;
}

/* ---- plans of the caller ---- */

/* Replaces the plan in force. */
static void cache_plan_replace(struct gt_cache *cache, struct cache_pod *pod, struct cache_plan *plan)
{
    struct cache_plan *old = pod->plan;
    struct cache_node *left = pod->node;
    gt_cache_detach_pod(cache, pod);
    pod->plan = plan;
    pod->resolved_version = 0;
    pod->overrides = true;
    pod->overridden = pod->reported;
    gt_cache_attach_pod(pod);
    if (left)
        gt_cache_recompute(cache, left);
    if (pod->node && pod->node != left)
        gt_cache_recompute(cache, pod->node);
    if (!pod->node)
        gt_cache_recompute_detached(cache, pod);
    gt_cache_free_plan(cache, old);
}

static struct cache_plan *plan_of(struct gt_cache *cache, const struct cache_node *node, uint64_t mask)
{
    size_t size = 0;
    for (uint64_t left = mask; left; left &= left - 1)
        size += strlen(node->cr.device_ids[gt_bit_first(left)]) + 1;
    struct cache_plan *plan = new_plan(cache, node->name, gt_bit_count(mask), size);
    char *to = plan ? plan->ids : NULL;
    for (uint64_t left = plan ? mask : 0; left; left &= left - 1) {
        const char *id = node->cr.device_ids[gt_bit_first(left)];
        size_t bytes = strlen(id) + 1;
        memcpy(to, id, bytes);
        to += bytes;
    }
    return plan;
}

int gt_cache_plan_pod(struct gt_cache *cache, struct gt_cache_pod *pub, uint32_t node_id, uint64_t mask,
                      struct gt_err **err)
{
    struct cache_pod *pod = (struct cache_pod *)pub;
    struct cache_node *node = gt_cache_node_of(cache, node_id);
    struct gt_cluster_node at;
    if (!node || !gt_cluster_get_node(cache->cluster, node_id, &at))
        return gt_fail(err, ENOENT, "plan of pod %s/%s: there is no node %u", pub->meta.namespace_,
                       pub->meta.name, node_id);
    if (pod->at)
        return gt_fail(err, EINVAL, "plan of pod %s/%s: it is on node %s already", pub->meta.namespace_,
                       pub->meta.name, pod->at->name);
    if (gt_bit_count(mask) != pub->gpus || mask & ~at.all)
        return gt_fail(err, EINVAL, "plan of pod %s/%s: it asks for %u GPUs, the plan has others",
                       pub->meta.namespace_, pub->meta.name, pub->gpus);
    uint64_t own = pod->node == node && at.eligible ? gt_cache_promised(cache, pod) : 0;
    if (mask & ~(at.available | own))
        return gt_fail(err, EBUSY,
                       "plan of pod %s/%s: GPUs %#llx of node %s are not available, only %#llx are",
                       pub->meta.namespace_, pub->meta.name, (unsigned long long)mask, at.name,
                       (unsigned long long)(at.available | own));
    struct cache_plan *plan = plan_of(cache, node, mask);
    GT_NEED(plan, err, "plan of pod %s/%s", pub->meta.namespace_, pub->meta.name);
    cache->silent = pod;
    cache_plan_replace(cache, pod, plan);
    cache->silent = NULL;
    return 0;
}

void gt_cache_unplan_pod(struct gt_cache *cache, struct gt_cache_pod *pub)
{
    struct cache_pod *pod = (struct cache_pod *)pub;
    cache->silent = pod;
    cache_plan_replace(cache, pod, NULL);
    cache->silent = NULL;
}
