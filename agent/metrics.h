/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "agent/plans.h"
#include "agent/publish.h"
#include "agent/usage.h"
#include "base/buf.h"
#include "deviceplugin/dra/driver.h"
#include "deviceplugin/plugin.h"
#include "kube/event.h"
#include "topology/model/health.h"
#include "topology/probe/client.h"

/* The agent's counters and its state at the time of a scrape (docs/reference/metrics.md). */

enum { GT_SCAN_BUCKETS = 8 }; /* <= 5 ms, 10, 50, 100, 500 ms, 1 s, 10, more */

struct gt_scan_counts {
    uint64_t done, failed, health_checks;
    uint64_t bucket[GT_SCAN_BUCKETS];
    double sum_s;
    double last_s; /* Unix time of the last scan that was done, 0: none yet */
};

/* Counts the duration of a scan. */
void gt_scan_counts_add(struct gt_scan_counts *counts, double seconds);

/* Sums over containers of the score S (topology/model/loss.h). */
struct gt_score_counts {
    uint64_t given; /* of the GPUs that they got */
    uint64_t best;  /* of the best set with as many of the GPUs that were free then */
};

struct gt_metrics {
    const struct gt_inventory *inventory; /* NULL before the first scan */
    struct gt_scan_counts scans;
    struct gt_health_counts health;
    bool has_plugin, has_probe;
    struct gt_plugin_stats plugin;
    struct gt_score_counts scores;
    struct gt_probe_stats probe;
    bool has_cdi; /* --device-strategy */
    struct gt_cdi_stats cdi;
    bool has_nodes_plugin, nodes_registered; /* --probe-resource */
    uint64_t vendor_events;
    const struct gt_dra_stats *dra; /* NULL: claims are not served */
    const struct gt_usage *usage;   /* NULL: the kubelet is not asked which GPUs are in use */
    struct gt_podresources_stats lists;
    bool honours_plans;
    const struct gt_plan_counts *plans; /* NULL: none are followed */
    bool plans_current;
    struct {
        bool wanted, used;
        const struct gt_kube_recorder_counters *events; /* NULL: there are none */
        const struct gt_publish_stats *publish;         /* NULL: nothing is published */
        struct gt_kube_counters client;
    } api; /* its server; used: one was found */
};

/* Appends the Prometheus text format, version 0.0.4. */
void gt_metrics_write(const struct gt_metrics *metrics, struct gt_buf *to);
