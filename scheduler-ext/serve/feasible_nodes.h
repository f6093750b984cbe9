/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/decide/node_values.h"
#include "scheduler-ext/placement/controller.h"
#include "scheduler-ext/serve/debug_view.h"

/*
 * The feasibility of nodes for one pod, as the extenders report it to every scheduler. No I/O.
 *
 * Whether a node has enough GPUs, is healthy and is tolerated is checked by the scheduler itself, which knows
 * it earlier. Four checks are ours: a planned pod may run on its planned node only; GPUs that are reserved
 * for planned pods are refused to other pods; and so are nodes that are reserved for a large job that has
 * waited for long; and so are nodes whose kubelets would refuse the pod. A node without a NodeGPUTopology is
 * unknown: it is feasible, with the lowest score.
 */
enum { GT_FEASIBILITY_REASON_MAX = 512 };

enum gt_feasibility {
    GT_FEASIBLE,
    GT_PLANNED_ELSEWHERE, /* the pod is planned for another node */
    GT_GPUS_RESERVED,     /* its free GPUs are reserved for others */
    GT_NODE_RESERVED,     /* the node is reserved for a waiting job */
    GT_NUMA_REFUSED, /* its kubelet would refuse the pod, since the free GPUs are spread over NUMA nodes */
    GT_SLOW_REFUSED, /* too few of its free GPUs are neither slow nor suspect, and the pod takes no such ones
                      */
};

struct gt_extender_pod {
    const char *namespace_, *name, *uid;
    /* From the cache if it knows the pod, else from the request, which does not show GPUs of claims: */
    unsigned gpus;
    struct gt_mix_amounts asked;
    /* Set by gt_extender_pod_find(): */
    const struct gt_cache_pod *known; /* NULL: the cache has not seen it */
    uint32_t planned;                 /* node of its valid plan; GT_NONE: none */
};

/* Finds the pod in the cache; to be called before the functions below. */
void gt_extender_pod_find(const struct gt_cache *cache, struct gt_extender_pod *pod);

/* One node, by id (GT_NONE: unknown). `placement` NULL: only people reserve nodes. */
enum gt_feasibility gt_node_feasibility(struct gt_cache *cache, const struct gt_placement *placement,
                                        const struct gt_extender_pod *pod, uint32_t node);

/* Whether the node is reserved for others, by the placement or by people. */
bool gt_node_is_kept(const struct gt_cache *cache, const struct gt_placement *placement,
                     const struct gt_extender_pod *pod, uint32_t node);

/* Appends for whom such a node is reserved, and until when. */
void gt_node_say_kept(struct gt_cache *cache, const struct gt_extender_pod *pod, uint32_t node,
                      struct gt_buf *to);

/* Appends one sentence on a feasibility other than GT_FEASIBLE. */
void gt_feasibility_reason(struct gt_cache *cache, const struct gt_extender_pod *pod, uint32_t node,
                           enum gt_feasibility feasibility, struct gt_buf *to);

/* For explanations: the values of all nodes for a pod without a place, or why a node is refused. */

enum { GT_ASSESSED_BEST = 10, GT_ASSESSED_EXAMPLES = 3 };

enum gt_refusal {
    GT_REFUSED_TOO_FEW,       /* it has fewer available GPUs, reserved ones included */
    GT_REFUSED_GPUS_RESERVED, /* for planned or starting pods */
    GT_REFUSED_NODE_RESERVED, /* for a waiting job */
    GT_REFUSED_NUMA,          /* by its kubelet, since the free GPUs are spread over NUMA nodes */
    GT_REFUSED_SLOW,          /* the pod takes no slow GPUs, and too few others are free */
    GT_REFUSED_RESOURCES,     /* it lacks CPU, memory or another resource for the pod */
    GT_REFUSED_SPARE,         /* only for replacements of pods on lost nodes */
    GT_REFUSED_UNSUITED,      /* excluded by the pod's selector, affinity or tolerations */
    GT_REFUSED_CORDONED,
    GT_REFUSED_NOT_READY,
    GT_REFUSED_STALE,      /* its agent's report is too old */
    GT_REFUSED_OUTLIVED,   /* its report is of an earlier Node of this name */
    GT_REFUSED_OFFERED,    /* its Node offers fewer GPUs than are free there */
    GT_REFUSED_NO_NODE,    /* there is no Node object */
    GT_REFUSED_LEFT_ALONE, /* the vendor's plugin serves it */
    GT_REFUSED_NOT_ELIGIBLE,
    GT_REFUSALS,
};

struct gt_assessed_node {
    uint32_t id;
    double value, score_part, loss_part, stranded_part;
    bool exact;
    double sum;    /* the score for Volcano */
    uint8_t ten;   /* the score for kube-scheduler */
    uint64_t mask; /* the GPUs that the agent would choose */
};

struct gt_feasible_nodes {
    uint32_t feasible;
    struct gt_assessed_node best[GT_ASSESSED_BEST]; /* best first; ties by name */
    unsigned best_count;
    struct gt_refused {
        uint32_t count;
        uint32_t examples[GT_ASSESSED_EXAMPLES];
    } refused[GT_REFUSALS];
};

/* How many such pods a node could hold now; 0: *ret_refusal says why. */
uint32_t gt_node_slots(const struct gt_debug_view *view, const struct gt_extender_pod *pod, uint32_t node,
                       enum gt_refusal *ret_refusal);
/* The pod as the functions for schedulers know it. */
struct gt_extender_pod gt_debug_extender_pod(const struct gt_debug_view *view,
                                             const struct gt_cache_pod *pod);

int gt_feasible_nodes(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                      struct gt_feasible_nodes *ret, struct gt_err **err);

/* Appends the text for `count` refused nodes: "has fewer than 4 GPUs available", "have ..." */
void gt_refusal_text(enum gt_refusal refusal, uint32_t count, const struct gt_cache_pod *pod,
                     struct gt_buf *to);
/* A fixed word, for JSON. */
const char *gt_refusal_name(enum gt_refusal refusal);
