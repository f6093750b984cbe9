/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/discovery/facts.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

void gt_facts_done(struct gt_facts *facts)
{
    free(facts->devices);
    free(facts->direct);
    memset(facts, 0, sizeof(*facts));
}

struct gt_fact *gt_facts_find(const struct gt_facts *facts, const char *bdf)
{
    for (unsigned i = 0; i < facts->count; i++)
        if (strcmp(facts->devices[i].bdf, bdf) == 0)
            return &facts->devices[i];
    return NULL;
}

int gt_facts_add(struct gt_facts *facts, const char *bdf, struct gt_fact **ret, struct gt_err **err)
{
    if (gt_facts_find(facts, bdf))
        return gt_fail(err, EEXIST, "PCI device %s is there twice", bdf);
    if (facts->count >= GT_FACTS_MAX)
        return gt_fail(err, E2BIG, "more than %d PCI devices", GT_FACTS_MAX);
    if (facts->count == facts->capacity) {
        unsigned capacity = facts->capacity ? 2 * facts->capacity : 32;
        struct gt_fact *grown = reallocarray(facts->devices, capacity, sizeof(*grown));
        if (!grown)
            return gt_fail_sys(err, ENOMEM, "PCI devices");
        facts->devices = grown;
        facts->capacity = capacity;
    }
    struct gt_fact *fact = &facts->devices[facts->count];
    *fact = (struct gt_fact){.numa_node = -1, .drm_card = -1, .drm_render = -1};
    if (!gt_text_copy(fact->bdf, sizeof(fact->bdf), bdf))
        return gt_fail(err, EINVAL, "\"%.32s\" is no PCI address", bdf);
    facts->count++;
    *ret = fact;
    return 0;
}

int gt_facts_add_direct(struct gt_facts *facts, const char *a, const char *b, uint64_t bandwidth_mbps,
                        struct gt_err **err)
{
    if (facts->direct_count >= GT_DIRECT_MAX)
        return gt_fail(err, E2BIG, "more than %d direct links", GT_DIRECT_MAX);
    if (facts->direct_count == facts->direct_capacity) {
        unsigned capacity = facts->direct_capacity ? 2 * facts->direct_capacity : 64;
        struct gt_direct *grown = reallocarray(facts->direct, capacity, sizeof(*grown));
        if (!grown)
            return gt_fail_sys(err, ENOMEM, "direct links");
        facts->direct = grown;
        facts->direct_capacity = capacity;
    }
    struct gt_direct *direct = &facts->direct[facts->direct_count];
    if (!gt_text_copy(direct->a, sizeof(direct->a), a) || !gt_text_copy(direct->b, sizeof(direct->b), b))
        return gt_fail(err, EINVAL, "direct link with a bad PCI address");
    direct->bandwidth_mbps = bandwidth_mbps;
    facts->direct_count++;
    return 0;
}

void gt_facts_missing(struct gt_facts *facts, const char *what, const char *format, ...)
{
    if (facts->missing_count >= GT_MISSING_MAX)
        return; /* the node, which gets them all, says that more is missing */
    struct gt_missing *missing = &facts->missing[facts->missing_count++];
    snprintf(missing->what, sizeof(missing->what), "%s", what);
    va_list args;
    va_start(args, format);
    vsnprintf(missing->why, sizeof(missing->why), format, args);
    va_end(args);
}

static bool computes(unsigned class)
{
    return class >> 8 == 0x03 || class >> 8 == 0x12 || class == 0x0b40;
}

bool gt_fact_is_gpu(const struct gt_fact *fact, unsigned vendor)
{
    return fact->vendor == vendor && computes(fact->class);
}

bool gt_fact_is_nic(const struct gt_fact *fact)
{
    return !fact->virtual_function && (fact->rdma[0] || fact->class == 0x0207);
}

bool gt_fact_is_of_interest(const struct gt_fact *fact, unsigned vendor)
{
    return computes(fact->class) || fact->class >> 8 == 0x02 || fact->vendor == vendor;
}
