/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "topology/model/node.h"

static int by_bdf(const void *a, const void *b)
{
    const struct gt_gpu *x = a, *y = b;
    return gt_bdf_compare(x->bdf, y->bdf);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* mlx5_2 before mlx5_10; texts that differ only in leading zeros keep an order too. */
static int node_sort_compare_names(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x && *y) {
        if (is_digit(*x) && is_digit(*y)) {
            x += strspn(x, "0");
            y += strspn(y, "0");
            size_t digits_x = strspn(x, "0123456789"), digits_y = strspn(y, "0123456789");
            if (digits_x != digits_y)
                return digits_x < digits_y ? -1 : 1;
            int order = strncmp(x, y, digits_x);
            if (order)
                return order;
            x += digits_x;
            y += digits_y;
            continue;
        }
        if (*x != *y)
            return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        x++;
        y++;
    }
    if (*x || *y)
        return *x ? 1 : -1;
    return strcmp(a, b);
}

static int node_sort_by_name(const void *a, const void *b)
{
    const struct gt_nic *x = a, *y = b;
    int order = node_sort_compare_names(x->name, y->name);
    return order ? order : gt_bdf_compare(x->bdf, y->bdf);
}

void gt_node_sort(struct gt_node *node)
{
    if (node->gpu_count)
        qsort(node->gpus, node->gpu_count, sizeof(*node->gpus), by_bdf);
    for (unsigned i = 0; i < node->gpu_count; i++)
        node->gpus[i].index = i;
    if (node->nic_count)
        qsort(node->nics, node->nic_count, sizeof(*node->nics), node_sort_by_name);
}
