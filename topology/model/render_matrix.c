/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time_text.h"
#include "topology/model/render.h"

/* Columns as wide as their widest cell; UTF-8 counts by character. */
enum { COLUMNS_MAX = 8, CELL_MAX = 160 };

struct table {
    unsigned columns, rows;
    char (*cells)[CELL_MAX]; /* rows x columns */
};

static char *cell(const struct table *table, unsigned row, unsigned column)
{
    return table->cells[row * table->columns + column];
}

static void print_padded(struct gt_buf *to, const char *text, int width)
{
    int padding = width - (int)gt_text_characters(text);
    gt_buf_printf(to, "%s%*s", text, padding > 0 ? padding : 0, "");
}

/* Rows lose the spaces at their end. */
static void render_matrix_end_row(struct gt_buf *to)
{
    while (to->len && to->data[to->len - 1] == ' ')
        gt_buf_truncate(to, to->len - 1);
    gt_buf_puts(to, "\n");
}

static void print_table(struct gt_buf *to, const struct table *table)
{
    int widths[COLUMNS_MAX] = {0};
    for (unsigned r = 0; r < table->rows; r++)
        for (unsigned c = 0; c < table->columns; c++) {
            int width = (int)gt_text_characters(cell(table, r, c));
            if (width > widths[c])
                widths[c] = width;
        }
    for (unsigned r = 0; r < table->rows; r++) {
        for (unsigned c = 0; c < table->columns; c++)
            if (widths[c] > 0)
                print_padded(to, cell(table, r, c), widths[c] + 2);
        render_matrix_end_row(to);
    }
}

static void pcie_cell(const struct gt_gpu *gpu, char *to)
{
    char now[48], max[48];
    gt_pcie_link_text(&gpu->pci.now, now, sizeof(now));
    gt_pcie_link_text(&gpu->pci.max, max, sizeof(max));
    if (gt_pcie_degraded(gpu))
        snprintf(to, CELL_MAX, "%s (of %s)", now, max);
    else
        snprintf(to, CELL_MAX, "%s", now[0] ? now : "-");
}

static void health_cell(const struct gt_gpu *gpu, char *to)
{
    const char *mode = gpu->mode == GT_GPU_NATIVE ? "" : gt_gpu_mode_name(gpu->mode);
    if (gt_gpu_usable(gpu))
        snprintf(to, CELL_MAX, "%s%s%s%s%s%s%s", gpu->health == GT_GPU_HEALTHY ? "ok" : "unknown",
                 *mode ? ", " : "", mode, gpu->grade ? ", " : "", gt_gpu_grade_name(gpu->grade),
                 gpu->grade ? ": " : "", gpu->grade ? gpu->grade_reason : "");
    else
        snprintf(to, CELL_MAX, "UNHEALTHY%s%s%s%s", *mode ? ", " : "", mode,
                 gpu->unhealthy_reason[0] ? ": " : "", gpu->unhealthy_reason);
}

static void print_gpus(const struct gt_node *node, struct gt_buf *to)
{
    static const char *const heads[] = {"GPU",  "Product", "PCI address", "Memory",
                                        "NUMA", "PCIe",    "UUID",        "Health"};
    struct table table = {.columns = GT_COUNT(heads), .rows = node->gpu_count + 1};
    gt_auto_free char(*cells)[CELL_MAX] = calloc(table.columns * table.rows, sizeof(*cells));
    if (!cells) {
        to->failed = true;
        return;
    }
    table.cells = cells;
    for (unsigned c = 0; c < table.columns; c++)
        snprintf(cell(&table, 0, c), CELL_MAX, "%s", heads[c]);
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const struct gt_gpu *gpu = &node->gpus[i];
        unsigned row = i + 1;
        snprintf(cell(&table, row, 0), CELL_MAX, "%u", gpu->index);
        snprintf(cell(&table, row, 1), CELL_MAX, "%s", gpu->product[0] ? gpu->product : "-");
        snprintf(cell(&table, row, 2), CELL_MAX, "%s", gpu->bdf);
        gt_memory_text(gpu->memory_bytes, cell(&table, row, 3), CELL_MAX);
        if (gpu->numa_node >= 0)
            snprintf(cell(&table, row, 4), CELL_MAX, "%d", gpu->numa_node);
        else
            snprintf(cell(&table, row, 4), CELL_MAX, "-");
        pcie_cell(gpu, cell(&table, row, 5));
        snprintf(cell(&table, row, 6), CELL_MAX, "%s", gpu->uuid[0] ? gpu->uuid : "-");
        health_cell(gpu, cell(&table, row, 7));
    }
    print_table(to, &table);
}

static void print_head(const struct gt_node *node, struct gt_buf *to)
{
    char products[256];
    gt_products_text(node, products, sizeof(products));
    if (node->name[0])
        gt_buf_printf(to, "Node %s: ", node->name);
    gt_buf_puts(to, node->gpu_count ? products : "no GPUs");
    if (node->driver_version[0])
        gt_buf_printf(to, ", driver %s", node->driver_version);
    if (node->library_version[0])
        gt_buf_printf(to, ", library %s", node->library_version);
    gt_buf_puts(to, "\n");
}

enum { CELL_WIDTH = 8, NODE_WIDTH = 15 };

