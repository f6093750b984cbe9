/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/supernodes/join.h"

/* Sorted, those that are late after others of the same text. */
struct join_index {
    struct join_key {
        const char *text;
        bool is_late;
        uint32_t item;
    } * keys;
    uint32_t count;
};

/*
 * Names and UUIDs are looked up in sorted indexes. While joining, each node has the number of its supernode;
 * the lists of members are made at the end.
 */
struct join_work {
    const struct gt_join_node *nodes;
    uint32_t node_count;
    const struct gt_join_group *groups;
    uint32_t group_count;
    struct gt_join *join;
    struct join_index by_name, by_label;
    struct join_index by_uuid; /* the holder first */
    struct join_index groups_by_name;
    uint32_t *group_super;                  /* [group]: its supernode, GT_JOIN_NONE: left out */
    uint32_t *root;                         /* [node]: union-find of the reports */
    const struct gt_network_places *places; /* NULL: none */
    uint32_t *made;                         /* [domain]: its supernode, GT_JOIN_NONE */
    struct gt_table taken;                  /* supernodes by name, while domains get theirs */
};

/* What a problem concerns; GT_JOIN_NONE: nothing. */
struct join_about {
    uint32_t supernode, node, other;
    bool in_config;
};

/* join_network.c */
void gt_join_tell(struct join_work *work, enum gt_join_problem_kind kind, struct join_about about,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Appends a supernode; returns its number. */
uint32_t gt_join_make(struct join_work *work, const char *name, unsigned tier, enum gt_join_source source);

/* Places nodes by the network that no configuration and no label has placed. */
int gt_join_by_network(struct join_work *work, struct gt_err **err);
/* After all nodes are placed: the tiers of the network above the supernodes. */
int gt_join_tiers(struct join_work *work, struct gt_err **err);
