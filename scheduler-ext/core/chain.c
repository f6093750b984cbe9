/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/chain.h"

#include <errno.h>

#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/core/internal.h"

/* 2^(-1 / GT_CHAIN_HALF_LIFE) */
static const double keeps_per_job = 0.99729605;

static double chain_weight_of(const struct gt_chain_seen *size)
{
    return (double)size->present + size->past;
}

/* The entry of a known size, or one for a new size: if all are used, that of the lightest size without
 * present jobs. NULL: all have present jobs. */
static struct gt_chain_seen *chain_find(struct chain *chain, uint32_t size, bool make)
{
    struct gt_chain_seen *lightest = NULL;
    for (unsigned i = 0; i < chain->seen_count; i++) {
        struct gt_chain_seen *at = &chain->seen[i];
        if (at->size == size)
            return at;
        if (!at->present && (!lightest || at->past < lightest->past))
            lightest = at;
    }
    if (!make)
        return NULL;
    struct gt_chain_seen *ret =
        chain->seen_count < GT_CHAIN_SEEN_MAX ? &chain->seen[chain->seen_count++] : lightest;
    if (ret)
        *ret = (struct gt_chain_seen){.size = size};
    return ret;
}

/* There are few, so this is quicker than qsort(). */
static void sort_by_size(struct gt_chain_sizes *sizes)
{
    for (unsigned i = 1; i < sizes->count; i++) {
        unsigned size = sizes->size[i], at = i;
        for (; at && sizes->size[at - 1] > size; at--)
            sizes->size[at] = sizes->size[at - 1];
        sizes->size[at] = size;
    }
}

/* The heaviest sizes with a sufficient share, ascending. */
static void chain_choose(struct chain *chain)
{
    double weight[GT_CHAIN_SEEN_MAX], all = 0;
    unsigned chosen[GT_CHAIN_MAX] = {0}, count = 0; /* the heaviest first */
    for (unsigned i = 0; i < chain->seen_count; i++)
        all += weight[i] = chain_weight_of(&chain->seen[i]);
    for (unsigned i = 0; i < chain->seen_count; i++) {
        if (weight[i] <= 0 || weight[i] * GT_CHAIN_PART < all)
            continue;
        unsigned at = count < GT_CHAIN_MAX ? count++ : GT_CHAIN_MAX;
        while (at && weight[i] > weight[chosen[at - 1]]) {
            if (at < GT_CHAIN_MAX)
                chosen[at] = chosen[at - 1];
            at--;
        }
        if (at < GT_CHAIN_MAX)
            chosen[at] = i;
    }
    for (unsigned i = 0; i < count; i++)
        chain->sizes.size[i] = chain->seen[chosen[i]].size;
    chain->sizes.count = count;
    sort_by_size(&chain->sizes);
}

void gt_core_refresh_chain(struct gt_cluster *cluster)
{
    if (cluster->chain.stale)
        chain_choose(&cluster->chain);
    cluster->chain.stale = false;
}

void gt_chain_came(struct gt_cluster *cluster, uint32_t size, uint64_t gpus)
{
    struct chain *chain = &cluster->chain;
    struct gt_chain_seen *seen = size ? chain_find(chain, size, true) : NULL;
    if (!seen)
        return;
    seen->present += gpus;
    chain->stale = !chain->fixed;
}

void gt_chain_drop(struct gt_cluster *cluster, uint32_t size, uint64_t gpus)
{
    struct chain *chain = &cluster->chain;
    struct gt_chain_seen *seen = chain_find(chain, size, false);
    if (!seen) /* there was no free entry when it was added */
        return;
    seen->present -= gpus < seen->present ? gpus : seen->present;
    chain->stale = !chain->fixed;
}

void gt_chain_gone(struct gt_cluster *cluster, uint32_t size, uint64_t gpus)
{
    struct chain *chain = &cluster->chain;
    struct gt_chain_seen *seen = chain_find(chain, size, false);
    if (!seen)
        return;
    for (unsigned i = 0; i < chain->seen_count; i++)
        chain->seen[i].past *= keeps_per_job;
    seen->past += (double)gpus;
    gt_chain_drop(cluster, size, gpus);
}

bool gt_chain_get_seen(const struct gt_cluster *cluster, unsigned nth, struct gt_chain_seen *ret)
{
    if (nth >= cluster->chain.seen_count)
        return false;
    *ret = cluster->chain.seen[nth];
    return true;
}

void gt_chain_adopt(struct gt_cluster *cluster, const struct gt_chain_seen *seen)
{
    struct chain *chain = &cluster->chain;
    struct gt_chain_seen *own = chain_find(chain, seen->size, true);
    if (!own)
        return;
    *own = *seen;
    chain->stale = !chain->fixed;
}

int gt_chain_set(struct gt_cluster *cluster, const struct gt_chain_sizes *sizes, struct gt_err **err)
{
    for (unsigned i = 0; i < sizes->count; i++)
        if (sizes->size[i] == 0 || (i && sizes->size[i] <= sizes->size[i - 1]))
            return gt_fail(err, EINVAL, "chain of unit sizes: %u is out of order, expected ascending sizes",
                           sizes->size[i]);
    cluster->chain.sizes = *sizes;
    cluster->chain.fixed = true;
    cluster->chain.stale = false;
    return 0;
}

int gt_chain_option(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    struct gt_chain_sizes sizes = {0};
    char item[16];
    for (const char *next = value; next;) {
        uint64_t size;
        if (sizes.count == GT_CHAIN_MAX || !gt_text_next_listed(&next, item, sizeof(item)) ||
            !gt_text_to_unsigned(item, GT_CHAIN_SIZE_MAX, &size) || !size ||
            (sizes.count && size <= sizes.size[sizes.count - 1]))
            return gt_option_refuse(option, "at most 16 ascending numbers of GPUs such as 8,16,32", value,
                                    err);
        sizes.size[sizes.count++] = (unsigned)size;
    }
    *(struct gt_chain_sizes *)field = sizes;
    return 0;
}
