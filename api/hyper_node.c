/* SPDX-License-Identifier: Apache-2.0 */
#include "api/hyper_node.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/json_write.h"

static const char *const type_names[] = {"HyperNode", "Node"};

struct gt_hyper_node_member *gt_hyper_node_add(struct gt_hyper_node *node)
{
    /* There is room for the next power of two. */
    if (node->count == GT_HYPER_NODE_MEMBERS_MAX)
        return NULL;
    if (!(node->count & (node->count - 1))) {
        size_t room = node->count ? 2 * (size_t)node->count : 1;
        struct gt_hyper_node_member *grown = reallocarray(node->members, room, sizeof(*grown));
        if (!grown)
            return NULL;
        node->members = grown;
    }
    node->members[node->count] = (struct gt_hyper_node_member){0};
    return &node->members[node->count++];
}

void gt_hyper_node_done(struct gt_hyper_node *node)
{
    free(node->members);
    *node = (struct gt_hyper_node){0};
}

int gt_hyper_node_read(const cJSON *object, struct gt_hyper_node *ret, struct gt_err **err)
{
    gt_auto_hyper_node struct gt_hyper_node node = {0};
    const cJSON *item, *spec = gt_get(object, "spec");
    uint64_t tier = 0;
    gt_json_is_unsigned(gt_get(spec, "tier"), INT_MAX, &tier);
    node.tier = (unsigned)tier;
    cJSON_ArrayForEach(item, gt_get(spec, "members"))
    {
        const cJSON *selector = gt_get(item, "selector"), *exact = gt_get(selector, "exactMatch"),
                    *regex = gt_get(selector, "regexMatch");
        struct gt_hyper_node_member *member = gt_hyper_node_add(&node);
        if (!member)
            return gt_fail(err, ENOMEM, "HyperNode: no room for more than %u members", node.count);
        *member = (struct gt_hyper_node_member){
            .is_node = strcmp(gt_get_string(item, "type"), type_names[false]) != 0,
            .name = exact ? gt_get_string(exact, "name") : NULL,
            .pattern = regex ? gt_get_string(regex, "pattern") : NULL,
            .by_labels = gt_get(selector, "labelMatch")};
    }
    *ret = node;
    node.members = NULL;
    return 0;
}

void gt_hyper_node_write(const struct gt_hyper_node *node, struct gt_buf *to)
{
    gt_json_printf(to,
                   "{'labels': {'volcano.sh/network-topology-source': 'gputopo'},"
                   "'spec': {'tier': %u, 'members': [",
                   node->tier);
    for (unsigned i = 0; i < node->count; i++)
        gt_json_printf(to, "{'type': %s, 'selector': {'exactMatch': {'name': %s}}}",
                       type_names[node->members[i].is_node], node->members[i].name);
    gt_buf_puts(to, "]}}");
}
