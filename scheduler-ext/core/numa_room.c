/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/numa_room.h"

#include <string.h>

#include "scheduler-ext/core/internal.h"

enum {
    ORDERS_WORK = 2000, /* requests */
    CHOICE_US = 300,
    COMING_MAX = GT_GPUS_MAX + GT_PASSED_PODS_MAX + 1,
};

/* ---- one pod ---- */

static bool is_on_one(const struct gt_numa *numa, uint64_t gpus)
{
    uint64_t from;
    return gt_numa_admits(numa, gpus, gpus, 1, &from);
}

/* Of GPUs that init containers left, a request gets any; where they lie on several NUMA nodes, nobody knows
 * which ones stay for the `later` requests. */
static uint64_t serve_left(const struct gt_class *class, uint64_t free, uint64_t left, unsigned gpus,
                           bool later)
{
    const struct gt_numa *numa = gt_class_numa(class);
    struct gt_choice choice = {.mask = gt_core_lowest(left, gpus)};
    uint64_t from;
    if (!gt_numa_admits(numa, free | left, left, gpus, &from) || (later && !is_on_one(numa, left)))
        return 0;
    gt_choose(class, left, 0, gpus, CHOICE_US, &choice);
    return choice.mask;
}

static uint64_t serve_one(const struct gt_class *class, uint64_t free, uint64_t left, unsigned gpus,
                          bool later)
{
    struct gt_choice choice;
    if (gt_core_bits(left) > gpus)
        return serve_left(class, free, left, gpus, later);
    return gt_choose(class, free | left, left, gpus, CHOICE_US, &choice) ? choice.mask : 0;
}

uint64_t gt_numa_serve(const struct gt_class *class, uint64_t free, struct gt_numa_pod pod,
                       uint64_t *ret_masks)
{
    uint64_t left = 0, all = 0;
    if (!gt_numa_by_request(gt_class_numa(class), pod.requests) || pod.requests == GT_NUMA_TOO_MANY)
        return serve_one(class, free, 0, pod.gpus, false);
    for (uint64_t requests = pod.requests; requests; requests >>= 8) {
        bool init = requests & GT_NUMA_INIT, later = requests >> 8 && !init;
        uint64_t mask = serve_one(class, free, left, requests & ~GT_NUMA_INIT & 0xff, later);
        if (!mask)
            return 0;
        free &= ~mask;
        left = init ? left | mask : left & ~mask;
        all |= mask;
        if (ret_masks)
            *ret_masks++ = mask;
    }
    return all;
}

unsigned gt_numa_serves(const struct gt_class *class, uint64_t free, struct gt_numa_pod pod)
{
    unsigned pods = 0;
    if (!gt_numa_by_request(gt_class_numa(class), pod.requests))
        return gt_class_pods(class, free, pod.gpus);
    if (pod.requests == GT_NUMA_TOO_MANY)
        return gt_core_bits(free) / pod.gpus;
    for (uint64_t mask; (mask = gt_numa_serve(class, free, pod, NULL)); free &= ~mask)
        pods++;
    return pods;
}

/* ---- pods in any order ---- */

struct coming {
    const struct gt_class *class;
    unsigned work, count;
    struct {
        struct gt_numa_pod pod;
        unsigned pods;
    } kinds[COMING_MAX];
};

static void coming_add(struct coming *coming, unsigned gpus, uint64_t requests)
{
    unsigned i = 0;
    if (!gt_numa_by_request(gt_class_numa(coming->class), requests))
        requests = 0;
    while (i < coming->count &&
           (coming->kinds[i].pod.gpus != gpus || coming->kinds[i].pod.requests != requests))
        i++;
    if (i == coming->count) {
        coming->kinds[coming->count].pod = (struct gt_numa_pod){gpus, requests};
        coming->kinds[coming->count++].pods = 0;
    }
    coming->kinds[i].pods++;
}

static unsigned requests_in(struct gt_numa_pod pod)
{
    unsigned count = 1;
    while (pod.requests >>= 8)
        count++;
    return count;
}

/* Whether pods get their GPUs in whichever order they come; false where there are too many orders to try. */
static bool all_orders_do(struct coming *coming, uint64_t free)
{
    for (unsigned i = 0; i < coming->count; i++) {
        if (!coming->kinds[i].pods)
            continue;
        const struct gt_numa_pod pod = coming->kinds[i].pod;
        unsigned work = requests_in(pod);
        uint64_t mask = coming->work >= work ? gt_numa_serve(coming->class, free, pod, NULL) : 0;
        if (!mask)
            return false;
        coming->work -= work;
        coming->kinds[i].pods--;
        bool do_all = all_orders_do(coming, free & ~mask);
        coming->kinds[i].pods++;
        if (!do_all)
            return false;
    }
    return true;
}

unsigned gt_numa_pods(const struct gt_cluster *cluster, uint32_t node, uint64_t available,
                      struct gt_numa_pod pod)
{
    struct coming coming;
    uint64_t free = available;
    coming.class = cluster->classes[cluster->class[node]];
    coming.work = ORDERS_WORK;
    coming.count = 0;
    unsigned most = gt_numa_serves(coming.class, available, pod), pods = 0;
    const struct gt_numa *numa = gt_class_numa(coming.class);
    if (!numa->count || !most || (!numa->by_pod && pod.requests == GT_NUMA_TOO_MANY))
        return most;
    for (uint32_t i = 0; i < cluster->passed_count; i++)
        if (gt_node_set_has(&cluster->passed[i].nodes, node))
            coming_add(&coming, cluster->passed[i].pod.gpus, cluster->passed[i].pod.requests);
    for (uint32_t id = cluster->first_promise[node]; id != GT_NONE; id = cluster->promises[id].next) {
        const struct gt_promise *told = &cluster->promises[id].told;
        uint64_t mask = told->place.mask & cluster->free[node] & cluster->healthy[node];
        bool of_a_pod = told->kind == GT_PROMISE_PLANNED || told->kind == GT_PROMISE_RESERVED ||
                        told->kind == GT_PROMISE_ADMITTED;
        if (!of_a_pod || !mask)
            continue;
        coming_add(&coming, gt_core_bits(mask), mask == told->place.mask ? told->requests : 0);
        free |= mask;
    }
    if (!coming.count)
        return most;
    for (; pods < most; pods++) {
        coming_add(&coming, pod.gpus, pod.requests);
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
