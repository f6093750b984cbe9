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

/* Texts that several renderings use. */

/* "64 GiB"; "-" if unknown. */
void gt_memory_text(uint64_t bytes, char *to, size_t size);

/* "32 GT/s x16", or the part that is known; "" if nothing is. */
void gt_pcie_link_text(const struct gt_pcie_link *link, char *to, size_t size);

/* Whether the PCIe link is slower or narrower than the GPU supports. */
bool gt_pcie_degraded(const struct gt_gpu *gpu);

/* "8 GPUs, 8 x MXC500": the products of a node by number. */
void gt_products_text(const struct gt_node *node, char *to, size_t size);

struct gt_zone_facts {
    uint64_t members;
    unsigned gpus, links;        /* direct links that are not down */
    uint32_t weakest, strongest; /* their weights */
};
/* False if there is no such zone. */
bool gt_zone_facts(const struct gt_node *node, unsigned zone, struct gt_zone_facts *ret);
/* "full mesh, 64 GB/s", "5 of 6 pairs joined, 32 to 64 GB/s" */
void gt_zone_text(const struct gt_zone_facts *facts, char *to, size_t size);

/* The meaning of a kind, in one line. */
const char *gt_link_kind_meaning(enum gt_link_kind kind);

/* Shortens a text to at most `characters` characters; if it was longer, the last of them is an ellipsis. */
void gt_shorten(const char *text, unsigned characters, char *to, size_t size);

/* The PCIe address, without its domain if that is 0: "0e:00.0". */
const char *gt_short_bdf(const char *bdf);
