/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "agent/metrics.h"
#include "agent/options.h"
#include "agent/plans.h"
#include "agent/publish.h"
#include "agent/scanner.h"
#include "agent/shared_gpus.h"
#include "agent/told_dir.h"
#include "agent/usage.h"
#include "base/loop.h"
#include "deviceplugin/dra/driver.h"
#include "deviceplugin/nodes_plugin.h"
#include "deviceplugin/plugin.h"
#include "http/http.h"
#include "kube/event.h"
#include "kube/informer.h"
#include "kube/writer.h"
#include "topology/discovery/hotplug.h"
#include "topology/model/isolation.h"
#include "topology/probe/client.h"

struct gt_agent;

/* Publishing in the daemon: the connection, and the agent's data as texts. */
struct gt_agent_publish;

/* Uses agent->kube, which must outlive *ret. */
int gt_agent_publish_start(struct gt_agent *agent, struct gt_agent_publish **ret, struct gt_err **err);

/* These accept NULL. _changed(): something that is published may have changed. _refresh(): everything is
 * written again. */
void gt_agent_publish_changed(struct gt_agent_publish *publish);
void gt_agent_publish_refresh(struct gt_agent_publish *publish);
/* What this lane wrote was deleted. */
void gt_agent_publish_again(struct gt_agent_publish *publish, enum gt_publish_lane lane);
/* Whether composites are offered, or will be when the API server has the counters that they need. */
bool gt_agent_publishes_counters(const struct gt_agent *agent);
void gt_agent_publish_stop(struct gt_agent_publish *publish);

/* False, with nothing written, if nothing is published. */
bool gt_agent_publish_stats(const struct gt_agent_publish *publish, struct gt_publish_stats *ret,
                            struct gt_kube_counters *ret_client);

/* Whether check-node has passed (--admit-after-check). */
struct gt_node_admission {
    const char *dir;         /* where that is kept; NULL: it is not */
    struct gt_source *timer; /* NULL: it need not, or had passed before */
    struct gt_isolations isolates;
    pid_t pid; /* the check; 0: it does not run */
    int out;   /* what it prints; -1: it does not run */
    uint64_t since_ms;
    char why[256]; /* it has not passed, as last said */
};

/* The daemon's state, for the loop's thread only. */
struct gt_agent {
    const struct gt_agent_options *options;
    struct gt_loop *loop;
    int hangup; /* descriptor of SIGHUP */
    struct gt_shutdown *shutdown;
    struct gt_http *http, *health;
    struct gt_probe_client *probe; /* NULL: none */
    const char *no_probe_why;
    struct gt_plugin *plugin;             /* NULL: --no-device-plugin */
    struct gt_nodes_plugin *nodes_plugin; /* NULL: no --probe-resource */
    struct gt_fault_table faults;         /* in use */
    struct gt_scanner *scanner;
    struct gt_hotplug *hotplug;
    struct gt_source *hotplug_source, *probe_source;
    struct gt_source *rescan_timer, *health_timer, *event_timer;
    bool event_waits;       /* `event_timer` is armed */
    uint64_t event_scan_ms; /* when events last caused a scan */

    struct gt_inventory *inventory; /* NULL before the first scan */
    bool early; /* `inventory` is served but not published: the vendor library has not answered yet */
    struct gt_scan_counts scans;
    struct gt_health_counts health_counts;
    uint64_t vendor_events;
    char scan_error[512];         /* of the last failed scan, "" after a scan that was done */
    char registration_error[512]; /* "" none since the last registration */
    char nodes_error[512];        /* likewise of nodes_plugin */

    struct gt_cdi *cdi;          /* NULL: no CDI spec is written */
    struct gt_source *cdi_timer; /* NULL: there is no spec */
    /* as scanned, with GPUs that are withheld because of CDI; NULL without CDI */
    struct gt_inventory *scanned;
    char cdi_error[256]; /* why the spec is not written, "": it is */

    /* GPUs in the last GetPreferredAllocation; GPUs allocated since the last List; GPUs allocated that no
     * List has named since */
    uint64_t offered, given, unlisted;
    struct gt_score_counts scores;

    struct gt_podresources *podresources;
    struct gt_usage_table *usage;
    struct gt_source *sync_timer; /* ends the waiting for the sources below */
    unsigned unsynced;            /* gt_agent_source bits: sources that must answer before GPUs get IDs */
    bool reported_unregistered;   /* registration_error was reported as an Event */
    int pods_error;               /* of the last failure of `pods`, 0: none since the last list */
    double listed_s;              /* when the kubelet last answered, monotonic */
    char usage_error[512];        /* why it did not answer the last time, "": it did */

