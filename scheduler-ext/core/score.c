/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/score.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "scheduler-ext/core/internal.h"

enum {
    CACHE_ENTRIES = 1 << 14,     /* for masks of more than 16 GPUs */
    VALUES_BYTES_MAX = 16 << 20, /* of all tables: one of 16 GPUs takes 512 KiB */
    /* For masks of more than 16 GPUs: for one of them at most, and how much all of one question take; those
     * that come when it is used up get the least, which is enough for a good set. */
    SEARCH_LIMIT_US = 500,
    SEARCH_TOTAL_US = 40 * 1000,
    SEARCH_LEAST_US = 10,
    SEARCH_SHARES = 64, /* of what is left, each gets one */
};

int gt_score_set_weights(struct gt_cluster *cluster, const struct gt_aware_weights *weights,
                         struct gt_err **err)
{
    const struct {
        const char *name;
        double value;
    } all[] = {{"weight", weights->weight},
               {"score.weight", weights->score_weight},
               {"loss.weight", weights->loss_weight},
               {"closeness.weight", weights->closeness_weight}};
    for (size_t i = 0; i < GT_COUNT(all); i++)
        if (!isfinite(all[i].value) || all[i].value < 0)
            return gt_fail(err, EINVAL, "%s: %g, expected a number of 0 or more", all[i].name, all[i].value);
    cluster->weights = *weights;
    cluster->generation++;
    return 0;
}

static size_t bytes_of(const struct values *values)
{
    return sizeof(*values) + values->entries * (values->masks ? 2 : 1) * sizeof(double);
}

static void score_drop(struct gt_cluster *cluster, struct values **values)
{
    if (!*values)
        return;
    cluster->values_bytes -= bytes_of(*values);
    free((*values)->masks);
    free(*values);
    *values = NULL;
}

void gt_score_forget_class(struct gt_cluster *cluster, uint32_t class)
{
    if (!cluster->values[class])
        return;
    for (unsigned k = 0; k <= GT_GPUS_MAX; k++)
        score_drop(cluster, &cluster->values[class][k]);
    cluster->values_bytes -= (GT_GPUS_MAX + 1) * sizeof(struct values *);
    free(cluster->values[class]);
    cluster->values[class] = NULL;
}

void gt_score_done(struct gt_cluster *cluster)
{
    for (uint32_t class = 0; class < cluster->class_count; class ++)
        gt_score_forget_class(cluster, class);
}

static double pairs_of(unsigned gpus)
{
    return gpus * (gpus - 1.0) / 2;
}

/* Rises from 0 at 0 towards 2, and is 1 at 1, so no largest value is needed for scaling. */
static double bounded(double x)
{
    return 2 * x / (x + 1);
}

static double score_part_of(uint32_t score, unsigned k)
{
    return k > 1 ? bounded(score / pairs_of(k) / GT_AWARE_DIRECT) : 1;
}

static double loss_part_of(const struct gt_class *class, uint64_t free, unsigned k, uint32_t score)
{
    double links = (double)(gt_class_sum(class, free) - score) / GT_AWARE_DIRECT;
    double pairs = pairs_of(gt_core_bits(free)) - pairs_of(k);
    return bounded((links + GT_AWARE_ROOM * pairs) / (1 + GT_AWARE_ROOM) / pairs_of(GT_AWARE_NODE));
}

/* Whether the pod takes exactly the free GPUs, with sufficient links. */
static bool fits_exactly(const struct gt_class *class, uint64_t free, unsigned k, uint32_t score)
{
    return gt_core_bits(free) == k && (uint64_t)score * GT_AWARE_EXACT_SHARE >= gt_class_best_score(class, k);
}

/* The choice for one container after the other, where the kubelet judges each. */
static bool choose_served(const struct gt_class *class, uint64_t free, struct gt_numa_pod pod,
                          struct gt_choice *ret)
{
    uint64_t mask = gt_numa_serve(class, free, pod, NULL), rest = free & ~mask;
    uint32_t score = gt_class_sum(class, mask);
    *ret =
        (struct gt_choice){mask, score, gt_class_sum(class, free) - score - gt_class_sum(class, rest), true};
    return mask;
}

