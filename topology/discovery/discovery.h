/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DISCOVERY_DISCOVERY_H
#define GPUTOPO_DISCOVERY_DISCOVERY_H

#include "base/err.h"
#include "topology/model/fault_table.h"
#include "topology/model/node.h"
#include "topology/probe/client.h"

/*
 * One scan of a node. Blocking (tens of milliseconds without a vendor library, up to the probe's deadline
 * with one): a daemon calls it on a thread of its own. Nothing but reading happens.
 */
struct gt_scan_options {
    const char *root;      /* directory that holds sys/ and proc/; NULL: "/" */
    const char *from;      /* NULL: the live machine. Else what is read instead: a recording or a node's JSON,
                              an hwloc XML file, or a directory with a recorded sysfs tree */
    unsigned vendor;       /* PCI vendor id of the GPUs; 0: that of the recording, else 0x9999, MetaX */
    const char *node_name; /* written into the node; NULL: "" or what the recording says */
    struct gt_probe_client *probe; /* NULL: no vendor library is asked, and `missing` says so */
    const char *no_probe_why;      /* that reason, where the caller knows a better one; may be NULL */
    int probe_wait_ms; /* so long the scan waits for the probe's answer; 0: up to the probe's deadline. Where
                          it has not come the node is without it, and gt_probe_scan_is_due() */
    const char *dev_root; /* where device nodes are checked, also for what is read instead; NULL: they do
                             not count */
    const struct gt_fault_table *faults; /* NULL: the default; only what it calls a fault at once counts */
};

/* What one scan read, for a recording: NULL where a backend gave nothing. */
struct gt_raw {
    char *hwloc;  /* XML */
    char *pci;    /* JSON text of the libpci backend */
    char *vendor; /* JSON text of the vendor call log, as the probe sent it */
};
void gt_raw_done(struct gt_raw *raw);

/* Brings the environment into the form that scans with these options need. A process with several threads
 * calls this before the second one starts: scans do not write to the environment then. */
void gt_scan_prepare(const struct gt_scan_options *options);

/*
 * Scans. Whatever cannot be read degrades the node and is noted in its `missing`; an error is returned only
 * where nothing can be said at all (an unreadable or hostile recording, no memory). ret_raw may be NULL.
 */
int gt_scan(const struct gt_scan_options *options, struct gt_node **ret, struct gt_raw *ret_raw,
            struct gt_err **err);

/*
 * A health check of the GPUs of a node that an earlier scan with the same options has found: *ret is a
 * copy of it with the evidence of now, which is not evaluated yet. What is read instead of a machine is
 * not read again. *ret_digest shows by gt_answers_digest() whether the vendor library reports other GPUs or
 * links than it did; 0 where it was not asked, or gave no answer.
 */
int gt_scan_health(const struct gt_scan_options *options, const struct gt_node *node, struct gt_node **ret,
                   uint64_t *ret_digest, struct gt_err **err);

/* The same number for what a scan has read. */
uint64_t gt_raw_digest(const struct gt_raw *raw);

/* The text of a recording: {"gputopoRecording": 1, "node": {...}, "raw": {...}}. The caller frees it. */
int gt_recording_make(const struct gt_node *node, const struct gt_raw *raw, char **ret, struct gt_err **err);

#endif
