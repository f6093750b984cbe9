/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "topology/model/evidence.h"

struct gt_err;

/*
 * One node: its GPUs, its NICs and how they are wired. It is made by one scan (topology/discovery) or read
 * from its JSON form (node_json.h). After gt_node_finish() it is immutable and shared by reference count,
 * also between threads. A rescan makes a new one.
 */

enum {
    GT_GPUS_MAX = 64, /* GPUs are bits of a 64-bit mask everywhere */
    GT_NICS_MAX = 64,
    GT_PATH_MAX_DEPTH = 16,
    GT_REMOTES_MAX = 128,
    GT_MISSING_MAX = 64,
    GT_NUMA_NODES_MAX = 64,
    GT_ID_SIZE = 97, /* a UUID with its NUL; the kubelet documents at most 63 characters for a device ID */
    GT_PEER_SIZE = 64,
    GT_BDF_SIZE = 17, /* "0000:0e:00.0", domains of up to 32 bits */
};

/* How two devices are connected, with the names of mx-smi's matrix, best first. The numbers may be compared.
 */
enum gt_link_kind {
    GT_LINK_SELF,    /* X: the same device */
    GT_LINK_MX,      /* MX: a direct link (MetaXLink; NVLink, XGMI on other makers' recordings) */
    GT_LINK_PIX,     /* PIX: at most one PCIe switch */
    GT_LINK_PXB,     /* PXB: several PCIe switches, no host bridge */
    GT_LINK_PHB,     /* PHB: through one PCIe host bridge */
    GT_LINK_NODE,    /* NODE: between host bridges of one NUMA node */
    GT_LINK_SYS,     /* SYS: between NUMA nodes */
    GT_LINK_UNKNOWN, /* NA */
};

enum gt_link_state { GT_LINK_STATE_UNKNOWN, GT_LINK_STATE_UP, GT_LINK_STATE_DOWN };

/* How the driver offers a GPU. Only native whole cards are given to containers. */
enum gt_gpu_mode {
    GT_GPU_NATIVE,
    GT_GPU_SGPU, /* shared by the vendor's sGPU */
    GT_GPU_VF,   /* an SR-IOV virtual function */
    GT_GPU_VFIO, /* bound to vfio-pci, for virtual machines */
};

/* A GPU's health. A GPU of unknown health may be given to containers, but is not reported as healthy. */
enum gt_gpu_health {
    GT_GPU_HEALTH_UNKNOWN, /* no source has answered */
    GT_GPU_HEALTHY, /* the vendor library or a recording says that it is available, and there is no fault */
    GT_GPU_UNHEALTHY,
};

/* What people and programs say of a GPU that may be used all the same (isolation.h). */
enum gt_gpu_grade {
    GT_GRADE_NONE,
    GT_GRADE_SUSPECT, /* it may have a fault */
    GT_GRADE_SLOW,
};

struct gt_pcie_link {
    double speed;   /* GT/s per lane, 0 unknown */
    unsigned width; /* lanes, 0 unknown */
};

/* The bridges above a device, its own parent first, the root port last; `root` names the host bridge. */
struct gt_pcie_path {
    unsigned depth;
    char bridges[GT_PATH_MAX_DEPTH][GT_BDF_SIZE];
    char root[GT_BDF_SIZE]; /* "pci0000:00"; "" unknown */
};

