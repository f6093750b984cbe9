/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "scheduler-ext/sim/trace.h"

/* Turns a source into jobs: sizes into pods, units and atoms; Poisson arrivals at the wanted load. */

struct size {
    uint32_t gpus;
    double seconds;
    uint32_t tenant;
};

/* One job of the source: a row drawn with replacement, or a size by its share with an exponential run time.
 */
static struct size draw_size(const struct gt_trace *trace, struct gt_rng *rng)
{
    if (trace->row_count) {
        const struct gt_trace_row *row = &trace->rows[gt_rng_below(rng, trace->row_count)];
        return (struct size){row->gpus, row->duration, row->tenant};
    }
    double at = gt_rng_unit(rng);
    unsigned i = 0;
    while (i + 1 < trace->class_count && at >= trace->classes[i].share)
        at -= trace->classes[i++].share;
    return (struct size){trace->classes[i].gpus, gt_rng_exponential(rng, trace->classes[i].seconds), 0};
}

static double mean_gpu_seconds(const struct gt_trace *trace)
{
    double sum = 0;
    for (uint32_t i = 0; i < trace->row_count; i++)
        sum += trace->rows[i].duration * trace->rows[i].gpus / trace->row_count;
    for (unsigned i = 0; i < trace->class_count && !trace->row_count; i++)
        sum += trace->classes[i].share * trace->classes[i].seconds * trace->classes[i].gpus;
    return sum;
}

/* The largest divisor of `pods` of at most `limit`; 1 where the limit is below. */
static uint32_t largest_divisor(uint32_t pods, uint32_t limit)
{
    for (uint32_t u = limit < pods ? limit : pods; u > 1; u--)
        if (pods % u == 0)
            return u;
    return 1;
}

/* A random power of two that divides `pods` and is at most `limit`; all equally likely. */
static uint32_t draw_unit(uint32_t pods, uint32_t limit, struct gt_rng *rng)
{
    uint32_t choices = 1;
    for (uint32_t u = 2; u <= pods && u <= limit && pods % u == 0; u *= 2)
        choices++;
    return UINT32_C(1) << gt_rng_below(rng, choices);
}

/* Pods fill nodes: a job of at most a node's GPUs is one pod, a larger one has the fewest equal pods. */
static struct gt_sim_job make_job(struct size size, const struct gt_trace *trace, uint32_t node,
                                  uint32_t super, const struct gt_draw *draw, struct gt_rng *rng)
{
    uint32_t pods = (size.gpus + node - 1) / node, gpus = (size.gpus + pods - 1) / pods;
    struct gt_sim_job job = {.duration = size.seconds, .pods = pods, .gpus = gpus, .tenant = size.tenant};
    uint32_t limit = super / gpus ? super / gpus : 1;
    if (draw->group)
        job.unit = largest_divisor(pods, draw->group / gpus);
    else if (trace->kind == GT_TRACE_CDF)
        job.unit = draw_unit(pods, limit, rng);
    else
        job.unit = largest_divisor(pods, limit);
    if (draw->atom && draw->atom < job.unit * gpus)
        job.atom = largest_divisor(job.unit, draw->atom / gpus);
    return job;
}

static _Thread_local const struct gt_trace_row *sort_rows;

static int by_time(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sort_rows[x].submitted != sort_rows[y].submitted)
        return sort_rows[x].submitted < sort_rows[y].submitted ? -1 : 1;
    return (x > y) - (x < y);
}

/* The rows of a file by time; the caller frees them. */
static int sort_by_time(const struct gt_trace *trace, uint32_t **ret, struct gt_err **err)
{
    gt_auto_free uint32_t *order = calloc((size_t)trace->row_count + 1, sizeof(*order));
    if (!order)
        return gt_fail_sys(err, ENOMEM, "%u jobs", trace->row_count);
    for (uint32_t i = 0; i < trace->row_count; i++) {
        order[i] = i;
        if (!trace->rows[i].submitted)
            return gt_fail(err, EINVAL, "the jobs have no times such as 2017-10-09 07:01:55 to be replayed");
    }
    if (!trace->row_count)
        return gt_fail(err, EINVAL, "only the jobs of a file can be replayed");
    sort_rows = trace->rows;
    qsort(order, trace->row_count, sizeof(*order), by_time);
    *ret = gt_steal(order);
    return 0;
}

/* Consecutive jobs of the file, beginning with a random one: as many as are wanted, or exist. */
static int replay(const struct gt_trace *trace, const struct gt_site *site, const struct gt_draw *draw,
                  uint32_t power, struct gt_rng *rng, struct gt_jobs *ret, struct gt_err **err)
{
    gt_auto_free uint32_t *order = NULL;
    int r = sort_by_time(trace, &order, err);
    if (r < 0)
        return r;
    uint32_t count = draw->jobs < trace->row_count ? draw->jobs : trace->row_count;
    uint32_t first = gt_rng_below(rng, trace->row_count - count + 1), node = gt_site_largest_node(site);
    struct gt_sim_job *jobs = calloc(count + 1UL, sizeof(*jobs));
    if (!jobs)
        return gt_fail_sys(err, ENOMEM, "%u jobs", count);
    double asked = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct gt_trace_row *row = &trace->rows[order[first + i]];
        jobs[i] =
            make_job((struct size){row->gpus, row->duration, row->tenant}, trace, node, power, draw, rng);
        jobs[i].submit = (double)(row->submitted - trace->rows[order[first]].submitted);
        asked += jobs[i].duration * jobs[i].pods * jobs[i].gpus;
    }
    double span = jobs[count - 1].submit;
    for (uint32_t i = 0; i < count && span > 0; i++)
        jobs[i].submit *= asked / (draw->load * site->gpus) / span;
    *ret = (struct gt_jobs){jobs, count, trace->tenants};
    return 0;
}

int gt_trace_draw(const struct gt_trace *trace, const struct gt_site *site, const struct gt_draw *draw,
                  struct gt_jobs *ret, struct gt_err **err)
{
    uint32_t node = gt_site_largest_node(site), super = gt_site_largest_super(site), power = 1;
    if (!site->gpus)
        return gt_fail(err, EINVAL, "the cluster has no GPUs");
    while (power * 2 <= super)
        power *= 2; /* so that units of the largest size divide by the others */
    if (trace->kind != GT_TRACE_CDF)
        power = super;
    struct gt_rng rng;
    gt_rng_seed(&rng, draw->seed);
    if (draw->replay)
        return replay(trace, site, draw, power, &rng, ret, err);
    struct gt_sim_job *jobs = calloc(draw->jobs, sizeof(*jobs));
    if (!jobs)
        return gt_fail_sys(err, ENOMEM, "%u jobs", draw->jobs);
    double between = mean_gpu_seconds(trace) / (draw->load * site->gpus), now = 0, asked = 0;
    uint32_t count = 0;
    while (count < draw->jobs && (draw->departures || asked < draw->load * site->gpus)) {
        struct gt_sim_job job = make_job(draw_size(trace, &rng), trace, node, power, draw, &rng);
        now += gt_rng_exponential(&rng, between);
        job.submit = now;
        if (!draw->departures)
            job.duration = (double)INFINITY;
        asked += (double)job.pods * job.gpus;
        jobs[count++] = job;
    }
    *ret = (struct gt_jobs){jobs, count, trace->tenants};
    return 0;
}
