/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "scheduler-ext/companion/view.h"

enum { MEMBERS_MAX = 8192, PROBLEMS_TOLD = 8, MESSAGE_MAX = 4000 }; /* the API takes 4,096 */

static void write_condition(const char *type, bool status, const char *reason, const char *message,
                            struct gt_buf *to)
{
    gt_buf_printf(to, "%s{\"type\":\"%s\",\"status\":\"%s\",\"reason\":\"%s\",\"message\":",
                  to->len && to->data[to->len - 1] == '[' ? "" : ",", type, status ? "True" : "False",
                  reason);
    gt_text_quote(to, message);
    gt_buf_puts(to, "}");
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
    gt_buf_puts(to, ",\"members\":[");
    for (uint32_t i = 0; i < supernode->count && i < MEMBERS_MAX; i++) {
        const struct gt_fact *fact = view->facts[view->join->members[supernode->first + i]];
        gt_buf_puts(to, i ? ",{\"node\":" : "{\"node\":");
        gt_text_quote(to, fact->name);
        if (supernode->source == GT_JOIN_REPORT) {
            gt_buf_puts(to, ",\"server\":");
            gt_text_quote(to, fact->server_uuid);
        }
        if (fact->gpus >= 0)
            gt_buf_printf(to, ",\"gpus\":%d", fact->gpus);
        if (fact->gpus >= 0 && fact->free >= 0)
            gt_buf_printf(to, ",\"free\":%d", fact->free);
        gt_buf_puts(to, "}");
    }
    gt_buf_puts(to, "]");
}

void gt_view_write_supernode(const struct gt_view *view, uint32_t s, const struct gt_projected *projected,
                             struct gt_buf *to)
{
    const struct gt_supernode *supernode = &view->join->supernodes[s];
    const struct gt_sum *sum = &view->sums[s];
    gt_buf_printf(to, "{\"status\":{\"tier\":%u,\"source\":\"%s\"", supernode->tier,
                  gt_join_source_name(supernode->source));
    if (supernode->parent != GT_JOIN_NONE)
        gt_buf_printf(to, ",\"parent\":\"%s\"", view->join->supernodes[supernode->parent].name);
    if (supernode->tier == 1)
        write_members(view, supernode, to);
    gt_buf_printf(to, ",\"nodes\":%u,\"capacity\":%u,\"free\":%u", sum->nodes, sum->gpus, sum->free);
    if (sum->links_down || (sum->nodes && !sum->links_unknown))
        gt_buf_printf(to, ",\"linksHealthy\":%s", sum->links_down ? "false" : "true");
    gt_buf_puts(to, ",\"conditions\":[");
    if (to->failed)
        return;
    write_ready(view, s, to);
    write_conflict(view, s, to);
    if (projected && projected->reason)
        write_condition("HyperNode", projected->good, projected->reason, projected->message, to);
    gt_buf_puts(to, "]}}");
}

/* NFD wants all three kinds of features to be there. */
void gt_view_write_nodefeature(const struct gt_view *view, uint32_t node, struct gt_buf *to)
{
    const struct gt_fact *fact = view->facts[node];
    uint32_t s = view->join->supernode_of[node];
    const struct gt_supernode *supernode = s == GT_JOIN_NONE ? NULL : &view->join->supernodes[s];
    gt_buf_puts(to, "{\"labels\":{\"nfd.node.kubernetes.io/node-name\":");
    gt_text_quote(to, fact->name);
    gt_buf_puts(to, "},\"spec\":{\"labels\":{");
    if (supernode)
        gt_buf_printf(to, "\"" GT_VIEW_NFD_LABEL "\":\"%s\"", supernode->name);
    gt_buf_puts(to, "},\"features\":{\"flags\":{},\"attributes\":{\"metax.node\":{\"elements\":{");
    gt_buf_printf(to, "\"gpus\":\"%d\",\"links\":\"%s\"", fact->gpus < 0 ? 0 : fact->gpus,
                  fact->links == GT_FACT_LINKS_UP     ? "up"
                  : fact->links == GT_FACT_LINKS_DOWN ? "down"
                                                      : "unknown");
    gt_buf_puts(to, "}}");
    if (supernode) {
        gt_buf_printf(to,
                      ",\"metax.supernode\":{\"elements\":{\"name\":\"%s\",\"tier\":\"%u\",\"source\":\"%s\"",
                      supernode->name, supernode->tier, gt_join_source_name(supernode->source));
        if (supernode->parent != GT_JOIN_NONE)
            gt_buf_printf(to, ",\"parent\":\"%s\"", view->join->supernodes[supernode->parent].name);
        gt_buf_puts(to, "}}");
    }
    gt_buf_printf(to, "},\"instances\":{\"metax.gpu\":{\"elements\":%s}}}}}",
                  fact->gpu_text ? fact->gpu_text : "[]");
}
