/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "scheduler-ext/feed/feed_internal.h"

/* Jobs: the pods of one key. A job is there while it has pods. */

static bool is(const void *item, const void *key)
{
    return strcmp(((const struct feed_job *)item)->pub.key, key) == 0;
}

static struct feed_job *find(const struct gt_feed *feed, const char *key)
{
    return gt_feed_table_find(&feed->jobs, gt_feed_hash(gt_feed_mix_text(feed->seed, key)), is, key);
}

struct gt_feed_job *gt_feed_find_job(const struct gt_feed *feed, const char *key)
{
    struct feed_job *job = find(feed, key);
    return job ? &job->pub : NULL;
}

struct gt_feed_job *gt_feed_next_job(const struct gt_feed *feed, const struct gt_feed_job *job)
{
    uint32_t hash = job ? ((const struct feed_job *)job)->hash : 0;
    return gt_feed_table_after(&feed->jobs, hash, job);
}

static struct feed_job *new_job(struct gt_feed *feed, const char *key)
{
    struct feed_job *job = gt_feed_alloc(&feed->bytes, sizeof(*job));
    if (!job)
        return NULL;
    job->hash = gt_feed_hash(gt_feed_mix_text(feed->seed, key));
    job->pub.key = gt_feed_text(feed, key);
    if (!job->pub.key || gt_feed_table_add(&feed->jobs, &feed->bytes, job->hash, job) < 0) {
        gt_feed_text_drop(feed, job->pub.key);
        gt_feed_release(&feed->bytes, job);
        return NULL;
    }
    job->pub.number = ++feed->next_job;
    return job;
}

int gt_feed_join_job(struct gt_feed *feed, struct feed_pod *pod, const char *key)
{
    struct feed_job *job = find(feed, key);
    if (!job)
        job = new_job(feed, key);
    if (!job)
        return -ENOMEM;
    pod->pub.job = &job->pub;
    pod->pub.next = job->pub.pods;
    pod->job_previous = NULL;
    if (job->pub.pods)
        ((struct feed_pod *)job->pub.pods)->job_previous = pod;
    job->pub.pods = &pod->pub;
    job->pub.pod_count++;
    return 0;
}

void gt_feed_leave_job(struct feed_pod *pod)
{
    struct gt_feed_job *job = pod->pub.job;
    if (pod->job_previous)
        pod->job_previous->pub.next = pod->pub.next;
    else
        job->pods = pod->pub.next;
    if (pod->pub.next)
        ((struct feed_pod *)pod->pub.next)->job_previous = pod->job_previous;
    pod->pub.next = NULL;
    pod->job_previous = NULL;
    job->pod_count--;
}

void gt_feed_drop_job(struct gt_feed *feed, struct gt_feed_job *pub)
{
    struct feed_job *job = (struct feed_job *)pub;
    if (pub->pod_count)
        return;
    gt_feed_table_remove(&feed->jobs, job->hash, job);
    gt_feed_text_drop(feed, pub->key);
    gt_feed_release(&feed->bytes, job);
}
