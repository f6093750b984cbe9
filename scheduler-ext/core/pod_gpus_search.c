/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bits.h"
#include "scheduler-ext/core/plan_work.h"

/*
 * Above 16 GPUs. A local search: the pods choose one after the other, the largest first. Then GPUs of two
 * pods, or of a pod and the free ones, are swapped as long as that improves the choice.
 */
enum { CHOICE_LIMIT_US = 1000, PASSES = 8 };

struct draft {
    const struct gt_class *class;
    uint64_t own, left; /* free GPUs that no pod has */
    unsigned pods;
    uint64_t pod[GT_GPUS_MAX], batch[BATCHES_MAX];
    uint8_t batch_of[GT_GPUS_MAX];
    uint16_t w[GT_GPUS_MAX][GT_GPUS_MAX];
};

static uint64_t choose_one(const struct draft *draft, unsigned gpus, uint64_t requests)
{
    struct gt_choice choice = {.mask = gt_core_lowest(draft->left, gpus)};
    uint64_t served = 0;
    if (gt_numa_by_request(gt_class_numa(draft->class), requests))
        served = gt_numa_serve(draft->class, draft->left, (struct gt_numa_pod){gpus, requests}, NULL);
    else if (gt_bit_count(draft->left) > gpus)
        gt_choose(draft->class, draft->left, 0, gpus, CHOICE_LIMIT_US, &choice);
    return served ? served : choice.mask;
}

static void choose_in_turn(struct draft *draft, const struct pod_gpus_query *query)
{
    for (unsigned q = 0; q < query->batches; q++) {
        draft->batch[q] = 0;
        for (unsigned i = 0; i < query->batch[q].pods; i++) {
            unsigned gpus = query->batch[q].gpus;
            uint64_t mask = choose_one(draft, gpus, query->requests[draft->pods]);
            draft->batch_of[draft->pods] = (uint8_t)q;
            draft->pod[draft->pods++] = mask;
            draft->batch[q] |= mask;
            draft->left &= ~mask;
        }
    }
}

static void find_weights(struct draft *draft, uint64_t gpus)
{
    for (uint64_t a = gpus; a; a &= a - 1)
        for (uint64_t b = a & (a - 1); b; b &= b - 1)
            draft->w[gt_bit_first(a)][gt_bit_first(b)] = draft->w[gt_bit_first(b)][gt_bit_first(a)] =
                (uint16_t)gt_class_sum(draft->class, (a & -a) | (b & -b));
}

/* The gain in S of a set that loses x and gets y. */
static int64_t gain(const struct draft *draft, uint64_t set, unsigned x, unsigned y)
{
    int64_t more = 0;
    for (uint64_t rest = set & ~(UINT64_C(1) << x); rest; rest &= rest - 1)
        more += (int64_t)draft->w[y][gt_bit_first(rest)] - draft->w[x][gt_bit_first(rest)];
    return more;
}

/* Whether swapping GPU x of pod p with GPU y improves the choice; y is of pod `other`, or free where `other`
 * is `pods`. */
static bool is_better(const struct draft *draft, unsigned p, unsigned x, unsigned other, unsigned y)
{
    bool is_free = other == draft->pods;
    int64_t more = gain(draft, draft->pod[p], x, y);
    if (!is_free)
        more += gain(draft, draft->pod[other], y, x);
    if (more)
        return more > 0;
    unsigned q = draft->batch_of[p];
    if (is_free)
        more = gain(draft, draft->batch[q], x, y);
    else if (draft->batch_of[other] != q)
        more = gain(draft, draft->batch[q], x, y) + gain(draft, draft->batch[draft->batch_of[other]], y, x);
    if (more || !is_free)
        return more > 0;
    uint64_t together = draft->own;
    for (unsigned i = 0; i < draft->pods; i++)
        together |= draft->pod[i];
    more = gain(draft, together, x, y);
    return more ? more > 0 : gain(draft, draft->left, y, x) > 0;
}

static void change_places(struct draft *draft, unsigned p, unsigned x, unsigned other, unsigned y)
{
    uint64_t both = UINT64_C(1) << x | UINT64_C(1) << y;
    unsigned q = draft->batch_of[p];
    draft->pod[p] ^= both;
    if (other == draft->pods) {
        draft->left ^= both;
        draft->batch[q] ^= both;
        return;
    }
    draft->pod[other] ^= both;
    if (draft->batch_of[other] == q)
        return;
    draft->batch[q] ^= both;
    draft->batch[draft->batch_of[other]] ^= both;
}

/* Tries to swap each GPU of pod p with each GPU of a later pod and each free one; true: some were swapped. */
static bool pod_gpus_search_improve(struct draft *draft, unsigned p)
{
    bool changed = false;
    for (unsigned other = p + 1; other <= draft->pods; other++)
        for (uint64_t own = draft->pod[p]; own; own &= own - 1) {
            uint64_t others = other < draft->pods ? draft->pod[other] : draft->left;
            while (others && !is_better(draft, p, gt_bit_first(own), other, gt_bit_first(others)))
                others &= others - 1;
            if (others) {
                change_places(draft, p, gt_bit_first(own), other, gt_bit_first(others));
                changed = true;
            }
        }
    return changed;
}

void gt_search_pod_gpus(const struct gt_class *class, const struct pod_gpus_query *query, uint64_t *ret_masks)
{
    struct draft draft;
    draft.class = class;
    draft.own = query->own;
    draft.left = query->free;
    draft.pods = 0;
    choose_in_turn(&draft, query);
    /* A kubelet with a verdict serves one pod after the other, and swaps nothing. */
    bool changed = (draft.pods > 1 || query->own) && !gt_class_numa(class)->count;
    if (changed)
        find_weights(&draft, query->free | query->own);
    for (unsigned pass = 0; changed && pass < PASSES; pass++) {
        changed = false;
        for (unsigned p = 0; p < draft.pods; p++)
            changed |= pod_gpus_search_improve(&draft, p);
    }
    for (unsigned p = 0; p < draft.pods; p++)
        ret_masks[p] = draft.pod[p];
}
