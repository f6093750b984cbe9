/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "topology/model/node.h"

/*
 * What the backends of one scan found, before it becomes a node: PCI devices by BDF, and direct links between
 * them. For topology/discovery, and for readers of a single device's data. A live scan fills it from sysfs, a
 * replay from the JSON text that the live scan wrote into the recording; all later steps are the same for
 * both.
 */

enum {
    GT_FACTS_MAX = 4096,  /* devices of one machine */
    GT_DIRECT_MAX = 8192, /* direct links: more than 64 * 63 / 2 */
};

struct gt_fact {
    char bdf[GT_BDF_SIZE];
    unsigned vendor, device;
    unsigned class; /* base class and sub-class, 0x0302 */
    int numa_node;  /* -1 unknown */
    char cpu_set[256];
    struct gt_pcie_link now, max;
    struct gt_pcie_path path;
    char driver[32];                                  /* "" none */
    bool virtual_function;                            /* of SR-IOV */
    int drm_card, drm_render;                         /* -1 none */
    char rdma[32], net[32];                           /* "mlx5_0", "eth0"; "" none */
    char peer[GT_PEER_SIZE], peer_port[GT_PEER_SIZE]; /* its switch, and the port there; "" not known */
    char product[64], uuid[GT_ID_SIZE], serial[64];   /* as hwloc reports them for GPUs of other makers */
};

/* A direct link between two devices, in MB/s in one direction. */
struct gt_direct {
    char a[GT_BDF_SIZE], b[GT_BDF_SIZE];
    uint64_t bandwidth_mbps;
};

struct gt_facts {
    struct gt_fact *devices;
    unsigned count, capacity;
    struct gt_direct *direct;
    unsigned direct_count, direct_capacity;
    unsigned vendor;         /* the vendor that the scan searched for, 0 unknown */
    char driver_version[64]; /* of the GPUs' kernel module, "" unknown */
    bool pci_read;           /* the PCI backend succeeded: other backends only complete its devices */
    struct gt_missing missing[GT_MISSING_MAX];
    unsigned missing_count;
};

void gt_facts_done(struct gt_facts *facts);
static inline void gt_facts_done_p(struct gt_facts *facts)
{
    gt_facts_done(facts);
}
#define gt_auto_facts __attribute__((cleanup(gt_facts_done_p)))

/* The device with this BDF; NULL if there is none. */
struct gt_fact *gt_facts_find(const struct gt_facts *facts, const char *bdf);

/* Adds a device with every field at "unknown". -E2BIG above the limit, -EEXIST if the BDF is there already.
 * *ret is valid until the next device is added. */
int gt_facts_add(struct gt_facts *facts, const char *bdf, struct gt_fact **ret, struct gt_err **err);

int gt_facts_add_direct(struct gt_facts *facts, const char *a, const char *b, uint64_t bandwidth_mbps,
                        struct gt_err **err);

void gt_facts_missing(struct gt_facts *facts, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether it is a GPU of that vendor, by its PCI class: display (03), processing accelerator (12) or
 * co-processor (0b40). Bridges, audio and network functions of the same maker are not GPUs. */
bool gt_fact_is_gpu(const struct gt_fact *fact, unsigned vendor);

/* Whether it is an InfiniBand controller or another device with an RDMA interface. SR-IOV virtual functions
 * do not count: one card may have hundreds. */
bool gt_fact_is_nic(const struct gt_fact *fact);

/* Whether the details of a device are read: GPUs, NICs, network devices, and all devices of `vendor`. */
bool gt_fact_is_of_interest(const struct gt_fact *fact, unsigned vendor);

/* The JSON text of a recording's raw.pci (docs/reference/node-json.md); NULL without memory. */
char *gt_facts_to_json(const struct gt_facts *facts);
/* Reads that text into empty facts. -EINVAL if it is not of this form; `source` is its name in the error. */
int gt_facts_from_json(const char *text, size_t len, const char *source, struct gt_facts *facts,
                       struct gt_err **err);
