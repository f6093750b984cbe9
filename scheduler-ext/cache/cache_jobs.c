/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/jobs/rules.h"

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

/* Jobs: the pods with one key. A job exists while it has pods. */

struct gt_cache_job *gt_cache_find_job(const struct gt_cache *cache, const char *key)
{
    return gt_cache_find_record(cache, &cache->jobs, key); /* whose first member it is */
}

struct gt_cache_job *gt_cache_next_job(const struct gt_cache *cache, const struct gt_cache_job *job)
{
    uint32_t hash = job ? ((const struct cache_job *)job)->hash : 0;
    return gt_table_after(&cache->jobs, hash, job);
}

uint32_t gt_cache_job_gpus(const struct gt_cache_job *job)
{
    uint32_t gpus = 0;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
        gpus += pod->gpus;
    return gpus;
}

uint64_t gt_cache_new_job_number(struct gt_cache *cache)
{
    return ++cache->next_job;
}

static struct cache_job *new_job(struct gt_cache *cache, const char *key)
{
    uint32_t hash;
    struct cache_job *job = gt_cache_add_record(cache, &cache->jobs, key, sizeof(*job), &hash);
    if (!job)
        return NULL;
    job->hash = hash;
    job->pub.number = gt_cache_new_job_number(cache);
    return job;
}

int gt_cache_join_job(struct gt_cache *cache, struct cache_pod *pod, const char *key)
{
    struct cache_job *job = gt_cache_find_record(cache, &cache->jobs, key);
    if (!job)
        job = new_job(cache, key);
    if (!job)
        return -ENOMEM;
    pod->pub.job = &job->pub;
    pod->pub.next = job->pub.pods;
    pod->job_previous = NULL;
    if (job->pub.pods)
        ((struct cache_pod *)job->pub.pods)->job_previous = pod;
    job->pub.pods = &pod->pub;
    job->pub.pod_count++;
    return 0;
}

void gt_cache_remove_from_job(struct cache_pod *pod)
{
    struct gt_cache_job *job = pod->pub.job;
    ((struct cache_job *)job)->gpus -= pod->sized;
    if (pod->job_previous)
        pod->job_previous->pub.next = pod->pub.next;
    else
        job->pods = pod->pub.next;
    if (pod->pub.next)
        ((struct cache_pod *)pod->pub.next)->job_previous = pod->job_previous;
    pod->pub.next = NULL;
    pod->job_previous = NULL;
    job->pod_count--;
}

void gt_cache_drop_job(struct gt_cache *cache, struct gt_cache_job *pub)
{
    struct cache_job *job = (struct cache_job *)pub;
    if (pub->pod_count)
        return;
    cache_sizes_report(cache, job, job->reported, gt_chain_gone);
    gt_cache_remove_record(cache, &cache->jobs, job->hash, job);
}

/* Namespaces: how many GPUs their pods have. A namespace exists here while it has pods. */

int gt_cache_join_namespace(struct gt_cache *cache, struct cache_pod *pod, const char *name)
{
    uint32_t hash;
    struct cache_namespace *space = gt_cache_find_record(cache, &cache->namespaces, name);
    if (!space && (space = gt_cache_add_record(cache, &cache->namespaces, name, sizeof(*space), &hash)))
        space->hash = hash;
    if (!space)
        return -ENOMEM;
    space->pub.pod_count++;
    pod->pub.namespace_ = &space->pub;
    return 0;
}

void gt_cache_remove_from_namespace(struct gt_cache *cache, struct cache_pod *pod)
{
    struct cache_namespace *space = (struct cache_namespace *)pod->pub.namespace_;
    space->pub.gpus -= pod->counted;
    space->pub.bound -= pod->bound;
    space->pub.asked -= pod->asked;
    if (--space->pub.pod_count)
        return;
    gt_cache_remove_record(cache, &cache->namespaces, space->hash, space);
}

void gt_cache_count_gpus(struct cache_pod *pod)
{
    const struct gt_cache_pod *pub = &pod->pub;
    bool is_bound = pub->state == GT_CACHE_BOUND || pub->state == GT_CACHE_RUNNING;
    bool has = is_bound || pub->plan == GT_CACHE_PLAN_ASSUMED;
    uint16_t gpus = (uint16_t)(has ? pub->gpus : 0), bound = (uint16_t)(is_bound ? pub->gpus : 0),
             asked = (uint16_t)(pub->deleting ? 0 : pub->gpus);
    pub->namespace_->gpus += gpus;
    pub->namespace_->gpus -= pod->counted;
    pub->namespace_->bound += bound;
    pub->namespace_->bound -= pod->bound;
    pub->namespace_->asked += asked;
    pub->namespace_->asked -= pod->asked;
    pod->counted = gpus;
    pod->bound = bound;
    pod->asked = asked;
}
