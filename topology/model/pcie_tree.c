/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/pcie_tree.h"

#include <string.h>

enum {
    PANEL_GPUS = 32,
    TREE_DEVICES_MAX = GT_GPUS_MAX + GT_NICS_MAX,
    ITEMS_MAX =
        1 + TREE_DEVICES_MAX * (GT_PATH_MAX_DEPTH + 3), /* top; NUMA, host, bridges and itself a device */
};

static unsigned pcie_tree_add_item(struct gt_tree *tree, unsigned parent, enum gt_tree_type type, int number,
                                   const char *name)
{
    unsigned i = tree->count++;
    tree->items[i] = (struct gt_tree_item){.type = type, .number = number, .name = name, .parent = parent};
    unsigned *last = &tree->items[parent].first_child;
    while (*last)
        last = &tree->items[*last].next;
    *last = i;
    return i;
}

static unsigned pcie_tree_find_or_add(struct gt_tree *tree, unsigned parent, enum gt_tree_type type,
                                      int number, const char *name)
{
    for (unsigned i = tree->items[parent].first_child; i; i = tree->items[i].next) {
        const struct gt_tree_item *item = &tree->items[i];
        if (item->type == type && item->number == number && !strcmp(item->name, name))
            return i;
    }
    return pcie_tree_add_item(tree, parent, type, number, name);
}

/* The panel of a device. Many GPUs whose NUMA node nobody knows fill two, and all below one host bridge are
 * in one. */
static unsigned add_panel(struct gt_tree *tree, const struct gt_node *node, int numa,
                          const struct gt_pcie_path *path, unsigned gpu)
{
    for (unsigned i = 0; path->root[0] && i < gpu; i++)
        if (!strcmp(path->root, node->gpus[i].pci.path.root))
            gpu = i;
    bool further = numa < 0 && gpu >= PANEL_GPUS && gpu < node->gpu_count;
    return pcie_tree_find_or_add(tree, 0, GT_TREE_NUMA, numa, further ? "further" : "");
}

static void pcie_tree_add_device(struct gt_tree *tree, unsigned panel, enum gt_tree_type type, unsigned index,
                                 const struct gt_pcie_path *path, const char *bdf)
{
    unsigned at = panel;
    if (path->root[0])
        at = pcie_tree_find_or_add(tree, at, GT_TREE_HOST, 0, path->root);
    for (unsigned i = path->depth; i-- > 0;)
        at = pcie_tree_find_or_add(tree, at, GT_TREE_SWITCH, 0, path->bridges[i]);
    pcie_tree_add_item(tree, at, type, (int)index, bdf);
}

/* A bridge is shown where paths branch. One child, or the functions of one device, are no branch. */
static bool branches(const struct gt_tree *tree, unsigned bridge)
{
    unsigned first = tree->items[bridge].first_child;
    size_t device = strcspn(tree->items[first].name, ".");
    for (unsigned i = tree->items[first].next; i; i = tree->items[i].next)
        if (tree->items[first].type < GT_TREE_GPU || tree->items[i].type < GT_TREE_GPU ||
            strncmp(tree->items[first].name, tree->items[i].name, device + 1))
            return true;
    return false;
}

/* Copies what a picture shows into a new tree: the children of a bridge that is not shown take its place. */
static void copy_children(const struct gt_tree *from, unsigned from_parent, struct gt_tree *to,
                          unsigned to_parent, unsigned level)
{
    for (unsigned i = from->items[from_parent].first_child; i; i = from->items[i].next) {
        const struct gt_tree_item *item = &from->items[i];
        bool is_switch = item->type == GT_TREE_SWITCH;
        if (is_switch && !branches(from, i)) {
            copy_children(from, i, to, to_parent, level);
            continue;
        }
        unsigned copy = pcie_tree_add_item(to, to_parent, item->type, item->number, item->name);
        to->items[copy].level = level;
        if (is_switch && level + 1 > to->levels)
            to->levels = level + 1;
        copy_children(from, i, to, copy, level + is_switch);
    }
}

static bool pcie_tree_before(const struct gt_tree_item *a, const struct gt_tree_item *b)
{
    if (a->type != b->type)
        return a->type < b->type;
    /* The unknown NUMA node comes last. */
    unsigned x = (unsigned)a->number, y = (unsigned)b->number;
    return x < y;
}

/* NUMA nodes by number and, below one parent, GPUs before NICs; the rest stays in order of appearance. */
static void sort_children(struct gt_tree *tree, unsigned parent)
{
    unsigned sorted = 0, next;
    for (unsigned i = tree->items[parent].first_child; i; i = next) {
        next = tree->items[i].next;
        unsigned *at = &sorted;
        while (*at && !pcie_tree_before(&tree->items[i], &tree->items[*at]))
            at = &tree->items[*at].next;
        tree->items[i].next = *at;
        *at = i;
    }
    tree->items[parent].first_child = sorted;
    for (unsigned i = sorted; i; i = tree->items[i].next)
        sort_children(tree, i);
}

bool gt_tree_make(const struct gt_node *node, struct gt_tree *ret)
{
    gt_auto_tree struct gt_tree full = {.items = calloc(ITEMS_MAX, sizeof(*full.items)), .count = 1};
    struct gt_tree shown = {.items = calloc(ITEMS_MAX, sizeof(*shown.items)), .count = 1};
    if (!full.items || !shown.items) {
        gt_tree_done(&shown);
        return false;
    }
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const struct gt_gpu *gpu = &node->gpus[i];
        unsigned panel = add_panel(&full, node, gpu->numa_node, &gpu->pci.path, i);
        pcie_tree_add_device(&full, panel, GT_TREE_GPU, i, &gpu->pci.path, gpu->bdf);
    }
    for (unsigned i = 0; i < node->nic_count; i++) {
        const struct gt_nic *nic = &node->nics[i];
        unsigned panel = add_panel(&full, node, nic->numa_node, &nic->path, node->gpu_count);
        pcie_tree_add_device(&full, panel, GT_TREE_NIC, i, &nic->path, nic->bdf);
    }
    copy_children(&full, 0, &shown, 0, 0);
    sort_children(&shown, 0);
    *ret = shown;
    return true;
}

void gt_tree_done(struct gt_tree *tree)
{
    free(tree->items);
    *tree = (struct gt_tree){0};
}
