/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/core/cluster.h"

/*
 * gpu-podaffinity: places the units of a job on supernodes; either all of them or none.
 *
 * A unit is a run of pods in rank order with equal GPU counts. Without atoms all of it lies in one tier-1
 * supernode (hard). With atoms, every atom (a run of `atom` pods of the unit) lies in one tier-1 supernode
 * (hard) and the unit lies as close together as possible (soft): as few units as possible are split, each in
 * the lowest tier that holds it, over as few supernodes as possible.
 *
 * Among feasible supernodes the rule of the cluster decides (gt_cluster_set_rule). With GT_RULE_STATIC it is
 * the one where the fewest larger sizes of the chain lose a place; then the fullest; then the lowest id. With
 * GT_RULE_CHURN a single unit is placed in the same way, but before the fullest comes the one where the unit
 * uses room of the fewest larger sizes. Several equal units are placed where they use room of the fewest
 * larger sizes; then in the fullest that holds all remaining units, else in the one that holds most of them.
 * Once jobs have ended, only these sizes count: for a single unit the places of the largest, then those of
 * the second largest, but these not in supernodes too small for the largest, where others hold it; for
 * several units the room of the largest, or (gt_cluster_set_crowded) of the two largest. Of equal supernodes
 * the smaller one is taken. A unit smaller than a node takes a node in use that it fills, else the smallest
 * kind of node, and there a node in use, if there is one. Within a supernode a unit takes the fewest nodes,
 * best fit; the job's pods on one node get their GPUs in one step (pod_gpus.h).
 */
enum { GT_PLAN_PODS_MAX = 1 << 17, GT_PLAN_LACKS_MAX = 4 };

struct gt_plan_pod { /* in rank order */
    bool running;    /* in: it has a place; its unit (or atom) stays in that supernode */
    bool left_out;   /* in, with `running`: it has no place, and this plan is without it */
    /* In for a running pod, else out. Its node is GT_NONE: unknown, it restricts nothing. Its mask is 0:
     * unknown; else other pods get GPUs near them. */
    struct gt_place place;
    uint64_t requests; /* in: struct gt_numa_pod */

    uint8_t gpus;       /* scratch of the plan: GPUs to be chosen; 0: they are chosen */
    uint32_t run, next; /* scratch: the first pod of its run; the next one on its node */
};

struct gt_plan_unit {
    uint32_t first, pods; /* in: its pods, 1 or more, within the job's */
    unsigned gpus;        /* in: of each pod, 1 or more; no node holds more than 64 */
    uint32_t atom;        /* in: pods of an atom, a divisor of `pods`; 0: the unit is hard */
    unsigned within;      /* in: with atoms, it lies in one supernode of at most this tier; 0: anywhere */

    uint32_t supernode;  /* out: the lowest supernode that contains all of it; GT_NONE: only the whole cluster
                            does */
    unsigned tier;       /* out: that supernode's, 1 is best; GT_TIERS_MAX + 1 for GT_NONE */
    uint32_t supernodes; /* out: tier-1 supernodes it touches */
    uint32_t slots_before; /* out: room of the (first) supernode for such pods, before this unit */
    uint32_t feasible; /* out: how many supernodes could have held it (one of its atoms, where it is split); 0
                          where running pods left no choice */
    unsigned levels_lost; /* out: sizes of the chain that lost a place */
    unsigned touched;     /* out: GT_RULE_CHURN: sizes of the chain whose room it uses */
    uint32_t with;        /* out: GT_RULE_CHURN: the unit that it was placed together with; GT_NONE */
    bool node_in_use;     /* out: GT_RULE_CHURN: it is smaller than a node, and was placed on a node in use */
    bool started;         /* out: a split unit of which some pods were placed before */
    bool searched;        /* out: found by an exhaustive search, not by the rule */
    struct {
        uint32_t supernode; /* GT_NONE: none, or (for a unit smaller than a node) only ones without an idle
                               node */
        uint32_t slots;     /* its room */
        unsigned levels_lost, touched;
    } next;          /* out: the second best supernode, for a whole unit */
    uint32_t fewest; /* out: the fewest tier-1 supernodes that the unit could touch when it was placed */
};

enum gt_plan_reason {
    GT_PLAN_PLACED,
    GT_PLAN_TOO_FEW_GPUS,      /* in the whole cluster, whatever the topology */
    GT_PLAN_NO_SUPERNODE,      /* no supernode has room for some unit or atom */
    GT_PLAN_UNIT_TORN,         /* running pods of an incomplete unit (atom) lie in different supernodes */
    GT_PLAN_UNIT_STUCK,        /* the supernode of the running pods has no room for the others */
    GT_PLAN_RESERVED,          /* it would fit on nodes that are reserved for another job; set by callers */
    GT_PLAN_TOO_FEW_RESOURCES, /* it would fit if only GPUs counted; set by callers */
    GT_PLAN_RULED,             /* it would fit without the rules between pods (plan_rules.h) */
    GT_PLAN_NO_DOMAIN,         /* it must lie in one supernode of a tier, and none has room */
    GT_PLAN_NEVER_FITS,        /* it would not fit into the empty cluster; set by callers, who say why */
    GT_PLAN_REASONS,
};

