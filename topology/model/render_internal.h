/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_RENDER_INTERNAL_H
#define GPUTOPO_MODEL_RENDER_INTERNAL_H

#include "base/buf.h"
#include "topology/model/node.h"

/* Facts and phrases that more than one rendering shows. */

/* "64 GiB"; "-" where unknown. */
void gt_memory_text(uint64_t bytes, char *to, size_t size);

/* "32 GT/s x16", what of it is known; "" where nothing is. */
void gt_pcie_link_text(const struct gt_pcie_link *link, char *to, size_t size);

/* Whether the PCIe link runs below what the GPU can do. */
bool gt_pcie_degraded(const struct gt_gpu *gpu);

/* "8 GPUs, 8 x MXC500": the products of a node by number. */
void gt_products_text(const struct gt_node *node, char *to, size_t size);

struct gt_zone_facts {
    uint64_t members;
    unsigned gpus, links;        /* direct links that are not down */
    uint32_t weakest, strongest; /* weights of those */
};
/* False where there is no such zone. */
bool gt_zone_facts(const struct gt_node *node, unsigned zone, struct gt_zone_facts *ret);
/* "full mesh, 64 GB/s", "5 of 6 pairs joined, 32 to 64 GB/s" */
void gt_zone_text(const struct gt_zone_facts *facts, char *to, size_t size);

/* What a kind means, one line. */
const char *gt_link_kind_meaning(enum gt_link_kind kind);

/* Shortens a text to at most `characters` characters, the last of them an ellipsis where it was longer. */
void gt_shorten(const char *text, unsigned characters, char *to, size_t size);

/* The PCIe address without its domain where that is 0: "0e:00.0". */
const char *gt_short_bdf(const char *bdf);

#endif
