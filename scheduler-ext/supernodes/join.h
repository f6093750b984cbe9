/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SUPERNODES_JOIN_H
#define GPUTOPO_SUPERNODES_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Which node belongs to which supernode. Pure: from what nodes report, what the operator configures and what
 * labels say, to the supernodes of the cluster and what is wrong with them.
 *
 * Priority, node by node: the configuration; where that does not name the node, its label; where it has none,
 * its report. A node that nothing places is a supernode of itself, which is not listed.
 *
 * Reports are joined by server UUID: two nodes are together when each one's library sees the other over
 * MetaXLink. A link that only one side sees joins nothing and is a conflict. A UUID is one node's: of several
 * that report it, the one that is known to hold it takes part; where none is, none does. Modes of the
 * vendor's topoDiscovery: `config` is the configuration here, `dragonfly` the reports; `switchbox` asks a
 * cluster manager whose interface is not public, so it cannot be offered.
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
    const char *label;       /* value of the configured label key */
    const char *uuid_holder; /* name of the node that is known to hold server_uuid; NULL: not known */
};

struct gt_join_group { /* the operator's, one supernode each */
    const char *name;
    unsigned tier;      /* 1 is best performance; nodes may be in groups of tier 1 only */
    const char *parent; /* NULL: none */
    const char *const *nodes;
    uint32_t node_count;
};

enum gt_join_source { GT_JOIN_CONFIG, GT_JOIN_LABEL, GT_JOIN_REPORT };

struct gt_supernode {
    char name[GT_JOIN_NAME_SIZE];
    unsigned tier;
    uint32_t parent; /* index, GT_JOIN_NONE */
    enum gt_join_source source;
    uint32_t first, count; /* its nodes: members[first..], in the order of the input; of tier 1 only */
};

enum gt_join_problem_kind {
    GT_JOIN_ASYMMETRIC,     /* one side sees the other, not the other way round */
    GT_JOIN_NODE_TWICE,     /* a node in two groups */
    GT_JOIN_UNKNOWN_NODE,   /* a group names a node that is not there */
    GT_JOIN_UNKNOWN_PARENT, /* a group names a parent that is not there */
    GT_JOIN_BAD_TIER,       /* tier out of 1..8, nodes above tier 1, or a parent not above its child */
    GT_JOIN_GROUP_TWICE,    /* two groups of one name */
    GT_JOIN_SAME_UUID,      /* two nodes say they are the same server */
    GT_JOIN_BAD_NAME,       /* a name or label that no object can have */
    GT_JOIN_SPLIT,          /* two supernodes see one server, but not one another */
    GT_JOIN_TAKEN_UUID,     /* a node says that it is the server that another one is known to be */
    GT_JOIN_PROBLEM_KINDS,
};

struct gt_join_problem {
    enum gt_join_problem_kind kind;
    uint32_t supernode;           /* the one it concerns, GT_JOIN_NONE */
    uint32_t node, other;         /* the nodes it concerns, GT_JOIN_NONE; it concerns their supernodes, too */
    bool in_config;               /* the configuration is to be mended, otherwise a node */
    char text[GT_JOIN_TEXT_SIZE]; /* one sentence that names the culprit */
};

struct gt_join {
    struct gt_supernode
        *supernodes; /* in a stable order: configuration, labels, reports; by name within each */
    uint32_t supernode_count;
    uint32_t *members;
    uint32_t *supernode_of; /* [node]: index, GT_JOIN_NONE: a supernode of itself */
    uint32_t node_count;
    struct gt_join_problem *problems;
    uint32_t problem_count; /* more than GT_JOIN_PROBLEMS_MAX are not kept */
};

/* Never fails for what the input says: a culprit is left out, a problem says so, and the rest works. Errors
 * are -E2BIG and -ENOMEM. */
int gt_join_supernodes(const struct gt_join_node *nodes, uint32_t node_count,
                       const struct gt_join_group *groups, uint32_t group_count, struct gt_join **ret,
                       struct gt_err **err);
void gt_join_free(struct gt_join *join);
GT_DEFINE_CLEANUP(struct gt_join *, gt_join_free)
#define gt_auto_join GT_CLEANUP(gt_join_free)

/* "config", "label", "report"; "Asymmetric", "NodeTwice"...: as conditions name them. */
const char *gt_join_source_name(enum gt_join_source source);
const char *gt_join_problem_name(enum gt_join_problem_kind kind);

#endif
