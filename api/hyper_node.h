/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_HYPER_NODE_H
#define GPUTOPO_API_HYPER_NODE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/buf.h"

/* HyperNode of Volcano (topology.volcano.sh/v1alpha1): what of the topology holds which nodes. */
enum { GT_HYPER_NODE_MEMBERS_MAX = 1 << 20 };

struct gt_hyper_node_member { /* what selects some; NULL: it does not select so */
    bool is_node;             /* else a HyperNode */
    const char *name;
    const char *pattern; /* an expression as Go has them */
    bool by_labels;
};

/* Texts are borrowed: after a read they belong to the object. */
struct gt_hyper_node {
    unsigned tier; /* 0 not known */
    unsigned count;
    struct gt_hyper_node_member *members; /* owned: gt_hyper_node_done() */
};

/* A member that makes no sense selects nothing. -E2BIG beyond GT_HYPER_NODE_MEMBERS_MAX. */
int gt_hyper_node_read(const cJSON *object, struct gt_hyper_node *ret, struct gt_err **err);
void gt_hyper_node_done(struct gt_hyper_node *node);
#define gt_auto_hyper_node __attribute__((cleanup(gt_hyper_node_done)))
/* Room for one more member, of which nothing is known yet; NULL: no memory, or too many. */
struct gt_hyper_node_member *gt_hyper_node_add(struct gt_hyper_node *node);

/* Appends {"labels":{...},"spec":{...}}; members by name alone. */
void gt_hyper_node_write(const struct gt_hyper_node *node, struct gt_buf *to);

#endif
