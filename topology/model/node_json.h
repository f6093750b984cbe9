/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_NODE_JSON_H
#define GPUTOPO_MODEL_NODE_JSON_H

#include "base/buf.h"
#include "topology/model/node.h"

/*
 * The documented JSON form of a node (docs/node.schema.json): the same in `gputopo show -o json`, in a
 * recording and in the custom resource's status.
 */

struct cJSON;

enum { GT_JSON_MAX = 16 << 20 }; /* largest JSON document that is read */

/* Parses a JSON document of at most GT_JSON_MAX bytes. The error names `source`, the line and the column.
 * The caller owns *ret (cJSON_Delete). */
int gt_json_parse(const char *text, size_t len, const char *source, struct cJSON **ret, struct gt_err **err);

/* Indented JSON text of any document, with keys in the order they were added and a newline at the end. */
void gt_json_print(const struct cJSON *json, struct gt_buf *to);

/* The node as a JSON document that the caller owns; NULL without memory. */
struct cJSON *gt_node_to_json(const struct gt_node *node);

/* Reads that form, checks it and finishes the node. Unknown keys are skipped; a known key of a wrong type or
 * range, links that do not match, more than 64 GPUs... is -EINVAL with the path of the culprit
 * ("links[3].a: ..."). `source` is put in front. */
int gt_node_from_json(const struct cJSON *json, const char *source, struct gt_node **ret,
                      struct gt_err **err);

#endif
