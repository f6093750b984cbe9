/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler-ext/core/cluster.h"

/*
 * The simulated cluster: nodes in supernodes, immutable. Nodes of one supernode have consecutive numbers;
 * supernodes, and nodes within one, are in the order of their names, so that "the lowest number" means "the
 * first name" for every policy.
 */
enum {
    GT_SITE_NODES_MAX = 1 << 17,
    GT_SITE_TEXT_MAX = 64 << 20, /* bytes of a cluster or trace file */
};

struct gt_site_node {
    uint32_t super;
    uint32_t gpus;   /* 0 to 64 */
    uint32_t linked; /* size of the groups of consecutive GPUs with direct links */
};

enum { GT_SITE_UPPER = 3 }; /* tiers above the supernodes: leaves, spines, halls */

struct gt_site {
    struct gt_site_node *nodes;
    uint32_t node_count;
    uint32_t super_count;
    uint32_t *first_node;           /* [super_count + 1] */
    uint32_t gpus;                  /* of all nodes */
    uint32_t *upper[GT_SITE_UPPER]; /* [supernode] its leaf, its spine...; NULL: there is no such tier */
    uint32_t upper_count[GT_SITE_UPPER];
};

/* "SxN", "SxNxG" or "SxNxGxL": S supernodes of N nodes of G GPUs (default 8), with direct links in groups of
 * L GPUs (default 4); several shapes separated by "+". -EINVAL when the text is not a shape. */
int gt_site_from_shape(const char *text, struct gt_site **ret, struct gt_err **err);

/* Gives the tier domains of so many supernodes in a row. */
int gt_site_group(struct gt_site *site, unsigned tier, uint32_t supers, struct gt_err **err);

/*
 * The text of a file in one of the forms of supernodes/network.h, all of which has to be usable: with domains
 * of tier 1 as the supernodes, else each node is one. All hosts have 8 GPUs. `file` names it in errors.
 */
int gt_site_from_text(const char *file, const char *text, size_t len, struct gt_site **ret,
                      struct gt_err **err);

void gt_site_free(struct gt_site *site);
GT_DEFINE_CLEANUP(struct gt_site *, gt_site_free)
#define gt_auto_site GT_CLEANUP(gt_site_free)

/* The number of GPUs of the largest supernode; of the largest node. */
uint32_t gt_site_largest_super(const struct gt_site *site);
uint32_t gt_site_largest_node(const struct gt_site *site);

/* Makes the core's cluster of the site, all GPUs free: direct links of 64 GB/s within a group of linked GPUs,
 * 8 GB/s between groups. Nodes without GPUs have a class on which nothing fits. Ids of nodes are those of the
 * site. */
int gt_site_model(const struct gt_site *site, struct gt_cluster **ret, struct gt_err **err);