static bool compute(struct gt_cluster *cluster, uint32_t class, uint64_t free, struct gt_numa_pod pod,
                    unsigned limit_us, struct gt_score_parts *ret)
{
    const struct gt_class *c = cluster->classes[class];
    const struct gt_aware_weights *weights = &cluster->weights;
    struct gt_choice choice;
    unsigned k = pod.gpus;
    bool served = gt_numa_by_request(gt_class_numa(c), pod.requests);
    if (!(served ? choose_served(c, free, pod, &choice) : gt_choose(c, free, 0, k, limit_us, &choice)))
        return false;
    struct gt_score_parts parts = {.choice = choice,
                                   .score_part = score_part_of(choice.score, k),
                                   .loss_part = loss_part_of(c, free, k, choice.score)};
    parts.exact = weights->loss_weight > 0 && fits_exactly(c, free, k, choice.score);
    parts.value = weights->weight *
                  (weights->score_weight * (parts.score_part + (parts.exact ? GT_AWARE_EXACT_BONUS : 0)) -
                   weights->loss_weight * parts.loss_part);
    *ret = parts;
    return true;
}

/* Makes room for so many bytes by freeing tables that this query does not use; false: there is not enough. */
static bool score_grow(struct gt_cluster *cluster, size_t bytes)
{
    while (cluster->values_bytes + bytes > VALUES_BYTES_MAX) {
        struct values **oldest = NULL;
        for (uint32_t class = 0; class < cluster->class_count; class ++)
            for (unsigned k = 1; cluster->values[class] && k <= GT_GPUS_MAX; k++) {
                struct values **at = &cluster->values[class][k];
                if (*at && (*at)->used != cluster->questions && (!oldest || (*at)->used < (*oldest)->used))
                    oldest = at;
            }
        if (!oldest)
            return false;
        score_drop(cluster, oldest);
    }
    return true;
}

static struct values *new_values(struct gt_cluster *cluster, uint32_t class)
{
    unsigned n = gt_class_gpus(cluster->classes[class]);
    bool cached = n > GT_EXACT_GPUS_MAX;
    struct values made = {.entries = cached ? CACHE_ENTRIES : UINT32_C(1) << n};
    size_t bytes = sizeof(made) + made.entries * (cached ? 2 : 1) * sizeof(double);
    if (!score_grow(cluster, bytes))
        return NULL;
    struct values *values = malloc(sizeof(made) + made.entries * sizeof(double));
    if (!values)
        return NULL;
    *values = made;
    if (cached && !(values->masks = calloc(made.entries, sizeof(uint64_t)))) {
        free(values);
        return NULL;
    }
    cluster->values_bytes += bytes;
    return values;
}

/* The table for (class, k), ready for use; NULL without memory for one. */
static struct values *values_for(struct gt_cluster *cluster, uint32_t class, unsigned k)
{
    if (!cluster->values[class]) {
        cluster->values[class] = calloc(GT_GPUS_MAX + 1, sizeof(struct values *));
        if (!cluster->values[class])
            return NULL;
        cluster->values_bytes += (GT_GPUS_MAX + 1) * sizeof(struct values *);
    }
    struct values *values = cluster->values[class][k];
    if (!values)
        cluster->values[class][k] = values = new_values(cluster, class);
    if (!values)
        return NULL;
    if (values->generation != cluster->generation)
        for (uint32_t i = 0; i < values->entries; i++)
            values->value[i] = (double)NAN;
    values->generation = cluster->generation;
    values->used = cluster->questions;
    return values;
}

/* One query over many nodes; keeps the table of the last node's class. */
struct score_query {
    struct gt_cluster *cluster;
    unsigned k;
    uint32_t class;
    struct values *values;
    uint64_t searched_ns; /* how long it has searched */
};

static struct score_query score_ask(struct gt_cluster *cluster, unsigned k)
{
    cluster->questions++;
    return (struct score_query){.cluster = cluster, .k = k, .class = GT_NONE};
}

static unsigned search_limit_us(const struct score_query *query)
{
    uint64_t used = query->searched_ns / 1000, left = used < SEARCH_TOTAL_US ? SEARCH_TOTAL_US - used : 0;
    uint64_t share = left / SEARCH_SHARES;
    return share > SEARCH_LIMIT_US   ? SEARCH_LIMIT_US
           : share < SEARCH_LEAST_US ? SEARCH_LEAST_US
                                     : (unsigned)share;
}

