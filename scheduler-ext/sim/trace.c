/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/table.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/sim/csv.h"

/* Turns a source into jobs: sizes into pods, units and atoms; Poisson arrivals at the wanted load. */

struct size {
    uint32_t gpus;
    double seconds;
    uint32_t tenant;
};

static uint64_t rotated(uint64_t x, unsigned by)
{
    return (x << by) | (x >> (64 - by));
}

static uint64_t rng_next_of(struct gt_rng *rng)
{
    uint64_t *s = rng->state, result = rotated(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotated(s[3], 45);
    return result;
}

/* In [0, 1). */
static double trace_unit(struct gt_rng *rng)
{
    return (double)(rng_next_of(rng) >> 11) * 0x1p-53;
}

/* One job of the source: a row drawn with replacement, or a size by its share with an exponential run time.
 */
static struct size draw_size(const struct gt_trace *trace, struct gt_rng *rng)
{
    if (trace->row_count) {
        const struct gt_trace_row *row = &trace->rows[gt_rng_below(rng, trace->row_count)];
        return (struct size){row->gpus, row->duration, row->tenant};
    }
    double at = trace_unit(rng);
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
    if (draw->pool) { /* the same GPUs */
        job.pods = pods * gpus;
        job.gpus = job.unit = 1;
        job.atom = 0;
    }
    return job;
}

static _Thread_local const struct gt_trace_row *sort_rows;

static int by_time(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    GT_BY(sort_rows[x].submitted, sort_rows[y].submitted);
    return (x > y) - (x < y);
}

/* The rows of a file by time; the caller frees them. */
static int sort_by_time(const struct gt_trace *trace, uint32_t **ret, struct gt_err **err)
{
    gt_auto_free uint32_t *order = calloc((size_t)trace->row_count + 1, sizeof(*order));
    GT_NEED(order, err, "%u jobs", trace->row_count);
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
    GT_TRY(sort_by_time(trace, &order, err));
    uint32_t count = draw->jobs < trace->row_count ? draw->jobs : trace->row_count;
    uint32_t first = gt_rng_below(rng, trace->row_count - count + 1), node = gt_site_largest_node(site);
    struct gt_sim_job *jobs = calloc(count + 1UL, sizeof(*jobs));
    GT_NEED(jobs, err, "%u jobs", count);
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
    GT_NEED(jobs, err, "%u jobs", draw->jobs);
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

void gt_trace_free(struct gt_trace *trace)
{
    if (!trace)
        return;
    free(trace->rows);
    free(trace);
}

/* ---- named distributions ---- */

/*
 * Jobs with at most x GPUs, and the GPU time they use, in percent; mean run time of a job in seconds. Read
 * from the published figures of the traces (AcmeTrace; docs/placement-benchmarks.md).
 */
static const uint32_t cdf_gpus[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
static const struct cdf {
    const char *name;
    double seconds;
    double jobs[GT_COUNT(cdf_gpus)], time[GT_COUNT(cdf_gpus)];
} cdfs[] = {
    {"seren",
     1414,
     {54.0, 65.4, 67.9, 96.7, 97.9, 98.8, 99.3, 99.6, 99.7, 99.8, 100},
     {1.3, 1.8, 2.4, 11.9, 13.2, 19.1, 27.6, 41.7, 56.3, 69.7, 100}},
    {"kalos",
     1260,
     {86.3, 88.4, 88.4, 93.9, 94.3, 94.7, 95.3, 95.7, 96.9, 98.5, 100},
     {0, 0, 0, 0.6, 0.6, 2.0, 3.3, 3.7, 24.9, 64.1, 100}},
    {"philly",
     18006,
     {82.4, 84.5, 92.0, 98.9, 99.8, 100, 100, 100, 100, 100, 100},
     {16.4, 19.4, 38.2, 88.0, 97.2, 100, 100, 100, 100, 100, 100}},
    {"helios",
     6652,
     {72.2, 74.7, 80.5, 94.7, 97.7, 99.4, 99.7, 99.9, 100, 100, 100},
     {5.4, 7.2, 12.1, 41.3, 61.5, 86.6, 94.4, 97.5, 100, 100, 100}},
};

/* A share of GPU time that was read as 0: the figure shows one decimal. */
static const double LEAST_TIME = 0.02;

static void fill_from_cdf(const struct cdf *cdf, struct gt_trace *trace)
{
    double mean = 0, jobs = 0;
    trace->kind = GT_TRACE_CDF;
    for (unsigned i = 0; i < GT_COUNT(cdf_gpus); i++) {
        double share = cdf->jobs[i] - (i ? cdf->jobs[i - 1] : 0);
        double time = cdf->time[i] - (i ? cdf->time[i - 1] : 0);
        if (share < 0.001)
            continue;
        struct gt_size_class *class = &trace->classes[trace->class_count++];
        *class = (struct gt_size_class){
            .gpus = cdf_gpus[i],
            .share = share,
            .seconds = (time > LEAST_TIME ? time : LEAST_TIME) / share / cdf_gpus[i],
        };
        mean += class->share * class->seconds;
        jobs += share;
    }
    for (unsigned i = 0; i < trace->class_count; i++) {
        trace->classes[i].seconds *= cdf->seconds * jobs / mean;
        trace->classes[i].share /= jobs;
    }
}

static int fill_from_mix(const char *list, struct gt_trace *trace, struct gt_err **err)
{
    enum { MIX_SECONDS = 3600 };
    char copy[256];
    bool good = gt_text_copy(copy, sizeof(copy), list);
    trace->kind = GT_TRACE_MIX;
    for (char *part = copy; good && part;) {
        char *comma = strchr(part, ',');
        uint64_t gpus;
        if (comma)
            *comma++ = '\0';
        good = trace->class_count < GT_MIX_MAX && gt_text_to_unsigned(part, GT_TRACE_JOB_GPUS_MAX, &gpus) &&
               gpus;
        if (good)
            trace->classes[trace->class_count++] =
                (struct gt_size_class){.gpus = (uint32_t)gpus, .share = 1, .seconds = MIX_SECONDS};
        part = comma;
    }
    if (!good)
        return gt_fail(err, EINVAL, "mix: expected up to %d numbers of GPUs such as mix:1,4,16, is '%.100s'",
                       GT_MIX_MAX, list);
    for (unsigned i = 0; i < trace->class_count; i++)
        trace->classes[i].share = 1.0 / trace->class_count;
    return 0;
}

int gt_trace_from_name(const char *name, struct gt_trace **ret, struct gt_err **err)
{
    gt_auto_trace struct gt_trace *trace = calloc(1, sizeof(*trace));
    GT_NEED(trace, err, "trace");
    const struct cdf *cdf = GT_FIND(cdfs, GT_COUNT(cdfs), name, name);
    if (strncmp(name, "mix:", 4) == 0)
        GT_TRY(fill_from_mix(name + 4, trace, err));
    if (cdf)
        fill_from_cdf(cdf, trace);
    if (!trace->class_count)
        return gt_fail(err, ENOENT, "expected seren, kalos, philly, helios, mix:SIZES or a file, is '%.100s'",
                       name);
    *ret = gt_steal(trace);
    return 0;
}

/* ---- files ---- */

static const char *const philly_header[] = {"timestamp", "duration", "num_gpus", "gpu_time", "cluster"};

/* The namespaces of a file, each with its number. */
struct tenant_name {
    uint32_t number;
    char name[];
};

static bool trace_is_named(const void *item, const void *key)
{
    return strcmp(((const struct tenant_name *)item)->name, key) == 0;
}

static void tenants_done(struct gt_table *tenants)
{
    for (uint32_t i = 0; i < tenants->size; i++)
        free(tenants->items[i]);
    gt_table_done(tenants);
}

static int tenant_of(struct gt_table *tenants, const struct gt_csv *csv, const char *name, uint32_t *ret,
                     struct gt_err **err)
{
    uint32_t hash = gt_digest_hash(gt_digest_keyed(name));
    struct tenant_name *tenant = gt_table_find(tenants, hash, trace_is_named, name);
    if (!tenant) {
        if (tenants->count == GT_TRACE_TENANTS_MAX)
            return gt_fail(err, E2BIG, "%s:%u: more than %d clusters", csv->file, csv->line,
                           GT_TRACE_TENANTS_MAX);
        tenant = malloc(sizeof(*tenant) + strlen(name) + 1);
        GT_NEED(tenant, err, "%s", csv->file);
        tenant->number = tenants->count;
        memcpy(tenant->name, name, strlen(name) + 1);
        if (gt_table_add(tenants, hash, tenant) < 0) {
            free(tenant);
            return gt_fail_sys(err, ENOMEM, "%s", csv->file);
        }
    }
    *ret = tenant->number;
    return 0;
}

/* "2017-10-09 07:01:55", without a time zone; 0: it is none. */
static int64_t trace_read_time(const char *text)
{
    char copy[32];
    if (!gt_text_copy(copy, sizeof(copy) - 1, text))
        return 0;
    char *space = strchr(copy, ' ');
    if (space)
        *space = 'T';
    memcpy(copy + strlen(copy), "Z", sizeof("Z"));
    return gt_time_of_text(copy);
}

/* The virtual cluster of a job counts as its namespace. */
static int read_philly(const struct gt_csv *csv, struct gt_table *tenants, struct gt_trace_row *ret,
                       struct gt_err **err)
{
    enum { DURATION_MAX = 1000000000 };
    GT_TRY(gt_csv_real(csv, 1, "duration", DURATION_MAX, &ret->duration, err));
    GT_TRY(gt_csv_whole(csv, 2, "num_gpus", GT_TRACE_JOB_GPUS_MAX, &ret->gpus, err));
    if (ret->gpus == 0)
        return gt_fail(err, EINVAL, "%s:%u: num_gpus: expected 1 or more, is 0", csv->file, csv->line);
    ret->submitted = trace_read_time(csv->fields[0]);
    return tenant_of(tenants, csv, csv->fields[4], &ret->tenant, err);
}

static int trace_read_rows(struct gt_csv *csv, struct gt_table *tenants, struct gt_trace *trace,
                           struct gt_err **err)
{
    uint32_t capacity = 0;
    int r = gt_csv_next(csv, err);
    if (r < 0)
        return r;
    if (!(r && gt_csv_is(csv, philly_header, GT_COUNT(philly_header))))
        return gt_fail(err, EINVAL,
                       "%s:%u: not a trace: expected the header "
                       "timestamp,duration,num_gpus,gpu_time,cluster",
                       csv->file, csv->line ? csv->line : 1);
    trace->kind = GT_TRACE_FILE;
    while ((r = gt_csv_next(csv, err)) > 0) {
        if (csv->field_count != GT_COUNT(philly_header))
            return gt_fail(err, EINVAL, "%s:%u: expected %zu fields, is %u", csv->file, csv->line,
                           GT_COUNT(philly_header), csv->field_count);
        if (trace->row_count == GT_TRACE_JOBS_MAX)
            return gt_fail(err, E2BIG, "%s:%u: more than %d jobs", csv->file, csv->line, GT_TRACE_JOBS_MAX);
        GT_NEED(GT_GROW(trace->rows, trace->row_count, capacity, 1024), err, "%s", csv->file);
        struct gt_trace_row row = {0};
        GT_TRY(read_philly(csv, tenants, &row, err));
        if (row.duration > 0) /* a job that ended at once used nothing */
            trace->rows[trace->row_count++] = row;
    }
    if (r < 0)
        return r;
    trace->tenants = tenants->count;
    return trace->row_count ? 0 : gt_fail(err, EINVAL, "%s: no jobs", csv->file);
}

int gt_trace_from_text(const char *file, char *text, size_t len, struct gt_trace **ret, struct gt_err **err)
{
    gt_auto_trace struct gt_trace *trace = calloc(1, sizeof(*trace));
    GT_NEED(trace, err, "%s", file);
    struct gt_csv csv;
    struct gt_table tenants = {0};
    gt_csv_open(&csv, file, text, len);
    int r = trace_read_rows(&csv, &tenants, trace, err);
    tenants_done(&tenants);
    if (r < 0)
        return r;
    *ret = gt_steal(trace);
    return 0;
}

void gt_rng_seed(struct gt_rng *rng, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        rng->state[i] = z ^ (z >> 31);
    }
}

uint32_t gt_rng_below(struct gt_rng *rng, uint32_t limit)
{
    if (limit == 0)
        return 0;
    uint64_t reject = -(uint64_t)limit % limit; /* numbers below this would make small results more likely */
    uint64_t x;
    do
        x = rng_next_of(rng);
    while (x < reject);
    return (uint32_t)(x % limit);
}

double gt_rng_exponential(struct gt_rng *rng, double mean)
{
    return -mean * log1p(-trace_unit(rng));
}
