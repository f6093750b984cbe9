/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "deviceplugin/cdi.h"
#include "deviceplugin/plans.h"
#include "deviceplugin/registration.h"

/*
 * The kubelet's device plugin API v1beta1 for one resource: serves it on a unix socket below the kubelet's
 * device-plugins directory, registers, and registers again when the kubelet restarts (socket re-created),
 * when the ListAndWatch stream ends, or when a registration fails (back-off with jitter). The directory may
 * be missing at first. Requests are answered on gRPC's thread from the published inventory; events are called
 * on the loop's thread.
 */
struct gt_plugin;

/* One container's Allocate and GetPreferredAllocation, for the log and metrics. Masks are of the GPUs of the
 * inventory's node. */
struct gt_allocation {
    const char *ids; /* "a,b" */
    unsigned count;
    uint64_t gpus;
    const char *error; /* NULL: done */
};

struct gt_preference {
    const char *ids;
    unsigned count;
    uint64_t offered;                        /* the healthy GPUs that were available */
    struct gt_choice choice;                 /* mask 0: the loss table was not used */
    enum gt_plan_result plan;                /* GT_PLAN_NONE also if none was searched */
    const char *namespace, *pod, *container; /* whose plan it is; "" except for GT_PLAN_HIT */
};

struct gt_plugin_events { /* all on the loop's thread; any may be NULL; none may free the plugin */
    void (*registered)(void *arg);
    void (*registration_failed)(void *arg, const char *why, unsigned retry_ms);
    void (*stream_ended)(void *arg);
    void (*allocated)(void *arg, const struct gt_allocation *allocation);
    void (*preferred)(void *arg, const struct gt_preference *preference);
    void *arg;
};

struct gt_plugin_options {            /* its texts are borrowed */
    const char *resource;             /* "metax-tech.com/gpu" */
    const char *kubelet_dir;          /* "/var/lib/kubelet": device-plugins/ is below it */
    const char *dev_root;             /* directory of the host's device nodes: "/dev" */
    enum gt_device_strategy strategy; /* how containers get their GPUs */
    struct gt_cdi *cdi;        /* not owned, must outlive the plugin; may be NULL for GT_STRATEGY_DEVICES */
    bool honour_plans;         /* false: gt_plugin_plan() does nothing */
    unsigned plan_deadline_ms; /* 0: GT_PLAN_LOOKUP_DEADLINE_MS (deviceplugin/plan_lookup.h) */
    unsigned register_timeout_ms; /* 0: 20 s; the kubelet connects back during Register, for up to 10 s */
    unsigned stream_timeout_ms;   /* 0: 10 s; ListAndWatch must come within this time after Register */
    unsigned check_ms; /* 0: 30 s; how often the kubelet is asked whether it still has the devices */
};

/* -EINVAL for a text that gRPC peers would refuse. Set up the loop's signals before, so that gRPC's threads
 * block them; free the plugin before the loop. */
int gt_plugin_new(struct gt_loop *loop, const struct gt_plugin_options *options,
                  const struct gt_plugin_events *events, struct gt_plugin **ret, struct gt_err **err);

/* Serves this inventory from now on (takes its own reference); an open ListAndWatch stream gets the list when
 * it has changed. The first inventory with at least one device starts registration. One without devices is
 * ignored: the kubelet would set the capacity to 0. */
void gt_plugin_publish(struct gt_plugin *plugin, const struct gt_inventory *inventory);

/*
 * Retires this ID: it is not given to anyone from now on. False, and nothing is changed, if Allocate has
 * given it since this program began, or if a handler runs or has just ended, so that the kubelet may be about
 * to ask for it.
 */
bool gt_plugin_retire(struct gt_plugin *plugin, const char *id);
/* Adds all retired IDs to to->retired. */
void gt_plugin_retired(struct gt_plugin *plugin, struct gt_in_use *to);

/*
 * Sets the plans; NULL: there are none. For a GetPreferredAllocation without IDs that must be included, the
 * plugin asks the kubelet which containers wait. If exactly one plan matches, the answer is its devices, else
 * it is the same as without plans. It waits up to GT_PLAN_LOOKUP_PLAN_MS for plans that know the waiting
 * pods. The kubelet is not asked if no plan fits and the node's pods are not known. Takes its own reference.
 * The first plans start a thread; on an error it could not be started, and there are no plans.
 */
int gt_plugin_plan(struct gt_plugin *plugin, struct gt_plans *plans, struct gt_err **err);

/* Ends streams and server cleanly and removes its own socket. */
void gt_plugin_free(struct gt_plugin *plugin);
GT_DEFINE_CLEANUP(struct gt_plugin *, gt_plugin_free)

enum { GT_LATENCY_BUCKETS = 9 }; /* <= 10 us, 30, 100, 300, 1 ms, 3, 10, 100, more */
struct gt_latency {
    uint64_t bucket[GT_LATENCY_BUCKETS];
    uint64_t sum_us;
};
struct gt_plugin_stats {
    struct gt_registration_stats registration;
    uint64_t allocations, allocation_errors; /* by container */
    uint64_t plans[GT_PLAN_RESULTS]; /* requests without IDs that must be included, by result; all 0 if plans
                                        are not honoured */
    struct gt_latency allocate, prefer; /* handler time without gRPC */
};
/* Milliseconds since the last GetPreferredAllocation or Allocate handler ended, 0 while one runs, UINT64_MAX
 * if none has run yet. Wait until this is not too small before asking the kubelet about its devices
 * (deviceplugin/podresources.h says why). Safe from any thread, takes no lock. */
uint64_t gt_plugin_quiet_ms(const struct gt_plugin *plugin);

/* For how many milliseconds the oldest call of the kubelet has been handled, 0 if there is none. Safe from
 * any thread, takes no lock. */
uint64_t gt_plugin_busy_ms(const struct gt_plugin *plugin);

/* On the loop's thread. */
void gt_plugin_stats(struct gt_plugin *plugin, struct gt_plugin_stats *ret);
