/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/audit.h"
#include "scheduler-ext/cache/cache_internal.h"

enum { AUDIT_NOTE_MAX = 1000 }; /* an Event's */

struct audit_finding {
    struct gt_finding pub; /* first; its texts point into `texts` */
    uint64_t key;
    uint64_t since_ms;
    uint64_t round;  /* the last one that saw it */
    unsigned missed; /* rounds since then, which have not seen it */
    bool stands;     /* it has lasted for GT_AUDIT_SETTLE_MS: it is reported */
    char *texts;
};

struct audit_location { /* where a pod of a unit is */
    uint32_t unit, rank, supernode;
    const struct cache_pod *pod;
};

struct gt_audit {
    struct gt_audit_spec spec;
    struct gt_cache *cache;
    uint32_t slot; /* the next slot of the table of nodes */
    uint32_t left; /* pods that this step may still check */
    uint64_t round, now_ms;
    bool in_round;
    struct audit_location *locations; /* of one job */
    uint32_t location_capacity;
    struct audit_finding *findings[GT_AUDIT_FINDINGS_MAX * GT_FINDING_KINDS];
    uint32_t count;
    uint32_t of_kind[GT_FINDING_KINDS], standing[GT_FINDING_KINDS]; /* all, and those that are reported */
};

/* ---- audit_findings.c ---- */

/* Records that this round has seen a finding about a pod, or a claim. `key` distinguishes it from others of
 * its kind; the note is written only for a new finding. */
void gt_audit_see(struct gt_audit *audit, enum gt_finding_kind kind, uint64_t key,
                  const struct cache_pod *pod, const char *format, ...) __attribute__((format(printf, 5, 6)));
void gt_audit_see_claim(struct gt_audit *audit, enum gt_finding_kind kind, uint64_t key,
                        const struct gt_cache_claim *claim, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

void gt_audit_end_round(struct gt_audit *audit);
void gt_audit_free_finding(struct audit_finding *finding);

/* ---- audit_units.c ---- */

void gt_audit_units(struct gt_audit *audit, const struct gt_cache_job *job);
/* The annotations of a job: of its pods, else of its owner. */
struct gt_job_texts gt_audit_texts(const struct gt_audit *audit, const struct gt_cache_job *job);
