/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/mix.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "topology/model/loss.h"

enum {
    LEVELS = 512,   /* levels of a resource; a node with more counts as the last */
    NEWS_MAX = 64,  /* new pods before the worths are computed again */
    KNOWN_MIN = 64, /* the mix is not used with fewer pods */
    STRANDED_STEPS = 1024,
};

static const double unlikely = 0.01;          /* p of no pod at all */
static const double grows_per_pod = 1.000677; /* 2^(1 / GT_MIX_HALF_LIFE) */
static const double weight_max = 1e12;

struct mix_shape {
    double weight; /* GPUs asked for; newer pods weigh more */
    uint16_t gpus, level[GT_MIX_RESOURCES];
};

struct gt_mix {
    struct mix_shape shapes[GT_MIX_SHAPES];
    unsigned count, news; /* news: new pods since the worths were computed */
    uint64_t pods;
    double weight; /* weight of a GPU of a new pod */
    unsigned gpus; /* the worths are for up to so many GPUs */
    float *worth;  /* [resource][GPUs][level] */
};

int gt_mix_new(struct gt_mix **ret, struct gt_err **err)
{
    struct gt_mix *mix = calloc(1, sizeof(*mix));
    GT_NEED(mix, err, "mix of pods");
    mix->weight = 1;
    *ret = mix;
    return 0;
}

void gt_mix_free(struct gt_mix *mix)
{
    if (!mix)
        return;
    free(mix->worth);
    free(mix);
}

static size_t worths_of(unsigned gpus)
{
    return (size_t)GT_MIX_RESOURCES * (gpus + 1) * LEVELS;
}

/* ---- adding pods ---- */

/* Whole levels in an amount: cores, 4 GiB. */
static inline int64_t levels_in(unsigned resource, int64_t amount)
{
    return resource == GT_MIX_CPU ? amount / 1000 : amount >> 32;
}

static inline unsigned mix_level_of(unsigned resource, int64_t amount)
{
    int64_t level = levels_in(resource, amount < 0 ? 0 : amount);
    return level < LEVELS - 1 ? (unsigned)level : LEVELS - 1;
}

/* What is left on a node is rounded down to a level, what a pod asks for is rounded up. */
static uint16_t level_asked(unsigned resource, int64_t amount)
{
    int64_t most = INT64_C(1) << 62, up = resource == GT_MIX_CPU ? 999 : (INT64_C(1) << 32) - 1;
    return (uint16_t)mix_level_of(resource, (amount < most ? amount : most) + up);
}

/* The entry of the shape; else an empty one, or that of the lightest shape. */
static struct mix_shape *mix_place_of(struct gt_mix *mix, const struct mix_shape *shape)
{
    struct mix_shape *lightest = mix->shapes;
    for (unsigned i = 0; i < mix->count; i++) {
        struct mix_shape *at = &mix->shapes[i];
        if (at->gpus == shape->gpus && at->level[GT_MIX_CPU] == shape->level[GT_MIX_CPU] &&
            at->level[GT_MIX_MEMORY] == shape->level[GT_MIX_MEMORY])
            return at;
        if (at->weight < lightest->weight)
            lightest = at;
    }
    struct mix_shape *ret = mix->count < GT_MIX_SHAPES ? &mix->shapes[mix->count++] : lightest;
    *ret = *shape;
    return ret;
}

void gt_mix_came(struct gt_mix *mix, const struct gt_mix_amounts *amounts)
{
    if (!amounts->gpus || amounts->gpus > GT_GPUS_MAX)
        return;
    struct mix_shape shape = {.gpus = (uint16_t)amounts->gpus};
    for (unsigned r = 0; r < GT_MIX_RESOURCES; r++)
        shape.level[r] = level_asked(r, amounts->of[r]);
    mix_place_of(mix, &shape)->weight += mix->weight * amounts->gpus;
    mix->weight *= grows_per_pod;
    for (unsigned i = 0; mix->weight > weight_max && i < mix->count; i++)
        mix->shapes[i].weight /= weight_max;
    mix->weight = mix->weight > weight_max ? mix->weight / weight_max : mix->weight;
    mix->news++;
    mix->pods++;
}

/* ---- worths ---- */

static float *row_of(const struct gt_mix *mix, unsigned resource, unsigned gpus)
{
    return mix->worth + ((size_t)resource * (mix->gpus + 1) + gpus) * LEVELS;
}

/* Computes W(g,c) for every c from the values for fewer GPUs. */
static void compute_row(struct gt_mix *mix, unsigned resource, unsigned gpus, double all)
{
    double sum[LEVELS] = {0}, likely[LEVELS] = {0};
    for (unsigned i = 0; i < mix->count; i++) {
        const struct mix_shape *shape = &mix->shapes[i];
        if (shape->gpus > gpus)
            continue;
        const float *rest = row_of(mix, resource, gpus - shape->gpus);
        double part = shape->weight / all;
        for (unsigned c = shape->level[resource], left = 0; c < LEVELS; c++, left++) {
            sum[c] += part * (shape->gpus + (double)rest[left]);
            likely[c] += part;
        }
    }
    float *row = row_of(mix, resource, gpus);
    for (unsigned c = 0; c < LEVELS; c++)
        row[c] = (float)(sum[c] / (likely[c] + unlikely));
}

/* False where nothing is known, or there is no memory. */
static bool mix_refresh(struct gt_mix *mix, unsigned gpus)
{
    if (mix->pods < KNOWN_MIN || gpus > GT_GPUS_MAX)
        return false;
    if (mix->worth && gpus <= mix->gpus && mix->news < NEWS_MAX)
        return true;
    unsigned most = mix->worth && gpus < mix->gpus ? mix->gpus : gpus;
    if (!mix->worth || most > mix->gpus) {
        float *worth = realloc(mix->worth, worths_of(most) * sizeof(*worth));
        if (!worth)
            return false;
        mix->worth = worth;
        mix->gpus = most;
    }
    double all = 0;
    for (unsigned i = 0; i < mix->count; i++)
        all += mix->shapes[i].weight;
    for (unsigned r = 0; r < GT_MIX_RESOURCES; r++)
        for (unsigned g = 0; g <= most; g++)
            compute_row(mix, r, g, all);
    mix->news = 0;
    return true;
}

static double worth_of(const struct gt_mix *mix, unsigned gpus, const int64_t *left)
{
    float least = GT_GPUS_MAX;
    for (unsigned r = 0; r < GT_MIX_RESOURCES; r++) {
        float worth = row_of(mix, r, gpus)[mix_level_of(r, left[r])];
        least = worth < least ? worth : least;
    }
    return (double)least;
}

double gt_mix_stranded(struct gt_mix *mix, const struct gt_mix_amounts *left,
                       const struct gt_mix_amounts *amounts)
{
    if (amounts->gpus > left->gpus || !mix_refresh(mix, left->gpus))
        return 0;
    int64_t rest[GT_MIX_RESOURCES];
    for (unsigned r = 0; r < GT_MIX_RESOURCES; r++)
        rest[r] = left->of[r] == INT64_MAX || left->of[r] < 0 ? left->of[r] : left->of[r] - amounts->of[r];
    double stranded =
        worth_of(mix, left->gpus, left->of) - worth_of(mix, left->gpus - amounts->gpus, rest) - amounts->gpus;
    double steps = stranded * STRANDED_STEPS;
    return (double)(int)(steps < 0 ? steps - 0.5 : steps + 0.5) / STRANDED_STEPS;
}
