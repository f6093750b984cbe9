/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/core/advise_search.h"
#include "topology/model/node.h"

enum { CHOICES_MAX = 16 << 20 };

/* ---- one node: the least cost for a number of additional pods ---- */

struct node_costs {
    unsigned slots;
    uint64_t cost[GT_GPUS_MAX + 1];  /* [slots gained, at least] */
    unsigned freed[GT_GPUS_MAX + 1]; /* GPUs that are freed at this cost */
};

/* least[t]: the least cost of sets that free t GPUs. Items are added one after the other; `taken` may be
 * NULL, else taken[i] has bit t where the set for t GPUs includes item i (t is below 64, since 64 GPUs need
 * all items). */
static void node_sums(const struct advisor *advisor, const struct advise_place *place,
                      uint64_t least[static GT_GPUS_MAX + 1], uint64_t *taken)
{
    for (unsigned t = 0; t <= GT_GPUS_MAX; t++)
        least[t] = t ? ADVISE_NEVER : 0;
    for (uint32_t i = 0; i < place->count; i++) {
        const struct advise_item *item = &advisor->items[place->first + i];
        if (taken)
            taken[i] = 0;
        for (unsigned t = GT_GPUS_MAX; t >= item->gain; t--) {
            uint64_t before = least[t - item->gain];
            if (before == ADVISE_NEVER || before + advise_cost(item) >= least[t])
                continue;
            least[t] = before + advise_cost(item);
            if (taken && t < GT_GPUS_MAX)
                taken[i] |= UINT64_C(1) << t;
        }
    }
}

static void node_costs(const struct advisor *advisor, const struct advise_place *place,
                       struct node_costs *ret)
{
    uint64_t least[GT_GPUS_MAX + 1];
    node_sums(advisor, place, least, NULL);
    unsigned gpus = advisor->job->gpus, base = place->available / gpus;
    ret->slots = place->slots;
    ret->cost[0] = 0;
    ret->freed[0] = 0;
    for (unsigned j = 1; j <= place->slots; j++) {
        ret->cost[j] = ADVISE_NEVER;
        for (unsigned t = (base + j) * gpus - place->available; t <= GT_GPUS_MAX; t++)
            if (least[t] < ret->cost[j]) {
                ret->cost[j] = least[t];
                ret->freed[j] = t;
            }
    }
}

/* Marks the items of the set that frees `t` GPUs at least cost. */
static void mark_node(struct advisor *advisor, const struct advise_place *place, unsigned t)
{
    uint64_t least[GT_GPUS_MAX + 1], taken[GT_GPUS_MAX];
    node_sums(advisor, place, least, taken);
    for (uint32_t i = place->count; i-- && t;) {
        struct advise_item *item = &advisor->items[place->first + i];
        item->moved = t == GT_GPUS_MAX || taken[i] >> t & 1;
        if (item->moved)
            t -= item->gain;
    }
}

/* ---- one supernode: the least cost for a number of additional pods ---- */

/* cost[x]: for at least x more pods; `choice`, unless NULL, has for each place a row of limit + 1 entries:
 * how many of the x pods it takes. */
static void super_costs(const struct advisor *advisor, const struct advise_region *region, uint32_t limit,
                        uint64_t *cost, uint8_t *choice)
{
    for (uint32_t x = 0; x <= limit; x++)
        cost[x] = x ? ADVISE_NEVER : 0;
    for (uint32_t i = 0; i < region->count; i++) {
        struct node_costs node;
        node_costs(advisor, &advisor->places[region->first + i], &node);
        uint8_t *row = choice ? choice + (size_t)i * (limit + 1) : NULL;
        for (uint32_t x = limit; x; x--) {
            uint64_t best = cost[x];
            unsigned share = 0;
            for (unsigned j = 1; j <= node.slots && j <= x; j++)
                if (cost[x - j] != ADVISE_NEVER && cost[x - j] + node.cost[j] < best) {
                    best = cost[x - j] + node.cost[j];
                    share = j;
                }
            cost[x] = best;
            if (row)
                row[x] = (uint8_t)share;
        }
    }
}