    struct gt_shares shares; /* whether the vendor's plugin shares the GPUs */
    struct gt_source *node_timer;
    struct gt_kube_call *node_call;
    struct gt_kube_call *configz_call;

    struct gt_kube *kube; /* NULL: no API server is used, or it is not found yet */
    struct gt_source *api_timer;
    uint64_t api_failures;
    char no_api_why[256];
    /* NULL: nothing is published; without `kube` the next three are NULL, too */
    struct gt_agent_publish *publish;
    struct gt_kube_recorder *recorder; /* of events */
    struct gt_kube_informer *pods;     /* of this node; NULL also if plans are not honoured */
    struct gt_plan_table *plans;
    uint64_t pods_error_ms;
    bool plans_handed_current;     /* the plans were complete when the plugin got them */
    struct gt_source *plans_timer; /* armed while they were not */

    struct gt_isolations isolations;                /* in use, of the node's object */
    struct gt_fault_dir fault_dir;                  /* what files say now */
    struct gt_isolations node_says;                 /* what the Node's conditions say now */
    struct gt_told told_by_files, told_by_node;     /* what is in use of both */
    uint64_t conditions_said;                       /* bit i: the one at i of the list is True */
    uint64_t isolations_over[GT_ISOLATION_SOURCES]; /* those that had ended when that was last asked */
    int64_t clock_s;                                /* the time of day less gt_clock_ms() */
    struct gt_source *files_timer;                  /* looks at both directories */
    struct gt_measured_dir measured_dir;
    struct gt_agent_measured {
        cJSON *spec; /* of the node's object, NULL: it measures nothing */
        struct gt_measured told;
        int64_t again_s; /* as in struct gt_measured_dir */
        int64_t seen_s;
    } measured;
    struct gt_source *isolation_timer;   /* armed: one of them has an end */
    struct gt_kube_informer *own_object; /* of this node; NULL: nothing is published */
    struct gt_node_admission admission;
    int isolations_error; /* of its last failure, 0: none since it last said something */

    struct gt_dra *dra;            /* NULL: claims are not served, agent_dra.c */
    struct gt_source *dra_changed; /* armed: the GPUs held by claims have changed */
    char dra_error[512];      /* why the kubelet has not registered it, "" none since the last registration */
    char dra_spec_error[512]; /* why a prepared claim does not have its CDI spec, "": all have */
    bool dra_offers;          /* offers GPUs; false: only serves claims that are left */
    uint64_t dra_others;      /* GPUs that containers hold without a claim of ours; all if not known */
    bool dra_refused;         /* a claim was refused since a device was last given back */
    char supernode[256];      /* from the Node's label, "" not known */
    struct gt_kube_informer *dra_slices;
    struct gt_write_line dra_writes;
    /* Whether the API server stores the counters that composites need. */
    enum { GT_COUNTERS_UNKNOWN, GT_COUNTERS_KEPT, GT_COUNTERS_DROPPED } dra_counters;
    int dra_slices_error;          /* of the last failure, 0: none since the last list */
    struct gt_kube_list *dra_pods; /* lists the waiting pods; NULL: no list runs */
    unsigned dra_retried;          /* how many of them were retried */
    struct gt_source *dra_retry, *dra_collect;
    unsigned dra_next;                /* index of the claim to check next */
    struct gt_dra_claim_id dra_asked; /* the claim that was checked last */
    struct gt_kube_call *dra_asking;
    struct gt_dra_gone {
        char uid[GT_DRA_UID_SIZE]; /* "" none */
        uint64_t since_ms;
    } dra_gone[64];

    bool republish; /* after the next scan publish everything again, even if it is unchanged here */

    struct gt_err *start_error; /* why the first scan failed, so that the agent ends */
};

/* agent_cdi.c: the CDI spec (--device-strategy). _check() takes over the reference of a scanned inventory and
 * returns a reference of the inventory to serve. Free agent->cdi after the plugin. */
int gt_agent_cdi_start(struct gt_agent *agent, gt_timer_callback *on_timer, struct gt_err **err);
struct gt_inventory *gt_agent_cdi_check(struct gt_agent *agent, struct gt_inventory *inventory);
/* The timer. True: GPUs are now withheld, or no longer; `scanned` must be checked and served again. */
bool gt_agent_cdi_timer(struct gt_agent *agent);

/* agent_http.c: the handlers of /healthz, /readyz, /metrics and /usage, and of /healthz and /readyz only. */
void gt_agent_serve(void *agent, const struct gt_http_request *request, struct gt_http_response *response);
void gt_agent_serve_health(void *agent, const struct gt_http_request *request,
                           struct gt_http_response *response);

