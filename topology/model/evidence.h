/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The signs of faults that one check of a GPU found. Each source (vendor library, PCI, device nodes, a
 * recording) fills in its own signals; health.h derives the GPU's health from them.
 */

/* If several are present, the first one gives the reason. */
enum gt_signal {
    GT_SIGNAL_PCI_GONE,     /* its configuration space reads as all ones, or it has no power */
    GT_SIGNAL_CONTROL_NODE, /* /dev/mxcd is missing: nothing can be allocated */
    GT_SIGNAL_DRM_NODE,     /* a DRM device node of it is missing, or none is known */
    GT_SIGNAL_UNAVAILABLE,  /* the vendor library reports it as not available */
    GT_SIGNAL_LIMITED,      /* the vendor library lists it as present but not usable */
    GT_SIGNAL_ECC_DRAM,     /* value: uncorrectable errors */
    GT_SIGNAL_ECC_SRAM,     /* value: uncorrectable errors */
    GT_SIGNAL_TEMPERATURE,  /* value: degrees Celsius at the hotspot */
    GT_SIGNAL_LIBRARY,      /* the vendor library answers for other GPUs but not for this one */
    GT_SIGNAL_CALL_HANG,    /* a call hung or crashed for it, but works for other GPUs */
    GT_SIGNAL_CALL_ERROR,   /* a call returned an error for it, but works for other GPUs */
    GT_SIGNAL_PCI_ERROR,    /* value: a counter of uncorrectable bus errors (AER) */
    GT_SIGNAL_PCI_EVENT,    /* value: a counter of PCI events that the vendor library has reported */
    GT_SIGNAL_VENDOR_EVENT, /* value: a counter of events that the vendor library has reported */
    GT_SIGNAL_LEFT_OVER,    /* value: MiB in use although no container holds it, health.h */
    GT_SIGNAL_NIC_DOWN,     /* a NIC nearest to it has no link */
    GT_SIGNAL_RECORDED,     /* a recording says that it is unhealthy */
    GT_SIGNALS,             /* as a cause: it is held back, see struct gt_flapping_rule */
    GT_CAUSE_ISOLATED,      /* no signal: it was isolated by hand, isolation.h */
    GT_CAUSES,
};

/* How a signal is read. */
enum gt_signal_kind {
    GT_SIGNAL_STATE,   /* present or not */
    GT_SIGNAL_LEVEL,   /* present while the value is at the threshold or above */
    GT_SIGNAL_COUNTER, /* each increase is an occurrence; the count at the first check is none */
};

enum { GT_EVIDENCE_TEXT = 128 };

struct gt_evidence {
    unsigned known; /* bits 1 << signal: this check has a result for it */
    unsigned seen;  /* of them, the states that are present */
    uint32_t value[GT_SIGNALS];
    bool knows_memory;   /* memory_mib is known */
    uint32_t memory_mib; /* in use, by whomever */
    /* for human readers, of those that are present; "": use gt_signal_text() */
    char text[GT_SIGNALS][GT_EVIDENCE_TEXT];
};

/* Notes a state that is present, with a text; notes a state that was checked and is not present, unless it is
 * noted as present already. */
void gt_evidence_seen(struct gt_evidence *evidence, enum gt_signal signal, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void gt_evidence_absent(struct gt_evidence *evidence, enum gt_signal signal);
/* Notes the value of a level or a counter. */
void gt_evidence_value(struct gt_evidence *evidence, enum gt_signal signal, uint32_t value);

static inline bool gt_evidence_knows(const struct gt_evidence *evidence, enum gt_signal signal)
{
    return evidence->known >> signal & 1;
}

/* "librarySilent"...: its name in the fault table and in metrics; "flapping" for GT_SIGNALS, "isolated" for
 * GT_CAUSE_ISOLATED. */
const char *gt_signal_name(enum gt_signal signal);
const char *gt_signal_text(enum gt_signal signal); /* for human readers, if a source gives no text */
enum gt_signal_kind gt_signal_kind(enum gt_signal signal);

/* Which signals make a GPU unhealthy, and when it is healthy again (docs/reference/health.md). */

enum gt_fault_when {
    GT_FAULT_AT_ONCE,
    GT_FAULT_AFTER,  /* when it has occurred `times` times within `within_s` seconds */
    GT_FAULT_REPORT, /* never; it is only counted and reported */
};

enum {
    GT_FAULT_TIMES_MAX = 20,
    GT_FAULT_SECONDS_MAX = 604800, /* a week */
    GT_FAULT_CHECKS_MAX = 1000,
    GT_FAULT_FALLS_MAX = 20,
};

struct gt_fault_rule {
    enum gt_fault_when when;
    unsigned times, within_s; /* of GT_FAULT_AFTER; at least 1 */
    uint32_t threshold;       /* of a level */
    unsigned limit_s;         /* no fault any more after so long without a break, but suspect; 0: never */
    unsigned recover_checks, recover_s; /* healthy again after this many checks without the signal (at least
                                           1), and this many seconds after it was last seen */
};

/* A GPU that becomes unhealthy `falls` times within `within_s` seconds is held back: it must then be free of
 * faults for `hold_s` seconds, twice as long each further time, at most `hold_max_s`. */
struct gt_flapping_rule {
    unsigned falls, within_s, hold_s, hold_max_s; /* falls 0: never */
};

struct gt_fault_table {
    struct gt_fault_rule rules[GT_SIGNALS];
    struct gt_flapping_rule flapping;
};

extern const struct gt_fault_table gt_fault_table_default;

/* "atOnce", "after", "reportOnly". */
const char *gt_fault_when_name(enum gt_fault_when when);
