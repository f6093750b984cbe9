/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/json_write.h"
#include "cli/plan.h"

static void begin_member(struct gt_buf *to, int indent, const char *key, char bracket)
{
    gt_json_new_line(to, indent);
    gt_json_begin(to, key, bracket);
}

/* The tier-1 supernodes that a unit touches, in the order of its pods. */
static void plan_json_add_supernodes(struct gt_buf *to, const struct cli_plan *plan,
                                     const struct gt_plan_unit *unit)
{
    gt_json_begin(to, "supernodes", '[');
    if (unit->supernodes == 1) {
        gt_json_add_text(to, NULL, cli_plan_supernode_of(plan, unit->first));
        gt_json_end(to, ']');
        return;
    }
    gt_auto_free bool *seen = calloc((size_t)gt_cluster_supernodes(plan->cluster) + 1, sizeof(*seen));
    to->failed |= !seen;
    for (uint32_t i = unit->first; seen && i < unit->first + unit->pods; i++) {
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(plan->cluster, plan->pods[i].node, &node) || seen[node.supernode])
            continue;
        seen[node.supernode] = true;
        gt_json_add_text(to, NULL, cli_plan_supernode(plan, node.supernode));
    }
    gt_json_end(to, ']');
}

static void plan_json_add_pod(struct gt_buf *to, const struct cli_plan *plan, uint32_t pod)
{
    gt_json_printf(to, "{'rank': %u, 'node': %s", pod, cli_plan_node(plan, plan->pods[pod].node));
    gt_json_add_mask(to, "gpus", plan->pods[pod].mask);
    gt_json_printf(to, "'score': %u", cli_plan_score(plan, pod));
    if (plan->aware)
        gt_json_add_unsigned(to, "loss", plan->losses[pod]);
    gt_json_end(to, '}');
}

static void add_unit(struct gt_buf *to, const struct cli_plan *plan, uint32_t number, int indent)
{
    const struct gt_plan_unit *unit = &plan->units[number];
    begin_member(to, indent, NULL, '{');
    gt_json_add_unsigned(to, "unit", number);
    plan_json_add_supernodes(to, plan, unit);
    if (unit->supernode == GT_NONE)
        gt_json_printf(to, "'within': null, 'tier': null");
    else
        gt_json_printf(to, "'within': %s, 'tier': %u", cli_plan_supernode(plan, unit->supernode), unit->tier);
    if (plan->explain && !plan->aware) {
        gt_auto_buf struct gt_buf why = GT_BUF(8192);
        gt_plan_unit_text(plan->cluster, unit, number, &why);
        gt_json_add_text(to, "why", why.data ? why.data : "");
    }
    begin_member(to, indent + 2, "pods", '[');
    for (uint32_t i = 0; i < unit->pods; i++) {
        gt_json_new_line(to, indent + 4);
        plan_json_add_pod(to, plan, unit->first + i);
    }
    gt_json_ends(to, "]}");
}

static void plan_json_add_units(struct gt_buf *to, const struct cli_plan *plan, int indent)
{
    begin_member(to, indent, "units", '[');
    for (uint32_t u = 0; plan && plan->placed && u < plan->unit_count; u++)
        add_unit(to, plan, u, indent + 2);
    gt_json_end(to, ']');
}

/* A pod that has to move, up to where it goes. */
static void plan_json_begin_moved(struct gt_buf *to, const struct cli_plan *plan, uint32_t number)
{
    const struct gt_cluster_pod *pod = &plan->file->pods[number];
    const struct gt_running_pod *at = &plan->file->running[number];
    begin_member(to, 6, NULL, '{');
    gt_json_printf(to, "'name': %s, ?'job': %s, 'node': %s", pod->name, pod->job,
                   cli_plan_node(plan, at->node));
    gt_json_add_mask(to, "gpus", at->mask);
}

static void plan_json_add_advice(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_advice *advice = &plan->advice;
    begin_member(to, 2, "advice", '{');
    gt_json_add_bool(to, "possible", advice->possible);
    begin_member(to, 4, "move", '[');
    for (uint32_t i = 0; i < advice->count; i++) {
        plan_json_begin_moved(to, plan, advice->moved[i]);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
    plan_json_add_units(to, plan->after, 4);
    gt_json_end(to, '}');
}

static void plan_json_add_relocation(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_relocation *relocation = &plan->relocation;
    begin_member(to, 2, "relocation", '{');
    gt_json_printf(to, "'possible': !%d, 'exact': !%d, 'jobs': %u, 'cost': %" PRIu64, relocation->possible,
                   relocation->exact, relocation->jobs, (uint64_t)relocation->cost);
    begin_member(to, 4, "move", '[');
    for (uint32_t i = 0; i < relocation->count; i++) {
        plan_json_begin_moved(to, plan, relocation->moves[i].pod);
        gt_json_add_text(to, "toNode", cli_plan_node(plan, relocation->moves[i].node));
        gt_json_add_mask(to, "toGpus", relocation->moves[i].mask);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
    if (plan->after)
        plan_json_add_units(to, plan->after, 4);
    gt_json_end(to, '}');
}

void cli_plan_json(const struct cli_plan *plan, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf crossing = GT_BUF(4096);
    cli_plan_crossing(plan, &crossing);
    gt_json_begin(to, NULL, '{');
    gt_json_new_line(to, 2);
    gt_json_add_bool(to, "placed", plan->placed);
    if (!plan->placed)
        gt_json_add_text(to, "reason", plan->reason.data ? plan->reason.data : "");
    gt_json_printf(to, "'policy': %s, ?'warning': %s, ?'crossing': %s",
                   plan->aware ? "gpu-aware" : "gpu-podaffinity", plan->warning, crossing.data);
    plan_json_add_units(to, plan, 2);
    if (plan->advise && !plan->placed)
        plan_json_add_advice(to, plan);
    if (plan->relocate && !plan->placed)
        plan_json_add_relocation(to, plan);
    gt_buf_puts(to, "\n}\n");
}
