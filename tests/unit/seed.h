/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_SEED_H
#define TESTS_UNIT_SEED_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The seed of a test run: GPUTOPO_SEED if that is set, else always the same, so that a result depends on the
 * tree alone. `./dev test seeds` runs the tests with others. It is printed.
 */
static inline uint64_t test_seed(void)
{
    const char *given = getenv("GPUTOPO_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1;

    fprintf(stderr, "GPUTOPO_SEED=%" PRIu64 "\n", seed);
    return seed;
}

#endif
