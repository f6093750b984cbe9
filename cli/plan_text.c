/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "api/names.h"
#include "base/json_write.h"
#include "base/text.h"
#include "cli/plan.h"

/* The name; "the cluster" for GT_NONE. */
static const char *plan_text_supernode(const struct cli_plan *plan, uint32_t supernode)
{
    struct gt_cluster_supernode s;
    return gt_cluster_get_supernode(plan->cluster, supernode, &s) ? s.name : "the cluster";
}

static const char *plan_text_supernode_of(const struct cli_plan *plan, uint32_t pod)
{
    struct gt_cluster_node n;
    return gt_cluster_get_node(plan->cluster, plan->pods[pod].place.node, &n)
               ? plan_text_supernode(plan, n.supernode)
               : "";
}

/* S of the GPUs of a placed pod in GB/s (topology/model/loss.h). */
static uint32_t plan_text_score(const struct cli_plan *plan, uint32_t pod)
{
    struct gt_cluster_node n;
    return gt_cluster_get_node(plan->cluster, plan->pods[pod].place.node, &n)
               ? gt_class_sum(n.class, plan->pods[pod].place.mask)
               : 0;
}
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
    return cli_plan_node(plan, plan->pods[pod].place.node);
}

/* Writes one line for consecutive pods from `first` on that are on one node; returns their number. */
static uint32_t add_line(struct gt_buf *to, const struct cli_plan *plan, uint32_t first, uint32_t end,
                         int node_width, int super_width)
{
    uint32_t count = 1;
    while (first + count < end && plan->pods[first + count].place.node == plan->pods[first].place.node)
        count++;
    char ranks[32];
    if (count == 1)
        snprintf(ranks, sizeof(ranks), "rank %u", first);
    else
        snprintf(ranks, sizeof(ranks), "ranks %u-%u", first, first + count - 1);
    gt_buf_printf(to, "  %-14s  ", ranks);
    if (super_width)
        gt_buf_printf(to, "%-*s  ", super_width, plan_text_supernode_of(plan, first));
    gt_buf_printf(to, "%-*s  GPUs ", node_width, cli_plan_text_node_of(plan, first));
    for (uint32_t i = first; i < first + count; i++) {
        gt_buf_puts(to, i == first ? "" : " | ");
        gt_text_add_mask(to, plan->pods[i].place.mask);
    }
    if (plan->aware)
        gt_buf_printf(to, "  score %" PRIu32 ", loss %" PRIu32, plan_text_score(plan, first),
                      plan->losses[first]);
    gt_buf_puts(to, "\n");
    return count;
}

static void add_unit_head(struct gt_buf *to, const struct cli_plan *plan, uint32_t number)
{
    const struct gt_plan_unit *unit = &plan->units[number];
    if (plan->wants.explain) {
        gt_plan_unit_text(plan->cluster, unit, number, to);
    } else if (unit->supernodes == 1) {
        gt_buf_printf(to, "unit %u: supernode %s", number, plan_text_supernode(plan, unit->supernode));
    } else {
        gt_buf_printf(to, "unit %u: %u supernodes", number, unit->supernodes);
        if (unit->supernode != GT_NONE)
            gt_buf_printf(to, " of %s (tier %u)", plan_text_supernode(plan, unit->supernode), unit->tier);
    }
    gt_buf_puts(to, "\n");
}

