/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/numa.h"

#include "base/bits.h"

/* The fewest NUMA nodes that have `k` GPUs, whoever uses them; 0: all together have fewer. */
static unsigned fewest_domains(const struct gt_numa *numa, unsigned k)
{
    unsigned have = 0, taken = 0;
    for (unsigned count = 1; count <= numa->count; count++) {
        unsigned largest = 0, at = 0;
        for (unsigned d = 0; d < numa->count; d++)
            if (!(taken >> d & 1) && gt_bit_count(numa->gpus[d]) >= largest) {
                largest = gt_bit_count(numa->gpus[d]);
                at = d;
            }
        taken |= 1U << at;
        have += largest;
        if (have >= k)
            return count;
    }
    return 0;
}

bool gt_numa_admits(const struct gt_numa *numa, uint64_t free, uint64_t must, unsigned k, uint64_t *ret_from)
{
    if (!numa->count) {
        *ret_from = free;
        return gt_bit_count(free) >= k;
    }
    unsigned fewest = fewest_domains(numa, k);
    uint64_t known = 0;
    for (unsigned d = 0; d < numa->count; d++)
        known |= numa->gpus[d];
    if (!fewest || (numa->single && fewest > 1))
        return false;
    for (unsigned set = 1; set < 1U << numa->count; set++) {
        uint64_t gpus = 0;
        for (unsigned d = 0; d < numa->count && gt_bit_count(set) == fewest; d++)
            gpus |= set >> d & 1 ? numa->gpus[d] : 0;
        if (must & known & ~gpus || gt_bit_count(free & gpus) < k)
            continue;
        *ret_from = free & gpus;
        return true;
    }
    return false;
}

bool gt_numa_by_request(const struct gt_numa *numa, uint64_t requests)
{
    return numa->count && !numa->by_pod && requests;
}

unsigned gt_numa_largest(const struct gt_numa *numa)
{
    unsigned largest = 0;
    for (unsigned d = 0; d < numa->count; d++)
        if (gt_bit_count(numa->gpus[d]) > largest)
            largest = gt_bit_count(numa->gpus[d]);
    return largest;
}

unsigned gt_numa_most(const struct gt_numa *numa)
{
    unsigned all = 0;
    for (unsigned d = 0; d < numa->count; d++)
        all += gt_bit_count(numa->gpus[d]);
    return numa->single ? gt_numa_largest(numa) : all;
}
