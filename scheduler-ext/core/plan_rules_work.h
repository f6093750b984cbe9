/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan_nodes.h"
#include "scheduler-ext/core/plan_rules.h"

/* How many pods of a plan in progress lie in each domain of a rule. */
struct rule_tally {
    uint32_t *who, *with;     /* [domain]; one block with those below */
    uint32_t *open;           /* [domain] of `who`, those that are to be placed */
    uint32_t *both;           /* [domain] of `who` and of `with`; TOGETHER: only those to be placed */
    uint32_t domains, placed; /* placed: pods of `who` */
    uint32_t home;            /* TOGETHER: where its pods have begun */
    uint64_t sum;             /* SPREAD: pods that are there in domains that count, and `with` in them */
    uint32_t counting;        /* SPREAD: domains that count */
    uint32_t to_come;         /* pods of `with` without a node */
    bool begins; /* TOGETHER: nothing that it asks for is there, and its pods may begin anywhere */
    bool seeded; /* TOGETHER: pods of the plan without this rule are what it asks for */
};

struct rule_work {
    struct gt_cluster *cluster;
    const struct gt_plan_request *request;
    const struct gt_plan_rules *rules;
    struct rule_tally tallies[GT_PLAN_RULES_MAX];
};

/* Counts the pods of the request that have a node. False without memory. */
bool gt_rule_work_make(struct rule_work *work);
void gt_rule_work_done(struct rule_work *work);

static inline bool gt_rule_has(uint64_t sorts, unsigned sort)
{
    return sort < GT_PLAN_SORTS_MAX && sorts >> sort & 1;
}

/* Whether pods of `who` may have to wait for others. */
static inline bool gt_rule_waits(const struct gt_plan_rule *rule)
{
    return rule->kind == GT_PEER_TOGETHER || rule->kind == GT_PEER_SPREAD;
}

static inline uint32_t gt_rule_domain(const struct gt_plan_rule *rule, uint32_t node)
{
    return rule->domain ? rule->domain[node] : node;
}

/* Puts a pod of this sort on a node (sign 1), or takes it away (-1). */
void gt_rule_count(struct rule_work *work, unsigned sort, uint32_t node, bool open, int sign);
/* Whether a further pod of this sort may be there, as far as that is known before all are placed. */
bool gt_rule_allows(const struct rule_work *work, unsigned sort, uint32_t node);
/* Whether all pods, which have nodes and are counted, keep the rules. */
bool gt_rules_are_kept(struct rule_work *work);

/* Looks for places of all pods, best first; *ret_exact: there are none, else the search was cut short. On
 * success pods and units are as after gt_plan_job(). */
bool gt_rule_search(struct rule_work *work, bool *ret_exact);
