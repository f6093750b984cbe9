/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "base/json_get.h"
#include "topology/model/node.h"

/*
 * The documented JSON form of a node (docs/node.schema.json): the same in `gputopo show -o json`, in a
 * recording and in the custom resource's status.
 */

/* Appends the members of the node's form to an object that was begun. `name`: the node's, "" none. */
void gt_node_add_json(const struct gt_node *node, const char *name, struct gt_buf *to);

/* The node as a JSON document that the caller owns; NULL without memory. */
cJSON *gt_node_to_json(const struct gt_node *node);

/* Reads that form, checks it and finishes the node. Unknown keys are skipped, save those that are nearly a
 * known one; these, a known key of a wrong type or range, links that do not match, more than 64 GPUs and so
 * on are -EINVAL with the path of the wrong value
 * ("links[3].a: ..."), after `source`. */
int gt_node_from_json(const cJSON *json, const char *source, struct gt_node **ret, struct gt_err **err);

/* The same for a document of the API server, where keys may be of a newer version, and other parts name GPUs
 * by number: ret_index[number] is the index in the
 * node of the GPU with that number in the document. It is set for as many numbers as the node has GPUs. */
int gt_node_from_json_numbered(const struct cJSON *json, const char *source, struct gt_node **ret,
                               uint8_t ret_index[static GT_GPUS_MAX], struct gt_err **err);

/* Getters as in base/json_get.h, for types that only a node has. */
int gt_get_bdf(const struct gt_at *at, const cJSON *object, const char *key, char ret[static GT_BDF_SIZE]);
