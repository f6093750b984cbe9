/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/supernode.h"
#include "base/json.h"
#include "scheduler-ext/companion/supernodes_private.h"

/*
 * A configuration that cannot be read must not undo the last valid one. In a process that has not seen a
 * valid one, it is recovered from the published Supernodes.
 */
struct recovery {
    struct gt_groups *groups;
    uint32_t room;
    bool failed;
};

static bool copy_nodes(const struct gt_supernode_object *object, struct gt_join_group *to)
{
    char **nodes = calloc((size_t)object->member_count + 1, sizeof(*nodes));
    to->nodes = (const char *const *)nodes;
    if (!nodes)
        return false;
    for (unsigned i = 0; i < object->member_count; i++) {
        nodes[i] = strdup(object->members[i].node);
        if (!nodes[i])
            return false;
        to->node_count++;
    }
    return true;
}

static void supernodes_recover_visit(void *arg, const char *name, enum gt_apply_set_state state,
                                     const char *have)
{
    struct recovery *recovery = arg;
    struct gt_groups *groups = recovery->groups;
    gt_auto_supernode_object struct gt_supernode_object object = {.source = "", .parent = ""};
    gt_auto_json cJSON *json = state == GT_APPLY_SET_OURS ? cJSON_Parse(have) : NULL;
    int r = gt_supernode_object_read_status(name, json, &object, NULL);
    if (r >= 0 && object.tier)
        groups->gbps[object.tier] = object.gbps;
    if (r >= 0 && object.tier && strcmp(object.source, "config") == 0 && groups->count < recovery->room) {
        struct gt_join_group *group = &groups->items[groups->count++];
        *group = (struct gt_join_group){.name = strdup(name),
                                        .tier = object.tier,
                                        .parent = *object.parent ? strdup(object.parent) : NULL};
        recovery->failed |= !group->name || (*object.parent && !group->parent) || !copy_nodes(&object, group);
    }
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
    gt_apply_set_each(set, supernodes_recover_visit, &recovery);
    return recovery.failed ? NULL : gt_steal(groups);
}

/* The network: first its switches, then what is below them. */
struct network_recovery {
    struct gt_network *network;
    bool cables;
    int r;
};

static uint32_t recover_switch(const struct gt_network *network, const char *name)
{
    uint32_t found = GT_NETWORK_NONE;
    for (unsigned tier = 1; tier <= GT_NETWORK_TIERS_MAX && found == GT_NETWORK_NONE; tier++)
        found = gt_network_find(network, true, tier, name);
    return found;
}

static int recover_cables(struct gt_network *network, const struct gt_supernode_object *object)
{
    bool is_ours = strcmp(object->source, "network") == 0;
    uint32_t own = is_ours ? recover_switch(network, object->name) : GT_NETWORK_NONE, node;
    uint32_t parent = *object->parent ? recover_switch(network, object->parent) : GT_NETWORK_NONE;
    if (own != GT_NETWORK_NONE && parent != GT_NETWORK_NONE)
        GT_TRY(gt_network_connect(network, own, "", parent, "", NULL));
    uint32_t above = own != GT_NETWORK_NONE ? own : parent;
    for (unsigned i = 0; i < object->member_count && above != GT_NETWORK_NONE; i++) {
        GT_TRY(gt_network_node(network, object->members[i].node, &node, NULL));
        GT_TRY(gt_network_connect(network, node, "", above, "", NULL));
    }
    return 0;
}

static void recover_network_visit(void *arg, const char *name, enum gt_apply_set_state state,
                                  const char *have)
{
    struct network_recovery *recovery = arg;
    gt_auto_supernode_object struct gt_supernode_object object = {.source = "", .parent = ""};
    gt_auto_json cJSON *json = state == GT_APPLY_SET_OURS ? cJSON_Parse(have) : NULL;
    uint32_t number;
    if (recovery->r < 0 || gt_supernode_object_read_status(name, json, &object, NULL) < 0 || !object.tier)
        return;
    object.name = name;
    if (recovery->cables)
        recovery->r = recover_cables(recovery->network, &object);
    else if (strcmp(object.source, "network") == 0)
        recovery->r = gt_network_switch(recovery->network, object.tier, name, name, &number, NULL);
}

struct gt_network *gt_supernodes_recover_network(const struct gt_apply_set *set)
{
    gt_auto_network struct gt_network *network = NULL;
    struct network_recovery recovery = {.r = gt_network_new(&network, NULL)};
    recovery.network = network;
    gt_apply_set_each(set, recover_network_visit, &recovery);
    recovery.cables = true;
    gt_apply_set_each(set, recover_network_visit, &recovery);
    return recovery.r < 0 ? NULL : gt_steal(network);
}
