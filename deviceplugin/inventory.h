/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "topology/model/loss.h"
#include "topology/model/node.h"

/* Device IDs that containers hold, as the kubelet lists them; each once. */
enum { GT_IN_USE_MAX = 128 };

struct gt_in_use {
    bool complete; /* a device that is not listed is not in use */
    unsigned count;
    char ids[GT_IN_USE_MAX][GT_ID_SIZE];
    /* IDs that nobody holds and that will not be given to anyone: their GPUs get another ID. */
    unsigned retired_count;
    char retired[GT_GPUS_MAX][GT_ID_SIZE];
};

bool gt_in_use_retired(const struct gt_in_use *in_use, const char *id);
/* Adds a retired ID. False: it is in use, or there is no room. */
bool gt_in_use_retire(struct gt_in_use *in_use, const char *id);

bool gt_in_use_has(const struct gt_in_use *in_use, const char *id);

/* Adds an ID in use unless it is listed. An invalid ID, which cannot have been served, is left out; if there
 * is no room, `complete` becomes false. */
void gt_in_use_add(struct gt_in_use *in_use, const char *id);

/* Whether both have the same IDs, in any order, the same `complete`, and equally many retired IDs. */
bool gt_in_use_equal(const struct gt_in_use *a, const struct gt_in_use *b);

/*
 * What the plugin serves at one time: the devices that the kubelet knows, their node and its loss table.
 * Immutable, shared by reference count between threads. A scan makes the next inventory from the one before,
 * so that a GPU keeps the ID it was served by, and a GPU that disappeared stays in the list as Unhealthy.
 *
 * How GPUs of two scans are matched: the same UUID means the same GPU, at whatever BDF; if one of the two has
 * no UUID, the same BDF does. A GPU that was served as PCI-<bdf> keeps that ID when its UUID becomes known,
 * and one that was served by its UUID keeps it while the vendor library gives no answers. Another UUID at an
 * old BDF is another card: the old one is lost, the new one gets an ID of its own. A retired ID (gt_in_use)
 * belongs to no GPU: the GPU gets another ID, and the retired one stays in the list for a while, as if lost.
 *
 * IDs in use (as the kubelet lists them, see gt_inventory_next) come first: a GPU has the ID by which a
 * container holds it, also after a restart of this program. An ID in use that matches no GPU of the node is
 * listed as lost. While it may belong to a GPU whose UUID is unknown, that GPU is Unhealthy: it may be the
 * one in use, and must not be given twice.
 */
enum { GT_DEVICES_MAX = 128, GT_DEVICE_NODES_MAX = 36 };
enum {
    GT_LOST_RETENTION_MS = 600000,   /* how long a lost device stays in the list when nobody holds it */
    GT_RETIRED_RETENTION_MS = 30000, /* and a retired ID */
};

struct gt_device {
    char id[GT_ID_SIZE];
    char uuid[GT_ID_SIZE]; /* as last known, "" never */
    char bdf[GT_BDF_SIZE];
    int gpu; /* index in the node; -1: lost */
    bool healthy;
    int numa_node;            /* -1 unknown */
    char reason[128];         /* why it is not healthy, "" else */
    int drm_card, drm_render; /* -1 none */
    bool in_use;              /* when the inventory was made; false if not known */
    bool retired;             /* a retired ID: its GPU is served by another ID */
    uint64_t lost_ms;         /* since when it is lost, 0 it is not */
};

/* Whether the device's GPU is lost. */
static inline bool gt_device_is_lost(const struct gt_device *device)
{
    return device->gpu < 0 && !device->retired;
}

struct gt_inventory {
    struct gt_node *node;
    struct gt_class *class;                   /* NULL where the node has no GPU */
    struct gt_device devices[GT_DEVICES_MAX]; /* first those of node->gpus, in that order, then lost ones */
    unsigned device_count;
    uint8_t by_id[GT_DEVICES_MAX]; /* indices of devices, ascending by ID */
    uint64_t number;               /* one more than that of the inventory before */
    unsigned references;
};

/*
 * Makes the inventory after a scan. `previous` may be NULL; no reference to it is kept. For a node that is
 * not advertised (gt_node_not_advertised) all devices are Unhealthy if the previous inventory had devices,
 * else there are none. Lost devices beyond GT_DEVICES_MAX in total are dropped. `in_use` NULL: unknown.
 * `now_ms` is any clock that only goes forward. With a complete `in_use`, a lost device that nobody holds is
 * removed from the list GT_LOST_RETENTION_MS after it was lost, a retired ID after GT_RETIRED_RETENTION_MS.
 */
int gt_inventory_next(const struct gt_node *node, struct gt_class_cache *classes,
                      const struct gt_inventory *previous, const struct gt_in_use *in_use, uint64_t now_ms,
                      struct gt_inventory **ret, struct gt_err **err);
/* A copy in which these GPUs of the node (a mask) are not healthy, for this reason. */
int gt_inventory_withhold(const struct gt_inventory *inventory, uint64_t gpus, const char *reason,
                          struct gt_inventory **ret, struct gt_err **err);
/* How many of its devices are lost GPUs. */
unsigned gt_inventory_lost(const struct gt_inventory *inventory);
struct gt_inventory *gt_inventory_ref(const struct gt_inventory *inventory);
void gt_inventory_unref(struct gt_inventory *inventory);
GT_DEFINE_CLEANUP(struct gt_inventory *, gt_inventory_unref)
#define gt_auto_inventory GT_CLEANUP(gt_inventory_unref)

/* Whether the kubelet would get the same list (IDs, health, NUMA nodes). */
bool gt_inventory_same_list(const struct gt_inventory *a, const struct gt_inventory *b);

/* Whether this GPU is served as PCI-<bdf> although its UUID is known and could be its ID. */
bool gt_inventory_has_temporary_id(const struct gt_inventory *inventory, const struct gt_device *device);

/* The device with this ID, NULL for none. */
const struct gt_device *gt_inventory_find(const struct gt_inventory *inventory, const char *id);

/*
 * GetPreferredAllocation: writes min(size, GT_DEVICES_MAX, the number of different IDs in `must` and
 * `available`) IDs, each once, to ret_ids, which has room for that many, and returns their number (pointers
 * into `available` and `must`). `must` comes first; then the best set by the loss table among the available
 * healthy GPUs, ascending; if these are too few (unknown or unhealthy IDs), the remaining available IDs in
 * their order. Never fails, never allocates, and takes time in proportion to the number of IDs. *ret_choice
 * (ret_choice may be NULL) has mask 0 if the loss table was not used.
 */
unsigned gt_inventory_prefer(const struct gt_inventory *inventory, const char *const *available,
                             unsigned available_count, const char *const *must, unsigned must_count,
                             unsigned size, const char **ret_ids, struct gt_choice *ret_choice);
