/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/crossing.h"

#include <stdio.h>
#include <stdlib.h>

#include "scheduler-ext/core/internal.h"

void gt_cluster_set_bandwidth(struct gt_cluster *cluster, uint32_t supernode, double gbps)
{
    if (supernode < cluster->super_count)
        cluster->supers[supernode].gbps = (float)gbps;
}

uint32_t gt_cluster_domain(const struct gt_cluster *cluster, uint32_t supernode, unsigned tier)
{
    while (supernode != GT_NONE && cluster->supers[supernode].tier < tier)
        supernode = cluster->supers[supernode].parent;
    return supernode != GT_NONE && cluster->supers[supernode].tier == tier ? supernode : GT_NONE;
}

static uint32_t crossing_super(const struct gt_cluster *cluster, uint32_t node)
{
    struct gt_cluster_node info;
    return gt_cluster_get_node(cluster, node, &info) ? info.supernode : GT_NONE;
}

/* The slower end of a step, or what is known of it. */
static double crossing_gbps(const struct super *a, const struct super *b)
{
    return a->gbps > 0 && (a->gbps < b->gbps || !(b->gbps > 0)) ? (double)a->gbps : (double)b->gbps;
}

/* A known bandwidth counts before one that is not known, then the lower one, then the higher tier. */
static void crossing_step(const struct gt_cluster *cluster, uint32_t from, uint32_t to,
                          struct gt_crossing *ret)
{
    for (unsigned tier = 1; tier <= GT_TIERS_MAX; tier++) {
        uint32_t a = gt_cluster_domain(cluster, from, tier), b = gt_cluster_domain(cluster, to, tier);
        if (a == b || a == GT_NONE || b == GT_NONE)
            continue;
        double gbps = crossing_gbps(&cluster->supers[a], &cluster->supers[b]);
        bool slower = ret->gbps > 0 ? gbps > 0 && gbps < ret->gbps : gbps > 0 || ret->step_a == GT_NONE;
        if (!slower && !(gbps == ret->gbps && tier > cluster->supers[ret->step_a].tier))
            continue;
        ret->gbps = gbps;
        ret->step_a = a;
        ret->step_b = b;
    }
}

bool gt_crossing_find(const struct gt_cluster *cluster, const uint32_t *nodes, uint32_t count,
                      struct gt_crossing *ret)
{
    gt_auto_free bool *used = calloc((size_t)cluster->super_count + 1, sizeof(*used));
    struct gt_crossing crossing = {.step_a = GT_NONE, .step_b = GT_NONE};
    uint32_t last = count ? crossing_super(cluster, nodes[count - 1]) : GT_NONE;
    if (!used)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t super = crossing_super(cluster, nodes[i]);
        for (uint32_t s = super; s != GT_NONE && !used[s]; s = cluster->supers[s].parent) {
            used[s] = true;
            crossing.tiers[cluster->supers[s].tier].used++;
        }
        if (super != GT_NONE && last != GT_NONE && super != last)
            crossing_step(cluster, last, super, &crossing);
        last = super == GT_NONE ? last : super;
    }
    for (unsigned tier = 1; tier <= GT_TIERS_MAX; tier++) {
        crossing.tiers[tier].all = cluster->tiers[tier];
        crossing.highest = crossing.tiers[tier].used > 1 ? tier : crossing.highest;
    }
    *ret = crossing;
    return true;
}

void gt_tier_text(unsigned tier, bool many, char *ret, size_t size)
{
    static const char *const names[][2] = {
        {"supernode", "supernodes"}, {"leaf", "leaves"}, {"spine", "spines"}, {"hall", "halls"}};
    if (tier && tier <= GT_COUNT(names))
        snprintf(ret, size, "%s", names[tier - 1][many]);
    else
        snprintf(ret, size, "domains of tier %u", tier);
}

void gt_crossing_text(const struct gt_cluster *cluster, const struct gt_crossing *crossing, struct gt_buf *to)
{
    struct gt_cluster_supernode a, b;
    bool any = false;
    for (unsigned tier = crossing->highest; tier; tier--) {
        char name[32];
        if (crossing->tiers[tier].used < 2)
            continue;
        gt_tier_text(tier, true, name, sizeof(name));
        gt_buf_printf(to, "%s%u of %u %s", any ? ", " : "", crossing->tiers[tier].used,
                      crossing->tiers[tier].all, name);
        any = true;
    }
    if (!any || !(crossing->gbps > 0) || !gt_cluster_get_supernode(cluster, crossing->step_a, &a) ||
        !gt_cluster_get_supernode(cluster, crossing->step_b, &b))
        return;
    gt_buf_printf(to, "; slowest step %.6g GB/s, between %s and %s", crossing->gbps, a.name, b.name);
}

void gt_crossing_text_farther(const struct gt_crossing *before, const struct gt_crossing *after,
                              struct gt_buf *to)
{
    const char *separator = "";
    for (unsigned tier = GT_TIERS_MAX; tier; tier--) {
        uint32_t was = before->tiers[tier].used, is = after->tiers[tier].used;
        char name[32];
        if (is <= was)
            continue;
        gt_tier_text(tier, is > 1, name, sizeof(name));
        gt_buf_printf(to, "%sin %u %s, not in %u", separator, is, name, was);
        separator = ", ";
    }
}
