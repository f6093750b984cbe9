/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/trace.h"

#include <errno.h>
#include <string.h>

#include "base/digest.h"
#include "base/table.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/sim/csv.h"

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
    if (!trace)
        return gt_fail_sys(err, ENOMEM, "trace");
    if (strncmp(name, "mix:", 4) == 0) {
        int r = fill_from_mix(name + 4, trace, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < GT_COUNT(cdfs) && !trace->class_count; i++)
        if (strcmp(name, cdfs[i].name) == 0)
            fill_from_cdf(&cdfs[i], trace);
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
        if (!tenant)
            return gt_fail_sys(err, ENOMEM, "%s", csv->file);
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
    int r = gt_csv_real(csv, 1, "duration", DURATION_MAX, &ret->duration, err);
    if (r >= 0)
        r = gt_csv_whole(csv, 2, "num_gpus", GT_TRACE_JOB_GPUS_MAX, &ret->gpus, err);
    if (r >= 0 && ret->gpus == 0)
        return gt_fail(err, EINVAL, "%s:%u: num_gpus: expected 1 or more, is 0", csv->file, csv->line);
    ret->submitted = trace_read_time(csv->fields[0]);
    return r < 0 ? r : tenant_of(tenants, csv, csv->fields[4], &ret->tenant, err);
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
        if (trace->row_count == capacity) {
            capacity = capacity ? capacity * 2 : 1024;
            struct gt_trace_row *grown = realloc(trace->rows, capacity * sizeof(*grown));
            if (!grown)
                return gt_fail_sys(err, ENOMEM, "%s", csv->file);
            trace->rows = grown;
        }
        struct gt_trace_row row = {0};
        r = read_philly(csv, tenants, &row, err);
        if (r < 0)
            return r;
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
    if (!trace)
        return gt_fail_sys(err, ENOMEM, "%s", file);
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
