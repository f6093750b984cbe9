/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_AGENT_PRIVATE_H
#define GPUTOPO_AGENT_AGENT_PRIVATE_H

#include "agent/metrics.h"
#include "agent/options.h"
#include "agent/plans.h"
#include "agent/publish_agent.h"
#include "agent/scanner.h"
#include "agent/shared_gpus.h"
#include "agent/usage.h"
#include "base/loop.h"
#include "deviceplugin/dra/driver.h"
#include "deviceplugin/nodes_plugin.h"
#include "deviceplugin/plugin.h"
#include "http/http.h"
#include "kube/event.h"
#include "kube/informer.h"
#include "topology/discovery/hotplug.h"
#include "topology/probe/client.h"

/* The daemon's state, all of it the loop's thread's. */
struct gt_agent {
    const struct gt_agent_options *options;
    struct gt_loop *loop;
    struct gt_shutdown *shutdown;
    struct gt_http *http, *health;
    struct gt_probe_client *probe; /* NULL: none */
    const char *no_probe_why;
    struct gt_plugin *plugin;             /* NULL: --no-device-plugin */
    struct gt_nodes_plugin *nodes_plugin; /* NULL: no --probe-resource */
    struct gt_fault_table faults;         /* in force */
    struct gt_scanner *scanner;
    struct gt_hotplug *hotplug;
    struct gt_source *hotplug_source, *probe_source;
    struct gt_source *rescan_timer, *health_timer, *event_timer;
    bool event_waits;       /* event_timer is armed */
    uint64_t event_scan_ms; /* when events last had a scan */

    struct gt_inventory *inventory; /* NULL before the first scan */
    bool early; /* it is served, but not published: the vendor library's answer is still to come */
    struct gt_scan_counts scans;
    struct gt_health_counts health_counts;
    struct gt_call_times calls;
    uint64_t hotplug_events, vendor_events;
    char scan_error[512];         /* of the last scan that failed, "" since one was done */
    char registration_error[512]; /* "" none since the last registration */
    char nodes_error[512];        /* likewise of nodes_plugin */

    struct gt_cdi *cdi;           /* NULL: there can be none */
    struct gt_source *cdi_timer;  /* NULL: there is no spec */
    struct gt_inventory *scanned; /* as it was scanned, before what CDI withholds; NULL without CDI */
    char cdi_error[256];          /* why the spec is not written, "" it is */

    uint64_t offered, given; /* GPUs in the last GetPreferredAllocation; allocated since the last list */
    struct gt_score_counts scores;

    struct gt_podresources *podresources;
    struct gt_usage_table *usage;
    struct gt_source *sync_timer; /* the end of waiting for the sources below */
    unsigned unsynced;            /* gt_agent_source bits: what is waited for before GPUs get IDs */
    bool reported_unregistered;   /* registration_error was reported as an Event */
    int pods_error;               /* of the last failure to follow `pods`, 0: none since the last list */
    double listed_s;              /* when the kubelet last answered, monotonic */
    char usage_error[512];        /* why it did not the last time, "" it did */

    struct gt_shares shares; /* whether the vendor's plugin shares the GPUs */
    struct gt_source *node_timer;
    struct gt_kube_call *node_call;

    struct gt_kube *kube; /* NULL: there is no API server for us, or not yet */
    struct gt_source *api_timer;
    uint64_t api_failures;
    char no_api_why[256];
    struct gt_agent_publish *publish;  /* NULL: nothing is published, as the three below without `kube` */
    struct gt_kube_recorder *recorder; /* of events */
    struct gt_kube_informer *pods;     /* of this node; NULL also where plans are not honoured */
    struct gt_plan_table *plans;
    struct gt_plan_counts plan_counts;
    uint64_t pods_error_ms;
    bool plans_handed_current;     /* what the plugin has was complete when it was handed over */
    struct gt_source *plans_timer; /* armed while it was not */

    struct gt_dra *dra;            /* NULL: claims are not served, agent_dra.c */
    struct gt_source *dra_changed; /* armed: who holds what by claims has changed */
    char dra_error[512];      /* why the kubelet has not registered it, "" none since the last registration */
    char dra_spec_error[512]; /* why a prepared claim has not its CDI spec, "" all have */
    bool dra_offers;          /* the GPUs, and not only serves claims that are left */
    uint64_t
        dra_others;   /* GPUs that containers hold without one of our claims; all where that is not known */
    bool dra_refused; /* a claim was, since a device was given back last */
    char supernode[256]; /* by the Node's label, "" not known */
    struct gt_kube_informer *dra_slices;
    /* Whether the API server keeps the counters that composites need. */
    enum { GT_COUNTERS_UNKNOWN, GT_COUNTERS_KEPT, GT_COUNTERS_DROPPED } dra_counters;
    int dra_slices_error;          /* of the last failure, 0: none since the last list */
    struct gt_kube_list *dra_pods; /* those that wait, while they are listed */
    unsigned dra_retried;          /* of them */
    struct gt_source *dra_retry, *dra_collect;
    unsigned dra_next;                /* claim that is asked about next */
    struct gt_dra_claim_id dra_asked; /* and the one that was last */
    struct gt_kube_call *dra_asking;
    struct gt_dra_gone {
        char uid[GT_DRA_UID_SIZE]; /* "" none */
        uint64_t since_ms;
    } dra_gone[64];

    bool republish; /* after the next scan, whoever has changed what is there */

