/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "topology/model/evidence.h"
#include "topology/model/node.h"
#include "topology/probe/client.h"

/*
 * One scan of a node. It blocks (tens of milliseconds without a vendor library, up to the probe's deadline
 * with one), so a daemon calls it on a thread of its own. It only reads.
 */
struct gt_scan_options {
    const char *root;   /* directory that holds sys/ and proc/; NULL: "/" */
    const char *from;   /* NULL: the live machine. Otherwise the path to read instead: a recording or a node's
                           JSON, an hwloc XML file, a text with the matrix of mx-smi, or a directory with a
                           recorded sysfs tree; "-": standard input */
    bool needs_devices; /* GPUs will be given to containers: a matrix is refused, since it names no devices */
    unsigned vendor;    /* PCI vendor id of the GPUs; 0: that of the recording, else 0x9999, MetaX */
    const char *node_name;         /* written into the node; NULL: "" or what the recording says */
    struct gt_probe_client *probe; /* NULL: the vendor library is not queried, and `missing` says so */
    const char *no_probe_why;      /* the reason for `missing` if `probe` is NULL; may be NULL */
    int probe_wait_ms;    /* how long the scan waits for the probe's answer; 0: up to the probe's deadline.
                             Without an answer by then the node is made without it, and gt_probe_scan_is_due() is
                             true */
    const char *dev_root; /* directory in which device nodes are checked, also if `from` is set; NULL: they
                             are not checked */
    const struct gt_fault_table *faults; /* NULL: the default; only its rules GT_FAULT_AT_ONCE count */
};

/* What one scan read, for a recording: NULL if a backend gave nothing. gt_raw_done() frees the texts. */
struct gt_raw {
    char *hwloc;  /* XML */
    char *pci;    /* JSON text of the libpci backend */
    char *vendor; /* JSON text of the vendor call log, as the probe sent it */
};
void gt_raw_done(struct gt_raw *raw);

/* Sets the environment variables that scans with these options need. A process with several threads calls
 * this before it starts its second thread, since scans then do not write to the environment. */
void gt_scan_prepare(const struct gt_scan_options *options);

/*
 * Scans. What cannot be read is left out of the node and noted in its `missing`; an error is returned only if
 * there is no node at all (an unreadable or invalid recording, no memory). ret_raw may be NULL.
 */
int gt_scan(const struct gt_scan_options *options, struct gt_node **ret, struct gt_raw *ret_raw,
            struct gt_err **err);

/*
 * A health check of the GPUs of a node that an earlier scan with the same options has found: *ret is a copy
 * of it with the current evidence, which is not evaluated yet. If `from` is set, nothing is read again.
 * *ret_digest is the gt_answers_digest() of the answers: another number than before means that the vendor
 * library reports other GPUs or links; 0 if it was not queried, or gave no answer.
 */
int gt_scan_health(const struct gt_scan_options *options, const struct gt_node *node, struct gt_node **ret,
                   uint64_t *ret_digest, struct gt_err **err);

/* The same digest for what a scan has read. */
uint64_t gt_raw_digest(const struct gt_raw *raw);

/* The text of a recording: {"gputopoRecording": 1, "node": {...}, "raw": {...}}. The caller frees it. */
int gt_recording_make(const struct gt_node *node, const struct gt_raw *raw, char **ret, struct gt_err **err);
