/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "topology/model/loss_internal.h"

/*
 * S(A) for any set of up to 16 GPUs, from six tables of 256 sums, which stay in the processor's first cache.
 * The GPUs are four groups of four. Tables 0 and 1 have S of groups 0 and 1, and of 2 and 3; the others the
 * weights between two groups. Up to 8 GPUs table 0 has all.
 */

static const struct {
    uint8_t low, high; /* groups */
} tables[] = {{0, 1}, {2, 3}, {0, 2}, {0, 3}, {1, 2}, {1, 3}};

/* How many tables of sums a class of n GPUs has; and fills them. */
static unsigned sums_count(unsigned n)
{
    return n <= 8 ? 1 : GT_COUNT(tables);
}

static void fill_table(struct gt_class *class, unsigned t)
{
    uint8_t gpu[8];

    for (unsigned i = 0; i < 8; i++)
        gpu[i] = (uint8_t)(4 * (i < 4 ? tables[t].low : tables[t].high) + i % 4);
    for (unsigned set = 1; set < 256; set++) {
        unsigned rest = set & (set - 1), first = gt_bit_first(set);
        /* between groups only, where another table has the weights within them */
        unsigned others = t > 1 && first < 4 ? rest & 0xf0 : t > 1 ? 0 : rest;
        uint32_t sum = class->sums[t][rest];

        for (; others; others &= others - 1) {
            unsigned a = gpu[first], b = gpu[gt_bit_first(others)];

            sum += a < class->n && b < class->n ? gt_weight(class, a, b) : 0;
        }
        class->sums[t][set] = sum;
    }
}

static void sums_fill(struct gt_class *class)
{
    for (unsigned t = 0; t < sums_count(class->n); t++)
        fill_table(class, t);
}

/* Hardware classes: weights, checked once, and room for what is computed from them. */

enum { ANSWERS_MAX = 2048 };

static bool loss_class_is_unjudged(const struct gt_kubelet *kubelet)
{
    return strcmp(kubelet->policy, GT_POLICY_RESTRICTED) != 0 &&
           strcmp(kubelet->policy, GT_POLICY_SINGLE) != 0;
}

/* NUMA nodes by ascending number; more of them than have a place are not judged. */
static void numa_of(const struct gt_node *node, struct gt_numa *ret)
{
    struct gt_numa numa = {.single = strcmp(node->kubelet.policy, GT_POLICY_SINGLE) == 0,
                           .by_pod = strcmp(node->kubelet.scope, "pod") == 0};
    for (int last = -1, next; !loss_class_is_unjudged(&node->kubelet); last = next) {
        uint64_t gpus = 0;
        next = -1;
        for (unsigned i = 0; i < node->gpu_count; i++) {
            int at = node->gpus[i].numa_node;
            if (at <= last || (next >= 0 && at > next))
                continue;
            gpus = (at == next ? gpus : 0) | UINT64_C(1) << i;
            next = at;
        }
        if (next < 0)
            break;
        if (numa.count == GT_NUMA_DOMAINS_MAX)
            return;
        numa.gpus[numa.count++] = gpus;
    }
    *ret = numa;
}

void gt_weights_of(const struct gt_node *node, struct gt_weights *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->n = node->gpu_count;
    numa_of(node, &ret->numa);
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
    size_t sums = small ? sums_count(n) * sizeof(uint32_t[256]) : 0;
    size_t bytes =
        sizeof(struct gt_class) + sums + answers * sizeof(atomic_uint) + (size_t)n * n * sizeof(uint16_t);
    struct gt_class *class = calloc(1, bytes);

    if (!class)
        return NULL;
    class->n = n;
    class->sums = small ? (uint32_t(*)[256])(class + 1) : NULL;
    class->answers = small ? (atomic_uint *)((char *)(class + 1) + sums) : NULL;
    class->answer_count = answers;
    class->w = (uint16_t *)((char *)(class + 1) + sums + answers * sizeof(atomic_uint));
    atomic_init(&class->references, 1);
    return class;
}

