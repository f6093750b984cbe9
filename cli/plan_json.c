/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/bits.h"
#include "base/text.h"
#include "cli/plan.h"

static void add_key(struct gt_buf *to, const char *indent, const char *key)
{
    gt_buf_printf(to, "%s\"%s\": ", indent, key);
}

static void add_text(struct gt_buf *to, const char *indent, const char *key, const char *text)
{
    add_key(to, indent, key);
    gt_text_quote(to, text);
}

static void add_gpus(struct gt_buf *to, uint64_t mask)
{
    const char *separator = "";
    gt_buf_puts(to, "[");
    for (; mask; mask &= mask - 1) {
        gt_buf_printf(to, "%s%u", separator, gt_bit_first(mask));
        separator = ", ";
    }
    gt_buf_puts(to, "]");
}

/* The tier-1 supernodes that a unit touches, in the order of its pods. */
static void add_supernodes(struct gt_buf *to, const struct cli_plan *plan, const struct gt_plan_unit *unit)
{
    const char *separator = "";
    if (unit->supernodes == 1) {
        gt_buf_puts(to, "[");
        gt_text_quote(to, cli_plan_supernode_of(plan, unit->first));
        gt_buf_puts(to, "]");
        return;
    }
    gt_auto_free bool *seen = calloc((size_t)gt_cluster_supernodes(plan->cluster) + 1, sizeof(*seen));
    to->failed |= !seen;
    gt_buf_puts(to, "[");
    for (uint32_t i = unit->first; seen && i < unit->first + unit->pods; i++) {
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(plan->cluster, plan->pods[i].node, &node) || seen[node.supernode])
            continue;
        seen[node.supernode] = true;
        gt_buf_puts(to, separator);
        gt_text_quote(to, cli_plan_supernode(plan, node.supernode));
        separator = ", ";
    }
    gt_buf_puts(to, "]");
}

static void add_pod(struct gt_buf *to, const struct cli_plan *plan, uint32_t pod, const char *indent)
{
    gt_buf_printf(to, "%s{\"rank\": %u, \"node\": ", indent, pod);
    gt_text_quote(to, cli_plan_node(plan, plan->pods[pod].node));
    gt_buf_puts(to, ", \"gpus\": ");
    add_gpus(to, plan->pods[pod].mask);
    gt_buf_printf(to, ", \"score\": %" PRIu32, cli_plan_score(plan, pod));
    if (plan->aware)
        gt_buf_printf(to, ", \"loss\": %" PRIu32, plan->losses[pod]);
    gt_buf_puts(to, "}");
}

static void add_unit(struct gt_buf *to, const struct cli_plan *plan, uint32_t number)
{
    const struct gt_plan_unit *unit = &plan->units[number];
    gt_buf_printf(to, "    {\n      \"unit\": %u,\n", number);
    add_key(to, "      ", "supernodes");
    add_supernodes(to, plan, unit);
    gt_buf_puts(to, ",\n");
    if (unit->supernode == GT_NONE)
        gt_buf_puts(to, "      \"within\": null,\n      \"tier\": null,\n");
    else {
        add_text(to, "      ", "within", cli_plan_supernode(plan, unit->supernode));
        gt_buf_printf(to, ",\n      \"tier\": %u,\n", unit->tier);
    }
    if (plan->explain && !plan->aware) {
        gt_auto_buf struct gt_buf why = GT_BUF(8192);
        gt_plan_unit_text(plan->cluster, unit, number, &why);
        add_text(to, "      ", "why", why.data ? why.data : "");
        gt_buf_puts(to, ",\n");
    }
    gt_buf_puts(to, "      \"pods\": [\n");
    for (uint32_t i = 0; i < unit->pods; i++) {
        add_pod(to, plan, unit->first + i, "        ");
        gt_buf_puts(to, i + 1 < unit->pods ? ",\n" : "\n");
    }
    gt_buf_puts(to, "      ]\n    }");
}

