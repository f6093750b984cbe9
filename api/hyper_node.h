/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/buf.h"

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
