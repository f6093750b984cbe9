/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/numa_room.h"

#include <string.h>

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
    bool any = false;
    if (!gt_class_numa(coming.class)->count || !most)
        return most;
    for (uint32_t i = 0; i < cluster->passed_count; i++)
        if (gt_node_set_has(&cluster->passed[i].nodes, node)) {
            coming.pods[cluster->passed[i].gpus]++;
            any = true;
        }
    for (uint32_t id = cluster->first_promise[node]; id != GT_NONE; id = cluster->promises[id].next) {
        const struct gt_promise *told = &cluster->promises[id].told;
        uint64_t mask = told->mask & cluster->free[node] & cluster->healthy[node];
        if (told->kind != GT_PROMISE_PLANNED || !mask)
            continue;
        coming.pods[gt_core_bits(mask)]++;
        free |= mask;
    }
    if (free == available && !any)
        return most;
    for (; pods < most; pods++) {
        coming.pods[gpus]++;
        if (!all_orders_do(&coming, free))
            break;
    }
    return pods;
}

bool gt_numa_judges(const struct gt_cluster *cluster, uint32_t node)
{
    return gt_core_has_node(cluster, node) && gt_class_numa(cluster->classes[cluster->class[node]])->count;
}

static void passed_remove(struct gt_cluster *cluster, uint32_t at)
{
    gt_node_set_done(&cluster->passed[at].nodes);
    cluster->passed_count--;
    memmove(&cluster->passed[at], &cluster->passed[at + 1],
            (cluster->passed_count - at) * sizeof(cluster->passed[0]));
}

void gt_numa_pass(struct gt_cluster *cluster, const struct gt_passed_pod *pod)
{
    if (cluster->passed_count == GT_PASSED_PODS_MAX)
        passed_remove(cluster, 0);
    cluster->passed[cluster->passed_count++] = *pod;
}

bool gt_numa_end_passed(struct gt_cluster *cluster, uint64_t owner, uint64_t now_ms)
{
    uint32_t before = cluster->passed_count;
    for (uint32_t i = before; i-- > 0;)
        if (cluster->passed[i].owner == owner || cluster->passed[i].until_ms <= now_ms)
            passed_remove(cluster, i);
    return cluster->passed_count < before;
}
