/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CORE_VICTIMS_H
#define GPUTOPO_CORE_VICTIMS_H

#include "scheduler-ext/core/plan.h"

/*
 * Which running pods have to go so that a job that waits fits, with its units whole. Less is, in this order:
 * the highest priority of a pod that goes, how many jobs lose pods, how many pods go, how many GPUs they
 * have.
 *
 * The highest priority is found by halving, since more room never hurts. Then several sets are made as small
 * as they can be, first by whole jobs, then by pods, and the least of them is the answer: all pods, those of
 * one job, those of one supernode, those of the shortest row of supernodes with the fewest jobs, and what
 * gt_advise() says (advise.h). So no pod goes that could stay. For a job with equal units there is an answer
 * wherever one exists, and it is the least one where each pod is a job of itself. Otherwise a lesser one may
 * exist: the question is then as hard as covering a set with the fewest others.
 */
struct gt_victim {
    uint32_t node; /* of the cluster */
    uint64_t mask; /* GPUs it uses */
    int32_t priority;
    uint32_t job; /* pods with equal numbers are of one job */
    bool chosen;  /* out: it has to go */
};

/*
 * True: the plan is in the pods of the request, as if the chosen pods were gone; none is chosen where it fits
 * as it is. False: it would not fit without all of them, or memory ran out; nothing is chosen. `freed` of the
 * request are GPUs that become free anyway.
 */
bool gt_victims_choose(struct gt_cluster *cluster, const struct gt_plan_request *request,
                       struct gt_victim *victims, uint32_t count);

#endif
