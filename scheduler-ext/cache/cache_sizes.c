/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/jobs/rules.h"

/*
 * Adds the unit sizes of jobs to the cluster's chain. The weight of a job is the most GPUs that its pods have
 * had at one time. Its sizes are the last ones that one of its pods had, since the pod with the annotation
 * may end before the others. All replicas see the same pods; a new one learns from the pods that exist.
 */

static void report(struct gt_cache *cache, const struct cache_job *job, uint64_t gpus)
{
    gt_chain_came(cache->cluster, job->group, gpus);
    gt_chain_came(cache->cluster, job->atomic, gpus);
}

static void take_back(struct gt_cache *cache, const struct cache_job *job)
{
    gt_chain_gone(cache->cluster, job->group, job->reported);
    gt_chain_gone(cache->cluster, job->atomic, job->reported);
}

void gt_cache_see_sizes(struct gt_cache *cache, struct cache_pod *pod)
{
    struct cache_job *job = (struct cache_job *)pod->pub.job;
    const struct gt_job_texts texts = {.where = "",
                                       .group = gt_pod_annotation(&pod->pub.meta, GT_KEY_GROUP),
                                       .atomic = gt_pod_annotation(&pod->pub.meta, GT_KEY_ATOMIC)};
    struct gt_job_sizes sizes = {0};
    job->gpus += pod->pub.gpus - pod->sized;
    pod->sized = (uint16_t)pod->pub.gpus;
    bool says = texts.group && gt_job_sizes_read(&texts, 1, &sizes, NULL) >= 0;
    if (says && sizes.atomic == sizes.group)
        sizes.atomic = 0;
    if (says && (sizes.group != job->group || sizes.atomic != job->atomic)) {
        take_back(cache, job);
        job->group = sizes.group;
        job->atomic = sizes.atomic;
        job->reported = 0;
    }
    if (!job->group || job->gpus <= job->reported)
        return;
    report(cache, job, job->gpus - job->reported);
    job->reported = job->gpus;
}

void gt_cache_forget_sizes(struct gt_cache *cache, const struct cache_job *job)
{
    take_back(cache, job);
}
