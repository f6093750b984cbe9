/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_NODE_H
#define GPUTOPO_API_NODE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/resources.h"
#include "base/err.h"

/* Node: what is read of it. We write annotations and labels of it (agent/publish_node.c), never the rest. */
enum {
    GT_NODE_LABELS_MAX = 1024,
    GT_NODE_TAINTS_MAX = 128,
    GT_NODE_CAPACITY_MAX = 1 << 20,
};

struct gt_node_label {
    const char *key, *value;
};

struct gt_node_taint {
    const char *key, *value, *effect;
};

/* Texts are borrowed: they belong to the object that was read. Where that has its metadata alone, all else is
 * empty. */
struct gt_node_object {
    const char *name;
    const char *resource_version, *uid; /* "" not known */
    const struct gt_node_label *labels;
    unsigned label_count, taint_count;
    struct gt_node_taint taints[GT_NODE_TAINTS_MAX];
    bool ready, cordoned;
    int64_t ready_s;                 /* since when it is, or is not, ready: Unix time; 0 not known */
    unsigned gpus;                   /* status.capacity of the resource; 0 none, or no such number */
    struct gt_resources allocatable; /* besides GPUs */
};

/* `resource`: of GPUs. -EINVAL with the path of the culprit ("spec.taints[2].key: ..."). The caller ends *ret
 * with gt_node_object_done(). */
int gt_node_object_read(const cJSON *json, const char *resource, struct gt_node_object *ret,
                        struct gt_err **err);
void gt_node_object_done(struct gt_node_object *node);
#define gt_auto_node_object __attribute__((cleanup(gt_node_object_done)))

/* The value of a label; NULL: it has none of that key. */
const char *gt_node_object_label(const struct gt_node_object *node, const char *key);

#endif
