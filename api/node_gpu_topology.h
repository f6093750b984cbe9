/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/condition.h"
#include "base/json_get.h"
#include "topology/model/node.h"

/*
 * NodeGPUTopology: what a node's agent reports of its GPUs and of their users. It has the node's name. Bits
 * of masks are indices of the node's GPUs, in the order of their PCI addresses. In the object GPUs may be in
 * any order, and `free` and `owners` use each GPU's `index` there.
 */
enum gt_topology_condition {
    GT_TOPOLOGY_DISCOVERED,
    GT_TOPOLOGY_VENDOR_LIBRARY,
    GT_TOPOLOGY_REGISTERED,
    GT_TOPOLOGY_LINKS_HEALTHY,
    GT_TOPOLOGY_USAGE_KNOWN,
    GT_TOPOLOGY_NUMA,
    GT_TOPOLOGY_GPUS_HEALTHY, /* also the Node's */
    GT_TOPOLOGY_CONDITIONS,
};
extern const char *const gt_topology_condition_names[GT_TOPOLOGY_CONDITIONS];
/* Reads only the conditions of an object; as gt_conditions_read(). */
void gt_topology_conditions_read(const cJSON *object, struct gt_condition ret[static GT_TOPOLOGY_CONDITIONS]);

struct gt_gpu_owner { /* a container that has a GPU */
    unsigned gpu;
    const char *namespace_, *pod;
    const char *container; /* "" not known */
};
void gt_gpu_owner_write(const struct gt_gpu_owner *owner, struct gt_buf *to);

/* Texts are borrowed: after a read they belong to the object that was read. */
struct gt_node_gpu_topology {
    const char *name;
    const char *resource_version; /* "" not known */
    const char *node_uid;         /* of the Node that owns it; "" not known */
    /* When its agent last wrote its GPUs; where that is not known, when it was created. By the API server's
     * clock, Unix time; 0 unknown. */
    int64_t written_s;
    /* NULL: the agent has created the object and written no status yet; everything below is then empty. */
    struct gt_node *node;
    const char *observed_at; /* "" not known */
    struct gt_condition conditions[GT_TOPOLOGY_CONDITIONS];

    bool use_known; /* `free` is known */
    uint64_t free;
    /* GPUs with an owner; a GPU that is also listed as free, which is invalid, counts as owned */
    uint64_t owned;
    struct gt_gpu_owner owners[GT_GPUS_MAX]; /* at most one for each GPU, the first that is listed */
    unsigned owner_count;
    /* when owners were last written, by the API server's clock, from managedFields; Unix time, 0 unknown */
    int64_t owners_written_s;
};

/* -EINVAL with the path of the wrong value ("owners[2].gpu: ..."); paths begin in `status`, except for
 * metadata. The caller calls gt_node_gpu_topology_done() for *ret. */
int gt_node_gpu_topology_read(const cJSON *object, struct gt_node_gpu_topology *ret, struct gt_err **err);
/* The same without `free` and `owners`: for readers that show the rest even if these are invalid. */
int gt_node_gpu_topology_read_wiring(const cJSON *object, struct gt_node_gpu_topology *ret,
                                     struct gt_err **err);
/* Only `free` and the owners, in the list `owners`, of a document whose numbers are the indices of
 * topology->node. The texts belong to the document. */
int gt_node_gpu_topology_read_usage(const struct gt_at *at, const cJSON *usage, const char *owners,
                                    struct gt_node_gpu_topology *topology);
void gt_node_gpu_topology_done(struct gt_node_gpu_topology *topology);
#define gt_auto_node_gpu_topology __attribute__((cleanup(gt_node_gpu_topology_done)))

/*
 * Bodies of server-side apply, which together make the whole object. Each is written separately, by its own
 * field manager, since the GPUs change seldom and their users change often.
 */

/* The object itself, owned by the Node with this UID. */
void gt_node_gpu_topology_write_object(const char *name, const char *node_uid, struct gt_buf *to);

/* Name, node, conditions and observed_at. */
void gt_node_gpu_topology_write_wiring(const struct gt_node_gpu_topology *topology, struct gt_buf *to);

/* Name, `free` and `owners`, and the best score and loss of 1 to `count` free GPUs, at [1] to [count]. False,
 * and nothing written, if the use is not known. */
bool gt_node_gpu_topology_write_usage(const struct gt_node_gpu_topology *topology, const uint32_t scores[],
                                      const uint32_t losses[], unsigned count, struct gt_buf *to);