int gt_class_new(const struct gt_weights *weights, struct gt_class **ret, struct gt_err **err)
{
    GT_TRY(loss_class_check(weights, err));
    struct gt_class *class = loss_class_reserve(weights->n);
    if (!class)
        return gt_fail(err, ENOMEM, "no memory for a class of %u GPUs", weights->n);
    class->numa = weights->numa;
    for (unsigned i = 0; i < class->n; i++)
        memcpy(class->w + (size_t)i * class->n, weights->w[i], class->n * sizeof(uint16_t));
    if (class->sums)
        sums_fill(class);
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

const struct gt_numa *gt_class_numa(const struct gt_class *class)
{
    return &class->numa;
}

bool gt_class_is_of(const struct gt_class *class, const struct gt_weights *weights)
{
    const struct gt_numa *own = &class->numa, *numa = &weights->numa;
    if (class->n != weights->n || own->count != numa->count)
        return false;
    if (own->count && (own->single != numa->single || own->by_pod != numa->by_pod ||
                       memcmp(own->gpus, numa->gpus, own->count * sizeof(*own->gpus)) != 0))
        return false;
    for (unsigned i = 0; i < class->n; i++)
        if (memcmp(class->w + (size_t)i * class->n, weights->w[i], class->n * sizeof(uint16_t)) != 0)
            return false;
    return true;
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

/* The classes that were built. They are few, so a search reads all of them. */

enum { CAPACITY_MAX = 65536 };

struct class_entry {
    struct gt_class *class; /* NULL: not used yet */
    uint64_t used;          /* the tick of its last use */
};

struct gt_class_cache {
    pthread_mutex_t lock;
    uint64_t tick;
    unsigned capacity;
    struct class_entry entry[];
};

int gt_class_cache_new(unsigned capacity, struct gt_class_cache **ret, struct gt_err **err)
{
    struct gt_class_cache *cache;

    if (!capacity || capacity > CAPACITY_MAX)
        return gt_fail(err, EINVAL, "a class cache of %u entries, must be from 1 to %d", capacity,
                       CAPACITY_MAX);
    cache = calloc(1, sizeof(*cache) + capacity * sizeof(cache->entry[0]));
    if (!cache)
        return gt_fail(err, ENOMEM, "no memory for a class cache of %u entries", capacity);
    cache->capacity = capacity;
    pthread_mutex_init(&cache->lock, NULL);
    *ret = cache;
    return 0;
}

void gt_class_cache_free(struct gt_class_cache *cache)
{
    if (!cache)
        return;
    for (unsigned i = 0; i < cache->capacity; i++)
        gt_class_unref(cache->entry[i].class);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* A new reference, or NULL where it is not there. Under the lock. */
static struct gt_class *loss_cache_find(struct gt_class_cache *cache, const struct gt_weights *weights)
{
    for (unsigned i = 0; i < cache->capacity; i++) {
        struct class_entry *entry = &cache->entry[i];

        if (!entry->class)
            break; /* entries fill from the front */
        if (gt_class_is_of(entry->class, weights)) {
            entry->used = ++cache->tick;
            return gt_class_ref(entry->class);
        }
    }
    return NULL;
}

/* Takes the first unused place, else that of the class unused longest, which is returned. Under the lock. */
static struct gt_class *loss_cache_insert(struct gt_class_cache *cache, struct gt_class *class)
{
    struct class_entry *place = &cache->entry[0];
    struct gt_class *evicted;

    for (unsigned i = 0; i < cache->capacity && place->class; i++)
        if (!cache->entry[i].class || cache->entry[i].used < place->used)
            place = &cache->entry[i];
    evicted = place->class;
    *place = (struct class_entry){gt_class_ref(class), ++cache->tick};
    return evicted;
}

int gt_class_cache_get(struct gt_class_cache *cache, const struct gt_weights *weights, struct gt_class **ret,
                       struct gt_err **err)
{
    gt_auto_class struct gt_class *built = NULL;
    struct gt_class *class, *evicted = NULL;

    pthread_mutex_lock(&cache->lock);
    class = loss_cache_find(cache, weights);
    pthread_mutex_unlock(&cache->lock);
    if (class) {
        *ret = class;
        return 0;
    }

    /* Built without the lock, so that others need not wait. Two threads may build the same. */
    GT_TRY(gt_class_new(weights, &built, err));
    pthread_mutex_lock(&cache->lock);
    class = loss_cache_find(cache, weights);
    if (!class) {
        evicted = loss_cache_insert(cache, built);
        class = gt_steal(built);
    }
    pthread_mutex_unlock(&cache->lock);
    gt_class_unref(evicted);
    *ret = class;
    return 0;
}