/* A run is what must lie in one supernode: a unit, or an atom of a soft unit. */
struct gt_plan_failure {
    enum gt_plan_reason reason;
    uint32_t unit;            /* the one that failed */
    uint32_t size;            /* GPUs of a run */
    uint32_t wanted, fitting; /* runs of that size needed (without those that have running pods), and how many
                              the cluster holds besides larger and started ones. UNIT_STUCK: pods missing in
                              the run, and how many of them have room */
    uint32_t largest;   /* most GPUs for such pods that a supernode has left when `held` runs are placed; less
                           than a run */
    uint32_t supernode; /* the supernode of `largest`, or that of the stuck run; GT_NONE: none */
    uint32_t available; /* available GPUs of the cluster for such pods, before the job */
    bool atoms;         /* runs are atoms */
    bool beside;        /* other runs of the job took room before */
    bool inexact;    /* pods or units of several sizes, or rules: the search was not exhaustive, it may fit */
    unsigned gpus;   /* of a pod */
    uint32_t needed; /* GPUs of all such pods of the job that do not run (UNIT_STUCK: of the run) */
    uint32_t together;   /* runs that `available` GPUs would hold without regard to supernodes */
    uint32_t numa_nodes; /* nodes with enough free GPUs for such a pod that their kubelets would refuse */
    bool keeps_off;      /* it would fit with slow GPUs, which it never takes */
    bool could_fit; /* all such runs would fit if the nodes were empty that are eligible and not excluded */
    struct {
        unsigned tier; /* the job must lie in one supernode of this tier; 0: anywhere */
        /* Each unit must, not the whole job: none is listed, and `held` says how many can. Where `supernode`
         * is given, the unit has begun there: so many pods are `wanted`, and so many it holds. */
        bool each;
        bool bound; /* the one that is listed has pods of the job; none: they lie in several */
        uint32_t count, listed;
        struct gt_plan_lack {
            uint32_t supernode, runs; /* runs 0: it has room by numbers, and they do not fit together */
        } lacks[GT_PLAN_LACKS_MAX];   /* those that lack the fewest runs */
    } domains;
};

/* A node whose other resources are not enough for pods on all its available GPUs. */
struct gt_plan_limit {
    uint32_t node;
    unsigned gpus; /* most GPUs that the job's pods may take there */
};

struct gt_plan_request {
    struct gt_plan_unit *units; /* cover pods 0..pod_count-1 without gaps, in order */
    uint32_t unit_count;
    struct gt_plan_pod *pods;
    uint32_t pod_count;
    const struct gt_node_set *excluded; /* nodes that are not used, as if not eligible; NULL: none */
    const uint64_t *freed;              /* [node] mask of GPUs in use that count as free; NULL: none */
    const struct gt_plan_limit *limits; /* at most one for each node */
    uint32_t limit_count;
    const struct gt_plan_rules *rules; /* for gt_plan_ruled(): NULL: none */
    enum gt_slow_use slow;
    bool settled;    /* of plan_slow.c: no other plan is looked for */
    bool flat;       /* without regard to tiers above the supernode */
    unsigned within; /* the whole job lies in one supernode of this tier; 0: it need not (plan_within.h) */
    bool chosen;     /* its nodes are those of one domain: no other is looked for */
};

/*
 * Plans. True: every pod has a node and a mask. False: *ret_failure says why, pods and out fields of units
 * are undefined. The cluster's state does not change: the caller makes the promises for the pods.
 */
bool gt_plan_job(struct gt_cluster *cluster, const struct gt_plan_request *request,
                 struct gt_plan_failure *ret_failure);

/* Splits a pod's GPUs among its containers so that well-connected GPUs stay together; counts[container] must
 * add up to the GPUs of the mask. Writes ret_masks[container]. */
void gt_plan_split(const struct gt_class *class, uint64_t mask, const unsigned *counts, unsigned containers,
                   uint64_t *ret_masks);

/* One sentence on a failure: "3 units of 32 GPUs needed, supernodes can hold 2; largest free 24 in supernode
 * s7". */
void gt_plan_failure_text(const struct gt_cluster *cluster, const struct gt_plan_failure *failure,
                          struct gt_buf *to);

/* All that a plan says, for a comparison: of a placed job its units, and node and GPUs of each pod that was
 * placed, a line each; else (`failure` not NULL) one sentence. */
void gt_plan_result_text(const struct gt_cluster *cluster, const struct gt_plan_request *request,
                         const struct gt_plan_failure *failure, struct gt_buf *to);

/* One line for a unit: its place, and why it was chosen. */
void gt_plan_unit_text(const struct gt_cluster *cluster, const struct gt_plan_unit *unit, uint32_t number,
                       struct gt_buf *to);