static void add_units(struct gt_buf *to, const struct cli_plan *plan)
{
    gt_buf_puts(to, "  \"units\": [");
    for (uint32_t u = 0; plan->placed && u < plan->unit_count; u++) {
        gt_buf_puts(to, u ? ",\n" : "\n");
        add_unit(to, plan, u);
    }
    gt_buf_puts(to, plan->placed ? "\n  ]" : "]");
}

static void add_bounds(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_bounds *bounds = &plan->bounds;
    gt_buf_printf(to, ",\n  \"bounds\": {\n    \"unitsInOneSupernode\": %" PRIu64, bounds->whole);
    gt_buf_printf(to, ",\n    \"unitsAnywhere\": %" PRIu64 ",\n    \"podsAnywhere\": %" PRIu64,
                  bounds->anywhere, bounds->slots);
    gt_buf_printf(to, ",\n    \"largestRoom\": {\"pods\": %u, \"supernode\": ", bounds->largest);
    if (bounds->supernode == GT_NONE)
        gt_buf_puts(to, "null");
    else
        gt_text_quote(to, cli_plan_supernode(plan, bounds->supernode));
    gt_buf_printf(to, "},\n    \"fewestSupernodes\": %u,\n    \"places\": [", bounds->spread);
    for (unsigned i = 0; i < plan->chain_count; i++)
        gt_buf_printf(to, "%s{\"gpus\": %u, \"units\": %" PRIu64 "}", i ? ", " : "", plan->chain[i],
                      plan->places[i]);
    gt_buf_puts(to, "],\n    \"supernodes\": [");
    for (uint32_t i = 0; i < plan->room_count; i++) {
        add_text(to, i ? ",\n      {" : "\n      {", "name",
                 cli_plan_supernode(plan, plan->room[i].supernode));
        gt_buf_printf(to, ", \"pods\": %u}", plan->room[i].pods);
    }
    gt_buf_printf(to, "%s]\n  }", plan->room_count ? "\n    " : "");
}

static void add_advice(struct gt_buf *to, const struct cli_plan *plan)
{
    const struct gt_advice *advice = &plan->advice;
    gt_buf_printf(to, ",\n  \"advice\": {\n    \"possible\": %s,\n    \"exact\": %s,\n    \"move\": [",
                  advice->possible ? "true" : "false", advice->exact ? "true" : "false");
    for (uint32_t i = 0; i < advice->count; i++) {
        const struct gt_cluster_pod *pod = &plan->file->pods[advice->moved[i]];
        gt_buf_puts(to, i ? ",\n      {\"name\": " : "\n      {\"name\": ");
        gt_text_quote(to, pod->name);
        if (pod->job[0])
            add_text(to, ", ", "job", pod->job);
        add_text(to, ", ", "node", cli_plan_node(plan, pod->node));
        gt_buf_puts(to, ", \"gpus\": ");
        add_gpus(to, pod->mask);
        gt_buf_puts(to, "}");
    }
    gt_buf_printf(to, "%s],\n  ", advice->count ? "\n    " : "");
    if (plan->after)
        add_units(to, plan->after);
    else
        gt_buf_puts(to, "  \"units\": []");
    gt_buf_puts(to, "\n  }");
}

void cli_plan_json(const struct cli_plan *plan, struct gt_buf *to)
{
    gt_buf_printf(to, "{\n  \"placed\": %s,\n", plan->placed ? "true" : "false");
    if (!plan->placed) {
        add_text(to, "  ", "reason", plan->reason.data ? plan->reason.data : "");
        gt_buf_puts(to, ",\n");
    }
    add_text(to, "  ", "policy", plan->aware ? "gpu-aware" : "gpu-podaffinity");
    gt_buf_puts(to, ",\n");
    if (plan->warning) {
        add_text(to, "  ", "warning", plan->warning);
        gt_buf_puts(to, ",\n");
    }
    add_units(to, plan);
    if (plan->explain)
        add_bounds(to, plan);
    if (plan->advise && !plan->placed)
        add_advice(to, plan);
    gt_buf_puts(to, "\n}\n");
}
