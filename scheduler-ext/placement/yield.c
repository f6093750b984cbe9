/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "scheduler-ext/placement/internal.h"
#include "scheduler-ext/placement/pod_json.h"

/*
 * Jobs whose pods a scheduler evicts for others (preemption, Volcano's reclaim). Who evicts wants the GPUs,
 * and says so with this condition just before it deletes the pod. Keeping the place for the pod that comes
 * instead, or planning that pod at once, would take them back before the other one is bound, and it would
 * evict again, for ever. The job's key is remembered and not the job: all of its pods may go.
 */

static struct yielding *find(struct gt_placement *placement, uint64_t key)
{
    for (unsigned i = 0; i < GT_COUNT(placement->yielding); i++)
        if (placement->yielding[i].until_ms && placement->yielding[i].key == key)
            return &placement->yielding[i];
    return NULL;
}

static struct yielding *oldest(struct gt_placement *placement)
{
    struct yielding *found = &placement->yielding[0];
    for (unsigned i = 1; i < GT_COUNT(placement->yielding); i++)
        if (placement->yielding[i].until_ms < found->until_ms)
            found = &placement->yielding[i];
    return found;
}

static bool is_evicted(const cJSON *pod)
{
    const cJSON *condition;
    cJSON_ArrayForEach(condition, gt_pod_json_at(pod, "status.conditions"))
    {
        const char *type = gt_pod_json_text(condition, "type"),
                   *status = gt_pod_json_text(condition, "status"),
                   *reason = gt_pod_json_text(condition, "reason");
        if (type && status && reason && strcmp(type, "DisruptionTarget") == 0 &&
            strcmp(status, "True") == 0 && strcmp(reason, "PreemptionByScheduler") == 0)
            return true;
    }
    return false;
}

void gt_yield_see(struct gt_placement *placement, const struct gt_feed_pod *known, const cJSON *pod)
{
    if (!placement->started || !known || !known->job->user || !is_evicted(pod))
        return;
    uint64_t key = gt_index_digest(known->job->key);
    struct yielding *yielding = find(placement, key);
    if (!yielding)
        yielding = oldest(placement);
    *yielding = (struct yielding){key, gt_clock_ms() + placement->spec.options.yield_ms};
    gt_placement_mark(known->job->user);
}

void gt_yield_gone(struct gt_placement *placement, const struct gt_feed_pod *pod)
{
    struct yielding *yielding = find(placement, gt_index_digest(pod->job->key));
    /* A pod may take its time to end: its GPUs are free from now on. */
    if (yielding && pod->deleting)
        yielding->until_ms = gt_clock_ms() + placement->spec.options.yield_ms;
}

uint64_t gt_yield_until(struct gt_placement *placement, const struct gt_feed_job *job)
{
    const struct yielding *yielding = find(placement, gt_index_digest(job->key));
    return yielding ? yielding->until_ms : 0;
}
