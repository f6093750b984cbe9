/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

/* The last step of a plan: every pod has a node; on each node the GPUs of all its pods are chosen
 * together. */

static bool plan_gpus_is_known(const struct job *job, const struct gt_plan_pod *pod)
{
    return (pod->running || pod->gpus) && gt_core_has_node(job->cluster, pod->place.node);
}

/* Links the pods of each node that have no GPUs yet, in rank order; first[node] is the first of them. */
static void link_pods(struct job *job, uint32_t *first)
{
    for (uint32_t u = 0; u < job->unit_count; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        uint32_t size = gt_unit_run(unit);
        for (uint32_t i = unit->first, run = i; i < unit->first + unit->pods; i++) {
            struct gt_plan_pod *pod = &job->pods[i];
            run = i - run == size ? i : run;
            pod->run = run;
            if (plan_gpus_is_known(job, pod))
                first[pod->place.node] = GT_NONE;
        }
    }
    for (uint32_t i = job->pod_count; i-- > 0;) {
        struct gt_plan_pod *pod = &job->pods[i];
        if (!plan_gpus_is_known(job, pod))
            continue;
        pod->next = first[pod->place.node];
        first[pod->place.node] = i;
    }
}

/* The pods of a node from `first` on: those of one run are a batch. ret_first[i] is the first pod of
 * batch i. */
static void find_batches(const struct job *job, uint32_t first, struct pod_gpus_query *query,
                         uint32_t *ret_first)
{
    uint32_t run = GT_NONE;
    for (uint32_t i = first; i != GT_NONE; i = job->pods[i].next) {
        const struct gt_plan_pod *pod = &job->pods[i];
        if (pod->running) {
            query->own |= pod->place.mask;
            continue;
        }
        if (pod->run != run) {
            ret_first[query->batches] = i;
            query->batch[query->batches++] = (struct pod_batch){.gpus = pod->gpus};
        }
        run = pod->run;
        query->batch[query->batches - 1].pods++;
    }
}

/* Larger pods first, then more of them; equal batches stay in rank order. */
static void sort_batches(struct pod_gpus_query *query, uint32_t *first)
{
    struct pod_batch *batch = query->batch;
    for (unsigned i = 1; i < query->batches; i++)
        for (unsigned at = i; at > 0; at--) {
            struct pod_batch a = batch[at - 1], b = batch[at];
            uint32_t of_a = first[at - 1];
            if (a.gpus > b.gpus || (a.gpus == b.gpus && a.pods >= b.pods))
                break;
            batch[at - 1] = b;
            batch[at] = a;
            first[at - 1] = first[at];
            first[at] = of_a;
        }
}

static unsigned plan_gpus_count(const struct pod_gpus_query *query)
{
    unsigned count = 0;
    for (unsigned i = 0; i < query->batches; i++)
        count += (unsigned)query->batch[i].pods * query->batch[i].gpus;
    return count;
}

/* The best of the free GPUs: no slow one where others suffice, else all others and as few slow ones, those
 * with the highest S beside the others. All of them where none is slow. A kubelet that judges NUMA nodes
 * chooses these itself, of all that are free; that is followed for a single pod only. */
static uint64_t least_slow(const struct gt_cluster *cluster, uint32_t node,
                           const struct pod_gpus_query *query)
{
    const struct gt_class *class = cluster->classes[query->class];
    unsigned count = plan_gpus_count(query);
    uint64_t free = query->free, slow = gt_core_slow(cluster, node) & free;
    struct gt_choice choice;
    if (slow && gt_class_numa(class)->count &&
        (query->batches > 1 || query->batch[0].pods > 1 ||
         gt_numa_by_request(gt_class_numa(class), query->requests[0]) ||
         !gt_numa_admits(gt_class_numa(class), free, 0, count, &free)))
        return free;
    slow &= free;
    uint64_t good = free & ~slow;
    if (!slow || gt_core_bits(good) >= count)
        return slow ? good : free;
    return gt_choose(class, free, good, count, 0, &choice) ? choice.mask : free;
}

static void give_gpus(struct job *job, uint32_t node, uint32_t first_pod)
{
    struct gt_cluster *cluster = job->cluster;
    struct pod_gpus_query query = {.class = cluster->class[node], .free = gt_draft_available(job, node)};
    uint32_t first[BATCHES_MAX], pods[GT_GPUS_MAX];
    uint64_t masks[GT_GPUS_MAX];
    unsigned count = 0;
    find_batches(job, first_pod, &query, first);
    query.own &= gt_core_all(cluster, node) & ~query.free;
    sort_batches(&query, first);
    for (unsigned q = 0; q < query.batches; q++)
        for (uint32_t i = first[q], end = count + query.batch[q].pods; count < end; i = job->pods[i].next)
            if (!job->pods[i].running) {
                query.requests[count] = job->pods[i].requests;
                pods[count++] = i;
            }
    if (job->slow == GT_SLOW_AVOID)
        query.free = least_slow(cluster, node, &query);
    gt_choose_pod_gpus(cluster, &query, masks);
    for (unsigned i = 0; i < count; i++)
        job->pods[pods[i]].place.mask = masks[i];
}

void gt_give_gpus(struct job *job)
{
    uint32_t *first = job->cluster->same;
    link_pods(job, first);
    for (uint32_t i = 0; i < job->pod_count; i++) {
        const struct gt_plan_pod *pod = &job->pods[i];
        uint32_t node = pod->place.node;
        if (pod->running || !pod->gpus || first[node] == GT_NONE)
            continue;
        give_gpus(job, node, first[node]);
        first[node] = GT_NONE;
    }
}
