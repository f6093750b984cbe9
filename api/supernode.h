/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "api/condition.h"
#include "base/buf.h"
#include "topology/model/node.h"
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

/* HyperNode of Volcano (topology.volcano.sh/v1alpha1): a domain of the topology and its nodes. */
enum { GT_HYPER_NODE_MEMBERS_MAX = 1 << 20 };

struct gt_hyper_node_member { /* it selects by the member that is not NULL, or by labels */
    bool is_node;             /* else a HyperNode */
    const char *name;
    const char *pattern; /* a regular expression of Go */
    bool by_labels;
};

/* Texts are borrowed: after a read they belong to the object. */
struct gt_hyper_node {
    unsigned tier; /* 0 not known */
    unsigned count;
    struct gt_hyper_node_member *members; /* owned: gt_hyper_node_done() */
};

/* An invalid member selects nothing. -E2BIG beyond GT_HYPER_NODE_MEMBERS_MAX. */
int gt_hyper_node_read(const cJSON *object, struct gt_hyper_node *ret, struct gt_err **err);
void gt_hyper_node_done(struct gt_hyper_node *node);
#define gt_auto_hyper_node __attribute__((cleanup(gt_hyper_node_done)))
/* Adds an empty member and returns it; NULL: no memory, or too many. */
struct gt_hyper_node_member *gt_hyper_node_add(struct gt_hyper_node *node);

/* Appends {"labels":{...},"spec":{...}}, with members that have a `name` only. */
void gt_hyper_node_write(const struct gt_hyper_node *node, struct gt_buf *to);

/* NodeFeature of NFD (nfd.k8s-sigs.io/v1alpha1): what NFD writes on a Node for us. It is only written, never
 * read. */
struct gt_node_feature {
    const char *node;
    int gpus; /* -1 not known */
    enum gt_condition_status links;
    const char *gpu_attributes; /* as gt_node_feature_gpus() writes them; NULL: none */
    /* The node's supernode, and those of higher tiers that contain it, upwards. */
    unsigned supernode_count;
    struct gt_node_feature_supernode {
        const char *name;
        unsigned tier;
    } supernodes[GT_SUPERNODE_TIERS_MAX];
    const char *source; /* of the supernode, gt_supernode_object.source */
};

/* Appends {"labels":{...},"spec":{...}}. */
void gt_node_feature_write(const struct gt_node_feature *feature, struct gt_buf *to);

/* Appends the GPUs as instances of a feature: every attribute is a text. */
void gt_node_feature_gpus(const struct gt_node *node, struct gt_buf *to);
