/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/condition.h"

/* Supernode: a set of nodes whose GPUs have direct links to each other, or, of a higher tier, a set of
 * supernodes. */
enum {
    GT_SUPERNODE_TIERS_MAX = 8, /* tiers are 1 (the best performance) to this */
    GT_SUPERNODE_GBPS_MAX = 100000,
    GT_SUPERNODE_MEMBERS_MAX = 8192, /* members that are listed; there may be more */
};

enum gt_supernode_condition {
    GT_SUPERNODE_READY,
    GT_SUPERNODE_CONFLICT,
    GT_SUPERNODE_HYPERNODE, /* its state as a HyperNode of Volcano; exists only if it is published as one */
    GT_SUPERNODE_CONDITIONS,
};

struct gt_supernode_member {
    const char *node;
    const char *server; /* the server's UUID, by which it is a member; "" not known */
    int gpus, free;     /* -1 not known */
};

/* Texts are borrowed: after a read they belong to the object that was read. */
struct gt_supernode_object {
    const char *name;
    const char *resource_version; /* "" not known */
    int64_t spare_nodes;          /* GT_ANNOTATION_SPARES; -1: not given, INT64_MAX: invalid */
    const char *reserved;         /* GT_ANNOTATION_RESERVED; NULL: not given */
    unsigned tier;                /* 0: the object has no status yet; everything below is then empty */
    const char *source;           /* "config", "label", "network", "report"; "" not known */
    const char *parent;           /* "" none */
    const struct gt_supernode_member *members;
    unsigned member_count;
    int64_t nodes, capacity, free; /* including those of the supernodes below; -1 not known */
    int64_t spares;                /* nodes that are reserved to replace lost ones; -1: not given */
    double gbps; /* GB/s that a node has to nodes in other supernodes of the tier; 0 not known */
    enum gt_condition_status links_healthy; /* whether all links are healthy */
    struct gt_condition conditions[GT_SUPERNODE_CONDITIONS];
};

/* -EINVAL with the path of the wrong value ("members[2].node: ..."); paths begin in `status`, except for
 * metadata. The caller calls gt_supernode_object_done() for *ret. */
int gt_supernode_object_read(const cJSON *json, struct gt_supernode_object *ret, struct gt_err **err);
/* The same for only the status of an object; without a tier nothing is set. */
int gt_supernode_object_read_status(const char *name, const cJSON *json, struct gt_supernode_object *ret,
                                    struct gt_err **err);
void gt_supernode_object_done(struct gt_supernode_object *supernode);
#define gt_auto_supernode_object __attribute__((cleanup(gt_supernode_object_done)))

/* Appends {"status":{...}}. Members are left out above tier 1, and beyond GT_SUPERNODE_MEMBERS_MAX. */
void gt_supernode_object_write_status(const struct gt_supernode_object *supernode, struct gt_buf *to);
