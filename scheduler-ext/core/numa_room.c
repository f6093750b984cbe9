/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/numa_room.h"

#include "scheduler-ext/core/internal.h"

enum { ORDERS_WORK = 2000, CHOICE_US = 300 };

struct coming {
    const struct gt_class *class;
    uint8_t pods[GT_GPUS_MAX + 1]; /* [GPUs of a pod] */
    unsigned work;
};

/* Whether pods get their GPUs in whichever order they come; false where there are too many orders to try. */
static bool all_orders_do(struct coming *coming, uint64_t free)
{
    for (unsigned k = 1; k <= GT_GPUS_MAX; k++) {
        struct gt_choice choice;
        if (!coming->pods[k])
            continue;
        if (!coming->work || !gt_choose(coming->class, free, 0, k, CHOICE_US, &choice))
            return false;
        coming->work--;
        coming->pods[k]--;
        bool do_all = all_orders_do(coming, free & ~choice.mask);
        coming->pods[k]++;
        if (!do_all)
            return false;
    }
    return true;
}

unsigned gt_numa_pods(const struct gt_cluster *cluster, uint32_t node, uint64_t available, unsigned gpus)
{
    struct coming coming = {.class = cluster->classes[cluster->class[node]], .work = ORDERS_WORK};
    uint64_t free = available;
    unsigned most = gt_class_pods(coming.class, available, gpus), pods = 0;
    if (!gt_class_numa(coming.class)->count || !most)
        return most;
    for (uint32_t id = cluster->first_promise[node]; id != GT_NONE; id = cluster->promises[id].next) {
        const struct gt_promise *told = &cluster->promises[id].told;
        uint64_t mask = told->mask & cluster->free[node] & cluster->healthy[node];
        if (told->kind != GT_PROMISE_PLANNED || !mask)
            continue;
        coming.pods[gt_core_bits(mask)]++;
        free |= mask;
    }
    if (free == available)
        return most;
    for (; pods < most; pods++) {
        coming.pods[gpus]++;
        if (!all_orders_do(&coming, free))
            break;
    }
    return pods;
}
