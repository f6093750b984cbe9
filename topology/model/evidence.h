/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_EVIDENCE_H
#define GPUTOPO_MODEL_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What one check of a GPU found against it. Each source (vendor library, PCI, device nodes, a recording)
 * fills in its own signals; health.h makes a verdict of them.
 */

/* The first that is there gives the reason. */
enum gt_signal {
    GT_SIGNAL_PCI_GONE,     /* its configuration space reads as all ones, or it has no power */
    GT_SIGNAL_CONTROL_NODE, /* /dev/mxcd is missing: nothing can be allocated */
    GT_SIGNAL_DRM_NODE,     /* a DRM device node of it is missing, or none is known */
    GT_SIGNAL_UNAVAILABLE,  /* the vendor library calls it not available */
    GT_SIGNAL_LIMITED,      /* the vendor library lists it as present but not usable */
    GT_SIGNAL_ECC_DRAM,     /* value: uncorrectable errors */
    GT_SIGNAL_ECC_SRAM,     /* value: uncorrectable errors */
    GT_SIGNAL_TEMPERATURE,  /* value: degrees Celsius at the hotspot */
    GT_SIGNAL_LIBRARY,      /* the vendor library answers for other GPUs and not for this one */
    GT_SIGNAL_CALL_HANG,    /* a call for it hung or crashed that answers for other GPUs */
    GT_SIGNAL_CALL_ERROR,   /* a call for it returned an error that answers for other GPUs */
    GT_SIGNAL_PCI_ERROR,    /* value: a counter of bus errors (AER) that could not be corrected */
    GT_SIGNAL_PCI_EVENT,    /* value: the same of the vendor library's PCI events */
    GT_SIGNAL_VENDOR_EVENT, /* value: a counter of events that the vendor library has reported */
    GT_SIGNAL_RECORDED,     /* a recording calls it unhealthy */
    GT_SIGNALS,
};

/* How a signal is read. */
enum gt_signal_kind {
    GT_SIGNAL_STATE,   /* there or not */
    GT_SIGNAL_LEVEL,   /* there while the value is at the threshold or above */
    GT_SIGNAL_COUNTER, /* each step upward is an occurrence; what was counted before the first check is not */
};

enum { GT_EVIDENCE_TEXT = 128 };

struct gt_evidence {
    unsigned known; /* bits 1 << signal: this check knows it */
    unsigned seen;  /* of them, states that are there */
    uint32_t value[GT_SIGNALS];
    char text[GT_SIGNALS][GT_EVIDENCE_TEXT]; /* of those that are there, for people; "" as the signal says */
};

/* A state that is there, and what was seen; one that was checked and is not there (no word where it is
 * known to be there). */
void gt_evidence_seen(struct gt_evidence *evidence, enum gt_signal signal, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void gt_evidence_absent(struct gt_evidence *evidence, enum gt_signal signal);
/* A level or a counter. */
void gt_evidence_value(struct gt_evidence *evidence, enum gt_signal signal, uint32_t value);

static inline bool gt_evidence_knows(const struct gt_evidence *evidence, enum gt_signal signal)
{
    return evidence->known >> signal & 1;
}

/* "librarySilent"... as the fault table and the metrics have it; "flapping" for GT_SIGNALS. */
const char *gt_signal_name(enum gt_signal signal);
const char *gt_signal_text(enum gt_signal signal); /* for people, where a source gives no text */
enum gt_signal_kind gt_signal_kind(enum gt_signal signal);

#endif