static void add_placement(struct gt_buf *to, const struct cli_plan *plan)
{
    int node_width = width_of(plan, cli_plan_text_node_of), super_width = 0;
    for (uint32_t u = 0; u < plan->unit_count && !super_width; u++)
        if (plan->aware || plan->units[u].supernodes > 1)
            super_width = width_of(plan, plan_text_supernode_of);
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

/* What boundaries it crosses; nothing without `explain`, or in one supernode. */
static void plan_text_crossing(const struct cli_plan *plan, struct gt_buf *to)
{
    const struct gt_relocation *others = &plan->result.closer.others;
    gt_crossing_text(plan->cluster, &plan->result.crossing, to);
    gt_closer_text(plan->cluster, &plan->result.crossing, &plan->result.closer,
                   others->count ? plan->file->pods[others->moves[0].pod].job : "", to);
}

static void cli_plan_text_add_advice(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_advice *advice = &plan->way.advice;
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
        gt_buf_printf(to, "  %s on %s, GPUs ", pod->name, cli_plan_node(plan, at->place.node));
        gt_text_add_mask(to, at->place.mask);
        gt_buf_printf(to, "%s%s\n", pod->job[0] ? ", job " : "", pod->job);
    }
    if (plan->way.after) {
        gt_buf_puts(to, "\nthen\n");
        add_placement(to, plan->way.after);
    }
}

static bool is_for_shell(const char *text)
{
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-/")] == '\0';
}

/* The command that makes the move, where the pod's name has its namespace. */
static void plan_text_add_command(struct gt_buf *to, const struct gt_cluster_pod *pod, const char *node)
{
    const char *name = strchr(pod->name, '/');
    if (!name || strchr(name + 1, '/') || !is_for_shell(pod->name) || !is_for_shell(node))
        return;
    int len = (int)(name - pod->name);
    if (pod->unit_gpus)
        gt_buf_printf(to, "    kubectl annotate pod -n %.*s %s %s=%s\n", len, pod->name, name + 1,
                      GT_ANNOTATION_MOVE_TO, node);
    else
        gt_buf_printf(to, "    kubectl delete pod -n %.*s %s\n", len, pod->name, name + 1);
}

static void cli_plan_text_add_relocation(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_relocation *relocation = &plan->way.relocation;
    if (!relocation->possible) {
        if (relocation->exact)
            gt_buf_puts(to, "\nrelocation: no way to move movable pods and units makes room for it\n");
        else
            gt_buf_puts(to, "\nrelocation: no way was found, but not all were tried: there may be one\n");
        return;
    }
    gt_buf_printf(to, "\nrelocation: it fits when %u movable pod%s of %u job%s, with %u GPU%s, move%s",
                  relocation->count, gt_plural(relocation->count), relocation->jobs,
                  gt_plural(relocation->jobs), relocation->gpus, gt_plural(relocation->gpus),
                  relocation->count == 1 ? "s" : "");
    if (relocation->exact)
        gt_buf_puts(to, "; nothing that costs less will do\n");
    else
        gt_buf_puts(to, "; not all ways were tried, something may cost less\n");
    for (uint32_t i = 0; i < relocation->count; i++) {
        const struct gt_cluster_pod *pod = &plan->file->pods[relocation->moves[i].pod];
        const struct gt_running_pod *at = &plan->file->running[relocation->moves[i].pod];
        gt_buf_printf(to, "  %s from %s, GPUs ", pod->name, cli_plan_node(plan, at->place.node));
        gt_text_add_mask(to, at->place.mask);
        gt_buf_printf(to, ", to %s, GPUs ", cli_plan_node(plan, relocation->moves[i].node));
        gt_text_add_mask(to, relocation->moves[i].mask);
        gt_buf_printf(to, "%s%s\n", pod->job[0] ? ", job " : "", pod->job);
        plan_text_add_command(to, pod, cli_plan_node(plan, relocation->moves[i].node));
    }
    if (plan->way.after) {
        gt_buf_puts(to, "\nthen\n");
        add_placement(to, plan->way.after);
    }
}

