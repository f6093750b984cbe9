/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/quotas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int quotas_compare(const struct gt_resource_quota *quota, const char *namespace_, const char *name)
{
    int order = strcmp(quota->namespace_, namespace_);
    return order ? order : strcmp(quota->name, name);
}

/* The index of the first quota that is not before that name. */
static uint32_t quotas_place_of(const struct gt_quotas *quotas, const char *namespace_, const char *name)
{
    return (uint32_t)GT_LOWER_BOUND(i, quotas->count, quotas_compare(quotas->items[i], namespace_, name) < 0);
}

static bool is_at(const struct gt_quotas *quotas, uint32_t at, const char *namespace_, const char *name)
{
    return at < quotas->count && quotas_compare(quotas->items[at], namespace_, name) == 0;
}

static int quotas_grow(struct gt_quotas *quotas, struct gt_err **err)
{
    if (quotas->count == GT_QUOTAS_MAX)
        return gt_fail(err, E2BIG, "there are more than %d quotas", GT_QUOTAS_MAX);
    GT_NEED(GT_GROW(quotas->items, quotas->count, quotas->capacity, 16), err, "quotas");
    return 0;
}

int gt_quotas_put(struct gt_quotas *quotas, struct gt_resource_quota *quota, struct gt_err **err)
{
    uint32_t at = quotas_place_of(quotas, quota->namespace_, quota->name);
    quotas->version++;
    if (is_at(quotas, at, quota->namespace_, quota->name)) {
        free(quotas->items[at]);
        quotas->items[at] = quota;
        return 0;
    }
    int r = quotas->count == quotas->capacity ? quotas_grow(quotas, err) : 0;
    if (r < 0) {
        free(quota);
        return r;
    }
    memmove(&quotas->items[at + 1], &quotas->items[at], (quotas->count - at) * sizeof(quotas->items[0]));
    quotas->items[at] = quota;
    quotas->count++;
    return 0;
}

void gt_quotas_remove(struct gt_quotas *quotas, const char *namespace_, const char *name)
{
    uint32_t at = quotas_place_of(quotas, namespace_, name);
    if (!is_at(quotas, at, namespace_, name))
        return;
    free(quotas->items[at]);
    quotas->version++;
    quotas->count--;
    memmove(&quotas->items[at], &quotas->items[at + 1], (quotas->count - at) * sizeof(quotas->items[0]));
}

struct gt_resource_quota *const *gt_quotas_of(const struct gt_quotas *quotas, const char *namespace_,
                                              uint32_t *ret_count)
{
    uint32_t first = quotas_place_of(quotas, namespace_, ""), end = first;
    while (end < quotas->count && strcmp(quotas->items[end]->namespace_, namespace_) == 0)
        end++;
    *ret_count = end - first;
    return quotas->items + first;
}

void gt_quotas_done(struct gt_quotas *quotas)
{
    for (uint32_t i = 0; i < quotas->count; i++)
        free(quotas->items[i]);
    free(quotas->items);
    *quotas = (struct gt_quotas){0};
}
