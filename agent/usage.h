/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "deviceplugin/inventory.h"
#include "deviceplugin/podresources.h"

/*
 * Which container uses which GPU: the kubelet's list (deviceplugin/podresources.h), mapped to the node's
 * GPUs. It uses no clock and no socket; for the loop's thread only.
 */
struct gt_usage_owner {
    char id[GT_ID_SIZE]; /* by which the container holds it */
    char namespace[64];
    char pod[254];
    char container[64]; /* for a claim that the kubelet does not list: the claim's request */
    char claim[254];    /* the claim that holds it; "": the device plugin does */
    char claim_namespace[64];
};

/* One state, immutable. Masks are of the GPUs of the inventory's node. */
struct gt_usage {
    uint64_t generation; /* increases with every change, from 1 */
    bool known;          /* false: no list of the kubelet yet, or no scan; nothing below is valid */
    bool stale;          /* true: the kubelet has not answered for a while */
    unsigned gpu_count;
    uint64_t used;  /* a container holds it */
    uint64_t free;  /* no container holds it, and it is served and healthy: a new container may get it */
    uint64_t twice; /* more than one container holds it, which is an error; the owner is one of them */
    /* How many devices in use are not GPUs of this node, such as lost GPUs; "strangers" in JSON. */
    unsigned unknown_devices;
    struct gt_usage_owner owners[]; /* gpu_count of them, empty if not used; then unknown_devices of them */
};

struct gt_usage_table;

/* Called for a new state; the old one is valid until this returns. */
typedef void gt_usage_changed(void *arg, const struct gt_usage *before, const struct gt_usage *usage);

enum { GT_UNKNOWN_DEVICES_MAX = 64 };

int gt_usage_table_new(gt_usage_changed *changed, void *arg, struct gt_usage_table **ret,
                       struct gt_err **err);
void gt_usage_table_free(struct gt_usage_table *table);
GT_DEFINE_CLEANUP(struct gt_usage_table *, gt_usage_table_free)

/* The present state, valid until the next call that changes it. Never NULL. */
const struct gt_usage *gt_usage_now(const struct gt_usage_table *table);

/*
 * Takes a list of the kubelet. While lists settle, holders may be missing in them: then known holders stay,
 * and an unknown state stays unknown.
 */
void gt_usage_listed(struct gt_usage_table *table, const struct gt_device_uses *uses);

/*
 * Takes the claims that the driver has prepared (deviceplugin/dra): their GPUs are in use by the first pod
 * they are reserved for, even if the kubelet does not list them. A claim for monitoring uses nothing, even if
 * it is listed.
 */
struct gt_dra_claims;
void gt_usage_claims(struct gt_usage_table *table, const struct gt_dra_claims *claims);
/* Whether the kubelet lists a container with this claim. */
bool gt_usage_lists_claim(const struct gt_usage_table *table, const char *namespace, const char *claim);
/* The GPUs of the inventory's node, as a mask, that containers hold without one of these claims. */
uint64_t gt_usage_others(const struct gt_usage *usage, const struct gt_dra_claims *claims,
                         const struct gt_inventory *inventory);

/* Sets the inventory after the node, or what is served of it, has changed. Takes its own reference. */
void gt_usage_inventory(struct gt_usage_table *table, const struct gt_inventory *inventory);

void gt_usage_stale(struct gt_usage_table *table, bool stale);

/* The IDs in use by the device plugin, as gt_inventory_next() takes them. */
void gt_usage_in_use(const struct gt_usage_table *table, struct gt_in_use *ret);

/* The state as JSON (docs/reference/agent.md). */
void gt_usage_json(const struct gt_usage_table *table, const char *node_name, double asked_s,
                   struct gt_buf *to);
