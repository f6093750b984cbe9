/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/supernode.h"
#include "scheduler-ext/companion/view.h"

enum { PROBLEMS_SHOWN_MAX = 8, CONDITION_MESSAGE_MAX = 4000 }; /* the API takes 4,096 */

static struct gt_condition condition_of(bool status, const char *reason, const char *message)
{
    return (struct gt_condition){
        .status = status ? GT_CONDITION_TRUE : GT_CONDITION_FALSE, .reason = reason, .message = message};
}

static struct gt_condition ready_of(const struct gt_view *view, uint32_t s, char *message, size_t size)
{
    const struct gt_supernode *supernode = &view->join->supernodes[s];
    const struct gt_sum *sum = &view->sums[s];
    const char *reason = "Complete";
    snprintf(message, size, "every node has reported");
    if (!sum->nodes) {
        reason = "Empty";
        snprintf(message, size,
                 supernode->tier > 1 ? "no supernode with nodes names it as its parent"
                                     : "none of its nodes is there");
    } else if (sum->silent) {
        reason = "NodesSilent";
        snprintf(message, size, "%u of %u nodes have not reported their GPUs, for instance %s", sum->silent,
                 sum->nodes, view->reports[sum->a_silent]->name);
    } else if (sum->use_unknown) {
        reason = "UseUnknown";
        snprintf(message, size, "%u of %u nodes do not say which of their GPUs are free", sum->use_unknown,
                 sum->nodes);
    } else if (supernode->count > GT_SUPERNODE_MEMBERS_MAX) {
        reason = "TooLarge";
        snprintf(message, size, "%u nodes, of which %d are listed", supernode->count,
                 GT_SUPERNODE_MEMBERS_MAX);
    }
    return condition_of(strcmp(reason, "Complete") == 0, reason, message);
}

static struct gt_condition conflict_of(const struct gt_view *view, uint32_t s, struct gt_buf *message)
{
    const struct gt_join *join = view->join;
    uint32_t first = view->problem_first[s], count = view->problem_first[s + 1] - first;
    if (!count)
        return condition_of(false, "NoConflict", "");
    for (uint32_t i = 0; i < count && i < PROBLEMS_SHOWN_MAX; i++)
        gt_buf_printf(message, "%s%s", i ? "; " : "", join->problems[view->problems[first + i]].text);
    if (count > PROBLEMS_SHOWN_MAX)
        gt_buf_printf(message, "; and %u more", count - PROBLEMS_SHOWN_MAX);
    return condition_of(true, gt_join_problem_name(join->problems[view->problems[first]].kind),
                        message->data ? message->data : "");
}

/* NULL without memory. */
static struct gt_supernode_member *members_of(const struct gt_view *view,
                                              const struct gt_supernode *supernode)
{
    struct gt_supernode_member *members = calloc((size_t)supernode->count + 1, sizeof(*members));
    for (uint32_t i = 0; members && i < supernode->count; i++) {
        const struct gt_cache_report *report = view->reports[view->join->members[supernode->first + i]];
        bool by_server = supernode->source == GT_JOIN_REPORT && report->server_uuid;
        members[i] = (struct gt_supernode_member){.node = report->name,
                                                  .server = by_server ? report->server_uuid : "",
                                                  .gpus = report->gpus,
                                                  .free = report->gpus >= 0 ? report->free : -1};
    }
    return members;
}

void gt_view_write_supernode(const struct gt_view *view, uint32_t s, const struct gt_projected *projected,
                             struct gt_buf *to)
{
    const struct gt_join *join = view->join;
    const struct gt_supernode *supernode = &join->supernodes[s];
    const struct gt_sum *sum = &view->sums[s];
    gt_auto_free struct gt_supernode_member *members = members_of(view, supernode);
    gt_auto_buf struct gt_buf conflict = GT_BUF(CONDITION_MESSAGE_MAX);
    char ready[512];
    bool links_known = sum->links_down || (sum->nodes && !sum->links_unknown);
    struct gt_supernode_object object = {
        .name = supernode->name,
        .tier = supernode->tier,
        .source = gt_join_source_name(supernode->source),
        .parent = supernode->parent == GT_JOIN_NONE ? "" : join->supernodes[supernode->parent].name,
        .members = members,
        .member_count = supernode->count,
        .nodes = sum->nodes,
        .capacity = sum->usable,
        .free = sum->free,
        .spares = sum->spares ? (int64_t)sum->spares : -1,
        .gbps = view->groups ? view->groups->gbps[supernode->tier] : 0,
        .links_healthy = !links_known      ? GT_CONDITION_UNKNOWN
                         : sum->links_down ? GT_CONDITION_FALSE
                                           : GT_CONDITION_TRUE,
        .conditions = {[GT_SUPERNODE_READY] = ready_of(view, s, ready, sizeof(ready)),
                       [GT_SUPERNODE_CONFLICT] = conflict_of(view, s, &conflict)},
    };
    if (projected && projected->reason)
        object.conditions[GT_SUPERNODE_HYPERNODE] =
            condition_of(projected->good, projected->reason, projected->message);
    if (members)
        gt_supernode_object_write_status(&object, to);
    else
        to->failed = true;
}

void gt_view_write_nodefeature(const struct gt_view *view, uint32_t node, struct gt_buf *to)
{
    const struct gt_cache_report *report = view->reports[node];
    const struct gt_join *join = view->join;
    struct gt_node_feature feature = {.node = report->name,
                                      .gpus = report->gpus,
                                      .links = report->links,
                                      .gpu_attributes = report->gpu_attributes};
    uint32_t s = join->supernode_of[node];
    if (s != GT_JOIN_NONE)
        feature.source = gt_join_source_name(join->supernodes[s].source);
    for (; s != GT_JOIN_NONE && feature.supernode_count < GT_SUPERNODE_TIERS_MAX;
         s = join->supernodes[s].parent) /* its tier is higher */
        feature.supernodes[feature.supernode_count++] =
            (struct gt_node_feature_supernode){join->supernodes[s].name, join->supernodes[s].tier};
    gt_node_feature_write(&feature, to);
}