void cli_plan_text(const struct cli_plan *plan, struct gt_buf *to)
{
    if (plan->warning)
        gt_buf_printf(to, "warning: %s\n", plan->warning);
    gt_buf_puts(to, plan->placed ? "placed: " : "not placed: ");
    add_summary(to, plan);
    gt_auto_buf struct gt_buf crossing = GT_BUF(4096);
    plan_text_crossing(plan, &crossing);
    if (crossing.len)
        gt_buf_printf(to, "  %s\n", crossing.data);
    if (plan->result.slow.len)
        gt_buf_printf(to, "  %s\n", plan->result.slow.data);
    if (plan->placed)
        add_placement(to, plan);
    else
        gt_buf_printf(to, "  %s\n", plan->reason.data ? plan->reason.data : "");
    if (plan->wants.advise && !plan->placed)
        cli_plan_text_add_advice(to, plan);
    if (plan->wants.relocate && !plan->placed)
        cli_plan_text_add_relocation(to, plan);
}

/* Names and figures for the writers. */

const char *cli_plan_node(const struct cli_plan *plan, uint32_t node)
{
    struct gt_cluster_node n;
    return gt_cluster_get_node(plan->cluster, node, &n) ? n.name : "";
}

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
        gt_json_add_text(to, NULL, plan_text_supernode_of(plan, unit->first));
        gt_json_end(to, ']');
        return;
    }
    gt_auto_free bool *seen = calloc((size_t)gt_cluster_supernodes(plan->cluster) + 1, sizeof(*seen));
    to->failed |= !seen;
    for (uint32_t i = unit->first; seen && i < unit->first + unit->pods; i++) {
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(plan->cluster, plan->pods[i].place.node, &node) || seen[node.supernode])
            continue;
        seen[node.supernode] = true;
        gt_json_add_text(to, NULL, plan_text_supernode(plan, node.supernode));
    }
    gt_json_end(to, ']');
}

static void plan_json_add_pod(struct gt_buf *to, const struct cli_plan *plan, uint32_t pod)
{
    gt_json_printf(to, "{'rank': %u, 'node': %s", pod, cli_plan_node(plan, plan->pods[pod].place.node));
    gt_json_add_mask(to, "gpus", plan->pods[pod].place.mask);
    gt_json_printf(to, "'score': %u", plan_text_score(plan, pod));
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
        gt_json_printf(to, "'within': %s, 'tier': %u", plan_text_supernode(plan, unit->supernode),
                       unit->tier);
    if (plan->wants.explain && !plan->aware) {
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
                   cli_plan_node(plan, at->place.node));
    gt_json_add_mask(to, "gpus", at->place.mask);
}

static void plan_json_add_advice(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_advice *advice = &plan->way.advice;
    begin_member(to, 2, "advice", '{');
    gt_json_add_bool(to, "possible", advice->possible);
    begin_member(to, 4, "move", '[');
    for (uint32_t i = 0; i < advice->count; i++) {
        plan_json_begin_moved(to, plan, advice->moved[i]);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
    plan_json_add_units(to, plan->way.after, 4);
    gt_json_end(to, '}');
}

static void plan_json_add_relocation(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_relocation *relocation = &plan->way.relocation;
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
    if (plan->way.after)
        plan_json_add_units(to, plan->way.after, 4);
    gt_json_end(to, '}');
}

void cli_plan_json(const struct cli_plan *plan, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf crossing = GT_BUF(4096);
    plan_text_crossing(plan, &crossing);
    gt_json_begin(to, NULL, '{');
    gt_json_new_line(to, 2);
    gt_json_add_bool(to, "placed", plan->placed);
    if (!plan->placed)
        gt_json_add_text(to, "reason", plan->reason.data ? plan->reason.data : "");
    gt_json_printf(to, "'policy': %s, ?'warning': %s, ?'slow': %s, ?'crossing': %s",
                   plan->aware ? "gpu-aware" : "gpu-podaffinity", plan->warning, plan->result.slow.data,
                   crossing.data);
    plan_json_add_units(to, plan, 2);
    if (plan->wants.advise && !plan->placed)
        plan_json_add_advice(to, plan);
    if (plan->wants.relocate && !plan->placed)
        plan_json_add_relocation(to, plan);
    gt_buf_puts(to, "\n}\n");
}
