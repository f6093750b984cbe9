/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "cli/plan.h"

/* `plan --relocate`: which pods of the file to move, and where to, so that the job fits. */

static int plan_relocate_by_job(const void *a, const void *b, void *pods)
{
    const struct gt_cluster_pod *all = pods;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(all[x].job, all[y].job);
    return order ? order : (x > y) - (x < y);
}

/* A number for each named job; a pod without a name of a job is a job by itself. */
static int number_jobs(const struct gt_cluster_file *file, struct gt_relocate_pod *pods, struct gt_err **err)
{
    gt_auto_free uint32_t *order = calloc((size_t)file->pod_count + 1, sizeof(*order));
    if (!order)
        return gt_fail_sys(err, ENOMEM, "plan");
    for (uint32_t i = 0; i < file->pod_count; i++)
        order[i] = i;
    qsort_r(order, file->pod_count, sizeof(*order), plan_relocate_by_job, file->pods);
    for (uint32_t i = 0, job = 0; i < file->pod_count; i++) {
        const struct gt_cluster_pod *pod = &file->pods[order[i]];
        job += i && strcmp(pod->job, file->pods[order[i - 1]].job) != 0;
        pods[order[i]].job = pod->job[0] ? job : GT_NONE;
    }
    return 0;
}

static int plan_relocate_find(struct cli_plan *plan, const struct gt_advise_job *job, struct gt_err **err)
{
    const struct gt_cluster_file *file = plan->file;
    gt_auto_free struct gt_relocate_pod *pods = calloc((size_t)file->pod_count + 1, sizeof(*pods));
    if (!pods)
        return gt_fail_sys(err, ENOMEM, "plan");
    for (uint32_t i = 0; i < file->pod_count; i++) {
        const struct gt_cluster_pod *pod = &file->pods[i];
        pods[i] = (struct gt_relocate_pod){.node = pod->node,
                                           .mask = pod->mask,
                                           .movable = pod->movable,
                                           .tied = pod->together > gt_bit_count(pod->mask)};
    }
    int r = number_jobs(file, pods, err);
    return r < 0 ? r : gt_relocate(plan->cluster, pods, file->pod_count, job, 0, &plan->relocation, err);
}

/* All pods stop, then each starts on its new node, on the GPUs that the agent there would choose. */
static void plan_relocate_move(struct cli_plan *plan)
{
    struct gt_cluster_node node;
    for (uint32_t i = 0; i < plan->relocation.count; i++) {
        const struct gt_cluster_pod *pod = &plan->file->pods[plan->relocation.moves[i].pod];
        if (gt_cluster_get_node(plan->cluster, pod->node, &node))
            gt_cluster_set_free(plan->cluster, pod->node, node.free | pod->mask);
    }
    for (uint32_t i = 0; i < plan->relocation.count; i++) {
        uint32_t to = plan->relocation.moves[i].node;
        unsigned gpus = gt_bit_count(plan->file->pods[plan->relocation.moves[i].pod].mask);
        struct gt_choice choice;
        if (!gt_cluster_get_node(plan->cluster, to, &node) ||
            !gt_choose(node.class, node.available, 0, gpus, 0, &choice))
            continue;
        plan->moved_to[i] = choice.mask;
        gt_cluster_set_free(plan->cluster, to, node.free & ~choice.mask);
    }
}

int cli_plan_relocate(struct cli_plan *plan, const struct gt_advise_job *job, struct gt_err **err)
{
    int r = plan_relocate_find(plan, job, err);
    if (r < 0 || !plan->relocation.possible)
        return r;
    plan->moved_to = calloc((size_t)plan->relocation.count + 1, sizeof(*plan->moved_to));
    if (!plan->moved_to)
        return gt_fail_sys(err, ENOMEM, "plan");
    plan_relocate_move(plan);
    return 0;
}
