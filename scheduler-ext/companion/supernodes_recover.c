/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/json_get.h"
#include "kube/status.h"
#include "scheduler-ext/companion/supernodes_private.h"

/*
 * A configuration that cannot be read must not undo what the one before it said. In a process that has seen
 * no good one, the published Supernodes are the memory of it.
 */
struct recovery {
    struct gt_groups *groups;
    uint32_t room;
    bool failed;
};

static bool copy_nodes(const cJSON *members, struct gt_join_group *to)
{
    const cJSON *member;
    int size = cJSON_GetArraySize(members);
    char **nodes = calloc((size_t)size + 1, sizeof(*nodes));
    to->nodes = (const char *const *)nodes;
    if (!nodes)
        return false;
    cJSON_ArrayForEach(member, members)
    {
        char *name = strdup(gt_get_string(member, "node"));
        if (!name)
            return false;
        nodes[to->node_count++] = name;
    }
    return true;
}

static void visit(void *arg, const char *name, enum gt_apply_set_state state, const char *have)
{
    struct recovery *recovery = arg;
    struct gt_groups *groups = recovery->groups;
    cJSON *object = state == GT_APPLY_SET_OURS ? cJSON_Parse(have) : NULL;
    const cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status");
    const cJSON *tier = cJSON_GetObjectItemCaseSensitive(status, "tier");
    if (strcmp(gt_get_string(status, "source"), "config") == 0 && cJSON_IsNumber(tier) &&
        tier->valuedouble >= 1 && tier->valuedouble <= GT_JOIN_TIERS_MAX && groups->count < recovery->room) {
        const char *parent = gt_get_string(status, "parent");
        struct gt_join_group *group = &groups->items[groups->count++];
        *group = (struct gt_join_group){.name = strdup(name),
                                        .tier = (unsigned)tier->valuedouble,
                                        .parent = *parent ? strdup(parent) : NULL};
        recovery->failed |= !group->name || (*parent && !group->parent) ||
                            !copy_nodes(cJSON_GetObjectItemCaseSensitive(status, "members"), group);
    }
    cJSON_Delete(object);
}

struct gt_groups *gt_supernodes_recover(const struct gt_apply_set *set)
{
    gt_auto_groups struct gt_groups *groups = calloc(1, sizeof(*groups));
    struct gt_apply_set_stats stats;
    gt_apply_set_stats(set, &stats);
    struct recovery recovery = {.groups = groups,
                                .room = stats.ours < GT_JOIN_GROUPS_MAX ? stats.ours : GT_JOIN_GROUPS_MAX};
    if (groups)
        groups->items = calloc((size_t)recovery.room + 1, sizeof(*groups->items));
    if (!groups || !groups->items)
        return NULL;
    gt_apply_set_each(set, visit, &recovery);
    return recovery.failed ? NULL : gt_steal(groups);
}