struct gt_gpu {
    unsigned index;        /* position by ascending BDF, from 0; its bit in every mask */
    int vendor_index;      /* the vendor library's number, -1 unknown */
    char uuid[GT_ID_SIZE]; /* "" unknown */
    char bdf[GT_BDF_SIZE];
    char product[64];
    char serial[64];
    struct {
        unsigned vendor, device; /* ids, 0 unknown */
        struct gt_pcie_link now, max;
        struct gt_pcie_path path;
    } pci;
    uint64_t memory_bytes;    /* 0 unknown */
    int numa_node;            /* -1 unknown */
    char cpu_set[256];        /* local CPUs as a list, "0-31,64-95"; "" unknown */
    int drm_card, drm_render; /* N of /dev/dri/cardN and renderDN, -1 none */
    enum gt_gpu_mode mode;
    enum gt_gpu_health health;
    char unhealthy_reason[128]; /* "" unless unhealthy */
    enum gt_gpu_grade grade;
    char grade_reason[128]; /* "" without a grade */
    enum gt_signal cause;   /* of being unhealthy; GT_SIGNALS: it is not, or it is held back */
    /* signs of faults that this check found; health.h derives the health from it */
    struct gt_evidence evidence;
    unsigned zone; /* set by gt_node_finish: GPUs joined by direct links share one, from 1; 0 alone */
};

struct gt_nic {
    char name[32]; /* mlx5_0, else the network interface, else the BDF */
    char bdf[GT_BDF_SIZE];
    int numa_node; /* -1 unknown */
    struct gt_pcie_path path;
    char peer[GT_PEER_SIZE], peer_port[GT_PEER_SIZE]; /* its switch, and the port there; "" not known */
    enum gt_link_kind kind[GT_GPUS_MAX]; /* locality to each GPU; set by gt_node_finish if it is UNKNOWN */
};

/* One pair of GPUs, a < b. Every pair has one. */
struct gt_link {
    unsigned a, b;
    enum gt_link_kind kind; /* MX, or path_kind; set by gt_node_finish if it is UNKNOWN */
    /* the PCIe path between them, even if a direct link joins them; if UNKNOWN, gt_node_finish() sets it
     * from a PCIe kind in `kind`, else from the paths */
    enum gt_link_kind path_kind;
    unsigned ports;           /* of a direct link: ports joined, 0 unknown */
    unsigned width;           /* lanes of one port, 0 unknown */
    double speed;             /* GT/s of one lane, 0 unknown */
    uint64_t bandwidth_mbps;  /* MB/s in one direction, 0 unknown */
    uint64_t measured_mbps;   /* as somebody has measured it (measured.h), 0 not: it only lowers the weight */
    enum gt_link_state state; /* a direct link that is DOWN keeps kind MX and weighs as path_kind */
    bool stale;      /* an earlier report: the vendor library does not answer now, see links_reported_s */
    uint32_t weight; /* pair weight, GB/s; set by gt_node_finish, see gt_link_weight() */
};

struct gt_missing {
    char what[64]; /* "vendor library", "link speed of 0000:0e:00.0" */
    char why[192];
};

/* The names of the topology manager's policies that refuse pods. */
#define GT_POLICY_SINGLE     "single-numa-node"
#define GT_POLICY_RESTRICTED "restricted"

/* How the node's kubelet is configured; all "": nobody has looked. */
struct gt_kubelet {
    char policy[32], scope[32]; /* of its topology manager; "" unknown */
    char cpu_policy[32];        /* of its CPU manager; "" unknown */
    char source[160];           /* where this was read */
    char unknown[224];          /* why it is not known; "" it is */
};

struct gt_numa_node {
    unsigned id;
    char cpus[256];        /* "0-31,64-95"; "" it has none */
    uint64_t memory_bytes; /* 0 unknown */
};

struct gt_node {
    char name[256];                               /* the node's name, "" unknown */
    char driver_version[64], library_version[64]; /* "" unknown */
    struct gt_gpu *gpus;
    unsigned gpu_count;
    struct gt_nic *nics;
    unsigned nic_count;
    struct gt_link
        *links; /* gpu_count * (gpu_count - 1) / 2, ordered (0,1) (0,2) (1,2) (0,3)... : by b, then a */
    unsigned link_count;
    int64_t links_reported_s; /* Unix time at which stale links and servers were last reported; 0: nothing is
                                 stale */
    char server_uuid[GT_ID_SIZE];             /* "" unknown */
    char remotes[GT_REMOTES_MAX][GT_ID_SIZE]; /* UUIDs of other servers that MetaXLink reaches */
    unsigned remote_count;
    struct gt_missing missing[GT_MISSING_MAX];
    unsigned missing_count;
    struct gt_kubelet kubelet;
    struct gt_numa_node numa_nodes[GT_NUMA_NODES_MAX]; /* with CPUs or memory, by ascending id */
    unsigned numa_node_count;
    unsigned references; /* use gt_node_ref/unref */
};

