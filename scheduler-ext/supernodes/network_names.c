/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/supernodes/network.h"

/* Descriptions and tables often have a host's name without its domain, the cluster has it with it, or the
 * reverse. */
static size_t names_short(const char *name)
{
    return strcspn(name, ".");
}

static int names_compare_short(const char *a, const char *b)
{
    size_t x = names_short(a), y = names_short(b);
    int order = memcmp(a, b, x < y ? x : y);
    return order ? order : (x > y) - (x < y);
}

static int names_compare(const void *a, const void *b, void *arg)
{
    const char *const *names = arg;
    const char *x = names[*(const uint32_t *)a], *y = names[*(const uint32_t *)b];
    int order = names_compare_short(x, y);
    return order ? order : strcmp(x, y);
}

/* The first position whose short name is not less. */
static uint32_t names_lower_bound(const char *const *names, const uint32_t *order, uint32_t count,
                                  const char *name)
{
    return (uint32_t)GT_LOWER_BOUND(i, count, names_compare_short(names[order[i]], name) < 0);
}

static uint32_t names_find(const char *const *names, const uint32_t *order, uint32_t count, const char *name)
{
    uint32_t first = names_lower_bound(names, order, count, name), end = first;
    for (; end < count && names_compare_short(names[order[end]], name) == 0; end++)
        if (strcmp(names[order[end]], name) == 0)
            return order[end];
    /* One of the two has no domain. */
    bool is_short = !name[names_short(name)];
    if (end - first != 1 || (!is_short && names[order[first]][names_short(name)]))
        return GT_NETWORK_NONE;
    return order[first];
}

int gt_network_names_find(const struct gt_network *network, const char *const *names, uint32_t count,
                          uint32_t *node_of, struct gt_err **err)
{
    gt_auto_free uint32_t *order = calloc((size_t)count + 1, sizeof(*order));
    GT_NEED(order, err, "network");
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    if (count)
        qsort_r(order, count, sizeof(*order), names_compare, (void *)(uintptr_t)names);
    for (uint32_t i = 0; i < network->point_count; i++)
        node_of[i] = network->points[i].is_switch ? GT_NETWORK_NONE
                                                  : names_find(names, order, count, network->points[i].key);
    return 0;
}
