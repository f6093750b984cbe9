/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "scheduler-ext/supernodes/join_work.h"

static void work_done(struct gt_join_work *work)
{
    free(work->by_name);
    free(work->by_uuid);
    free(work->groups_by_name);
    free(work->group_super);
    free(work->root);
}
static void work_done_p(struct gt_join_work *work)
{
    work_done(work);
}

void gt_join_free(struct gt_join *join)
{
    if (!join)
        return;
    free(join->supernodes);
    free(join->members);
    free(join->supernode_of);
    free(join->problems);
    free(join);
}

static void count_out_members(struct gt_join *join)
{
    for (uint32_t i = 0; i < join->node_count; i++)
        if (join->supernode_of[i] != GT_JOIN_NONE)
            join->supernodes[join->supernode_of[i]].count++;
    uint32_t first = 0;
    for (uint32_t s = 0; s < join->supernode_count; s++) {
        join->supernodes[s].first = first;
        first += join->supernodes[s].count;
        join->supernodes[s].count = 0;
    }
    for (uint32_t i = 0; i < join->node_count; i++) {
        if (join->supernode_of[i] == GT_JOIN_NONE)
            continue;
        struct gt_supernode *s = &join->supernodes[join->supernode_of[i]];
        join->members[s->first + s->count++] = i;
    }
}

int gt_join_supernodes(const struct gt_join_node *nodes, uint32_t node_count,
                       const struct gt_join_group *groups, uint32_t group_count, struct gt_join **ret,
                       struct gt_err **err)
{
    if (node_count > GT_JOIN_NODES_MAX || group_count > GT_JOIN_GROUPS_MAX)
        return gt_fail(err, E2BIG, "supernodes: %u nodes in %u groups, at most %d and %d are joined",
                       node_count, group_count, GT_JOIN_NODES_MAX, GT_JOIN_GROUPS_MAX);
    gt_auto_join struct gt_join *join = calloc(1, sizeof(*join));
    __attribute__((cleanup(work_done_p))) struct gt_join_work work = {
        .nodes = nodes, .node_count = node_count, .groups = groups, .group_count = group_count, .join = join};
    size_t room = (size_t)node_count + 1, group_room = (size_t)group_count + 1;
    gt_auto_free uint32_t *order = calloc(room, sizeof(*order));
    gt_auto_free const char **least = calloc(room, sizeof(*least));
    work.by_name = calloc(room, sizeof(uint32_t));
    work.by_uuid = calloc(room, sizeof(uint32_t));
    work.root = calloc(room, sizeof(uint32_t));
    work.groups_by_name = calloc(group_room, sizeof(uint32_t));
    work.group_super = calloc(group_room, sizeof(uint32_t));
    if (join) {
        /* At most one supernode for each node, besides those of the groups. */
        join->supernodes = calloc(room + group_count, sizeof(*join->supernodes));
        join->members = calloc(room, sizeof(*join->members));
        join->supernode_of = malloc(room * sizeof(*join->supernode_of));
        join->problems = calloc(GT_JOIN_PROBLEMS_MAX, sizeof(*join->problems));
        join->node_count = node_count;
    }
    if (!join || !order || !least || !work.by_name || !work.by_uuid || !work.root || !work.groups_by_name ||
        !work.group_super || !join->supernodes || !join->members || !join->supernode_of || !join->problems)
        return gt_fail_sys(err, ENOMEM, "supernodes");

    for (uint32_t i = 0; i < node_count; i++)
        join->supernode_of[i] = GT_JOIN_NONE;
    gt_join_index(&work);
    gt_join_by_config(&work);
    gt_join_by_label(&work, order);
    memset(order, 0, room * sizeof(*order));
    gt_join_by_report(&work, order, join->members, least);
    count_out_members(join);
    *ret = gt_steal(join);
    return 0;
}

const char *gt_join_source_name(enum gt_join_source source)
{
    static const char *const names[] = {"config", "label", "report"};
    return names[source];
}

const char *gt_join_problem_name(enum gt_join_problem_kind kind)
{
    static const char *const names[] = {"Asymmetric", "NodeTwice",  "UnknownNode", "UnknownParent",
                                        "BadTier",    "GroupTwice", "SameUUID",    "BadName",
                                        "Split",      "TakenUUID"};
    return names[kind];
}