/* The columns of `mx-smi topo -m`, so that a reader of that text can read this one. */
static void print_matrix(const struct gt_node *node, struct gt_buf *to, unsigned *ret_kinds, bool *ret_down)
{
    char text[32];
    print_padded(to, "", CELL_WIDTH);
    for (unsigned i = 0; i < node->gpu_count; i++) {
        snprintf(text, sizeof(text), "GPU%u", i);
        print_padded(to, text, CELL_WIDTH);
    }
    for (unsigned i = 0; i < node->nic_count; i++) {
        snprintf(text, sizeof(text), "NIC%u", i);
        print_padded(to, text, CELL_WIDTH);
    }
    gt_buf_printf(to, "%-*s%s\n", NODE_WIDTH, "Node Affinity", "CPU Affinity");
    for (unsigned row = 0; row < node->gpu_count; row++) {
        const struct gt_gpu *gpu = &node->gpus[row];
        snprintf(text, sizeof(text), "GPU%u", row);
        print_padded(to, text, CELL_WIDTH);
        for (unsigned column = 0; column < node->gpu_count; column++) {
            const struct gt_link *link = gt_node_link(node, row, column);
            enum gt_link_kind kind = link ? link->kind : GT_LINK_SELF;
            bool down = link && gt_link_is_down(link);
            snprintf(text, sizeof(text), "%s%s", gt_link_kind_name(kind), down ? "!" : "");
            print_padded(to, text, CELL_WIDTH);
            *ret_kinds |= down ? 0 : 1u << kind;
            *ret_down |= down;
        }
        for (unsigned i = 0; i < node->nic_count; i++) {
            enum gt_link_kind kind = node->nics[i].kind[row];
            print_padded(to, gt_link_kind_name(kind), CELL_WIDTH);
            *ret_kinds |= 1u << kind;
        }
        if (gpu->numa_node >= 0)
            gt_buf_printf(to, "%-*d", NODE_WIDTH, gpu->numa_node);
        else
            gt_buf_printf(to, "%-*s", NODE_WIDTH, "N/A");
        gt_buf_printf(to, "%s\n", gpu->cpu_set[0] ? gpu->cpu_set : "N/A");
    }
}

static void print_stale(const struct gt_node *node, struct gt_buf *to)
{
    char time[GT_TIME_TEXT_SIZE];
    unsigned stale = 0;
    for (unsigned i = 0; i < node->link_count; i++)
        stale += node->links[i].stale;
    if (!node->links_reported_s)
        return;
    gt_time_text(node->links_reported_s, time);
    gt_buf_printf(to, "\nStale: the vendor library is silent, and last reported %u link%s at %s\n", stale,
                  stale == 1 ? "" : "s", time);
}

static void print_measured(const struct gt_node *node, struct gt_buf *to)
{
    const char *head = "\nMeasured below the nominal bandwidth:\n";
    for (unsigned i = 0; i < node->link_count; i++) {
        struct gt_link nominal = node->links[i];
        nominal.measured_mbps = 0;
        if (gt_link_weight(&nominal) == node->links[i].weight)
            continue;
        gt_buf_printf(to, "%s  GPU%u - GPU%u: %u of %u GB/s\n", head, nominal.a, nominal.b,
                      node->links[i].weight, gt_link_weight(&nominal));
        head = "";
    }
}

static void print_zones(const struct gt_node *node, struct gt_buf *to)
{
    for (unsigned zone = 1;; zone++) {
        struct gt_zone_facts facts;
        if (!gt_zone_facts(node, zone, &facts))
            break;
        if (zone == 1)
            gt_buf_puts(to, "\nLink zones:\n");
        gt_buf_printf(to, "  Zone %u: GPU ", zone);
        gt_text_add_mask(to, facts.members);
        char text[96];
        gt_zone_text(&facts, text, sizeof(text));
        gt_buf_printf(to, ", %s\n", text);
    }
    print_stale(node, to);
    print_measured(node, to);
    const char *head = "\nLinks that are down (the PCIe path that remains):\n";
    for (unsigned i = 0; i < node->link_count; i++)
        if (gt_link_is_down(&node->links[i])) {
            gt_buf_printf(to, "%s  GPU%u - GPU%u (%s)\n", head, node->links[i].a, node->links[i].b,
                          gt_link_kind_name(node->links[i].path_kind));
            head = "";
        }
}

static void print_legend(struct gt_buf *to, unsigned kinds, bool down)
{
    gt_buf_puts(to, "\nLegend:\n");
    for (unsigned kind = GT_LINK_SELF; kind <= GT_LINK_UNKNOWN; kind++) {
        if (kinds >> kind & 1)
            gt_buf_printf(to, "  %-4s = %s\n", gt_link_kind_name((enum gt_link_kind)kind),
                          gt_link_kind_meaning((enum gt_link_kind)kind));
        if (kind == GT_LINK_MX && down)
            gt_buf_puts(to, "  MX!  = A direct link that is down\n");
    }
}

void gt_render_matrix(const struct gt_node *node, struct gt_buf *to)
{
    print_head(node, to);
    if (node->gpu_count) {
        unsigned kinds = 0;
        bool down = false;
        gt_buf_puts(to, "\n");
        print_gpus(node, to);
        gt_buf_puts(to, "\n");
        print_matrix(node, to, &kinds, &down);
        print_zones(node, to);
        print_legend(to, kinds, down);
    }
    if (node->nic_count) {
        gt_buf_puts(to, "\nNIC Legend:\n");
        for (unsigned i = 0; i < node->nic_count; i++)
            gt_buf_printf(to, "  NIC%u: %s\n", i, node->nics[i].name);
    }
    if (node->server_uuid[0] || node->remote_count) {
        gt_buf_printf(to, "\nSupernode: this server is %s",
                      node->server_uuid[0] ? node->server_uuid : "unknown");
        for (unsigned i = 0; i < node->remote_count; i++)
            gt_buf_printf(to, "%s%s", i ? ", " : ", and reaches ", node->remotes[i]);
        gt_buf_puts(to, "\n");
    }
    for (unsigned i = 0; i < node->missing_count; i++)
        gt_buf_printf(to, "%sNot known: %s (%s)\n", i ? "" : "\n", node->missing[i].what,
                      node->missing[i].why);
}
