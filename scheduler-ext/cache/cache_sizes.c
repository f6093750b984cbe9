/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/core/chain.h"

/*
 * Adds the unit sizes of jobs to the cluster's chain. The weight of a job is the most GPUs that its pods have
 * had at one time. Its sizes are the last ones that one of its pods had, since the pod with the annotation
 * may end before the others. A job that is one unit has as large a one as its pods. All replicas see the same
 * pods; a new one learns from the pods that exist.
 */

typedef void change_chain(struct gt_cluster *cluster, uint32_t size, uint64_t gpus);

static void cache_sizes_report(struct gt_cache *cache, const struct cache_job *job, uint64_t gpus,
                               change_chain *change)
{
    change(cache->cluster, job->sizes.group, gpus);
    change(cache->cluster, job->sizes.atomic == job->sizes.group ? 0 : job->sizes.atomic, gpus);
}

struct gt_job_texts gt_cache_job_texts(const struct gt_cache_job *job)
{
    struct gt_job_texts texts = {.where = ""};
    const char *const *of = texts.of;
    for (const struct gt_cache_pod *pod = job->pods; pod && !(of[GT_KEY_GROUP] && of[GT_KEY_ATOMIC]);
         pod = pod->next)
        for (enum gt_pod_key k = GT_KEY_GROUP; k <= GT_KEY_ATOMIC; k++)
            texts.of[k] = texts.of[k] ? texts.of[k] : gt_pod_annotation(&pod->meta, k);
    return texts;
}

void gt_cache_see_sizes(struct gt_cache *cache, struct cache_pod *pod)
{
    struct cache_job *job = (struct cache_job *)pod->pub.job;
    const struct gt_job_texts texts = {.of = {gt_pod_annotation(&pod->pub.meta, GT_KEY_GROUP),
                                              gt_pod_annotation(&pod->pub.meta, GT_KEY_ATOMIC)},
                                       .where = ""};
    struct gt_job_sizes sizes = job->sizes;
    job->gpus += pod->pub.gpus - pod->sized;
    pod->sized = (uint16_t)pod->pub.gpus;
    if (texts.of[GT_KEY_GROUP])
        gt_job_sizes_read(&texts, 1, &sizes, NULL);
    if (sizes.whole)
        sizes.group = (uint32_t)(job->gpus > job->reported ? job->gpus : job->reported);
    if (sizes.group != job->sizes.group || sizes.atomic != job->sizes.atomic) {
        cache_sizes_report(cache, job, job->reported, sizes.whole ? gt_chain_drop : gt_chain_gone);
        job->reported = 0;
    }
    job->sizes = sizes;
    if (!sizes.group || job->gpus <= job->reported)
        return;
    cache_sizes_report(cache, job, job->gpus - job->reported, gt_chain_came);
    job->reported = job->gpus;
}

void gt_cache_forget_sizes(struct gt_cache *cache, const struct cache_job *job)
{
    cache_sizes_report(cache, job, job->reported, gt_chain_gone);
}