/* agent_plugin.c: the plugin's callbacks. */
struct gt_plugin_events gt_agent_plugin_events(struct gt_agent *agent);

/* agent_plugin.c: the second resource, by which the probe's container gets the GPUs' device nodes. */
int gt_agent_nodes_start(struct gt_agent *agent, struct gt_err **err);

/* agent_usage.c: starts the scans, and asks the kubelet which GPUs are in use; results are served when it has
 * answered or the time limit has passed. Start it last, stop it before the plugin. */
int gt_agent_usage_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_usage_stop(struct gt_agent *agent);

/* agent_shares.c: what the agent waits for at its start, at most two seconds. */
enum gt_agent_source {
    GT_SYNC_IN_USE = 1,  /* the kubelet: GPUs in use */
    GT_SYNC_OFFERED = 2, /* the kubelet: devices that it offers */
    GT_SYNC_NODE = 4,    /* the API server: our Node */
};
int gt_agent_sync_start(struct gt_agent *agent, struct gt_err **err);
/* These sources have answered, or need not. */
void gt_agent_synced(struct gt_agent *agent, unsigned sources);

/* agent_api.c: asks for the kubelet's configuration, where that is configured; scans once it is another.
 */
void gt_agent_configz_ask(struct gt_agent *agent);

/* agent_shares.c: the signs that the vendor's plugin shares the GPUs. agent_usage.c passes those of the
 * kubelet; the Node's annotation is read if there is an API server. */
int gt_agent_shares_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_shares_stop(struct gt_agent *agent);
/* Checks at once, without waiting for the timer. */
void gt_agent_shares_check(struct gt_agent *agent);
void gt_agent_shares_offered(struct gt_agent *agent, int offered);
void gt_agent_shares_in_use(struct gt_agent *agent, unsigned in_use);

/* agent_api.c: the API server, and everything that needs it. If it is not found, that is no error: it is
 * searched again later. */
int gt_agent_api_start(struct gt_agent *agent, struct gt_err **err);
/* "yes", or why nothing is published. */
const char *gt_agent_api_state(const struct gt_agent *agent);
/* Logs why there is no API server although one is wanted. */
void gt_agent_api_complain(struct gt_agent *agent);
void gt_agent_api_stop(struct gt_agent *agent);

/* agent_plans.c: follows the plans for this node's pods. The plugin must exist. */
int gt_agent_plans_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_plans_stop(struct gt_agent *agent);
void gt_agent_plans_listed(struct gt_agent *agent, const struct gt_device_uses *uses);
/* False, with nothing written, if no plans are followed. `*ret_current`: the API server sends every change.
 */
bool gt_agent_plans_stats(const struct gt_agent *agent, struct gt_plan_counts *ret, bool *ret_current);

/* agent_isolation.c: obeys `spec.isolated` and `spec.measured` of the node's object, and the files of
 * --fault-dir and --measured-dir. _start() goes
 * on with what was isolated before this process; the scanner must exist. _follow() watches the object. */
int gt_agent_isolation_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_isolation_stop(struct gt_agent *agent);
int gt_agent_isolation_follow(struct gt_agent *agent, struct gt_err **err);

/* agent_admit.c: no GPU is served before check-node has passed (--admit-after-check). */
int gt_agent_admit_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_admit_stop(struct gt_agent *agent);

/* agent_recorder.c: Events about the Node. Does nothing without an API server. */
int gt_agent_recorder_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_record_event(struct gt_agent *agent, bool warning, const char *reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* agent_dra.c: Dynamic Resource Allocation (--advertise=dra, or claims that are left from it). _check() takes
 * over the reference of an inventory and returns a reference of what the device plugin may serve of it;
 * `on_change` is called when that may have changed. */
int gt_agent_dra_start(struct gt_agent *agent, gt_timer_callback *on_change, struct gt_err **err);
void gt_agent_dra_stop(struct gt_agent *agent);
struct gt_inventory *gt_agent_dra_check(struct gt_agent *agent, struct gt_inventory *inventory);
void gt_agent_dra_used(struct gt_agent *agent);

/* The part of it that uses the API server. */
int gt_agent_dra_api_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_dra_api_stop(struct gt_agent *agent);

/* agent_events.c: hotplug and vendor events cause a scan, after a pause in which more may come. */
int gt_agent_events_start(struct gt_agent *agent, struct gt_err **err);
/* Watches for events of the vendor library again; called after each scan, which has read them all. */
void gt_agent_events_resume(struct gt_agent *agent);
void gt_agent_events_stop(struct gt_agent *agent);