/* An empty node with room for the given numbers, every field at "unknown", every GPU native,
 * links with their a and b. -E2BIG with a clear text above the limits. */
int gt_node_new(unsigned gpu_count, unsigned nic_count, struct gt_node **ret, struct gt_err **err);

/*
 * Checks and completes a node before it is shared. GPUs must be in ascending order of BDF (see gt_node_sort);
 * UUIDs, BDFs and NIC names must be unique. Indices, kinds, zones, weights and NIC localities are set; a GPU
 * bound to VFIO becomes unhealthy; a NIC without a name gets its BDF as its name. Bytes in texts that are not
 * printable UTF-8 become '?', the reason of a GPU that is not unhealthy is cleared, and the own server, empty
 * and repeated entries are removed from `remotes`. -EINVAL if a check fails: the node is unchanged except for
 * such texts and names, and must not be used.
 */
int gt_node_finish(struct gt_node *node, struct gt_err **err);

/* Sorts GPUs by BDF and NICs by name (numbers within names as numbers); call before links are filled. */
void gt_node_sort(struct gt_node *node);

struct gt_node *gt_node_ref(const struct gt_node *node);
/* A new node with the same content, which the caller may change until it is shared. */
int gt_node_copy(const struct gt_node *node, struct gt_node **ret, struct gt_err **err);
void gt_node_unref(struct gt_node *node);
GT_DEFINE_CLEANUP(struct gt_node *, gt_node_unref)
#define gt_auto_node GT_CLEANUP(gt_node_unref)

/* The link of a pair, in any order; NULL for a == b or an index that does not exist. */
struct gt_link *gt_node_link(const struct gt_node *node, unsigned a, unsigned b);

/* Notes something that could not be read, and why. The same text is not noted twice; the last of the
 * GT_MISSING_MAX places says that more is missing. */
