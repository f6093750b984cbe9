/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/supernodes/join_work.h"

/* Whether it is a DNS label, as required for names that are also used in labels. */
static bool join_config_is_name(const char *name)
{
    size_t len = strnlen(name, GT_JOIN_NAME_SIZE);
    if (len == 0 || len == GT_JOIN_NAME_SIZE || name[0] == '-' || name[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') || name[i] == '-'))
            return false;
    return true;
}

static void add_groups(struct gt_join_work *work)
{
    for (uint32_t i = 0; i < work->group_count; i++) {
        const struct gt_join_group *group = &work->groups[i];
        work->group_super[i] = GT_JOIN_NONE;
        if (!join_config_is_name(group->name))
            gt_join_problem(work, GT_JOIN_BAD_NAME, gt_join_about_group(GT_JOIN_NONE),
                            "group \"%.64s\": the name of a group is 1 to 63 of a-z, 0-9 and -", group->name);
        else if (group->tier < 1 || group->tier > GT_JOIN_TIERS_MAX)
            gt_join_problem(work, GT_JOIN_BAD_TIER, gt_join_about_group(GT_JOIN_NONE),
                            "group %s: tier %u, expected 1 to %d", group->name, group->tier,
                            GT_JOIN_TIERS_MAX);
        else if (gt_join_find(work, work->groups_by_name, work->group_count, group->name,
                              gt_join_group_name) != i)
            gt_join_problem(work, GT_JOIN_GROUP_TWICE, gt_join_about_group(GT_JOIN_NONE),
                            "group %s: there are two groups of that name, the first one counts", group->name);
        else
            work->group_super[i] = gt_join_add(work, group->name, group->tier, GT_JOIN_CONFIG);
    }
}

/* A parent must be of a higher tier than its child, so there are no cycles. */
static void link_groups(struct gt_join_work *work)
{
    for (uint32_t i = 0; i < work->group_count; i++) {
        const struct gt_join_group *group = &work->groups[i];
        uint32_t id = work->group_super[i];
        if (id == GT_JOIN_NONE || !gt_join_has_text(group->parent))
            continue;
        uint32_t parent =
            gt_join_find(work, work->groups_by_name, work->group_count, group->parent, gt_join_group_name);
        if (parent == GT_JOIN_NONE || work->group_super[parent] == GT_JOIN_NONE)
            gt_join_problem(work, GT_JOIN_UNKNOWN_PARENT, gt_join_about_group(id),
                            "group %s: there is no group %.64s to be its parent", group->name, group->parent);
        else if (work->groups[parent].tier <= group->tier)
            gt_join_problem(work, GT_JOIN_BAD_TIER, gt_join_about_group(id),
                            "group %s of tier %u: its parent %s is of tier %u, expected a higher one",
                            group->name, group->tier, group->parent, work->groups[parent].tier);
        else
            work->join->supernodes[id].parent = work->group_super[parent];
    }
}

static void place_by_config(struct gt_join_work *work)
{
    for (uint32_t i = 0; i < work->group_count; i++) {
        const struct gt_join_group *group = &work->groups[i];
        uint32_t id = work->group_super[i];
        if (id == GT_JOIN_NONE)
            continue;
        if (group->tier > 1 && group->node_count) {
            gt_join_problem(work, GT_JOIN_BAD_TIER, gt_join_about_group(id),
                            "group %s of tier %u has nodes, expected them in groups of tier 1", group->name,
                            group->tier);
            continue;
        }
        for (uint32_t n = 0; n < group->node_count; n++) {
            uint32_t node =
                gt_join_find(work, work->by_name, work->node_count, group->nodes[n], gt_join_node_name);
            if (node == GT_JOIN_NONE)
                gt_join_problem(work, GT_JOIN_UNKNOWN_NODE, gt_join_about_group(id),
                                "group %s: there is no node %.128s", group->name, group->nodes[n]);
            else if (work->join->supernode_of[node] != GT_JOIN_NONE)
                gt_join_problem(work, GT_JOIN_NODE_TWICE,
                                (struct gt_join_about){id, node, GT_JOIN_NONE, true},
                                "group %s: node %s is in group %s already, which counts", group->name,
                                group->nodes[n], work->join->supernodes[work->join->supernode_of[node]].name);
            else
                work->join->supernode_of[node] = id;
        }
    }
}

void gt_join_by_config(struct gt_join_work *work)
{
    add_groups(work);
    link_groups(work);
    place_by_config(work);
}

/* ---- labels ---- */

static uint32_t join_config_find_supernode(const struct gt_join_work *work, const char *name, uint32_t from)
{
    for (uint32_t i = from; i < work->join->supernode_count; i++)
        if (strcmp(work->join->supernodes[i].name, name) == 0)
            return i;
    return GT_JOIN_NONE;
}

static int compare_labels(const void *a, const void *b, void *arg)
{
    const struct gt_join_node *nodes = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(nodes[x].label, nodes[y].label);
    return order ? order : (x > y) - (x < y);
}

void gt_join_by_label(struct gt_join_work *work, uint32_t *order)
{
    struct gt_join *join = work->join;
    uint32_t count = 0, configured = join->supernode_count;
    for (uint32_t i = 0; i < work->node_count; i++) {
        if (join->supernode_of[i] != GT_JOIN_NONE || !gt_join_has_text(work->nodes[i].label))
            continue;
        if (join_config_is_name(work->nodes[i].label))
            order[count++] = i;
        else
            gt_join_problem(
                work, GT_JOIN_BAD_NAME, gt_join_about_nodes(i, GT_JOIN_NONE),
                "node %s: its label \"%.64s\" is no name for a supernode, expected 1 to 63 of a-z, 0-9 and -",
                work->nodes[i].name, work->nodes[i].label);
    }
    qsort_r(order, count, sizeof(*order), compare_labels, (void *)(uintptr_t)work->nodes);
    for (uint32_t i = 0, id = GT_JOIN_NONE; i < count; i++) {
        const char *label = work->nodes[order[i]].label;
        if (i == 0 || strcmp(label, work->nodes[order[i - 1]].label) != 0) {
            id = join_config_find_supernode(work, label, 0);
            if (id != GT_JOIN_NONE && id < configured && join->supernodes[id].tier > 1) {
                gt_join_problem(work, GT_JOIN_BAD_TIER,
                                (struct gt_join_about){id, order[i], GT_JOIN_NONE, false},
                                "label %s: the group of that name is of tier %u, expected 1", label,
                                join->supernodes[id].tier);
                id = GT_JOIN_NONE;
            } else if (id == GT_JOIN_NONE)
                id = gt_join_add(work, label, 1, GT_JOIN_LABEL);
        }
        join->supernode_of[order[i]] = id;
    }
}
