/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DISCOVERY_FACTS_H
#define GPUTOPO_DISCOVERY_FACTS_H

#include "base/buf.h"
#include "topology/model/node.h"

/*
 * What the backends of one scan found, before it becomes a node: PCI devices by BDF, and direct links between
 * them. For topology/discovery, and for readers of a single device's data. A live scan fills it from
 * sysfs, a replay from the JSON text that the live scan left in the recording; from here on both take the
 * same way.
 */

enum {
    GT_FACTS_MAX = 4096,  /* devices of one machine that are kept */
    GT_DIRECT_MAX = 8192, /* direct links: above 64 * 63 / 2 */
};

struct gt_fact {
    char bdf[GT_BDF_SIZE];
    unsigned vendor, device;
    unsigned class; /* base class and sub-class, 0x0302 */
    int numa_node;  /* -1 unknown */
    char cpu_set[256];
    struct gt_pcie_link now, max;
    struct gt_pcie_path path;
    char driver[32];                                /* "" none */
    bool virtual_function;                          /* of SR-IOV */
    int drm_card, drm_render;                       /* -1 none */
    char rdma[32], net[32];                         /* "mlx5_0", "eth0"; "" none */
    char product[64], uuid[GT_ID_SIZE], serial[64]; /* from hwloc's notes on other makers' GPUs */
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
    unsigned vendor;         /* that the scan searched, 0 unknown */
    char driver_version[64]; /* of the GPUs' kernel module, "" unknown */
    bool pci_read;           /* the PCI backend has delivered: others only complete its devices */
    struct gt_missing missing[GT_MISSING_MAX];
    unsigned missing_count;
};

void gt_facts_done(struct gt_facts *facts);
static inline void gt_facts_done_p(struct gt_facts *facts)
{
    gt_facts_done(facts);
}
#define gt_auto_facts __attribute__((cleanup(gt_facts_done_p)))

/* The device with this BDF, NULL where there is none. */
struct gt_fact *gt_facts_find(const struct gt_facts *facts, const char *bdf);

/* Adds a device with every field at "unknown". -E2BIG above the limit, -EEXIST for a BDF that is there. The
 * pointer lives until the next one is added. */
int gt_facts_add(struct gt_facts *facts, const char *bdf, struct gt_fact **ret, struct gt_err **err);

int gt_facts_add_direct(struct gt_facts *facts, const char *a, const char *b, uint64_t bandwidth_mbps,
                        struct gt_err **err);

void gt_facts_missing(struct gt_facts *facts, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A device of that vendor that computes: display (03), processing accelerator (12) or co-processor (0b40).
 * Bridges, audio and network functions of the same maker are none. */
bool gt_fact_is_gpu(const struct gt_fact *fact, unsigned vendor);

/* An InfiniBand controller or any other device with an RDMA interface; not an SR-IOV virtual function, of
 * which one card may have hundreds. */
bool gt_fact_is_nic(const struct gt_fact *fact);

/* Whether the details of a device are worth reading: the classes above, networks, everything by `vendor`. */
bool gt_fact_is_of_interest(const struct gt_fact *fact, unsigned vendor);

/* The JSON text of a recording's raw.pci (docs/how-to/recordings.md); NULL without memory. */
char *gt_facts_to_json(const struct gt_facts *facts);
/* Reads that text into empty facts. Anything that is not of this form is -EINVAL; `source` names it. */
int gt_facts_from_json(const char *text, size_t len, const char *source, struct gt_facts *facts,
                       struct gt_err **err);

/*
 * The node made of the facts: sorted, links present with their direct bandwidths, not finished. Where no GPU
 * was found, `extra` names BDFs known otherwise (the vendor library's) and becomes the GPUs.
 */
int gt_facts_to_node(const struct gt_facts *facts, unsigned vendor, const char (*extra)[GT_BDF_SIZE],
                     unsigned extra_count, struct gt_node **ret, struct gt_err **err);

#endif
