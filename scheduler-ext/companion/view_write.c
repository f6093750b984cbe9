/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "scheduler-ext/companion/view.h"

enum { MEMBERS_MAX = 8192, PROBLEMS_TOLD = 8, MESSAGE_MAX = 4000 }; /* the API takes 4,096 */

static void write_condition(const char *type, bool status, const char *reason, const char *message,
                            struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "type", type);
    gt_json_add_text(to, "status", status ? "True" : "False");
    gt_json_add_text(to, "reason", reason);
    gt_json_add_text(to, "message", message);
    gt_json_end(to, '}');
}

static void write_ready(const struct gt_view *view, uint32_t s, struct gt_buf *to)
{
    const struct gt_supernode *supernode = &view->join->supernodes[s];
    const struct gt_sum *sum = &view->sums[s];
    char message[512];
    const char *reason = "Complete";
    snprintf(message, sizeof(message), "every node has reported");
    if (!sum->nodes) {
        reason = "Empty";
        snprintf(message, sizeof(message),
                 supernode->tier > 1 ? "no supernode with nodes names it as its parent"
                                     : "none of its nodes is there");
    } else if (sum->silent) {
        reason = "NodesSilent";
        snprintf(message, sizeof(message), "%u of %u nodes have not reported their GPUs, for instance %s",
                 sum->silent, sum->nodes, view->facts[sum->a_silent]->name);
    } else if (sum->use_unknown) {
        reason = "UseUnknown";
        snprintf(message, sizeof(message), "%u of %u nodes do not say which of their GPUs are free",
                 sum->use_unknown, sum->nodes);
    } else if (supernode->count > MEMBERS_MAX) {
        reason = "TooLarge";
        snprintf(message, sizeof(message), "%u nodes, of which %d are listed", supernode->count, MEMBERS_MAX);
    }
    write_condition("Ready", strcmp(reason, "Complete") == 0, reason, message, to);
}

static void write_conflict(const struct gt_view *view, uint32_t s, struct gt_buf *to)
{
    uint32_t first = view->problem_first[s], count = view->problem_first[s + 1] - first;
    gt_auto_buf struct gt_buf message = GT_BUF(MESSAGE_MAX);
    if (!count) {
        write_condition("Conflict", false, "NoConflict", "", to);
        return;
    }
    for (uint32_t i = 0; i < count && i < PROBLEMS_TOLD; i++)
        gt_buf_printf(&message, "%s%s", i ? "; " : "", view->join->problems[view->problems[first + i]].text);
    if (count > PROBLEMS_TOLD)
        gt_buf_printf(&message, "; and %u more", count - PROBLEMS_TOLD);
    write_condition("Conflict", true, gt_join_problem_name(view->join->problems[view->problems[first]].kind),
                    message.data ? message.data : "", to);
}

static void write_members(const struct gt_view *view, const struct gt_supernode *supernode, struct gt_buf *to)
{
    gt_json_begin(to, "members", '[');
    for (uint32_t i = 0; i < supernode->count && i < MEMBERS_MAX; i++) {
        const struct gt_fact *fact = view->facts[view->join->members[supernode->first + i]];
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "node", fact->name);
        if (supernode->source == GT_JOIN_REPORT)
            gt_json_add_text(to, "server", fact->server_uuid);
        if (fact->gpus >= 0)
            gt_json_add_int(to, "gpus", fact->gpus);
        if (fact->gpus >= 0 && fact->free >= 0)
            gt_json_add_int(to, "free", fact->free);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

void gt_view_write_supernode(const struct gt_view *view, uint32_t s, const struct gt_projected *projected,
                             struct gt_buf *to)
{
    const struct gt_supernode *supernode = &view->join->supernodes[s];
    const struct gt_sum *sum = &view->sums[s];
    gt_json_begin(to, NULL, '{');
    gt_json_begin(to, "status", '{');
    gt_json_add_unsigned(to, "tier", supernode->tier);
    gt_json_add_text(to, "source", gt_join_source_name(supernode->source));
    if (supernode->parent != GT_JOIN_NONE)
        gt_json_add_text(to, "parent", view->join->supernodes[supernode->parent].name);
    if (supernode->tier == 1)
        write_members(view, supernode, to);
    gt_json_add_unsigned(to, "nodes", sum->nodes);
    gt_json_add_unsigned(to, "capacity", sum->gpus);
    gt_json_add_unsigned(to, "free", sum->free);
    if (sum->links_down || (sum->nodes && !sum->links_unknown))
        gt_json_add_bool(to, "linksHealthy", !sum->links_down);
    gt_json_begin(to, "conditions", '[');
    if (to->failed)
        return;
    write_ready(view, s, to);
    write_conflict(view, s, to);
    if (projected && projected->reason)
        write_condition("HyperNode", projected->good, projected->reason, projected->message, to);
    gt_buf_puts(to, "]}}");
}

static void begin_elements(struct gt_buf *to, const char *feature)
{
    gt_json_begin(to, feature, '{');
    gt_json_begin(to, "elements", '{');
}

/* NFD wants all three kinds of features to be there. */
void gt_view_write_nodefeature(const struct gt_view *view, uint32_t node, struct gt_buf *to)
{
    const struct gt_fact *fact = view->facts[node];
    uint32_t s = view->join->supernode_of[node];
    const struct gt_supernode *supernode = s == GT_JOIN_NONE ? NULL : &view->join->supernodes[s];
    char number[16];
    gt_json_begin(to, NULL, '{');
    gt_json_begin(to, "labels", '{');
    gt_json_add_text(to, "nfd.node.kubernetes.io/node-name", fact->name);
    gt_json_end(to, '}');
    gt_json_begin(to, "spec", '{');
    gt_json_begin(to, "labels", '{');
    if (supernode)
        gt_json_add_text(to, GT_LABEL_MEMBER_OF, supernode->name);
    gt_json_end(to, '}');
    gt_json_begin(to, "features", '{');
    gt_json_add_raw(to, "flags", "{}");
    gt_json_begin(to, "attributes", '{');
    begin_elements(to, "metax.node");
    snprintf(number, sizeof(number), "%d", fact->gpus < 0 ? 0 : fact->gpus);
    gt_json_add_text(to, "gpus", number);
    gt_json_add_text(to, "links",
                     fact->links == GT_FACT_LINKS_UP     ? "up"
                     : fact->links == GT_FACT_LINKS_DOWN ? "down"
                                                         : "unknown");
    gt_buf_puts(to, "}}");
    if (supernode) {
        begin_elements(to, "metax.supernode");
        snprintf(number, sizeof(number), "%u", supernode->tier);
        gt_json_add_text(to, "name", supernode->name);
        gt_json_add_text(to, "tier", number);
        gt_json_add_text(to, "source", gt_join_source_name(supernode->source));
        if (supernode->parent != GT_JOIN_NONE)
            gt_json_add_text(to, "parent", view->join->supernodes[supernode->parent].name);
        gt_buf_puts(to, "}}");
    }
    gt_json_end(to, '}');
    gt_json_begin(to, "instances", '{');
    gt_json_begin(to, "metax.gpu", '{');
    gt_json_add_raw(to, "elements", fact->gpu_text ? fact->gpu_text : "[]");
    gt_buf_puts(to, "}}}}}");
}
