/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_MODEL_LOSS_ORACLE_H
#define TESTS_UNIT_MODEL_LOSS_ORACLE_H

#include "topology/model/loss.h"

/*
 * The choice by its definition: all subsets, with sums and cut computed pair by pair. It uses only the
 * weights of the product. It is simple and slow.
 */
struct oracle {
    bool found;
    uint64_t mask;
    unsigned long score, cut;
};

/* The best of each size k = 1..n at [k], and the second best. */
void oracle_all(const struct gt_weights *weights, uint64_t free, struct oracle ret_best[static 17],
                struct oracle ret_second[static 17]);

/* The best `k` of `free` with all of `must`, and the second best, by trying all combinations. */
void oracle_choose(const struct gt_weights *weights, uint64_t free, uint64_t must, unsigned k,
                   struct oracle *ret_best, struct oracle *ret_second);

#endif
