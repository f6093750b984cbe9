/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/node_gpu_topology.h"
#include "base/time_text.h"
#include "deviceplugin/inventory.h"

/* The conditions of a NodeGPUTopology. */
struct gt_agent_condition {
    enum gt_condition_status status;
    const char *reason; /* a literal, one word */
    char message[1024];
    char since[GT_TIME_TEXT_SIZE]; /* when the status last changed, RFC 3339; "" not known yet */
};

/* The data that they are computed from. */
struct gt_condition_facts {
    const struct gt_inventory *inventory; /* not NULL */
    const char *scan_error;               /* why the last scan failed, "": it did not */
    bool has_plugin, registered;
    bool by_claims;                 /* the driver of claims is registered, not the device plugin */
    const char *registration_error; /* "" none since the last registration */
    const char *shared_why;         /* a sign that the vendor's plugin shares the GPUs, NULL: there is none */
    bool usage_known, usage_stale;  /* as in agent/usage.h */
    const char *usage_error;        /* why the kubelet did not answer the last time, "": it did */
    const char *usage_at;           /* when it last answered, RFC 3339; "" never */
};

/* Computes them again; if a status is different than before, it has changed at `now`. */
void gt_conditions_update(struct gt_agent_condition conditions[static GT_TOPOLOGY_CONDITIONS],
                          const struct gt_condition_facts *facts, const char *now);

/* Takes lastTransitionTime of each from the object that an earlier agent wrote. Conditions that have been
 * computed already stay unchanged. */
void gt_conditions_adopt(struct gt_agent_condition conditions[static GT_TOPOLOGY_CONDITIONS],
                         const cJSON *object);
