/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/jobs/rules.h"

/*
 * Detects wrong placements. It shares no code with the planner: it reads the plans from the pods' objects,
 * their nodes from the API server, and the users of a GPU from the NodeGPUTopology. No I/O, no clock.
 *
 * It checks all nodes in rounds, a few pods at a time. A finding is reported once it has lasted for
 * GT_AUDIT_SETTLE_MS, since nodes report their GPUs later than pods change; it ends when two rounds in a row
 * have not seen it.
 */
struct gt_audit;

enum {
    GT_AUDIT_SETTLE_MS = 10000,
    GT_AUDIT_FINDINGS_MAX = 1000, /* of a kind; further ones are not counted */
};

enum gt_finding_kind {
    GT_FINDING_UNIT_TORN,      /* a hard unit, or an atom: its pods are in two supernodes of tier 1 */
    GT_FINDING_DOUBLE_PLANNED, /* a pod's plan has a GPU that an older pod's plan has */
    GT_FINDING_MISPLACED,      /* a pod is on another node than planned, or uses other GPUs */
    GT_FINDING_DOUBLE_CLAIMED, /* two ResourceClaims have one GPU; it is about the one whose pod does not use
                                  it */
    GT_FINDING_UNPLACED,       /* a pod is on a node without a plan, though its job has a group size */
    GT_FINDING_KINDS,
};
const char *gt_finding_kind_name(enum gt_finding_kind kind); /* "UnitTorn" */

struct gt_finding {
    enum gt_finding_kind kind;
    const char *api_version, *object;    /* the kind of the object that it is about */
    const char *namespace_, *name, *uid; /* for a unit: of one of its pods */
    const char *owner_api_version, *owner_kind, *owner_name, *owner_uid; /* NULL: none */
    const char *note;                                                    /* a sentence */
    bool reported; /* set by the caller; false at first */
};

struct gt_audit_spec {
    struct gt_cache *cache; /* it is only read, and outlives the audit */
    /* Fills in what the owner of a job's pod says of the job, where `texts` has it not yet. NULL: owners are
     * not known. */
    void (*add_owner_texts)(void *arg, const struct gt_cache_pod *pod, struct gt_job_texts *texts);
    void *arg;
};

int gt_audit_new(const struct gt_audit_spec *spec, struct gt_audit **ret, struct gt_err **err);
void gt_audit_free(struct gt_audit *audit);
GT_DEFINE_CLEANUP(struct gt_audit *, gt_audit_free)
#define gt_auto_audit GT_CLEANUP(gt_audit_free)

/* Continues the round and returns when it has checked `pods` pods (a job is always finished). True: the round
 * is over. */
bool gt_audit_step(struct gt_audit *audit, uint32_t pods, uint64_t now_ms);

/* The next reported finding, as of the last complete round; `finding` NULL: the first. NULL: no more. */
struct gt_finding *gt_audit_next(struct gt_audit *audit, const struct gt_finding *finding);
uint32_t gt_audit_count(const struct gt_audit *audit, enum gt_finding_kind kind);
