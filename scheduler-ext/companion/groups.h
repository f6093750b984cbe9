/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cleanup.h"
#include "scheduler-ext/supernodes/join.h"

/*
 * The operator's supernodes, read from YAML (docs/reference/supernodes.md):
 *
 *     groups:
 *     - {name: rack-1, tier: 1, parent: hall, nodes: [n01, "n[02-16]"]}
 *     tiers:
 *     - {tier: 1, bandwidthGBps: 50}
 *
 * A name may have one range of numbers in brackets; the text before and after the brackets stays, and numbers
 * are padded to the width of the first one. Invalid parts are left out and noted.
 */
enum {
    GT_GROUPS_TEXT_MAX = 4 << 20,
    GT_GROUPS_NODES_MAX = 1 << 17, /* of all groups together */
    GT_GROUPS_NOTES_MAX = 64
};

struct gt_groups {
    struct gt_join_group *items; /* owned, with all their texts */
    uint32_t count;
    double gbps[GT_JOIN_TIERS_MAX + 1]; /* [tier] of gt_supernode_object; 0: not given */
    /* A sentence for each invalid part, owned; those beyond the limit are dropped. */
    char *notes[GT_GROUPS_NOTES_MAX];
    uint32_t note_count;
};

/* -EINVAL: no YAML, or not of this form; -E2BIG: beyond a limit. The caller frees *ret. */
int gt_groups_read(const char *text, size_t len, struct gt_groups **ret, struct gt_err **err);
void gt_groups_free(struct gt_groups *groups);
GT_DEFINE_CLEANUP(struct gt_groups *, gt_groups_free)
#define gt_auto_groups GT_CLEANUP(gt_groups_free)
