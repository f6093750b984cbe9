/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/pod_rules.h"
#include "scheduler-ext/cache/cache_internal.h"

/* Whether nodes are lost for the pods on them. */

static bool drives_out(const struct cache_node *node, const struct cache_pod *pod)
{
    for (uint32_t i = 0; i < node->object.taint_count; i++)
        if (strcmp(node->object.taints[i]->effect, "NoExecute") == 0 &&
            !gt_cache_tolerates(pod->constraints, node->object.taints[i]))
            return true;
    return false;
}

/* When it ceased to be Ready, by our clock; a time of the Node in the future counts as now. */
static uint64_t unready_ms(const struct cache_node *node, const struct gt_cache_moment *moment)
{
    if (!node->unready_s)
        return node->unready_ms;
    uint64_t ago = moment->unix_s > node->unready_s ? (uint64_t)(moment->unix_s - node->unready_s) * 1000 : 0;
    uint64_t reported = moment->ms - (ago < moment->ms ? ago : moment->ms);
    return reported < node->unready_ms ? reported : node->unready_ms;
}

static bool has_unhealthy_gpu(const struct cache_node *node, const struct cache_pod *pod)
{
    return pod->plan && pod->plan->node == node && node->has_topology &&
           (!pod->whole || pod->resolved & ~(node->healthy | node->isolated));
}

enum gt_cache_loss gt_cache_pod_loss(const struct gt_cache_pod *pub, uint64_t after_ms,
                                     const struct gt_cache_moment *moment, uint64_t *ret_due_ms)
{
    const struct cache_pod *pod = (const struct cache_pod *)pub;
    const struct cache_node *node = pod->at ? pod->at : pod->plan ? pod->plan->node : NULL;
    *ret_due_ms = UINT64_MAX;
    if (!node)
        return GT_CACHE_LOSS_NONE;
    if (!node->has_node)
        return node->is_gone ? GT_CACHE_LOSS_GONE : GT_CACHE_LOSS_NONE;
    if (drives_out(node, pod))
        return GT_CACHE_LOSS_TAINTED;
    uint64_t unready_due = node->ready ? UINT64_MAX : unready_ms(node, moment) + after_ms;
    uint64_t unhealthy_due = has_unhealthy_gpu(node, pod) ? node->unhealthy_ms + after_ms : UINT64_MAX;
    if (unready_due <= moment->ms)
        return GT_CACHE_LOSS_NOT_READY;
    if (unhealthy_due <= moment->ms)
        return GT_CACHE_LOSS_UNHEALTHY;
    *ret_due_ms = unready_due < unhealthy_due ? unready_due : unhealthy_due;
    return GT_CACHE_LOSS_NONE;
}

bool gt_cache_pod_lost_gpu(const struct gt_cache *cache, const struct gt_cache_pod *pub, uint64_t after_ms,
                           uint64_t now_ms, uint64_t *ret_due_ms)
{
    const struct cache_pod *pod = (const struct cache_pod *)pub;
    const struct cache_node *node = pod->at;
    *ret_due_ms = UINT64_MAX;
    if (!node || !node->has_topology || node->outlived)
        return false;
    bool lost = (pub->plan != GT_CACHE_PLAN_BROKEN && has_unhealthy_gpu(node, pod)) ||
                gt_cache_pod_gpus(cache, pub) & ~(node->healthy | node->isolated);
    if (lost && node->stale)
        *ret_due_ms = now_ms + after_ms;
    else if (lost && now_ms < node->unhealthy_ms + after_ms)
        *ret_due_ms = node->unhealthy_ms + after_ms;
    return lost && *ret_due_ms == UINT64_MAX;
}
