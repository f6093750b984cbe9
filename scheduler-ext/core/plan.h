/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_PLAN_H
#define GPUTOPO_CORE_PLAN_H

#include "base/buf.h"
#include "scheduler-ext/core/cluster.h"
#include "scheduler-ext/core/node_set.h"

/*
 * gpu-podaffinity: places the units of a job on supernodes, all or nothing.
 *
 * A unit is a run of pods in rank order with equal GPU counts. Without atoms all of it lies in one tier-1
 * supernode (hard). With atoms, every atom (a run of `atom` pods of the unit) lies in one tier-1 supernode
 * (hard) and the unit as close together as possible (soft): fewest units split, then the lowest tier that
 * holds a unit, then the fewest supernodes.
 *
 * Among feasible supernodes the rule of the cluster decides (gt_cluster_set_rule). With GT_RULE_STATIC: the
 * fewest larger sizes of the chain lose a place; then the fullest; then the lowest id. With GT_RULE_CHURN:
 * for a single unit the same, but before the fullest the one where it reaches into the room of the fewest
 * larger sizes; for several alike the room of the fewest larger sizes, then the fullest that holds all that
 * are left, else the one that takes most. Once jobs have left, places of the largest size count for a single
 * unit, then of the one below it, and for several the largest size's room, or (gt_cluster_set_crowded) what
 * the two largest leave over. A unit smaller than a node goes to
 * the fullest node in use that holds it, if there is one. Inside a supernode a unit takes the fewest nodes,
 * best fit; on a node the job's pods get their GPUs together (pod_gpus.h).
 */
enum { GT_PLAN_PODS_MAX = 1 << 17 };

struct gt_plan_pod { /* in rank order */
    bool running;    /* in: it has its place, node is where; its unit (or atom) stays in that supernode */
    uint32_t node;   /* in for a running pod (GT_NONE: unknown, it binds nothing), else out */
    uint64_t mask;   /* in for a running pod: its GPUs (0: unknown), others come near them; else out */

    uint8_t gpus;       /* scratch of the plan: how many it gets, 0: it has them */
    uint32_t run, next; /* likewise: the first pod of its run; the next one on its node */
};

struct gt_plan_unit {
    uint32_t first, pods; /* in: its pods, 1 or more, within the job's */
    unsigned gpus;        /* in: of each pod, 1 or more; no node holds more than 64 */
    uint32_t atom;        /* in: pods of an atom, a divisor of `pods`; 0: the unit is hard */

    uint32_t supernode;  /* out: where all of it lies, the lowest tier that holds it; GT_NONE: nothing but the
                            whole cluster does */
    unsigned tier;       /* out: that supernode's, 1 is best; GT_TIERS_MAX + 1 for GT_NONE */
    uint32_t supernodes; /* out: tier-1 supernodes it touches */
    uint32_t slots_before; /* out: room of the (first) supernode for such pods, before this unit */
    uint32_t feasible;    /* out: how many supernodes could have held it (an atom of it, where it is split); 0
                             where running pods left no choice */
    unsigned levels_lost; /* out: sizes of the chain that lost a place */
    unsigned touched;     /* out: GT_RULE_CHURN: sizes of the chain whose room it reaches into */
    uint32_t with;        /* out: GT_RULE_CHURN: the earlier unit that it was placed together with; GT_NONE */
    bool node_in_use; /* out: GT_RULE_CHURN: smaller than a node, on the one with the fewest available GPUs
                         that holds it, of those where not all are, or that it fills */
    bool started;     /* out: of a split unit: pods of it had their places before */
    bool searched;    /* out: found by trying all ways, not by the rule */
    uint32_t next; /* out: the supernode that came second, for a whole unit; GT_NONE: there is none, or (for
                      a unit smaller than a node) only such without an idle node */
    uint32_t next_slots;
    unsigned next_lost, next_touched; /* out: its room, and the sizes that would have lost a place there, or
                                         room */
    uint32_t fewest; /* out: no placement of this unit in its order touches fewer tier-1 supernodes */
};

enum gt_plan_reason {
    GT_PLAN_PLACED,
    GT_PLAN_TOO_FEW_GPUS, /* in the whole cluster, whatever the topology */
    GT_PLAN_NO_SUPERNODE, /* units or atoms do not find supernodes */
    GT_PLAN_UNIT_TORN,    /* running pods of a unit (atom) that lacks some lie in different supernodes */
    GT_PLAN_UNIT_STUCK,   /* the supernode of the running pods has no room for the others */
    GT_PLAN_RESERVED,     /* it would fit, on nodes that are reserved for another job; a caller's finding */
    GT_PLAN_TOO_FEW_RESOURCES, /* it would fit if nodes had nothing but GPUs to give; likewise */
    GT_PLAN_REASONS,
};

/* A run is what must lie together: a unit, or an atom of a soft one. */
struct gt_plan_failure {
    enum gt_plan_reason reason;
    uint32_t unit;         /* the one that failed */
    uint32_t size;         /* GPUs of a run */
    uint32_t wanted, held; /* runs of that size needed (those with running pods not counted), and how many the
                              cluster holds beside larger and started ones. UNIT_STUCK: pods that the run
                              lacks, and how many of them find room */
    uint32_t largest;      /* GPUs for such pods in the supernode that has most of them left once those `held`
                              are placed: less than a run */
    uint32_t supernode;    /* that one, or the one that is stuck; GT_NONE: there is none */
    uint32_t available;    /* available GPUs of the cluster for such pods, before the job */
    bool atoms;            /* runs are atoms */
    bool beside;           /* other runs of the job had taken their room first */
    bool inexact;          /* pods or units of several sizes: not all ways were tried, it may fit */
    unsigned gpus;         /* of a pod */
    uint32_t needed;       /* GPUs of all such pods of the job that do not run (UNIT_STUCK: of the run) */
    uint32_t together;     /* runs that `available` would hold without supernodes */
};

/* What a node holds besides GPUs is not enough for pods on all that are available there. */
struct gt_plan_limit {
    uint32_t node;
    unsigned gpus; /* that the job's pods may take there at most */
};

struct gt_plan_request {
    struct gt_plan_unit *units; /* cover pods 0..pod_count-1 without gaps, in order */
    uint32_t unit_count;
    struct gt_plan_pod *pods;
    uint32_t pod_count;
    const struct gt_node_set *excluded; /* nodes that are left out, as if not eligible; NULL: none */
    const uint64_t *freed; /* [node] GPUs that count as free though they are in use; NULL: none */
    const struct gt_plan_limit *limits; /* a node once at most */
    uint32_t limit_count;
};

/*
 * Plans. True: every pod has a node and a mask. False: *ret_failure says why, pods and out fields of units
 * are undefined. The state of the cluster is not touched: the caller assumes the pods.
 */
bool gt_plan_job(struct gt_cluster *cluster, const struct gt_plan_request *request,
                 struct gt_plan_failure *ret_failure);

/* Splits a pod's GPUs over its containers, the best-connected ones together; counts add up to the mask's. */
void gt_plan_split(const struct gt_class *class, uint64_t mask, const unsigned *counts, unsigned containers,
                   uint64_t *ret_masks);

/* One sentence on a failure: "3 units of 32 GPUs needed, supernodes can hold 2; largest free 24 in supernode
 * s7". */
void gt_plan_failure_text(const struct gt_cluster *cluster, const struct gt_plan_failure *failure,
                          struct gt_buf *to);

/* One line a unit: where, and why there. */
void gt_plan_unit_text(const struct gt_cluster *cluster, const struct gt_plan_unit *unit, uint32_t number,
                       struct gt_buf *to);

#endif
