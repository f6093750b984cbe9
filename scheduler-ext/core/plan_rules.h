/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan.h"

/*
 * Rules between pods, as the scheduler will check them: pods that share no domain, pods that belong into one,
 * pods that are spread, pods that take of what a node has left. A plan keeps them, or is not made.
 *
 * Pods are of sorts: those of one sort have the same rules and count for the same ones. A domain is a set of
 * nodes, such as a zone; nodes may lie in none.
 *
 * Where all pods to be placed are of one sort and ask for as many GPUs, and each rule is about single nodes,
 * it is known exactly whether the job fits. Otherwise a plan is searched for, and `inexact` says where the
 * search was cut short.
 */
enum { GT_PLAN_SORTS_MAX = 64, GT_PLAN_RULES_MAX = 64, GT_PLAN_SORT_NONE = 255 };

enum gt_peer_kind {
    GT_PEER_APART,    /* a pod of `who` shares no domain with another pod of `with` */
    GT_PEER_TOGETHER, /* a pod of `who` is in a domain where a pod of `with` is, or one that is there */
    GT_PEER_SPREAD,   /* where a pod of `who` is placed, no more than `skew` above the least domain */
    GT_PEER_TAKE,     /* pods of `who`, which is `with`, each take `take` of what `there` says is left on the
                         node, which no running pod of the plan has */
};

struct gt_plan_rule {
    enum gt_peer_kind kind;
    uint32_t *domain;   /* [node], GT_NONE: in none; NULL: each node is a domain */
    uint32_t domains;   /* how many there are */
    uint64_t who, with; /* sorts: bits */
    uint32_t *there;    /* [domain] pods that are there already; GT_NONE: the domain does not count (SPREAD).
                           NULL: none, and all count. APART: nodes are barred instead. TAKE: what is left,
                           below GT_NONE */
    uint32_t *take;     /* TAKE: [sort] */
    uint32_t skew, fewest; /* SPREAD; with fewer domains than `fewest` the least one counts as empty */
};

struct gt_plan_rules {
    uint8_t
        *sort; /* [pod of the request]; GT_PLAN_SORT_NONE: a running pod that `there` and `barred` count */
    unsigned sorts;
    struct gt_node_set barred[GT_PLAN_SORTS_MAX]; /* [sort] nodes where its pods must not be placed */
    struct gt_plan_rule rules[GT_PLAN_RULES_MAX];
    unsigned count;
    const struct gt_node_set *excluded; /* where the sorts may use different nodes, with `barred`, if there is
                                           no plan within the request's; NULL: likewise for all */
    bool incomplete;                    /* there are more sorts or rules than these */
    bool in_order; /* pods are bound in the order of the request, and none is tried again after others */
};
void gt_plan_rules_done(struct gt_plan_rules *rules);
/* Makes one sort of those that nothing tells apart. */
void gt_plan_rules_merge(struct gt_plan_rules *rules, uint32_t pods);
/* One more sort, to which everything applies as to an earlier one: its number, -ENOSPC where there are too
 * many, -ENOMEM. */
int gt_plan_rules_add_sort(struct gt_plan_rules *rules, unsigned like);

/* gt_plan_job() within request->rules, which may be NULL. Where the job would fit without them, the failure
 * is GT_PLAN_RULED. */
bool gt_plan_ruled(struct gt_cluster *cluster, const struct gt_plan_request *request,
                   struct gt_plan_failure *ret_failure);
