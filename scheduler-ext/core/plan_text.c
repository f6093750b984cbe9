/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/text.h"
#include "scheduler-ext/core/plan.h"

static const char *super_name(const struct gt_cluster *cluster, uint32_t super)
{
    struct gt_cluster_supernode s;
    return gt_cluster_get_supernode(cluster, super, &s) ? s.name : "the cluster";
}

static void add_inexact(const struct gt_plan_failure *failure, struct gt_buf *to)
{
    if (failure->inexact)
        gt_buf_puts(to, "; not all ways to place its pods were tried, one might do");
}

static void add_no_room(const struct gt_cluster *cluster, const struct gt_plan_failure *failure,
                        struct gt_buf *to)
{
    const char *what = failure->atoms ? "atom" : "unit";
    char of[24] = "";
    if (failure->domains.each)
        snprintf(of, sizeof(of), " of tier %u", failure->domains.tier);
    gt_buf_printf(to, "%u %s%s of %u GPU%s needed, supernodes%s can hold %u", failure->wanted, what,
                  gt_plural(failure->wanted), failure->size, gt_plural(failure->size), of, failure->fitting);
    if (failure->beside)
        gt_buf_puts(to, " beside the rest of the job");
    if (failure->supernode != GT_NONE && !failure->fitting && !failure->beside)
        gt_buf_printf(to, "; largest free %u in supernode %s", failure->largest,
                      super_name(cluster, failure->supernode));
    else if (failure->supernode != GT_NONE)
        gt_buf_printf(to, "; those placed, largest free %u in supernode %s", failure->largest,
                      super_name(cluster, failure->supernode));
    if (failure->reason == GT_PLAN_TOO_FEW_GPUS)
        gt_buf_printf(to, "; %u GPUs are needed in all, the cluster has %u for pods of %u", failure->needed,
                      failure->available, failure->gpus);
    else
        gt_buf_printf(to, "; the cluster has %u GPUs for pods of %u, %u %s%s if they lay together",
                      failure->available, failure->gpus, failure->together, what,
                      gt_plural(failure->together));
    if (failure->numa_nodes)
        gt_buf_printf(to,
                      "; %u node%s enough free GPUs, but not on the NUMA nodes that the kubelet's topology "
                      "manager asks for",
                      failure->numa_nodes, failure->numa_nodes == 1 ? " has" : "s have");
    add_inexact(failure, to);
}

/* The job must lie in one supernode of a tier. */
static void add_no_domain(const struct gt_cluster *cluster, const struct gt_plan_failure *failure,
                          struct gt_buf *to)
{
    const char *what = failure->atoms ? "atom" : "unit";
    gt_buf_printf(to, "the job must lie in one supernode of tier %u", failure->domains.tier);
    if (failure->domains.bound) {
        gt_buf_puts(to, ", and its running pods do not");
        return;
    }
    if (!failure->domains.count) {
        gt_buf_puts(to, ", and there is none");
        return;
    }
    gt_buf_printf(to, "; %u %s%s of %u GPU%s needed", failure->wanted, what, gt_plural(failure->wanted),
                  failure->size, gt_plural(failure->size));
    for (uint32_t i = 0; i < failure->domains.listed; i++) {
        const struct gt_plan_lack *lack = &failure->domains.lacks[i];
        gt_buf_printf(to, "%s %s ", i ? "," : ";", super_name(cluster, lack->supernode));
        if (lack->runs)
            gt_buf_printf(to, "lacks room for %u", lack->runs);
        else
            gt_buf_puts(to, "has too little room beside the rest of the job");
    }
    if (failure->domains.count > failure->domains.listed)
        gt_buf_printf(to, ", %u more lack as much or more", failure->domains.count - failure->domains.listed);
    add_inexact(failure, to);
}

static void add_stuck(const struct gt_cluster *cluster, const struct gt_plan_failure *failure,
                      struct gt_buf *to)
{
    gt_buf_printf(to,
                  "unit %u: %u more pod%s of %u GPUs must go to supernode %s, where its running pods are; "
                  "it has room for %u%s",
                  failure->unit, failure->wanted, gt_plural(failure->wanted), failure->gpus,
                  super_name(cluster, failure->supernode), failure->fitting,
                  failure->beside ? " beside the rest of the job" : "");
    add_inexact(failure, to);
}

static void plan_text_add_reason(const struct gt_cluster *cluster, const struct gt_plan_failure *failure,
                                 struct gt_buf *to)
{
    const char *what = failure->atoms ? "atom" : "unit";
    if (failure->domains.bound && failure->domains.listed)
        gt_buf_printf(to, "its pods are in %s, and it must lie in one supernode of tier %u: ",
                      super_name(cluster, failure->domains.lacks[0].supernode), failure->domains.tier);
    switch (failure->reason) {
    case GT_PLAN_REASONS:
        return;
    case GT_PLAN_RESERVED:
        gt_buf_puts(to, "it would fit on nodes that are reserved for another job");
        return;
    case GT_PLAN_TOO_FEW_RESOURCES:
        gt_buf_puts(to, "GPUs for it are free, on nodes with too little else");
        return;
    case GT_PLAN_RULED:
        gt_buf_puts(to, "GPUs for it are free, on nodes where rules of pods do not allow it");
        add_inexact(failure, to);
        return;
    case GT_PLAN_NEVER_FITS:
        gt_buf_puts(to, "it would not fit into the empty cluster");
        return;
    case GT_PLAN_PLACED:
        gt_buf_puts(to, "placed");
        return;
    case GT_PLAN_NO_DOMAIN:
        if (!failure->domains.each)
            add_no_domain(cluster, failure, to);
        else if (failure->supernode != GT_NONE)
            add_stuck(cluster, failure, to);
        else
            add_no_room(cluster, failure, to);
        return;
    case GT_PLAN_TOO_FEW_GPUS:
    case GT_PLAN_NO_SUPERNODE:
        add_no_room(cluster, failure, to);
        return;
    case GT_PLAN_UNIT_TORN:
        gt_buf_printf(to, "unit %u: running pods of one %s of %u GPUs lie in different supernodes",
                      failure->unit, what, failure->size);
        return;
    case GT_PLAN_UNIT_STUCK:
        add_stuck(cluster, failure, to);
        return;
    }
}

