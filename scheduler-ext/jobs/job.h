/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/identity.h"
#include "api/owner.h"
#include "scheduler-ext/jobs/rules.h"

/* A job from its pods: ranks, and the units of its ranks. */

enum { GT_JOB_ROLES_MAX = 64 };

struct gt_job_member { /* a pod that asks for GPUs */
    uint32_t rank;     /* the framework's rank: pods without GPUs have ranks, too */
    uint32_t pod;      /* index in the given pods; GT_NONE: not created yet */
    struct gt_job_pod gpus;
    const struct gt_job_template *template; /* of the spec; NULL: it has none */
    bool needed; /* counted in the minimum of its template: nothing starts without it */
};

struct gt_job {
    enum gt_job_kind kind;
    struct gt_job_member *members; /* in rank order: members and pods of the plan have the same numbers */
    uint32_t member_count;
    uint32_t others;  /* pods that ask for no GPUs */
    uint32_t minimum; /* at least so many of all pods must start together; 0: not given */
    struct gt_job_sizes sizes;
    struct gt_job_units units;
    /* Where the job had a plan and was made smaller by a part of a unit: pods after the last whole unit,
     * which are no members, and a sentence about them. */
    uint32_t rest;
    char rest_text[320];
};

/*
 * Puts the pods of one job (equal keys) into rank order. `spec` may be NULL: then the given pods are the
 * whole job. -EINVAL with a sentence where a pod's rank is not known, two pods have the same one, or
 * annotations break a rule. The texts and counts of pods and spec must outlive the job. gt_job_free() frees
 * *ret.
 *
 * Ranks: the pods of each role are sorted by their index within the role. The order of roles is: master,
 * "worker", then others in the order of the spec, else by name; with `in_order` that of the spec alone. A
 * JobSet's role without GPUs has no ranks. Where the size of a role other than the last has changed, pods
 * keep the ranks that they were planned with, and new pods get the free ranks. Pods of kinds without an index
 * are in the natural order of their names. Pods beyond the replicas of the spec are not members.
 */
int gt_job_make(const struct gt_pod_meta *pods, uint32_t count, const struct gt_job_spec *spec,
                struct gt_job **ret, struct gt_err **err);

void gt_job_free(struct gt_job *job);
GT_DEFINE_CLEANUP(struct gt_job *, gt_job_free)
#define gt_auto_job GT_CLEANUP(gt_job_free)

/* Natural order of texts, where runs of digits count as numbers: "a-9" before "a-10". */
int gt_natural_order(const char *a, const char *b);
