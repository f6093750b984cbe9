/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "topology/model/node.h"

struct cJSON;

/* A finished node as text for people and programs. Each function appends to a buffer, and the caller checks
 * it with gt_buf_check(). */

/* The matrix of `mx-smi topo -m`, with NIC columns, affinities, health, a legend and what is missing. */
void gt_render_matrix(const struct gt_node *node, struct gt_buf *to);

/* The JSON form; and any JSON that gputopo makes, as YAML. */
void gt_render_json(const struct gt_node *node, struct gt_buf *to);
void gt_render_yaml(const struct cJSON *json, struct gt_buf *to);

/* Graphviz: GPUs, NICs, switches, NUMA nodes and links. */
void gt_render_dot(const struct gt_node *node, struct gt_buf *to);

/* A self-contained SVG picture, without scripts, external fonts or links. */
void gt_render_svg(const struct gt_node *node, struct gt_buf *to);
