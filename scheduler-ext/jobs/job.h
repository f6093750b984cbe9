/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_JOBS_JOB_H
#define GPUTOPO_JOBS_JOB_H

#include "api/owner.h"
#include "scheduler-ext/jobs/identity.h"
#include "scheduler-ext/jobs/rules.h"

/* A job from its pods: ranks, and the units of its ranks. */

enum { GT_JOB_ROLES_MAX = 64 };

struct gt_job_member { /* a pod that asks for GPUs */
    uint32_t rank;     /* as its framework counts: pods without GPUs have ranks too */
    uint32_t pod;      /* of the pods given; GT_NONE: not made yet */
    struct gt_job_pod gpus;
    const struct gt_job_template *template; /* of the spec; NULL: it has none */
    bool needed; /* its template has a minimum that counts it: nothing starts without it */
};

struct gt_job {
    enum gt_job_kind kind;
    struct gt_job_member *members; /* in rank order: members and pods of the plan have the same numbers */
    uint32_t member_count;
    uint32_t others;  /* pods that ask for no GPUs */
    uint32_t minimum; /* so many of all pods start together, or nothing; 0: not given */
    struct gt_job_sizes sizes;
    struct gt_job_units units;
};

/*
 * Puts the pods of one job (equal keys) into rank order. `spec` may be NULL: then the pods given are all
 * there is. -EINVAL with a sentence where a pod's place is not known, two have the same, or annotations break
 * a rule. The texts and counts of pods and spec must live as long as the job.
 *
 * Ranks: a pod's index within its role, from that of the first, behind the roles that go before: the master,
 * then "worker", then others in the order of the spec, else by name. Where a role before the last has got
 * another size, pods keep the ranks that they were planned with, and new ones get those that are free. Pods
 * of kinds without an index are in the order of their names, with numbers in them taken as numbers. Pods
 * beyond the replicas of the spec are no members.
 */
int gt_job_make(const struct gt_pod_meta *pods, uint32_t count, const struct gt_job_spec *spec,
                struct gt_job **ret, struct gt_err **err);

void gt_job_free(struct gt_job *job);
GT_DEFINE_CLEANUP(struct gt_job *, gt_job_free)
#define gt_auto_job GT_CLEANUP(gt_job_free)

/* Order of texts where runs of digits count as numbers: "a-9" before "a-10". */
int gt_natural_order(const char *a, const char *b);

#endif
