/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_BUCKETS_H
#define GPUTOPO_KUBE_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How often something may happen, by a digest of what it is: `burst` times at once, and once more after each
 * `refill_ms`. Where there are more kinds than places, those are forgotten that were used the least.
 */
struct gt_buckets {
    struct gt_bucket {
        uint64_t digest, full_ms; /* when it may happen `burst` times again; before now: a free place */
    } * places;
    unsigned count;
};

struct gt_bucket_rate {
    unsigned burst;
    uint64_t refill_ms;
};

bool gt_bucket_has(const struct gt_buckets *buckets, uint64_t digest, struct gt_bucket_rate rate,
                   uint64_t now_ms);
void gt_bucket_take(struct gt_buckets *buckets, uint64_t digest, struct gt_bucket_rate rate, uint64_t now_ms);

#endif
