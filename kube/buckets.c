/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/buckets.h"

#include <stddef.h>

#include "base/assert.h"

static struct gt_bucket *buckets_find(const struct gt_buckets *buckets, uint64_t digest)
{
    for (unsigned i = 0; i < buckets->count; i++)
        if (buckets->places[i].digest == digest)
            return &buckets->places[i];
    return NULL;
}

static struct gt_bucket *fullest(const struct gt_buckets *buckets)
{
    struct gt_bucket *found = &buckets->places[0];
    for (unsigned i = 1; i < buckets->count; i++)
        if (buckets->places[i].full_ms < found->full_ms)
            found = &buckets->places[i];
    return found;
}

bool gt_bucket_has(const struct gt_buckets *buckets, uint64_t digest, struct gt_bucket_rate rate,
                   uint64_t now_ms)
{
    GT_ASSERT(buckets->count && rate.burst);
    const struct gt_bucket *bucket = buckets_find(buckets, digest);
    return !bucket || bucket->full_ms <= now_ms + (rate.burst - 1) * rate.refill_ms;
}

void gt_bucket_take(struct gt_buckets *buckets, uint64_t digest, struct gt_bucket_rate rate, uint64_t now_ms)
{
    struct gt_bucket *bucket = buckets_find(buckets, digest);
    if (!bucket) {
        bucket = fullest(buckets);
        *bucket = (struct gt_bucket){.digest = digest};
    }
    bucket->full_ms = (bucket->full_ms > now_ms ? bucket->full_ms : now_ms) + rate.refill_ms;
}
