/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "topology/model/loss_internal.h"

/* Hardware classes: weights, checked once, and room for what is computed from them. */

enum { ANSWERS_MAX = 2048 };

void gt_weights_of(const struct gt_node *node, struct gt_weights *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->n = node->gpu_count;
    for (unsigned i = 0; i < node->link_count; i++) {
        const struct gt_link *link = &node->links[i];
        uint16_t w = (uint16_t)(link->weight > UINT16_MAX ? UINT16_MAX : link->weight);

        if (link->a >= GT_GPUS_MAX || link->b >= GT_GPUS_MAX || link->a == link->b)
            continue;
        ret->w[link->a][link->b] = ret->w[link->b][link->a] = w;
    }
}

static int loss_class_check(const struct gt_weights *weights, struct gt_err **err)
{
    if (weights->n > GT_GPUS_MAX)
        return gt_fail(err, EINVAL, "pair weights of %u GPUs, at most %d are supported", weights->n,
                       GT_GPUS_MAX);
    for (unsigned i = 0; i < weights->n; i++) {
        if (weights->w[i][i])
            return gt_fail(err, EINVAL, "GPU %u has a pair weight of %u with itself", i, weights->w[i][i]);
        for (unsigned j = 0; j < i; j++)
            if (weights->w[i][j] != weights->w[j][i])
                return gt_fail(err, EINVAL, "pair weights are not symmetric: %u from GPU %u to %u, %u back",
                               weights->w[j][i], j, i, weights->w[i][j]);
    }
    return 0;
}

/* Everything in one block: the class, sums, answers, weights. With 8 GPUs there is a place for every answer.
 */
static struct gt_class *loss_class_reserve(unsigned n)
{
    bool small = n <= GT_EXACT_GPUS_MAX;
    uint32_t all = n < 8 ? UINT32_C(8) << n : ANSWERS_MAX, answers = small ? all : 0;
    size_t sums = small ? gt_sums_count(n) * sizeof(uint32_t[256]) : 0;
    size_t bytes =
        sizeof(struct gt_class) + sums + answers * sizeof(atomic_uint) + (size_t)n * n * sizeof(uint16_t);
    struct gt_class *class = calloc(1, bytes);

    if (!class)
        return NULL;
    class->n = n;
    class->bytes = bytes;
    class->sums = small ? (uint32_t(*)[256])(class + 1) : NULL;
    class->answers = small ? (atomic_uint *)((char *)(class + 1) + sums) : NULL;
    class->answer_count = answers;
    class->w = (uint16_t *)((char *)(class + 1) + sums + answers * sizeof(atomic_uint));
    atomic_init(&class->references, 1);
    return class;
}

int gt_class_new(const struct gt_weights *weights, struct gt_class **ret, struct gt_err **err)
{
    struct gt_class *class;
    int r = loss_class_check(weights, err);

    if (r < 0)
        return r;
    class = loss_class_reserve(weights->n);
    if (!class)
        return gt_fail(err, ENOMEM, "no memory for a class of %u GPUs", weights->n);
    for (unsigned i = 0; i < class->n; i++)
        memcpy(class->w + (size_t)i * class->n, weights->w[i], class->n * sizeof(uint16_t));
    if (class->sums)
        gt_sums_fill(class);
    *ret = class;
    return 0;
}

struct gt_class *gt_class_ref(const struct gt_class *class)
{
    /* The count is the one part of a class that changes; the caller's view of it stays const. */
    struct gt_class *counted = (struct gt_class *)(uintptr_t) class;

    atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
    return counted;
}

void gt_class_unref(struct gt_class *class)
{
    if (class && atomic_fetch_sub_explicit(&class->references, 1, memory_order_acq_rel) == 1)
        free(class);
}

unsigned gt_class_gpus(const struct gt_class *class)
{
    return class->n;
}

bool gt_class_is_of(const struct gt_class *class, const struct gt_weights *weights)
{
    if (class->n != weights->n)
        return false;
    for (unsigned i = 0; i < class->n; i++)
        if (memcmp(class->w + (size_t)i * class->n, weights->w[i], class->n * sizeof(uint16_t)) != 0)
            return false;
    return true;
}

size_t gt_class_bytes(const struct gt_class *class)
{
    return class->bytes;
}

/* S(mask), for a class of any size */
static uint32_t sum_of_many(const struct gt_class *class, uint64_t mask)
{
    uint32_t sum = 0; /* at most 2,016 pairs of 65,535 */

    for (; mask; mask &= mask - 1)
        for (uint64_t rest = mask & (mask - 1); rest; rest &= rest - 1)
            sum += gt_weight(class, gt_bit_first(mask), gt_bit_first(rest));
    return sum;
}

void gt_degrees(const struct gt_class *class, uint64_t free, uint32_t ret[static GT_GPUS_MAX])
{
    memset(ret, 0, GT_GPUS_MAX * sizeof(*ret));
    for (uint64_t at = free; at; at &= at - 1) {
        unsigned x = gt_bit_first(at);

        for (uint64_t rest = free; rest; rest &= rest - 1)
            ret[x] += gt_weight(class, x, gt_bit_first(rest));
    }
}

uint32_t gt_class_sum(const struct gt_class *class, uint64_t mask)
{
    mask &= gt_low_bits(class->n);
    return class->sums ? gt_sum_of(class, (uint32_t)mask) : sum_of_many(class, mask);
}
