/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/companion/apply_set.h"
#include "scheduler-ext/supernodes/join.h"

/*
 * The operator's supernodes, read from YAML (docs/reference/supernodes.md):
 *
 *     groups:
 *     - {name: rack-1, tier: 1, parent: hall, nodes: [n01, "n[02-16]"]}
 *     tiers:
 *     - {tier: 1, bandwidthGBps: 50}
 *
 * A name may have one range of numbers in brackets; the text before and after the brackets stays, and numbers
 * are padded to the width of the first one. Invalid parts are left out and noted.
 */
enum {
    GT_GROUPS_TEXT_MAX = 4 << 20,
    GT_GROUPS_NODES_MAX = 1 << 17, /* of all groups together */
    GT_GROUPS_NOTES_MAX = 64
};

struct gt_groups {
    struct gt_join_group *items; /* owned, with all their texts */
    uint32_t count;
    double gbps[GT_JOIN_TIERS_MAX + 1]; /* [tier] of gt_supernode_object; 0: not given */
    /* A sentence for each invalid part, owned; those beyond the limit are dropped. */
    char *notes[GT_GROUPS_NOTES_MAX];
    uint32_t note_count;
};

/* -EINVAL: no YAML, or not of this form; -E2BIG: beyond a limit. The caller frees *ret. */
int gt_groups_read(const char *text, size_t len, struct gt_groups **ret, struct gt_err **err);
void gt_groups_free(struct gt_groups *groups);
GT_DEFINE_CLEANUP(struct gt_groups *, gt_groups_free)
#define gt_auto_groups GT_CLEANUP(gt_groups_free)

/*
 * Which node holds which server UUID. Each node reports its own UUID. So that no node can take another node's
 * place by reporting its UUID, the first holder keeps it:
 *
 *  - the member of a published Supernode (from which a new leader learns the holders);
 *  - else the node that was the only one to report it, as far as this process remembers.
 *
 * A holder keeps its UUID while its Node exists and it reports no other UUID, or none. Where several nodes
 * begin to report a UUID at the same time, none holds it.
 */
struct gt_servers;

int gt_servers_new(struct gt_servers **ret, struct gt_err **err);
void gt_servers_free(struct gt_servers *servers);
GT_DEFINE_CLEANUP(struct gt_servers *, gt_servers_free)
#define gt_auto_servers GT_CLEANUP(gt_servers_free)

/* A gt_apply_set_visit for Supernodes: `arg` is the struct gt_servers. Published holders replace remembered
 * ones. */
void gt_servers_learn(void *arg, const char *name, enum gt_apply_set_state state, const char *have);

/* Updates the holders from the reports of all nodes, sorted by name. -ENOMEM. */
int gt_servers_settle(struct gt_servers *servers, const struct gt_cache_report *const *reports,
                      uint32_t count, struct gt_err **err);

/* The name of the node that holds the UUID, valid until the next change; NULL: none, or `servers` or `uuid`
 * is NULL. */
const char *gt_servers_node(const struct gt_servers *servers, const char *uuid);

/* A snapshot of the supernodes, with sums over their nodes. It points into the cache and the groups that it
 * was made from, and is valid until they change; then it is made again. */
struct gt_sum {
    uint32_t nodes, usable, free;
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

/*
 * Supernodes as HyperNodes of Volcano (topology.volcano.sh/v1alpha1): one of tier 1 has its nodes as members,
 * one above the HyperNodes of its children. No I/O: computes the desired HyperNodes from the view and the
 * existing HyperNodes.
 *
 * In Volcano a node or HyperNode with two parents makes every topology-aware job wait. So a member of
 * somebody else's HyperNode is left out and reported; a member that another HyperNode of ours still has is
 * left out until it has been removed there. A foreign HyperNode that selects by labels, or by an expression
 * that is not understood here, counts as having every member.
 */
struct gt_member_parents;

int gt_member_parents_new(struct gt_member_parents **ret, struct gt_err **err);
void gt_member_parents_free(struct gt_member_parents *parents);
GT_DEFINE_CLEANUP(struct gt_member_parents *, gt_member_parents_free)
#define gt_auto_member_parents GT_CLEANUP(gt_member_parents_free)

/* Adds an existing HyperNode, with `have` as in apply_set.h; a gt_apply_set_visit. */
void gt_member_parents_add(void *parents, const char *name, enum gt_apply_set_state state, const char *have);
/* To be called after the last one and before gt_member_parents_find(). False: no memory for one of them. */
bool gt_member_parents_end(struct gt_member_parents *parents);

/* The HyperNode besides `self` that has the node (or HyperNode) `member`; NULL: none. *ret_foreign: it is not
 * ours. */
const char *gt_member_parents_find(const struct gt_member_parents *parents, bool is_node, const char *member,
                                   const char *self, bool *ret_foreign);

/*
 * Appends the desired HyperNode of supernode s and returns true, or returns false where it is to have none.
 * To be called by ascending tier; `made` [supernode] says which supernodes have one, and the entry of s is
 * set.
 */
bool gt_hypernode_write(const struct gt_view *view, uint32_t s, const struct gt_member_parents *parents,
                        bool *made, struct gt_projected *ret, struct gt_buf *to);