void gt_node_missing(struct gt_node *node, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether it may be given to containers: also if its health is not known. */
static inline bool gt_gpu_usable(const struct gt_gpu *gpu)
{
    return gpu->health != GT_GPU_UNHEALTHY;
}

/* Masks of all GPUs, of those that may be given to containers, and of those with this health. */
uint64_t gt_node_all(const struct gt_node *node);
uint64_t gt_node_usable(const struct gt_node *node);
uint64_t gt_node_with_health(const struct gt_node *node, enum gt_gpu_health health);
/* Those that may be given to containers, and are slow or suspect. */
uint64_t gt_node_graded(const struct gt_node *node);

/* Makes a GPU that is bound to VFIO unhealthy in any case: containers cannot use it. */
void gt_gpu_withhold_vfio(struct gt_gpu *gpu);

/* NULL if the node's GPUs are served, else one sentence why the node is left to the vendor's plugin: some GPU
 * is shared or split, or all are bound to VFIO. If only some are bound to VFIO, these are unhealthy and the
 * others are served. */
const char *gt_node_not_advertised(const struct gt_node *node);

/*
 * The PCIe kind between two devices from their paths and NUMA nodes (-1 unknown). A switch counts once,
 * though a path crosses two of its bridges. PIX: one switch, or one parent, joins them; PXB: several
 * switches; PHB: one host bridge; NODE: one NUMA node; SYS: two NUMA nodes, or two host bridges of unknown
 * NUMA nodes; UNKNOWN if none of these is known.
 */
enum gt_link_kind gt_pcie_kind(const struct gt_pcie_path *a, int numa_a, const struct gt_pcie_path *b,
                               int numa_b);

/*
 * Pair weight, GB/s in one direction, never negative; a link that is down weighs as its path_kind.
 *   1. bandwidth_mbps / 1000, rounded to nearest, at least 1, if it is known;
 *   2. MX with speed and width known: ports (1 if unknown) x width x speed / 8, rounded, at least 1;
 *   3. else by kind: MX 64 (one port of 16 lanes at 32 GT/s), PIX 32, PXB 24, PHB 16, NODE 12, SYS 8, NA 0.
 * bandwidth_mbps belongs to the direct link and is ignored while that is down. The weight is at most 65,535,
 * and not above measured_mbps, if that is known.
 */
uint32_t gt_link_weight(const struct gt_link *link);

/* Whether it is a direct link that is down. */
static inline bool gt_link_is_down(const struct gt_link *link)
{
    return link->kind == GT_LINK_MX && link->state == GT_LINK_STATE_DOWN;
}

/* "MX", "PIX"...; GT_LINK_SELF is "X", GT_LINK_UNKNOWN "NA". */
const char *gt_link_kind_name(enum gt_link_kind kind);
/* The kind with such a name; false, *ret untouched, for any other name. */
bool gt_link_kind_by_name(const char *name, enum gt_link_kind *ret);
/* "up", "down", "unknown"; "native", "sgpu", "vf", "vfio"; "unknown", "healthy", "unhealthy". */
const char *gt_link_state_name(enum gt_link_state state);
const char *gt_gpu_mode_name(enum gt_gpu_mode mode);
const char *gt_gpu_health_name(enum gt_gpu_health health);
/* "", "suspect", "slow". */
const char *gt_gpu_grade_name(enum gt_gpu_grade grade);
/* False, *ret untouched, for any other name, and for "". */
bool gt_gpu_grade_by_name(const char *name, enum gt_gpu_grade *ret);

/* The device ID that the kubelet sees: the UUID if it can be served (printable ASCII without space and comma,
 * at most 63 characters, not beginning with "PCI-"), else "PCI-<bdf>". Writes at most GT_ID_SIZE bytes. */
void gt_gpu_device_id(const struct gt_gpu *gpu, char to[static GT_ID_SIZE]);

/* Whether it can be a device ID: not empty, not too long, printable ASCII. */
bool gt_device_id_is_valid(const char *id);

/* Reads "0000:0e:00.0" (or "0e:00.0": domain 0), any case, and writes it in the canonical form. False for any
 * other text. */
bool gt_bdf_normalise(const char *text, char to[static GT_BDF_SIZE]);

/* The index of the GPU at a canonical BDF; -1: there is none. */
int gt_node_gpu_at(const struct gt_node *node, const char *bdf);
/* The index of the GPU with this UUID, device ID, BDF (any form) or index; -1: there is none. */
int gt_node_gpu_named(const struct gt_node *node, const char *name);

/* Order of two canonical BDFs by number. */
int gt_bdf_compare(const char *a, const char *b);

/*
 * The name of a GPU as a device of Dynamic Resource Allocation: "gpu-0000-3b-00-0", with its PCI address,
 * since an index would change when another GPU is lost. It is a DNS label, so it has dashes only.
 */
enum { GT_DRA_DEVICE_SIZE = 64 };

/* False if the BDF is invalid. */
bool gt_dra_device_name(const char *bdf, char to[static GT_DRA_DEVICE_SIZE]);
/* The BDF of such a name; false for any other name. */
bool gt_dra_device_bdf(const char *name, char to[static GT_BDF_SIZE]);

/* Names below /dev of the device nodes that a container with a GPU gets. */
#define GT_CONTROL_NODE "mxcd"
enum { GT_DEVICE_NAME_SIZE = 24 };
/* Both of a GPU, "" where it has none. */
void gt_drm_node_names(int card, int render, char ret[static 2][GT_DEVICE_NAME_SIZE]);
