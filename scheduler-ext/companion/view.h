/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/companion/groups.h"
#include "scheduler-ext/companion/servers.h"

/* A snapshot of the supernodes, with sums over their nodes. It points into the cache and the groups that it
 * was made from, and is valid until they change; then it is made again. */
struct gt_sum {
    uint32_t nodes, gpus, free;
    uint32_t silent;      /* nodes without a report */
    uint32_t use_unknown; /* nodes that report GPUs, but not which are free */
    uint32_t links_down, links_unknown;
    uint32_t children; /* supernodes of which it is the parent */
    uint32_t spares;   /* spare nodes; only for tier 1 */
    uint32_t a_silent; /* one of the silent nodes; GT_JOIN_NONE: none */
};

struct gt_view {
    const struct gt_cache_report **reports; /* [node], by name */
    uint32_t node_count;
    struct gt_join *join;
    struct gt_sum *sums;            /* [supernode] */
    const struct gt_groups *groups; /* NULL: no configuration */
    /* The problems of supernode s: join->problems[problems[i]] for i from problem_first[s] to below
     * problem_first[s + 1]. */
    uint32_t *problem_first, *problems;
};

/* The network with what nodes' labels and reports say, and the nodes' places in it. It is kept from one view
 * to the next: few changes concern it, and with 65,536 ports it takes longer than all else. */
struct gt_view_network {
    struct gt_network *network;       /* NULL: only the operator's says something, or there is none */
    struct gt_network_places *places; /* NULL: there is no network */
    uint64_t digest;                  /* of what they were made from; 0: of nothing */
};
/* It is made again; the caller does this before the operator's network changes, and at the end. */
void gt_view_network_forget(struct gt_view_network *kept);

struct gt_view_spec {
    const struct gt_groups *groups;   /* the operator's; NULL: none */
    const struct gt_network *network; /* likewise */
    struct gt_view_network *kept;     /* updated; NULL: the network is not looked at */
    const char *network_labels;       /* the keys of the labels, see gt_cache_spec; NULL: none */
    struct gt_servers *servers;       /* updated; NULL: no holders of UUIDs are known */
    uint32_t spare_nodes;             /* the default for supernodes without the annotation */
};
int gt_view_make(const struct gt_cache *cache, const struct gt_view_spec *spec, struct gt_view **ret,
                 struct gt_err **err);
void gt_view_free(struct gt_view *view);
GT_DEFINE_CLEANUP(struct gt_view *, gt_view_free)
#define gt_auto_view GT_CLEANUP(gt_view_free)

/* The state of a supernode's projection (a HyperNode); published as a condition of the Supernode. */
struct gt_projected {
    const char *reason; /* a literal, one word; NULL: no condition */
    bool good;
    char message[512];
};

/* Appends the desired state (apply_set.h) of one Supernode: {"status":{...}}, without times. `projected` may
 * be NULL. */
void gt_view_write_supernode(const struct gt_view *view, uint32_t supernode,
                             const struct gt_projected *projected, struct gt_buf *to);

/* Appends the desired state of a node's NodeFeature (Node Feature Discovery). */
void gt_view_write_nodefeature(const struct gt_view *view, uint32_t node, struct gt_buf *to);
