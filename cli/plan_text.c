/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/plan.h"

enum { NAME_WIDTH_MAX = 40 };

/* Widest name of the nodes (or supernodes) that are printed, so that columns line up. */
static int width_of(const struct cli_plan *plan, const char *(*name)(const struct cli_plan *, uint32_t))
{
    size_t width = 0;
    for (uint32_t i = 0; i < plan->pod_count; i++) {
        size_t len = strlen(name(plan, i));
        width = len > width ? len : width;
    }
    return (int)(width < NAME_WIDTH_MAX ? width : NAME_WIDTH_MAX);
}

static const char *cli_plan_text_node_of(const struct cli_plan *plan, uint32_t pod)
{
    return cli_plan_node(plan, plan->pods[pod].node);
}

/* Writes one line for consecutive pods from `first` on that are on one node; returns their number. */
static uint32_t add_line(struct gt_buf *to, const struct cli_plan *plan, uint32_t first, uint32_t end,
                         int node_width, int super_width)
{
    uint32_t count = 1;
    while (first + count < end && plan->pods[first + count].node == plan->pods[first].node)
        count++;
    char ranks[32];
    if (count == 1)
        snprintf(ranks, sizeof(ranks), "rank %u", first);
    else
        snprintf(ranks, sizeof(ranks), "ranks %u-%u", first, first + count - 1);
    gt_buf_printf(to, "  %-14s  ", ranks);
    if (super_width)
        gt_buf_printf(to, "%-*s  ", super_width, cli_plan_supernode_of(plan, first));
    gt_buf_printf(to, "%-*s  GPUs ", node_width, cli_plan_text_node_of(plan, first));
    for (uint32_t i = first; i < first + count; i++) {
        gt_buf_puts(to, i == first ? "" : " | ");
        gt_text_add_mask(to, plan->pods[i].mask);
    }
    if (plan->aware)
        gt_buf_printf(to, "  score %" PRIu32 ", loss %" PRIu32, cli_plan_score(plan, first),
                      plan->losses[first]);
    gt_buf_puts(to, "\n");
    return count;
}

static void add_unit_head(struct gt_buf *to, const struct cli_plan *plan, uint32_t number)
{
    const struct gt_plan_unit *unit = &plan->units[number];
    if (plan->explain) {
        gt_plan_unit_text(plan->cluster, unit, number, to);
    } else if (unit->supernodes == 1) {
        gt_buf_printf(to, "unit %u: supernode %s", number, cli_plan_supernode(plan, unit->supernode));
    } else {
        gt_buf_printf(to, "unit %u: %u supernodes", number, unit->supernodes);
        if (unit->supernode != GT_NONE)
            gt_buf_printf(to, " of %s (tier %u)", cli_plan_supernode(plan, unit->supernode), unit->tier);
    }
    gt_buf_puts(to, "\n");
}

static void add_placement(struct gt_buf *to, const struct cli_plan *plan)
{
    int node_width = width_of(plan, cli_plan_text_node_of), super_width = 0;
    for (uint32_t u = 0; u < plan->unit_count && !super_width; u++)
        if (plan->aware || plan->units[u].supernodes > 1)
            super_width = width_of(plan, cli_plan_supernode_of);
    for (uint32_t u = 0; u < plan->unit_count; u++) {
        const struct gt_plan_unit *unit = &plan->units[u];
        if (!plan->aware)
            add_unit_head(to, plan, u);
        for (uint32_t i = unit->first; i < unit->first + unit->pods;)
            i += add_line(to, plan, i, unit->first + unit->pods, node_width, super_width);
    }
}

static void add_summary(struct gt_buf *to, const struct cli_plan *plan)
{
    if (plan->aware) {
        gt_buf_printf(to,
                      "%u pod%s of %u GPU%s, each by itself on the node that suits it best (no group size)\n",
                      plan->pod_count, gt_plural(plan->pod_count), plan->gpus, gt_plural(plan->gpus));
        return;
    }
    const struct gt_plan_unit *unit = &plan->units[0];
    uint32_t split = 0;
    for (uint32_t u = 0; u < plan->unit_count; u++)
        split += plan->placed && plan->units[u].supernodes > 1;
    gt_buf_printf(to, "%u unit%s of %u GPU%s (%u pod%s of %u)", plan->unit_count, gt_plural(plan->unit_count),
                  plan->sizes.group, gt_plural(plan->sizes.group), unit->pods, gt_plural(unit->pods),
                  plan->gpus);
    if (unit->atom)
        gt_buf_printf(to, ", in atoms of %u GPUs", plan->sizes.atomic);
    if (split)
        gt_buf_printf(to, "; %u unit%s split", split, split == 1 ? " is" : "s are");
    gt_buf_puts(to, "\n");
}

void cli_plan_crossing(const struct cli_plan *plan, struct gt_buf *to)
{
    const struct gt_relocation *others = &plan->closer.others;
    gt_crossing_text(plan->cluster, &plan->crossing, to);
    gt_closer_text(plan->cluster, &plan->crossing, &plan->closer,
                   others->count ? plan->file->pods[others->moves[0].pod].job : "", to);
}

