/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/condition.h"
#include "api/meta.h"
#include "api/resources.h"
#include "base/buf.h"

/* Node: the members that are read, and what is written. */
enum {
    GT_NODE_LABELS_MAX = 1024,
    GT_NODE_TAINTS_MAX = 128,
    GT_NODE_CAPACITY_MAX = 1 << 20,
};

struct gt_node_taint {
    const char *key, *value, *effect;
};

/* Texts are borrowed: they belong to the object that was read. If the object has metadata only, everything
 * else is empty. */
struct gt_node_object {
    const char *name;
    const char *resource_version, *uid; /* "" not known */
    int64_t created_s;                  /* Unix time; 0 not known */
    const struct gt_pair *labels;
    unsigned label_count, taint_count;
    struct gt_node_taint taints[GT_NODE_TAINTS_MAX];
    const char *vendor_gpus; /* the annotation GT_ANNOTATION_VENDOR_GPUS; NULL: none, or not a text */
    const char *reserved;    /* the annotation GT_ANNOTATION_RESERVED; NULL: none */
    bool ready, cordoned;
    int64_t ready_s; /* since when `ready` has its value: Unix time; 0 not known */
    unsigned gpus;   /* status.capacity of the resource; 0: none, or invalid */
    struct gt_resources allocatable;
};

/* `resource` is the resource of GPUs. -EINVAL with the path of the wrong value ("spec.taints[2].key: ...").
 * The caller calls gt_node_object_done() for *ret. */
int gt_node_object_read(const cJSON *json, const char *resource, struct gt_node_object *ret,
                        struct gt_err **err);
void gt_node_object_done(struct gt_node_object *node);
#define gt_auto_node_object __attribute__((cleanup(gt_node_object_done)))

/* Appends a merge patch for a Node as it was read, with its version: the taint of this key has this effect,
 * or is not there (NULL); all others are as they were. False, and nothing is appended: it is so already, or
 * no memory. */
bool gt_node_taint_write(const cJSON *node, const char *key, const char *effect, struct gt_buf *to);

/* The value of a label; NULL: there is no such label. */
const char *gt_node_object_label(const struct gt_node_object *node, const char *key);

/* One condition of the Node, as gt_conditions_read(). */
void gt_node_condition_read(const cJSON *node, const char *type, struct gt_condition *ret);

/* Appends the body of a server-side apply of the status: one condition, nothing else. */
void gt_node_condition_write(const char *name, const char *uid, const struct gt_condition *condition,
                             struct gt_buf *to);

/* Appends the body of a server-side apply: the labels or the annotations of one writer, nothing else. With
 * count 0 they are an empty object; GT_NODE_NOTHING leaves that out. The UID prevents that the API server
 * creates a Node that was deleted meanwhile. */
enum gt_node_part { GT_NODE_NOTHING, GT_NODE_LABELS, GT_NODE_ANNOTATIONS };
void gt_node_object_write(const char *name, const char *uid, enum gt_node_part part,
                          const struct gt_pair *pairs, unsigned count, struct gt_buf *to);
