/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/bench/sim/pods/openb.h"

/*
 * Policies that place single pods one after the other; pods never end (the protocol of the FGD paper). Ours
 * and those of other schedulers, each in a small file. CPU is in thousandths of a core, GPUs in thousandths
 * of a GPU.
 */
enum { GT_GPU_MILLI = 1000, GT_PODS_CPU_MAX = 128000, GT_PODS_GPU_MAX = 8000 };

/* Types of requests, for clustering: 0 no GPU, 1 a share, 1 + n: n GPUs. */
enum { GT_POD_TYPES = GT_GPUS_MAX + 2 };

struct gt_pod_node {
    uint32_t cpu;                /* free; always 0 where CPU counts for feasibility only */
    uint32_t memory;             /* free, MiB; likewise */
    uint32_t gpus;               /* number of its GPUs */
    uint32_t gpu_free;           /* sum over its GPUs */
    uint16_t gpu[GT_GPUS_MAX];   /* [GPU] free */
    uint16_t pods[GT_POD_TYPES]; /* [type] number of pods */
    uint32_t model;              /* number of its GPUs' model; 0: none is named */
    uint32_t version;            /* changes with every change */
};

/* A kind of pod: the values that policies may use. */
struct gt_pod_kind {
    uint32_t cpu;         /* 0 where CPU counts for feasibility only */
    uint32_t gpus, milli; /* milli of each; 1000 for whole GPUs, 0 without */
    uint32_t count;       /* rows of the list of this kind */
    uint64_t models;      /* a bit for each model that it can use; 0: any */
    unsigned type;
};

struct gt_pod_world {
    const struct openb_nodes *all; /* as they are when empty */
    struct gt_pod_node *nodes;
    const struct gt_pod_kind *kinds;
    uint32_t kind_count;
    uint32_t pod_rows; /* of the list */
    uint32_t memory;   /* MiB that the current pod asks for; 0 likewise */
};

struct gt_pod_setup {
    uint64_t seed;
    double loss_weight; /* of gpu-aware */
};

struct gt_pod_policy {
    const char *name;
    int (*open)(const struct gt_pod_world *world, const struct gt_pod_setup *setup, void **ret,
                struct gt_err **err);
    void (*close)(void *state);

    /* Either: the score of a node on which the pod fits; the highest wins, ties by the common rule. It must
     * depend on node and shape only: it is called again only when the node has changed. */
    double (*score)(void *state, const struct gt_pod_node *node, const struct gt_pod_kind *kind);
    bool sees_cpu; /* even where it counts for feasibility only */
    /* Scores are normalized to whole numbers 0 to 100 (min-max) before they are compared, as by
     * kube-scheduler. */
    bool stretched;

    /* Or: chooses the node, among those where fits[node] is true (at least one). */
    uint32_t (*choose)(void *state, const struct gt_pod_world *world, const struct gt_pod_kind *kind,
                       const bool *fits);

    /* Chooses the GPU for a share, among those with room; NULL: the one with the least sufficient room. */
    unsigned (*choose_gpu)(void *state, const struct gt_pod_node *node, const struct gt_pod_kind *kind);
    /* Chooses the mask for whole GPUs; NULL: the lowest. */
    uint64_t (*choose_gpus)(void *state, uint32_t node, const struct gt_pod_kind *kind);

    /* Called after a pod was placed on the node; may be NULL. */
    void (*changed)(void *state, const struct gt_pod_world *world, uint32_t node);
};

extern const struct gt_pod_policy gt_pod_gputopo, gt_pod_extender, gt_pod_extender_managed, gt_pod_fgd,
    gt_pod_fgd_cpu, gt_pod_best_fit, gt_pod_dot_product, gt_pod_packing, gt_pod_clustering, gt_pod_random;
extern const struct gt_pod_policy *const gt_pod_policies[]; /* policies.c; NULL at the end */

/* ---- shared, common.c ---- */

/* Whether the pod can use the node's GPUs. */
static inline bool gt_pod_accepts(const struct gt_pod_node *node, uint64_t models)
{
    return !models || models >> node->model & 1;
}

/* Whether the node has enough GPUs that the pod can use. */
bool gt_pod_fits(const struct gt_pod_node *node, const struct gt_pod_kind *kind);

/* The GPU with the least room that is enough for the share. */
unsigned gt_pod_tightest_gpu(const struct gt_pod_node *node, uint32_t milli);