    struct gt_err *start_error; /* why the first scan failed: the agent ends */
};

/* agent_cdi.c: the CDI spec (--device-strategy). _check() takes the reference of an inventory that was
 * scanned, and returns one of what is to be served. Stopped after the plugin. */
int gt_agent_cdi_start(struct gt_agent *agent, gt_timer_callback *on_timer, struct gt_err **err);
struct gt_inventory *gt_agent_cdi_check(struct gt_agent *agent, struct gt_inventory *inventory);
/* The timer. True: whether GPUs are withheld has changed, and `scanned` is to be served again. */
bool gt_agent_cdi_timer(struct gt_agent *agent);
void gt_agent_cdi_stop(struct gt_agent *agent);

/* agent_http.c: the handlers of /healthz, /readyz, /metrics and /usage, and of the first two alone. */
void gt_agent_serve(void *agent, const struct gt_http_request *request, struct gt_http_response *response);
void gt_agent_serve_health(void *agent, const struct gt_http_request *request,
                           struct gt_http_response *response);

/* agent_score.c: how good the GPUs are that containers get, beside the best that were free. */
void gt_agent_score(struct gt_agent *agent, const struct gt_allocation *allocation);

/* agent_plugin.c: the plugin's callbacks. */
struct gt_plugin_events gt_agent_plugin_events(struct gt_agent *agent);

/* agent_nodes.c: the second resource, by which the probe's container gets the GPUs' device nodes. */
int gt_agent_nodes_start(struct gt_agent *agent, struct gt_err **err);

/* agent_usage.c: begins the scans, and asks the kubelet who uses what; what they find is served when it has
 * answered, or has not. Started last, stopped before the plugin. */
int gt_agent_usage_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_usage_stop(struct gt_agent *agent);

/* agent_sync.c: what the agent waits for at its start, for two seconds at most. */
enum gt_agent_source {
    GT_SYNC_HELD = 1,    /* the kubelet: who uses what */
    GT_SYNC_OFFERED = 2, /* the kubelet: what it has to offer */
    GT_SYNC_NODE = 4,    /* the API server: our Node */
};
int gt_agent_sync_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_sync_stop(struct gt_agent *agent);
/* These sources have answered, or are not waited for. */
void gt_agent_synced(struct gt_agent *agent, unsigned sources);

/* agent_shares.c: the signs that the vendor's plugin shares the GPUs. Those of the kubelet come from
 * agent_usage.c; the Node's annotation is read while there is an API server. */
int gt_agent_shares_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_shares_stop(struct gt_agent *agent);
/* At once, not only by the timer. */
void gt_agent_shares_check(struct gt_agent *agent);
void gt_agent_shares_offered(struct gt_agent *agent, int offered);
void gt_agent_shares_held(struct gt_agent *agent, unsigned held);

/* agent_api.c: the API server, and everything that needs it. Not finding it is no error: it is searched
 * again. */
int gt_agent_api_start(struct gt_agent *agent, struct gt_err **err);
/* "yes", or why nothing is published. */
const char *gt_agent_api_state(const struct gt_agent *agent);
/* Logs why there is no API server where there should be one. */
void gt_agent_api_complain(struct gt_agent *agent);
void gt_agent_api_stop(struct gt_agent *agent);

/* agent_plans.c: follows what is planned for this node's pods. The plugin must be there. */
int gt_agent_plans_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_plans_stop(struct gt_agent *agent);
void gt_agent_plans_listed(struct gt_agent *agent, const struct gt_holdings *holdings);
/* False, nothing written, where none are followed. `*ret_current`: the API server sends every change. */
bool gt_agent_plans_stats(const struct gt_agent *agent, struct gt_plan_counts *ret, bool *ret_current);

/* agent_recorder.c: Events about the Node. Does nothing without an API server. */
int gt_agent_recorder_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_recorder_stop(struct gt_agent *agent);
void gt_agent_record_event(struct gt_agent *agent, bool warning, const char *reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool gt_agent_recorder_stats(const struct gt_agent *agent, struct gt_kube_recorder_counters *ret);

/* agent_dra.c: Dynamic Resource Allocation (--advertise=dra, or claims that are left from it). _check() takes
 * the reference of an inventory and returns one of what the device plugin may serve of it; `on_change` is
 * called when that may be another. */
int gt_agent_dra_start(struct gt_agent *agent, gt_timer_callback *on_change, struct gt_err **err);
void gt_agent_dra_stop(struct gt_agent *agent);
struct gt_inventory *gt_agent_dra_check(struct gt_agent *agent, struct gt_inventory *inventory);
void gt_agent_dra_used(struct gt_agent *agent);

/* agent_dra_api.c: what that needs of the API server. */
int gt_agent_dra_api_start(struct gt_agent *agent, struct gt_err **err);
void gt_agent_dra_api_stop(struct gt_agent *agent);
void gt_agent_dra_read_claim(void *agent, const struct gt_dra_claim_id *claim, struct gt_dra_read *read);
/* Has the kubelet look again at the pods of this node that wait for claims, soon. */
void gt_agent_dra_retry_pods(struct gt_agent *agent);

/* agent_events.c: hotplug and vendor events call for a scan, after a pause in which more may come. */
int gt_agent_events_start(struct gt_agent *agent, struct gt_err **err);
/* Listens to the vendor library again; called after each scan, which has drained its events. */
void gt_agent_events_resume(struct gt_agent *agent);
void gt_agent_events_stop(struct gt_agent *agent);

#endif
