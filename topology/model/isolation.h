/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/health.h"
#include "topology/model/node.h"

/* What people and programs keep out of use by hand: GPUs, links between two GPUs, or all of a node. An entry
 * with a grade takes no GPU out of use: it says that the GPU is slow or suspect. */

enum { GT_ISOLATIONS_MAX = 64, GT_ISOLATION_REASON_SIZE = 110, GT_ISOLATION_VALUE_SIZE = 64 };

/* The start of the reason of a GPU that is unhealthy only because it is isolated: pods on it stay, or leave.
 */
#define GT_ISOLATED       "isolated: "
#define GT_ISOLATED_EVICT "isolated, pods leave: "

struct gt_isolation {
    /* Each a UUID, a device ID, a BDF or an index. Both: the link between them; `gpu` alone: that GPU; none:
     * every GPU of the node. */
    char gpu[GT_ID_SIZE], peer[GT_ID_SIZE];
    char reason[GT_ISOLATION_REASON_SIZE];
    enum gt_gpu_grade grade;             /* of GPUs; NONE: they are taken out of use */
    char value[GT_ISOLATION_VALUE_SIZE]; /* how slow, "memory bandwidth 70 %"; "" not said */
    bool evicts;                         /* pods on such GPUs are treated as on a broken GPU */
    int64_t until_s;                     /* Unix time at which it ends; 0: it does not end by itself */
    uint64_t hold_s;                     /* how long it must be away once it is not told any more */
};

struct gt_isolations {
    char object[64]; /* UID of the object that says so, "" none */
    unsigned count;
    struct gt_isolation of[GT_ISOLATIONS_MAX];
};

/* The node as these isolations leave it: such GPUs are unhealthy, unless they are that already, or have a
 * grade, the worst that is said; such links are down. The node must not be shared yet. A name that the node
 * has no GPU for has no effect, nor has a pair without a direct link. */
int gt_isolations_apply(const struct gt_isolations *isolations, int64_t now_s, struct gt_node *node,
                        struct gt_err **err);

/* The GPUs that are unhealthy only because they are isolated, and whose pods stay. */
uint64_t gt_node_isolated(const struct gt_node *node);

bool gt_isolations_equal(const struct gt_isolations *a, const struct gt_isolations *b);

/* Those that have ended, as a mask, and in how many seconds to ask again, 0: never. The clock may be set in
 * either direction meanwhile. */
uint64_t gt_isolations_over(const struct gt_isolations *isolations, int64_t now_s, unsigned *ret_again_s);

/* What programs tell again and again. Begin with zeros. */
struct gt_isolation_damper {
    unsigned count;
    struct gt_isolation_damped {
        struct gt_isolation last; /* as it was last told */
        struct gt_flapping flapping;
        bool is_held;
    } of[GT_ISOLATIONS_MAX];
};

/* What is told, and what was taken back and is held by the rule: what takes GPUs or links out of use. Sets
 * `hold_s`. `ret` may not be `isolations`. */
void gt_isolations_damp(struct gt_isolation_damper *damper, const struct gt_flapping_rule *rule,
                        const struct gt_isolations *isolations, uint64_t now_s, struct gt_isolations *ret);

/* Holds those that have `hold_s`, of the process before, until they have been away for as long. Begin with
 * zeros. */
void gt_isolations_restore(struct gt_isolation_damper *damper, const struct gt_flapping_rule *rule,
                           const struct gt_isolations *before);
