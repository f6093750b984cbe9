/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "scheduler-ext/supernodes/network.h"

struct gt_err;

/*
 * Which node belongs to which supernode. No I/O: computes the supernodes of the cluster, and problems with
 * them, from reports of nodes, the operator's configuration and labels.
 *
 * Priority, node by node: the configuration; where that does not name the node, its label; where it has none,
 * the network's tier 1, and then its report. A node without any of these is a supernode by itself, which is
 * listed only where the network has a higher tier for it. Higher tiers of the network are parents of the
 * supernodes that have none, and lie where more than half of the members do.
 *
 * Reports are joined by server UUID: two nodes are together when each one's library sees the other over
 * MetaXLink. A link that only one side sees is ignored and reported as a problem. A UUID belongs to one node:
 * of several that report it, only its known holder is joined; without a known holder, none is. Modes of the
 * vendor's topoDiscovery: `config` is the configuration here, `dragonfly` the reports; `switchbox` asks a
 * cluster manager whose interface is not public, so it is not supported.
 */
enum {
    GT_JOIN_NODES_MAX = 1 << 17,
    GT_JOIN_REMOTES_MAX = 128,
    GT_JOIN_GROUPS_MAX = 1 << 14,
    GT_JOIN_NAME_SIZE = 64, /* a supernode's name is a DNS label: at most 63 characters */
    GT_JOIN_TEXT_SIZE = 256,
    GT_JOIN_TIERS_MAX = 8,
    GT_JOIN_PROBLEMS_MAX = 4096,
};

#define GT_JOIN_NONE UINT32_MAX

struct gt_join_node { /* texts are borrowed, NULL: not known */
    const char *name;
    const char *server_uuid;
    const char *const *remotes;
    uint32_t remote_count;
    const char *label;     /* value of the configured label key */
    const char *uuid_node; /* name of the node that is known to hold server_uuid; NULL: not known */
};

struct gt_join_group { /* the operator's, one supernode each */
    const char *name;
    unsigned tier;      /* 1 is best performance; nodes may be in groups of tier 1 only */
    const char *parent; /* NULL: none */
    const char *const *nodes;
    uint32_t node_count;
};

enum gt_join_source { GT_JOIN_CONFIG, GT_JOIN_LABEL, GT_JOIN_NETWORK, GT_JOIN_REPORT };

struct gt_supernode {
    char name[GT_JOIN_NAME_SIZE];
    unsigned tier;
    uint32_t parent; /* index, GT_JOIN_NONE */
    enum gt_join_source source;
    uint32_t first, count; /* its nodes: members[first..], in the order of the input; of tier 1 only */
};

enum gt_join_problem_kind {
    GT_JOIN_ASYMMETRIC,     /* only one of two nodes sees the other */
    GT_JOIN_NODE_TWICE,     /* a node in two groups */
    GT_JOIN_UNKNOWN_NODE,   /* a group names a node that does not exist */
    GT_JOIN_UNKNOWN_PARENT, /* a group names a parent that does not exist */
    GT_JOIN_BAD_TIER,       /* tier out of 1..8, nodes above tier 1, or a parent not above its child */
    GT_JOIN_GROUP_TWICE,    /* two groups have the same name */
    GT_JOIN_SAME_UUID,      /* two nodes report the same server UUID */
    GT_JOIN_BAD_NAME,       /* a name or label that is not a valid name of an object */
    GT_JOIN_SPLIT,          /* two supernodes see the same server, but not each other */
    GT_JOIN_TAKEN_UUID,     /* a node reports the server UUID that another node holds */
    GT_JOIN_CABLING,        /* a cable, or a place in the network, that contradicts the others */
    GT_JOIN_PROBLEM_KINDS,
};

struct gt_join_problem {
    enum gt_join_problem_kind kind;
    uint32_t supernode;           /* index; GT_JOIN_NONE: none */
    uint32_t node, other;         /* indexes, GT_JOIN_NONE; it concerns their supernodes, too */
    bool in_config;               /* the configuration has to be corrected, otherwise a node */
    char text[GT_JOIN_TEXT_SIZE]; /* one sentence that names the wrong object */
};

struct gt_join {
    struct gt_supernode
        *supernodes; /* in a stable order: configuration, labels, network, reports, tiers of the network */
    uint32_t supernode_count;
    uint32_t *members;
    uint32_t *supernode_of; /* [node]: index, GT_JOIN_NONE: a supernode of itself */
    uint32_t node_count;
    struct gt_join_problem *problems;
    uint32_t problem_count; /* those beyond GT_JOIN_PROBLEMS_MAX are dropped */
};

struct gt_join_input {
    const struct gt_join_node *nodes;
    uint32_t node_count;
    const struct gt_join_group *groups;
    uint32_t group_count;
    const struct gt_network_places *places; /* of these nodes, in this order; NULL: nothing is known of the
                                               network */
};

/* Invalid input is not an error: it is left out and reported as a problem. Errors are -E2BIG and -ENOMEM.
 * *ret borrows no texts; gt_join_free() frees it. */
int gt_join_supernodes(const struct gt_join_input *input, struct gt_join **ret, struct gt_err **err);
void gt_join_free(struct gt_join *join);
GT_DEFINE_CLEANUP(struct gt_join *, gt_join_free)
#define gt_auto_join GT_CLEANUP(gt_join_free)

/* "config", "label", "network", "report"; "Asymmetric", "NodeTwice"...: the reasons in conditions. */
const char *gt_join_source_name(enum gt_join_source source);
const char *gt_join_problem_name(enum gt_join_problem_kind kind);
