/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "agent/health_file.h"
#include "base/loop.h"
#include "deviceplugin/inventory.h"
#include "topology/discovery/discovery.h"
#include "topology/model/health.h"
#include "topology/model/isolation.h"
#include "topology/model/measured.h"

/*
 * The scan thread. Scans may block as long as the vendor library does, so they run on this thread; results
 * are passed to the loop's thread. Requests that come while a scan runs are joined into the next one.
 *
 * If the library has not answered GT_SCAN_EARLY_MS after the first scan began, the first result is the node
 * as PCI shows it, and the scan goes on.
 */
struct gt_scanner;

enum { GT_SCAN_EARLY_MS = 2000 };

struct gt_scanner_options {
    unsigned stale_links_s;      /* how long direct links are kept while the vendor library does not answer */
    struct gt_scan_options scan; /* `faults` must not be NULL */
    const char *kubelet_config;  /* the file */
    /* Unhealthy GPUs (not of a recording) and isolations are stored below it; NULL: they are not. */
    const char *kubelet_dir;
};

enum gt_scan_request {
    GT_SCAN_FULL = 1,
    GT_SCAN_AT_ONCE = 2, /* with FULL: the health counts at once, since an operator asked */
    GT_SCAN_HEALTH = 4,  /* check the health of the known GPUs, and scan if there are other GPUs */
    GT_SCAN_IDS = 8,     /* no scan: apply new data on use and sharing to the last scan's node */
    GT_SCAN_BARE = 16,   /* a quick scan without the vendor library, before all other requests */
};

struct gt_scan_result {
    struct gt_inventory
        *inventory;     /* the receiver's reference; NULL: failed, or a health check without changes */
    struct gt_err *err; /* why it failed, owned by the scanner; else NULL */
    double seconds;     /* the duration of the scan */
    bool health_check;  /* it was requested as GT_SCAN_HEALTH */
    bool relabelled;    /* the inventory is the last scan's node with what is in use now, and no
                           health check was requested as well: then only `checked` is set */
    bool ids_only;      /* nothing but GT_SCAN_IDS was asked for */
    bool early;   /* without the vendor library, which has not answered yet; the next scan waits for it */
    bool bare;    /* it was a GT_SCAN_BARE: the result is `node` or `err`, and there is no inventory */
    bool checked; /* it was a health check only */
    struct gt_health_counts health; /* so far */
    struct gt_node *node;           /* of a bare scan, the receiver's reference; NULL: it failed */
};

/* On the loop's thread. */
typedef void gt_scanner_callback(void *arg, const struct gt_scan_result *result);

int gt_scanner_new(struct gt_loop *loop, const struct gt_scanner_options *options,
                   gt_scanner_callback *callback, void *arg, struct gt_scanner **ret, struct gt_err **err);
void gt_scanner_request(struct gt_scanner *scanner, unsigned requests);

/* The fault table from the next scan on. */
void gt_scanner_faults(struct gt_scanner *scanner, const struct gt_fault_table *faults);

/* What this source isolates, from now on; also stored for the next process, where `store`. */
void gt_scanner_isolate(struct gt_scanner *scanner, enum gt_isolation_source source,
                        const struct gt_isolations *isolations, bool store);

/* What the kubelet said of its configuration, from the next scan on; before what the file says, unless it is
 * not known. Returns whether it is another one. */
bool gt_scanner_kubelet(struct gt_scanner *scanner, const struct gt_kubelet *kubelet);

/* What this source has measured, from now on. */
void gt_scanner_measure(struct gt_scanner *scanner, enum gt_measured_source source,
                        const struct gt_measured *measured);

/* Which GPUs containers hold, for the next check. */
void gt_scanner_set_in_use(struct gt_scanner *scanner, const struct gt_gpus_in_use *gpus_in_use);

/* Sets the devices in use; returns whether they are different than before. Until the first call they are
 * unknown. */
bool gt_scanner_in_use(struct gt_scanner *scanner, const struct gt_in_use *in_use);

/* Sets whether the vendor's plugin shares the GPUs, from the next inventory on: if so, all get the mode sGPU.
 */
void gt_scanner_shared(struct gt_scanner *scanner, bool shared);

/* Until this is called, scans give no GPU an ID, since it is not known yet by which ID it is in use. */
void gt_scanner_name_gpus(struct gt_scanner *scanner);

/* For how many seconds the current scan has been running, 0 if there is none. Safe from any thread. */
double gt_scanner_busy(const struct gt_scanner *scanner);

/* Ends the thread and frees the scanner. If a scan does not end within `milliseconds`, it returns false and
 * frees nothing: the process must then exit. The loop must not run afterwards. */
bool gt_scanner_stop(struct gt_scanner *scanner, unsigned milliseconds);