static void cli_plan_text_add_advice(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_advice *advice = &plan->advice;
    if (!advice->possible) {
        gt_buf_puts(to, "\nadvice: it would not fit even if every movable pod left\n");
        return;
    }
    gt_buf_printf(to, "\nadvice: it fits when %s %u movable pod%s with %u GPU%s leave%s; fewer will not do\n",
                  advice->count == 1 ? "this" : "these", advice->count, gt_plural(advice->count),
                  advice->gpus, gt_plural(advice->gpus), advice->count == 1 ? "s" : "");
    for (uint32_t i = 0; i < advice->count; i++) {
        const struct gt_cluster_pod *pod = &plan->file->pods[advice->moved[i]];
        const struct gt_running_pod *at = &plan->file->running[advice->moved[i]];
        gt_buf_printf(to, "  %s on %s, GPUs ", pod->name, cli_plan_node(plan, at->node));
        gt_text_add_mask(to, at->mask);
        gt_buf_printf(to, "%s%s\n", pod->job[0] ? ", job " : "", pod->job);
    }
    if (plan->after) {
        gt_buf_puts(to, "\nthen\n");
        add_placement(to, plan->after);
    }
}

static void cli_plan_text_add_relocation(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_relocation *relocation = &plan->relocation;
    if (!relocation->possible) {
        if (relocation->exact)
            gt_buf_puts(to, "\nrelocation: no way to move movable pods and units makes room for it\n");
        else
            gt_buf_printf(to, "\nrelocation: no way was found in %u steps of the search; there may be one\n",
                          GT_RELOCATE_WORK);
        return;
    }
    gt_buf_printf(to, "\nrelocation: it fits when %u movable pod%s of %u job%s, with %u GPU%s, move%s",
                  relocation->count, gt_plural(relocation->count), relocation->jobs,
                  gt_plural(relocation->jobs), relocation->gpus, gt_plural(relocation->gpus),
                  relocation->count == 1 ? "s" : "");
    if (relocation->exact)
        gt_buf_puts(to, "; nothing that costs less will do\n");
    else
        gt_buf_printf(to, "; the search ended after %u steps, something may cost less\n", GT_RELOCATE_WORK);
    for (uint32_t i = 0; i < relocation->count; i++) {
        const struct gt_cluster_pod *pod = &plan->file->pods[relocation->moves[i].pod];
        const struct gt_running_pod *at = &plan->file->running[relocation->moves[i].pod];
        gt_buf_printf(to, "  %s from %s, GPUs ", pod->name, cli_plan_node(plan, at->node));
        gt_text_add_mask(to, at->mask);
        gt_buf_printf(to, ", to %s, GPUs ", cli_plan_node(plan, relocation->moves[i].node));
        gt_text_add_mask(to, relocation->moves[i].mask);
        gt_buf_printf(to, "%s%s\n", pod->job[0] ? ", job " : "", pod->job);
    }
    if (plan->after) {
        gt_buf_puts(to, "\nthen\n");
        add_placement(to, plan->after);
    }
}

void cli_plan_text(const struct cli_plan *plan, struct gt_buf *to)
{
    if (plan->warning)
        gt_buf_printf(to, "warning: %s\n", plan->warning);
    gt_buf_puts(to, plan->placed ? "placed: " : "not placed: ");
    add_summary(to, plan);
    gt_auto_buf struct gt_buf crossing = GT_BUF(4096);
    cli_plan_crossing(plan, &crossing);
    if (crossing.len)
        gt_buf_printf(to, "  %s\n", crossing.data);
    if (plan->placed)
        add_placement(to, plan);
    else
        gt_buf_printf(to, "  %s\n", plan->reason.data ? plan->reason.data : "");
    if (plan->advise && !plan->placed)
        cli_plan_text_add_advice(to, plan);
    if (plan->relocate && !plan->placed)
        cli_plan_text_add_relocation(to, plan);
}

/* Names and figures for the writers. */

const char *cli_plan_node(const struct cli_plan *plan, uint32_t node)
{
    struct gt_cluster_node n;
    return gt_cluster_get_node(plan->cluster, node, &n) ? n.name : "";
}

const char *cli_plan_supernode(const struct cli_plan *plan, uint32_t supernode)
{
    struct gt_cluster_supernode s;
    return gt_cluster_get_supernode(plan->cluster, supernode, &s) ? s.name : "the cluster";
}

const char *cli_plan_supernode_of(const struct cli_plan *plan, uint32_t pod)
{
    struct gt_cluster_node n;
    return gt_cluster_get_node(plan->cluster, plan->pods[pod].node, &n)
               ? cli_plan_supernode(plan, n.supernode)
               : "";
}

uint32_t cli_plan_score(const struct cli_plan *plan, uint32_t pod)
{
    struct gt_cluster_node n;
    return gt_cluster_get_node(plan->cluster, plan->pods[pod].node, &n)
               ? gt_class_sum(n.class, plan->pods[pod].mask)
               : 0;
}
