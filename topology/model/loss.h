/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "topology/model/node.h"
#include "topology/model/numa.h"

/*
 * Chooses GPUs for a request. With pair weights w(i,j) and S(A) = the sum of w over the pairs in A, a request
 * of k GPUs from the free set F gets the A of F with |A| = k that has, in this order,
 *   1. the highest S(A)                        - score(F,k)
 *   2. the least cut S(F) - S(A) - S(F \ A)    - loss(F,k): the interconnect that the remaining GPUs lose
 *   3. the lowest mask.
 * Source: docs/reference/loss.md; the cut is the only published form of the vendor's loss (HAMi's sGPU
 * score).
 *
 * Where the kubelet of the node refuses sets that are spread over its NUMA nodes (numa.h), F in 1 is what the
 * kubelet's verdict leaves of it, and there is no choice where it refuses.
 *
 * Nodes with equal weights and verdicts share a class. Up to 16 GPUs an answer comes from all sets of k GPUs
 * (at most 12,870) and is exact; the class keeps the latest answers. Above 16 GPUs each answer is a search
 * with a time limit.
 */

enum { GT_EXACT_GPUS_MAX = 16 };

struct gt_weights {
    unsigned n;                           /* GPUs, at most 64 */
    uint16_t w[GT_GPUS_MAX][GT_GPUS_MAX]; /* symmetric, 0 on the diagonal */
    struct gt_numa numa;
};

struct gt_choice {
    uint64_t mask;  /* the chosen GPUs */
    uint32_t score; /* S(mask) */
    uint32_t loss;  /* S(F) - S(mask) - S(F \ mask) */
    bool exact;     /* false: the time limit ended the search; this is the best set found */
};

/* A hardware class: the weights and what was computed from them, at most 16 KiB. Its answers never change; it
 * is shared by reference count between threads. */
struct gt_class;

/* The weights of a node, and the verdict of its kubelet. */
void gt_weights_of(const struct gt_node *node, struct gt_weights *ret);

/* Makes the class, in a few microseconds. -EINVAL for weights that are not symmetric,
 * weights on the diagonal, or more than 64 GPUs. */
int gt_class_new(const struct gt_weights *weights, struct gt_class **ret, struct gt_err **err);

struct gt_class *gt_class_ref(const struct gt_class *class);
void gt_class_unref(struct gt_class *class);
GT_DEFINE_CLEANUP(struct gt_class *, gt_class_unref)
#define gt_auto_class GT_CLEANUP(gt_class_unref)

unsigned gt_class_gpus(const struct gt_class *class);
const struct gt_numa *gt_class_numa(const struct gt_class *class);
/* Whether it is the class of these weights. */
bool gt_class_is_of(const struct gt_class *class, const struct gt_weights *weights);

/* S(mask); a few look-ups for up to 16 GPUs. Bits beyond n are ignored. */
uint32_t gt_class_sum(const struct gt_class *class, uint64_t mask);

/* score(all n GPUs, k): the best S that k GPUs of an empty node can have; 0 if k is 0 or above n. Above 16
 * GPUs the first call for a k searches for at most 20 ms. The class stores the result. */
uint32_t gt_class_best_score(const struct gt_class *class, unsigned k);

/*
 * The choice of k GPUs of `free` that contains all of `must`. False, *ret untouched, if there is none: k is 0
 * or above the number of free GPUs, or `must` is not within `free` or larger than k. Up to 16
 * GPUs it takes less than 0.2 ms, and a look-up where the class has the answer. `limit_us` limits the search
 * above 16 GPUs in microseconds (0: 20,000).
 */
bool gt_choose(const struct gt_class *class, uint64_t free, uint64_t must, unsigned k, unsigned limit_us,
               struct gt_choice *ret);

/* How many pods of k GPUs, 1 or more, the node takes one after the other with these GPUs free. */
unsigned gt_class_pods(const struct gt_class *class, uint64_t free, unsigned k);

/* The best choice and the second best in the same order; returns how many there are: 1 if there is only one
 * set, 0 where gt_choose() would return false. The others are untouched. `limit_us` limits each of the
 * two searches. It is slower than gt_choose(). */
unsigned gt_choose_two(const struct gt_class *class, uint64_t free, unsigned k, unsigned limit_us,
                       struct gt_choice ret[static 2]);

/* A cache of classes, so that nodes of one product, and scans of one node, share one. When it is full,
 * the class unused for the longest time is dropped. Safe from several threads. */
struct gt_class_cache;
/* -EINVAL for a capacity of 0 or above 65,536. */
int gt_class_cache_new(unsigned capacity, struct gt_class_cache **ret, struct gt_err **err);
void gt_class_cache_free(struct gt_class_cache *cache);
GT_DEFINE_CLEANUP(struct gt_class_cache *, gt_class_cache_free)
#define gt_auto_class_cache GT_CLEANUP(gt_class_cache_free)
/* *ret is a reference that the caller drops. Errors as of gt_class_new(). A thread never waits while another
 * one builds a class. */
int gt_class_cache_get(struct gt_class_cache *cache, const struct gt_weights *weights, struct gt_class **ret,
                       struct gt_err **err);

/*
 * The two maps that HAMi reads from node annotations, for every k from 1 to n: floor(1999 x / S(all)) of loss
 * and of score, both 0 if S(all) is 0; but loss 1999 and score 0 if k is above the number of free GPUs, for
 * any S(all), since HAMi treats a missing key as the best. Above 16 GPUs all of them together take at most
 * about 20 ms.
 */
struct gt_hami_maps {
    unsigned n;
    uint16_t losses[GT_GPUS_MAX + 1], scores[GT_GPUS_MAX + 1]; /* [k] */
};
void gt_hami_maps(const struct gt_class *class, uint64_t free, struct gt_hami_maps *ret);