void gt_plan_failure_text(const struct gt_cluster *cluster, const struct gt_plan_failure *failure,
                          struct gt_buf *to)
{
    plan_text_add_reason(cluster, failure, to);
    if (failure->keeps_off)
        gt_buf_puts(to, "; it would fit with GPUs that are slow or suspect, which it never takes");
}

static void plan_text_add_lost(unsigned lost, struct gt_buf *to)
{
    if (lost)
        gt_buf_printf(to, "%u larger size%s lose%s a place there", lost, gt_plural(lost),
                      lost == 1 ? "s" : "");
    else
        gt_buf_puts(to, "no larger size loses a place there");
}

static void add_touched(unsigned touched, struct gt_buf *to)
{
    if (touched)
        gt_buf_printf(to, ", it reaches into the room of %u larger size%s", touched, gt_plural(touched));
}

static void add_split(const struct gt_cluster *cluster, const struct gt_plan_unit *unit, struct gt_buf *to)
{
    gt_buf_printf(to, " over %u supernodes", unit->supernodes);
    if (unit->supernode != GT_NONE)
        gt_buf_printf(to, " of %s (tier %u)", super_name(cluster, unit->supernode), unit->tier);
    else
        gt_buf_puts(to, ", which no supernode has all");
    if (unit->atom)
        gt_buf_printf(to, ", in atoms of %u GPUs", unit->atom * unit->gpus);
    if (unit->feasible)
        gt_buf_printf(to, "; %s; %u had room for an atom, no fewer than %u could do",
                      unit->started ? "pods of it had their places" : "no supernode had room for all",
                      unit->feasible, unit->fewest);
}

void gt_plan_unit_text(const struct gt_cluster *cluster, const struct gt_plan_unit *unit, uint32_t number,
                       struct gt_buf *to)
{
    gt_buf_printf(to, "unit %u: %u GPUs", number, unit->pods * unit->gpus);
    if (unit->supernodes > 1) {
        add_split(cluster, unit, to);
        return;
    }
    gt_buf_printf(to, " in supernode %s", super_name(cluster, unit->supernode));
    if (unit->searched) {
        gt_buf_puts(to, ", found by a search");
        return;
    }
    if (!unit->feasible) {
        gt_buf_puts(to, ", where its running pods are");
        return;
    }
    if (unit->with != GT_NONE)
        gt_buf_printf(to, ", together with unit %u", unit->with);
    gt_buf_printf(to, ", which had room for %u such pod%s: ", unit->slots_before,
                  gt_plural(unit->slots_before));
    if (unit->node_in_use) {
        gt_buf_puts(to, "on a node in use, before an idle one");
        return;
    }
    plan_text_add_lost(unit->levels_lost, to);
    add_touched(unit->touched, to);
    if (unit->with != GT_NONE)
        return;
    if (unit->feasible == 1) {
        gt_buf_puts(to, "; no other supernode had room for it");
        return;
    }
    gt_buf_printf(to, "; %u supernodes could hold it", unit->feasible);
    if (unit->next.supernode == GT_NONE) /* the others have no idle node for it */
        return;
    gt_buf_printf(to, ", next best %s with room for %u (", super_name(cluster, unit->next.supernode),
                  unit->next.slots);
    plan_text_add_lost(unit->next.levels_lost, to);
    add_touched(unit->next.touched, to);
    gt_buf_puts(to, ")");
}

void gt_plan_result_text(const struct gt_cluster *cluster, const struct gt_plan_request *request,
                         const struct gt_plan_failure *failure, struct gt_buf *to)
{
    if (failure) {
        gt_plan_failure_text(cluster, failure, to);
        return;
    }
    for (uint32_t u = 0; u < request->unit_count; u++) {
        const struct gt_plan_unit *unit = &request->units[u];
        bool told = false;
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
            const struct gt_plan_pod *pod = &request->pods[i];
            struct gt_cluster_node node;
            if (pod->running || !gt_cluster_get_node(cluster, pod->place.node, &node))
                continue;
            if (!told)
                gt_plan_unit_text(cluster, unit, u, to);
            gt_buf_puts(to, told ? "" : "\n");
            told = true;
            gt_buf_printf(to, "pod %u: node %s, GPUs ", i, node.name);
            gt_text_add_mask(to, pod->place.mask);
            gt_buf_puts(to, "\n");
        }
    }
}
