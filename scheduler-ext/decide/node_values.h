/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/score.h"

/* The values of nodes for a pod, and the scores that each scheduler expects. No I/O. */

/* The free GPUs of a node that are not reserved for a job, also on a node that is not eligible for plans: a
 * scheduler may use it. `remote`: GPUs that are reserved as reported by another replica. */
uint64_t gt_node_available(const struct gt_cluster_node *node, uint64_t remote);
/* Whether the free GPUs would be enough for a pod of `gpus` GPUs if they were not reserved for others. */
bool gt_node_gpus_are_reserved(const struct gt_cluster_node *node, uint64_t remote, unsigned gpus);

/* Whether the kubelet of the node may refuse the pod, since the free GPUs are spread over NUMA nodes, or its
 * agent has not yet told of enough free GPUs. */
bool gt_node_kubelet_refuses(struct gt_cache *cache, uint32_t node, uint64_t remote, struct gt_numa_pod pod);
/* Whether a pod that never takes slow GPUs might get some there. */
bool gt_node_slow_refuses(struct gt_cache *cache, uint32_t node, uint64_t remote,
                          const struct gt_mix_amounts *asked);

/*
 * The values of nodes, in the order of the names: the gpu-aware value (score.h) for the pod; where it has a
 * plan (`planned` is not GT_NONE) +INFINITY on its node. NAN where the node is unknown, has no room, or is
 * not the planned one. For a pod that asks for CPU and memory only, every node has a value. `left` is NULL,
 * or for each node the GPUs left by the scheduler's own count (negative: not known), which is lower than ours
 * when it has placed pods a moment ago. ret_values[i] and ret_ids[i] (the node id) belong to names[i].
 */
void gt_node_values(struct gt_cache *cache, const struct gt_mix_amounts *amounts, uint32_t planned,
                    const char *const *names, const int32_t *left, uint32_t count, double *ret_values,
                    uint32_t *ret_ids);

/* The weights for a pod: closeness has one where it has no plan, its owner makes its pods as a gang, and its
 * annotation job-topology, else its Namespace, else `weights` asks for closeness. `pod` NULL: it has none. */
struct gt_aware_weights gt_node_weights(const struct gt_cache *cache, const struct gt_aware_weights *weights,
                                        const struct gt_cache_pod *pod);
/*
 * Adds to the values how near each node is to the pods of its job that have a place already: weight x
 * closeness_weight x nearness; `weights` as above. The nearness to a pod is 1 in its supernode, an eighth
 * less with each tier of the lowest supernode that has both, and 0 without one; that to several is the mean.
 */
void gt_node_values_near(struct gt_cache *cache, const struct gt_aware_weights *weights,
                         const struct gt_cache_pod *pod, const uint32_t *ids, uint32_t count, double *values);

/* Changes the value of a node from score.h by its slow GPUs and by what it has left of CPU and memory. */
double gt_node_value(struct gt_cache *cache, const struct gt_mix_amounts *amounts, uint32_t id, double value);

/*
 * Scores for Volcano, which adds them to those of its plugins (0 to 100 times their weight):
 * 100 x weight x worth, less a ten-thousandth for each GPU that the node has available, so that ties are
 * broken; 0 where the value is NAN, and 1,000,000 on the planned node, which outweighs every plugin. `ret`
 * may be `values`.
 */
void gt_volcano_scores(struct gt_cache *cache, const struct gt_aware_weights *weights, const double *values,
                       const uint32_t *ids, uint32_t count, double *ret);
