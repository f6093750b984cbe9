/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_LOSS_H
#define GPUTOPO_MODEL_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "topology/model/node.h"

/*
 * Which GPUs to give. With pair weights w(i,j) and S(A) = the sum of w over the pairs in A, a request of k
 * GPUs from the free set F gets the A of F with |A| = k that has, in this order,
 *   1. the highest S(A)                        - score(F,k)
 *   2. the least cut S(F) - S(A) - S(F \ A)    - loss(F,k): the interconnect that the remaining GPUs lose
 *   3. the lowest mask.
 * Source: DESIGN "Loss"; the cut is the only published form of the vendor's loss (HAMi's sGPU score).
 *
 * Nodes of one product share a class: equal weights, equal table. Up to 16 GPUs the whole answer over
 * (F, k) is computed once (3^n steps) and looked up afterwards. Above, a search with a time limit.
 */

enum { GT_TABLE_GPUS_MAX = 16 };

struct gt_weights {
    unsigned n;                           /* GPUs, at most 64 */
    uint16_t w[GT_GPUS_MAX][GT_GPUS_MAX]; /* symmetric, 0 on the diagonal */
};

struct gt_choice {
    uint64_t mask;  /* the chosen GPUs */
    uint32_t score; /* S(mask) */
    uint32_t loss;  /* S(F) - S(mask) - S(F \ mask) */
    bool exact;     /* false: the time limit ended the search, this is the best found */
};

/* A hardware class: weights, and up to 16 GPUs the table. Immutable, shared by reference count between
 * threads. */
struct gt_class;

/* The weights of a node. */
void gt_weights_of(const struct gt_node *node, struct gt_weights *ret);

/* Builds the class: about 10 us for 8 GPUs, about 40 ms for 16. -EINVAL for weights that are not symmetric,
 * with a diagonal, or more than 64 GPUs. */
int gt_class_new(const struct gt_weights *weights, struct gt_class **ret, struct gt_err **err);

struct gt_class *gt_class_ref(const struct gt_class *class);
void gt_class_unref(struct gt_class *class);
GT_DEFINE_CLEANUP(struct gt_class *, gt_class_unref)
#define gt_auto_class GT_CLEANUP(gt_class_unref)

unsigned gt_class_gpus(const struct gt_class *class);
size_t gt_class_bytes(const struct gt_class *class);

/* S(mask): table look-up up to 16 GPUs. Bits beyond n are ignored. */
uint32_t gt_class_sum(const struct gt_class *class, uint64_t mask);

/* score(n GPUs, k) on the empty node: the best S any k GPUs of it can have; 0 for k of 0 or above n. Kept by
 * the class: above 16 GPUs the first question for a k searches, for 20 ms at most. */
uint32_t gt_class_best_score(const struct gt_class *class, unsigned k);

/*
 * The choice for k of `free` that contains all of `must`. False, *ret untouched, where there is none: k is 0
 * or above the number of free GPUs, or must is not within free or larger than k. Empty `must` up to 16 GPUs
 * is a look-up. `limit_us` bounds the search above 16 GPUs (0: 20,000).
 */
bool gt_choose(const struct gt_class *class, uint64_t free, uint64_t must, unsigned k, unsigned limit_us,
               struct gt_choice *ret);

/* The choice and the one that comes second in the same order; *ret_has_second is false where there is only
 * one set, and *ret_second then untouched. False, nothing written, as with gt_choose. `limit_us` bounds each
 * of the two searches. Not for the hot path. */
bool gt_choose_two(const struct gt_class *class, uint64_t free, unsigned k, unsigned limit_us,
                   struct gt_choice *ret_first, struct gt_choice *ret_second, bool *ret_has_second);

/* Classes that were built before, so that nodes of one product and scans of one node share a table. Bounded:
 * the one unused longest leaves. Safe from several threads. */
struct gt_class_cache;
/* -EINVAL for a capacity of 0 or above 65,536. */
int gt_class_cache_new(unsigned capacity, struct gt_class_cache **ret, struct gt_err **err);
void gt_class_cache_free(struct gt_class_cache *cache);
GT_DEFINE_CLEANUP(struct gt_class_cache *, gt_class_cache_free)
#define gt_auto_class_cache GT_CLEANUP(gt_class_cache_free)
/* A reference that the caller drops. Errors as of gt_class_new; two threads never wait for each other's
 * building. */
int gt_class_cache_get(struct gt_class_cache *cache, const struct gt_weights *weights, struct gt_class **ret,
                       struct gt_err **err);

/*
 * The two maps that HAMi reads from node annotations, for every k from 1 to n: floor(1999 x / S(all)) of loss
 * and of score, both 0 where S(all) is 0; but loss 1999 and score 0 where k is above the number of free GPUs,
 * whatever S(all), since HAMi takes a missing key for the best. Above 16 GPUs they take
 * about 20 ms at most, all together.
 */
struct gt_hami_maps {
    unsigned n;
    uint16_t losses[GT_GPUS_MAX + 1], scores[GT_GPUS_MAX + 1]; /* [k] */
};
void gt_hami_maps(const struct gt_class *class, uint64_t free, struct gt_hami_maps *ret);

#endif
