/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"

/* Jobs: the pods with one key. A job exists while it has pods. */

static bool cache_jobs_is(const void *item, const void *key)
{
    return strcmp(((const struct cache_job *)item)->pub.key, key) == 0;
}

static struct cache_job *cache_jobs_find(const struct gt_cache *cache, const char *key)
{
    return gt_table_find(&cache->jobs, gt_digest_hash(gt_digest_mix_text(cache->seed, key)), cache_jobs_is,
                         key);
}

struct gt_cache_job *gt_cache_find_job(const struct gt_cache *cache, const char *key)
{
    struct cache_job *job = cache_jobs_find(cache, key);
    return job ? &job->pub : NULL;
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

static struct cache_job *new_job(struct gt_cache *cache, const char *key)
{
    struct cache_job *job = gt_cache_alloc(&cache->bytes, sizeof(*job));
    if (!job)
        return NULL;
    job->hash = gt_digest_hash(gt_digest_mix_text(cache->seed, key));
    job->pub.key = gt_cache_string(cache, key);
    if (!job->pub.key || gt_table_add(&cache->jobs, job->hash, job) < 0) {
        gt_cache_string_drop(cache, job->pub.key);
        gt_cache_release(&cache->bytes, job);
        return NULL;
    }
    job->pub.number = ++cache->next_job;
    return job;
}

int gt_cache_join_job(struct gt_cache *cache, struct cache_pod *pod, const char *key)
{
    struct cache_job *job = cache_jobs_find(cache, key);
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

void gt_cache_leave_job(struct cache_pod *pod)
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
    gt_cache_forget_sizes(cache, job);
    gt_table_remove(&cache->jobs, job->hash, job);
    gt_cache_string_drop(cache, pub->key);
    gt_cache_release(&cache->bytes, job);
}
