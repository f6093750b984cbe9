/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "topology/model/render.h"

void gt_memory_text(uint64_t bytes, char *to, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    if (!bytes) {
        snprintf(to, size, "-");
        return;
    }
    unsigned unit = 0;
    uint64_t scale = 1;
    while (unit + 1 < GT_COUNT(units) && bytes / scale >= 1024) {
        scale *= 1024;
        unit++;
    }
    uint64_t tenths = (uint64_t)((double)bytes / (double)scale * 10 + 0.5);
    if (tenths % 10)
        snprintf(to, size, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, units[unit]);
    else
        snprintf(to, size, "%" PRIu64 " %s", tenths / 10, units[unit]);
}

void gt_pcie_link_text(const struct gt_pcie_link *link, char *to, size_t size)
{
    if (link->speed > 0 && link->width)
        snprintf(to, size, "%g GT/s x%u", link->speed, link->width);
    else if (link->speed > 0)
        snprintf(to, size, "%g GT/s", link->speed);
    else if (link->width)
        snprintf(to, size, "x%u", link->width);
    else if (size)
        to[0] = '\0';
}

bool gt_pcie_degraded(const struct gt_gpu *gpu)
{
    return (gpu->pci.now.speed > 0 && gpu->pci.now.speed < gpu->pci.max.speed) ||
           (gpu->pci.now.width && gpu->pci.now.width < gpu->pci.max.width);
}

void gt_products_text(const struct gt_node *node, char *to, size_t size)
{
    gt_auto_buf struct gt_buf text = GT_BUF(size - 1);
    gt_buf_printf(&text, "%u GPU%s", node->gpu_count, node->gpu_count == 1 ? "" : "s");
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const char *product = node->gpus[i].product;
        unsigned count = 0;
        bool before = false;
        for (unsigned j = 0; j < node->gpu_count; j++)
            if (!strcmp(node->gpus[j].product, product)) {
                before |= j < i;
                count++;
            }
        if (before || !product[0])
            continue;
        if (count == node->gpu_count)
            gt_buf_printf(&text, ", %s", product);
        else
            gt_buf_printf(&text, ", %u x %s", count, product);
    }
    snprintf(to, size, "%s", text.data ? text.data : "");
}

bool gt_zone_facts(const struct gt_node *node, unsigned zone, struct gt_zone_facts *ret)
{
    struct gt_zone_facts facts = {.weakest = UINT32_MAX};
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].zone == zone) {
            facts.members |= UINT64_C(1) << i;
            facts.gpus++;
        }
    for (unsigned i = 0; i < node->link_count; i++) {
        const struct gt_link *link = &node->links[i];
        if (link->kind != GT_LINK_MX || link->state == GT_LINK_STATE_DOWN || node->gpus[link->a].zone != zone)
            continue;
        facts.links++;
        if (link->weight < facts.weakest)
            facts.weakest = link->weight;
        if (link->weight > facts.strongest)
            facts.strongest = link->weight;
    }
    if (!zone || !facts.gpus)
        return false;
    *ret = facts;
    return true;
}

void gt_zone_text(const struct gt_zone_facts *facts, char *to, size_t size)
{
    unsigned pairs = facts->gpus * (facts->gpus - 1) / 2;
    char joined[48];
    if (facts->links == pairs)
        snprintf(joined, sizeof(joined), pairs > 1 ? "every pair linked" : "one pair");
    else
        snprintf(joined, sizeof(joined), "%u of %u pairs linked", facts->links, pairs);
    if (facts->weakest == facts->strongest)
        snprintf(to, size, "%s, %u GB/s", joined, facts->strongest);
    else
        snprintf(to, size, "%s, %u to %u GB/s", joined, facts->weakest, facts->strongest);
}

const char *gt_link_kind_meaning(enum gt_link_kind kind)
{
    static const char *const meanings[] = {
        [GT_LINK_SELF] = "The GPU itself",
        [GT_LINK_MX] = "A direct link between the GPUs (MetaXLink)",
        [GT_LINK_PIX] = "PCIe, at most one switch between them",
        [GT_LINK_PXB] = "PCIe, several switches, no host bridge",
        [GT_LINK_PHB] = "PCIe, through one host bridge",
        [GT_LINK_NODE] = "PCIe, between host bridges of one NUMA node",
        [GT_LINK_SYS] = "PCIe, and the interconnect between NUMA nodes",
        [GT_LINK_UNKNOWN] = "Not known",
    };
    return meanings[kind];
}

void gt_shorten(const char *text, unsigned characters, char *to, size_t size)
{
    static const char ellipsis[] = "\xe2\x80\xa6";
    size_t cut = 0, len = 0;
    unsigned count = 0;
    for (; text[len]; count++) {
        unsigned n = gt_text_utf8_length(text + len);
        len += n ? n : 1;
        if (count + 1 < characters && len + sizeof(ellipsis) <= size)
            cut = len; /* with room for the ellipsis behind it */
    }
    if (count <= characters && len < size) {
        memcpy(to, text, len + 1);
        return;
    }
    memcpy(to, text, cut);
    memcpy(to + cut, ellipsis, sizeof(ellipsis));
}

const char *gt_short_bdf(const char *bdf)
{
    return strncmp(bdf, "0000:", 5) ? bdf : bdf + 5;
}
