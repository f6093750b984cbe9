/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/bits.h"
#include "base/err.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/core/relocate_search.h"

/* The planner's places for the moves that the search has found, and for the job. */

#define RELOCATE_OWNER UINT64_MAX

/* Where the search has found room for an item. */
static bool limit_places(const struct mover *mover, const struct move_item *item, const uint32_t *places,
                         struct gt_plan_limit *limits, struct gt_node_set *excluded,
                         struct gt_plan_request *request)
{
    for (uint32_t node = 0, next = 0; node <= mover->node_count; node++) {
        uint32_t pods = 0;
        for (uint32_t i = 0; i < item->pods; i++)
            pods += places[i] == node;
        if (pods)
            limits[next++] = (struct gt_plan_limit){node, pods * item->need};
        else if (node < mover->node_count && gt_node_set_add(excluded, node, NULL) < 0)
            return false;
        request->limit_count = next;
    }
    request->limits = limits;
    return true;
}

static bool promise_place(struct gt_cluster *cluster, uint32_t node, uint64_t mask)
{
    const struct gt_promise promise = {
        .place.node = node, .owner = RELOCATE_OWNER, .place.mask = mask, .kind = GT_PROMISE_RESERVED};
    struct gt_promise_id id;
    return gt_cluster_promise(cluster, &promise, &id, NULL) >= 0;
}

static bool exclude_places(const struct mover *mover, const struct move_item *item, struct gt_node_set *to)
{
    const struct gt_node_set *avoid = mover->spec->moves_avoid;
    int result = item->node == GT_NONE ? 0 : gt_node_set_add(to, item->node, NULL);
    for (uint32_t n = avoid ? gt_node_set_next(avoid, 0) : GT_NONE; n != GT_NONE && result >= 0;
         n = gt_node_set_next(avoid, n + 1))
        result = gt_node_set_add(to, n, NULL);
    return result >= 0;
}

static bool plan_item(struct mover *mover, const struct move_item *item, const uint32_t *places,
                      struct gt_relocate_move *moves)
{
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set excluded = {0};
    gt_auto_free struct gt_plan_pod *pods = calloc(item->pods, sizeof(*pods));
    gt_auto_free struct gt_plan_limit *limits = calloc(item->pods, sizeof(*limits));
    struct gt_plan_unit unit = {.pods = item->pods, .gpus = item->need};
    struct gt_plan_request request = {
        .units = &unit, .unit_count = 1, .pods = pods, .pod_count = item->pods, .excluded = &excluded};
    struct gt_plan_failure failure;
    if (!pods || !limits || (places && !limit_places(mover, item, places, limits, &excluded, &request)) ||
        (!places && !exclude_places(mover, item, &excluded)) ||
        !gt_plan_job(mover->cluster, &request, &failure))
        return false;
    for (uint32_t i = 0; i < item->pods; i++) {
        uint32_t member = mover->members[item->first + i];
        if (!relocate_may_go(mover, member, pods[i].place.node) ||
            !promise_place(mover->cluster, pods[i].place.node, pods[i].place.mask))
            return false;
        moves[i] = (struct gt_relocate_move){member, pods[i].place.node, pods[i].place.mask};
    }
    return true;
}

static bool plan_job(struct mover *mover)
{
    uint32_t pods_each = relocate_unit_runs(mover) * mover->job->pods,
             count = mover->job->runs * mover->job->pods;
    uint32_t unit_count = mover->job->runs / relocate_unit_runs(mover);
    gt_auto_free struct gt_plan_unit *units = calloc((size_t)unit_count + 1, sizeof(*units));
    gt_auto_free struct gt_plan_pod *pods = calloc((size_t)count + 1, sizeof(*pods));
    gt_auto_free uint64_t *freed = calloc((size_t)mover->node_count + 1, sizeof(*freed));
    struct gt_plan_failure failure;
    if (!units || !pods || !freed)
        return false;
    for (uint32_t i = 0; i < count; i++)
        pods[i].requests = mover->job->requests;
    for (uint32_t i = 0; i < unit_count; i++)
        units[i] = (struct gt_plan_unit){.first = i * pods_each,
                                         .pods = pods_each,
                                         .gpus = mover->job->gpus,
                                         .atom = mover->job->unit ? mover->job->pods : 0,
                                         .within = mover->job->unit ? mover->job->within : 0};
    for (uint32_t i = 0; i < mover->best_count; i++)
        for (uint32_t k = 0; k < mover->best[i]->pods; k++) {
            const struct gt_running_pod *pod = &mover->pods[mover->members[mover->best[i]->first + k]];
            freed[pod->place.node] |= pod->place.mask;
        }
    const struct gt_plan_request request = {.units = units,
                                            .unit_count = unit_count,
                                            .pods = pods,
                                            .pod_count = count,
                                            .freed = freed,
                                            .excluded = mover->spec->job_avoids};
    return gt_plan_job(mover->cluster, &request, &failure);
}

static bool plan_all(struct mover *mover, bool limited, struct gt_relocate_move *moves)
{
    bool planned = true;
    for (uint32_t i = 0, done = 0; i < mover->best_count && planned; done += mover->best[i++]->pods)
        planned = plan_item(mover, mover->best[i], limited ? mover->best_places + done : NULL, moves + done);
    planned = planned && plan_job(mover);
    gt_cluster_end_promises(mover->cluster, GT_PROMISE_RESERVED, RELOCATE_OWNER);
    return planned;
}

static int by_pod(const void *a, const void *b)
{
    const struct gt_relocate_move *x = a, *y = b;
    return (x->pod > y->pod) - (x->pod < y->pod);
}

int gt_relocate_plan(struct mover *mover, struct gt_relocation *ret)
{
    gt_auto_free struct gt_relocate_move *moves = calloc((size_t)mover->best_pods + 1, sizeof(*moves));
    if (!moves)
        return gt_fail_sys(mover->err, ENOMEM, "relocation");
    ret->possible = plan_all(mover, false, moves) || plan_all(mover, true, moves);
    if (!ret->possible) /* the search knows the order in which kubelets serve pods, the planner takes any */
        return mover->judged ? 0 : gt_fail_sys(mover->err, ENOMEM, "relocation");
    qsort(moves, mover->best_pods, sizeof(*moves), by_pod);
    for (uint32_t i = 0; i < mover->best_pods; i++)
        ret->gpus += gt_bit_count(moves[i].mask);
    ret->moves = gt_steal(moves);
    ret->count = mover->best_pods;
    ret->jobs = mover->best_jobs;
    ret->cost = mover->best_cost;
    return 0;
}

bool gt_relocate_promise(struct gt_cluster *cluster, const struct gt_relocation *relocation, bool undo)
{
    bool promised = !undo;
    for (uint32_t i = 0; i < relocation->count && promised; i++)
        promised = promise_place(cluster, relocation->moves[i].node, relocation->moves[i].mask);
    if (!promised)
        gt_cluster_end_promises(cluster, GT_PROMISE_RESERVED, RELOCATE_OWNER);
    return promised;
}