/* Pods of `more` additional runs for which there is no room yet. */
static uint32_t pods_lacking(const struct advisor *advisor, const struct advise_region *region, uint32_t more)
{
    return (region->runs + more) * advisor->job->pods - region->room;
}

static uint32_t most_runs(const struct advisor *advisor, const struct advise_region *region)
{
    return region->more < advisor->need ? region->more : advisor->need;
}

static int mark_super(struct advisor *advisor, const struct advise_region *region, uint32_t more)
{
    uint32_t x = pods_lacking(advisor, region, more), limit = x;
    gt_auto_free uint64_t *cost = calloc((size_t)limit + 1, sizeof(*cost));
    gt_auto_free uint8_t *choice = calloc((size_t)region->count, (size_t)limit + 1);
    if (!cost || !choice)
        return gt_fail_sys(advisor->err, ENOMEM, "advice");
    super_costs(advisor, region, limit, cost, choice);
    for (uint32_t i = region->count; i-- && x;) {
        unsigned share = choice[(size_t)i * (limit + 1) + x];
        if (!share)
            continue;
        const struct advise_place *place = &advisor->places[region->first + i];
        struct node_costs node;
        node_costs(advisor, place, &node);
        mark_node(advisor, place, node.freed[share]);
        x -= share;
    }
    return 0;
}

/* ---- the cluster: the least cost for the missing runs ---- */

static bool is_small_enough(const struct advisor *advisor, uint64_t work)
{
    uint64_t steps = 0, choices = ((uint64_t)advisor->need + 1) * advisor->region_count;
    for (uint32_t r = 0; r < advisor->region_count; r++) {
        const struct advise_region *region = &advisor->regions[r];
        uint32_t more = most_runs(advisor, region), slots = pods_lacking(advisor, region, more);
        for (uint32_t i = 0; i < region->count; i++)
            steps += (uint64_t)slots * (advisor->places[region->first + i].slots + 1);
        steps += (uint64_t)advisor->need * more;
        if (steps > work)
            return false;
    }
    return choices <= CHOICES_MAX;
}

int gt_advise_exact(struct advisor *advisor, uint64_t work)
{
    if (!is_small_enough(advisor, work))
        return -E2BIG;
    uint32_t need = advisor->need, width = need + 1;
    gt_auto_free uint64_t *total = calloc(width, sizeof(*total));
    gt_auto_free uint32_t *choice = calloc((size_t)advisor->region_count * width, sizeof(*choice));
    if (!total || !choice)
        return gt_fail_sys(advisor->err, ENOMEM, "advice");
    for (uint32_t n = 1; n <= need; n++)
        total[n] = ADVISE_NEVER;
    for (uint32_t r = 0; r < advisor->region_count; r++) {
        const struct advise_region *region = &advisor->regions[r];
        uint32_t most = most_runs(advisor, region), limit = pods_lacking(advisor, region, most);
        gt_auto_free uint64_t *cost = calloc((size_t)limit + 1, sizeof(*cost));
        if (!cost)
            return gt_fail_sys(advisor->err, ENOMEM, "advice");
        super_costs(advisor, region, limit, cost, NULL);
        for (uint32_t n = need; n; n--)
            for (uint32_t more = 1; more <= most && more <= n; more++) {
                uint64_t own = cost[pods_lacking(advisor, region, more)];
                if (total[n - more] == ADVISE_NEVER || own == ADVISE_NEVER ||
                    total[n - more] + own >= total[n])
                    continue;
                total[n] = total[n - more] + own;
                choice[(size_t)r * width + n] = more;
            }
    }
    int result = 0;
    for (uint32_t r = advisor->region_count, n = need; r-- && n && result >= 0;) {
        uint32_t more = choice[(size_t)r * width + n];
        if (more)
            result = mark_super(advisor, &advisor->regions[r], more);
        n -= more;
    }
    return result;
}
