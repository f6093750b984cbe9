/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Limits how often something may happen; a digest identifies it. It may happen `burst` times at once, and
 * once more after each `refill_ms`. If there are more digests than places, the least used ones are dropped.
 */
struct gt_buckets {
    struct gt_bucket {
        /* when it may happen `burst` times again; if in the past, the place is free */
        uint64_t digest, full_ms;
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
