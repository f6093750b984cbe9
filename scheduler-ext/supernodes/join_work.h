/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "scheduler-ext/supernodes/join.h"

/*
 * Names and UUIDs are looked up in sorted indexes. While joining, each node has the number of its supernode;
 * the lists of members are made at the end.
 */
struct gt_join_work {
    const struct gt_join_node *nodes;
    uint32_t node_count;
    const struct gt_join_group *groups;
    uint32_t group_count;
    struct gt_join *join;
    uint32_t *by_name; /* nodes, by name */
    uint32_t *by_uuid; /* nodes with a server UUID, by UUID; the holder first */
    uint32_t uuid_count;
    uint32_t *groups_by_name;
    uint32_t *group_super; /* [group]: its supernode, GT_JOIN_NONE: left out */
    uint32_t *root;        /* [node]: union-find of the reports */
};

/* What a problem concerns; GT_JOIN_NONE: nothing. */
struct gt_join_about {
    uint32_t supernode, node, other;
    bool in_config;
};

static inline struct gt_join_about gt_join_about_group(uint32_t supernode)
{
    return (struct gt_join_about){supernode, GT_JOIN_NONE, GT_JOIN_NONE, true};
}

static inline struct gt_join_about gt_join_about_nodes(uint32_t node, uint32_t other)
{
    return (struct gt_join_about){GT_JOIN_NONE, node, other, false};
}

void gt_join_problem(struct gt_join_work *work, enum gt_join_problem_kind kind, struct gt_join_about about,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
uint32_t gt_join_add(struct gt_join_work *work, const char *name, unsigned tier, enum gt_join_source source);

static inline bool gt_join_has_text(const char *text)
{
    return text && text[0];
}

static inline bool gt_join_holds_uuid(const struct gt_join_node *node)
{
    return node->uuid_holder && strcmp(node->uuid_holder, node->name) == 0;
}

/* join_index.c: indexes of nodes and groups, sorted by `text_of`. */
typedef const char *gt_join_text(const struct gt_join_work *work, uint32_t item);
gt_join_text gt_join_node_name, gt_join_node_uuid, gt_join_group_name;
void gt_join_index(struct gt_join_work *work);
/* The first position whose text is not less than `text`. */
uint32_t gt_join_lower_bound(const struct gt_join_work *work, const uint32_t *index, uint32_t count,
                             const char *text, gt_join_text *text_of);
/* The first item with that text; GT_JOIN_NONE: none. */
uint32_t gt_join_find(const struct gt_join_work *work, const uint32_t *index, uint32_t count,
                      const char *text, gt_join_text *text_of);

/* Assign nodes to supernodes, in the order of priority. `order`, `size` and `least`: zeroed scratch arrays
 * with one entry for each node. */
void gt_join_by_config(struct gt_join_work *work);                 /* join_config.c */
void gt_join_by_label(struct gt_join_work *work, uint32_t *order); /* join_config.c */
void gt_join_by_report(struct gt_join_work *work, uint32_t *size, uint32_t *order,
                       const char **least); /* join_reports.c */
