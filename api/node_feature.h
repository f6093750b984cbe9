/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/condition.h"
#include "api/supernode.h"
#include "topology/model/node.h"

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