static double computed(struct score_query *query, uint64_t free)
{
    bool searches = gt_class_gpus(query->cluster->classes[query->class]) > GT_EXACT_GPUS_MAX;
    uint64_t start_ns = searches ? gt_clock_ns() : 0;
    struct gt_score_parts parts;
    bool fits = compute(query->cluster, query->class, free, (struct gt_numa_pod){query->k, 0},
                        search_limit_us(query), &parts);
    if (searches)
        query->searched_ns += gt_clock_ns() - start_ns;
    return fits ? parts.value : -(double)INFINITY;
}

/* The slow path: another table, a new mask, or more than 16 GPUs. */
static __attribute__((noinline)) double look_further(struct score_query *query, uint32_t node)
{
    struct gt_cluster *cluster = query->cluster;
    uint64_t free = cluster->available[node];
    if (query->class != cluster->class[node]) {
        query->class = cluster->class[node];
        query->values = values_for(cluster, query->class, query->k);
    }
    struct values *values = query->values;
    if (!values)
        return computed(query, free);
    uint32_t i = (uint32_t)free;
    if (values->masks) {
        i = (uint32_t)((free * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % CACHE_ENTRIES;
        if (values->masks[i] != free)
            values->value[i] = (double)NAN;
        values->masks[i] = free;
    }
    if (isnan(values->value[i]))
        values->value[i] = computed(query, free);
    return values->value[i];
}

/* The state of a loop over all nodes: the table of one class, for up to 16 GPUs. */
struct walk {
    const uint64_t *available;
    const uint16_t *classes;
    uint32_t class;
    const double *table; /* of that class */
};

static struct walk start_walk(const struct score_query *query)
{
    const struct gt_cluster *cluster = query->cluster;
    return (struct walk){cluster->available, cluster->class, GT_NONE, NULL};
}

/* -INFINITY where the node has not k GPUs available. */
static inline double walk_to(struct walk *walk, struct score_query *query, uint32_t node)
{
    if (walk->classes[node] == walk->class) {
        double value = walk->table[walk->available[node]];
        if (!isnan(value))
            return value;
    }
    double value = look_further(query, node);
    if (query->values && !query->values->masks) {
        walk->class = query->class;
        walk->table = query->values->value;
    }
    return value;
}

/* Whether any node can have a value for k. */
static bool is_asked(unsigned k)
{
    return k >= 1 && k <= GT_GPUS_MAX;
}

uint32_t gt_score_all(struct gt_cluster *cluster, unsigned k, double *ret)
{
    struct score_query query = score_ask(cluster, k);
    struct walk walk = start_walk(&query);
    uint32_t feasible = 0, count = cluster->node_count;
    bool asked = is_asked(k);
    for (uint32_t node = 0; node < count; node++) {
        ret[node] = asked ? walk_to(&walk, &query, node) : -(double)INFINITY;
        if (ret[node] == -(double)INFINITY)
            ret[node] = (double)NAN;
        else
            feasible++;
    }
    return feasible;
}

uint32_t gt_score_ids(struct gt_cluster *cluster, unsigned k, const uint32_t *ids, uint32_t count,
                      double *ret)
{
    struct score_query query = score_ask(cluster, k);
    struct walk walk = start_walk(&query);
    uint32_t feasible = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool asked = is_asked(k) && gt_core_has_node(cluster, ids[i]);
        double value = asked ? walk_to(&walk, &query, ids[i]) : -(double)INFINITY;
        bool fits = value != -(double)INFINITY;
        ret[i] = fits ? value : (double)NAN;
        feasible += fits;
    }
    return feasible;
}

bool gt_score_left(struct gt_cluster *cluster, uint32_t node, uint64_t left, struct gt_numa_pod pod,
                   struct gt_score_parts *ret)
{
    return is_asked(pod.gpus) && gt_core_has_node(cluster, node) &&
           compute(cluster, cluster->class[node], left & cluster -> available[node], pod, SEARCH_LIMIT_US,
                   ret);
}

bool gt_score_one(struct gt_cluster *cluster, uint32_t node, unsigned k, struct gt_score_parts *ret)
{
    return gt_score_left(cluster, node, UINT64_MAX, (struct gt_numa_pod){k, 0}, ret);
}
