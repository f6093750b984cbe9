/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CACHE_AUDIT_H
#define GPUTOPO_CACHE_AUDIT_H

#include "scheduler-ext/cache/cache.h"

/*
 * Looks for placements that went wrong. It shares no code with the planner and asks it nothing: plans are
 * those of the pods' objects, their nodes are where the API server says, and who uses a GPU is what the
 * NodeGPUTopology says. No I/O, no clock.
 *
 * It goes round all nodes again and again, a few pods at a time. A finding stands once it has been there for
 * GT_AUDIT_SETTLE_MS, since nodes report their GPUs later than pods change; it ends when two rounds have not
 * seen it.
 */
struct gt_audit;

enum {
    GT_AUDIT_SETTLE_MS = 10000,
    GT_AUDIT_FINDINGS_MAX = 1000, /* further ones are not counted */
};

enum gt_finding_kind {
    GT_FINDING_UNIT_TORN,      /* a hard unit, or an atom: its pods are in two supernodes of tier 1 */
    GT_FINDING_DOUBLE_PLANNED, /* a pod's plan has a GPU that an older pod's plan has */
    GT_FINDING_MISPLACED,      /* a pod is on another node than planned, or uses other GPUs */
    GT_FINDING_DOUBLE_CLAIMED, /* a ResourceClaim has a GPU of another one, which was first */
    GT_FINDING_KINDS,
};
const char *gt_finding_kind_name(enum gt_finding_kind kind); /* "UnitTorn" */

struct gt_finding {
    enum gt_finding_kind kind;
    const char *api_version, *object;                                    /* the kind of what it is about */
    const char *namespace_, *name, *uid;                                 /* of a unit one of its pods */
    const char *owner_api_version, *owner_kind, *owner_name, *owner_uid; /* NULL: none */
    const char *note;                                                    /* a sentence */
    bool reported;                                                       /* the caller's, false at first */
};

/* Before the cache, which it only reads. */
int gt_audit_new(struct gt_cache *cache, struct gt_audit **ret, struct gt_err **err);
void gt_audit_free(struct gt_audit *audit);
GT_DEFINE_CLEANUP(struct gt_audit *, gt_audit_free)
#define gt_auto_audit GT_CLEANUP(gt_audit_free)

/* Goes on, and stops when it has looked at so many pods, or all pods of a job more; true: a round is over. */
bool gt_audit_step(struct gt_audit *audit, uint32_t pods, uint64_t now_ms);

/* Those that stand, as of the last whole round; the first one behind NULL. */
struct gt_finding *gt_audit_next(struct gt_audit *audit, const struct gt_finding *finding);
uint32_t gt_audit_count(const struct gt_audit *audit, enum gt_finding_kind kind);

#endif
