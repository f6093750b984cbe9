/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "scheduler-ext/placement/internal.h"

/*
 * Jobs whose pods a scheduler evicts for others (preemption, Volcano's reclaim). Who evicts wants the GPUs,
 * and says so with this condition just before it deletes the pod. Keeping the place for the pod that comes
 * instead, or planning that pod at once, would take them back before the other one is bound, and it would
 * evict again, for ever. The job's key is remembered and not the job: all of its pods may go.
 */

static struct eviction_backoff *find(struct gt_placement *placement, uint64_t key)
{
    for (unsigned i = 0; i < GT_COUNT(placement->eviction_backoffs); i++)
        if (placement->eviction_backoffs[i].until_ms && placement->eviction_backoffs[i].key == key)
            return &placement->eviction_backoffs[i];
    return NULL;
}

static struct eviction_backoff *oldest(struct gt_placement *placement)
{
    struct eviction_backoff *found = &placement->eviction_backoffs[0];
    for (unsigned i = 1; i < GT_COUNT(placement->eviction_backoffs); i++)
        if (placement->eviction_backoffs[i].until_ms < found->until_ms)
            found = &placement->eviction_backoffs[i];
    return found;
}

void gt_eviction_backoff_see(struct gt_placement *placement, const struct gt_cache_pod *known,
                             const struct gt_pod *pod)
{
    if (!placement->started || !known || !known->job->user ||
        !gt_pod_condition_is(pod->disrupted, "True", "PreemptionByScheduler"))
        return;
    uint64_t key = gt_digest_keyed(known->job->key);
    struct eviction_backoff *eviction_backoffs = find(placement, key);
    if (!eviction_backoffs)
        eviction_backoffs = oldest(placement);
    *eviction_backoffs = (struct eviction_backoff){key, gt_clock_ms() + placement->times.eviction_ms};
    gt_placement_mark(known->job->user);
}

void gt_eviction_backoff_gone(struct gt_placement *placement, const struct gt_cache_pod *pod)
{
    struct eviction_backoff *eviction_backoffs = find(placement, gt_digest_keyed(pod->job->key));
    /* A pod may take its time to end: its GPUs are free from now on. */
    if (eviction_backoffs && pod->deleting)
        eviction_backoffs->until_ms = gt_clock_ms() + placement->times.eviction_ms;
}

uint64_t gt_eviction_backoff_until(struct gt_placement *placement, const struct gt_cache_job *job)
{
    const struct eviction_backoff *eviction_backoffs = find(placement, gt_digest_keyed(job->key));
    return eviction_backoffs ? eviction_backoffs->until_ms : 0;
}
