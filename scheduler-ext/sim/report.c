/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "base/cleanup.h"
#include "base/json_write.h"
#include "scheduler-ext/sim/result.h"

/* Student's t, two-sided 95 %, by degrees of freedom from 1. */
static const double student[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                 2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                 2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};

struct gt_mean gt_report_mean(const struct gt_report *report, double (*get)(const struct gt_result *run))
{
    double mean = 0, square = 0;
    uint32_t n = report->runs;
    for (uint32_t i = 0; i < n; i++)
        mean += get(&report->run[i]) / n;
    for (uint32_t i = 0; i < n; i++)
        square += (get(&report->run[i]) - mean) * (get(&report->run[i]) - mean);
    double t = n > GT_COUNT(student) + 1 ? 1.96 : n > 1 ? student[n - 2] : 0;
    return (struct gt_mean){mean, n > 1 ? t * sqrt(square / (n - 1) / n) : 0};
}

#define X(key, field)                                                                                        \
    static double get_##field(const struct gt_result *run)                                                   \
    {                                                                                                        \
        return run->field;                                                                                   \
    }
GT_RESULT_FIELDS(X)
#undef X

static const struct field {
    const char *key;
    double (*get)(const struct gt_result *run);
} fields[] = {
#define X(key, field) {key, get_##field},
    GT_RESULT_FIELDS(X)
#undef X
};

/* ---- table ---- */

static const struct column {
    const char *title;
    int width, decimals;
    double scale;
    bool with_ci;
    double (*get)(const struct gt_result *run);
} columns[] = {
    {"placed", 9, 0, 1, false, get_placed},
    {"rejected", 9, 0, 1, false, get_rejected},
    {"acceptance %", 14, 2, 100, true, get_acceptance},
    {"occupancy %", 14, 2, 100, true, get_occupancy},
    {"fragmented %", 14, 2, 100, true, get_fragmentation},
    {"split %", 9, 2, 100, false, get_split_share},
    {"spread", 8, 3, 1, false, get_spread_mean},
    {"jobs in one %", 13, 2, 100, false, get_jobs_in_one},
    {"of job", 7, 3, 1, false, get_job_supernodes},
    {"bound", 7, 3, 1, false, get_job_supernodes_bound},
    {"in one leaf %", 13, 2, 100, false, get_jobs_in_one_leaf},
    {"leaves", 7, 3, 1, false, get_job_leaves},
    {"bound", 7, 3, 1, false, get_job_leaves_bound},
    {"links %", 8, 1, 100, false, get_link_share},
    {"served %", 14, 2, 100, true, get_served},
    {"wait mean s", 12, 0, 1, false, get_wait_mean},
    {"by GPUs s", 11, 0, 1, false, get_wait_gpu_mean},
    {"wait p50 s", 11, 0, 1, false, get_wait_p50},
    {"wait p99 s", 11, 0, 1, false, get_wait_p99},
    {"first p99 s", 11, 0, 1, false, get_wait_first_p99},
    {"decisions/s", 12, 0, 1, false, get_decisions_per_second},
};

void gt_report_table(const struct gt_report *reports, uint32_t count, const char *title, struct gt_buf *to)
{
    gt_buf_printf(to, "%s\n%-16s", title, "policy");
    for (size_t c = 0; c < GT_COUNT(columns); c++)
        gt_buf_printf(to, " %*s", columns[c].width, columns[c].title);
    gt_buf_puts(to, "\n");
    for (uint32_t i = 0; i < count; i++) {
        gt_buf_printf(to, "%-16s", reports[i].policy);
        for (size_t c = 0; c < GT_COUNT(columns); c++) {
            const struct column *column = &columns[c];
            struct gt_mean mean = gt_report_mean(&reports[i], column->get);
            if (column->with_ci && reports[i].runs > 1)
                gt_buf_printf(to, " %*.*f +-%.2f", column->width - 7, column->decimals,
                              mean.mean * column->scale, mean.ci95 * column->scale);
            else
                gt_buf_printf(to, " %*.*f", column->width, column->decimals, mean.mean * column->scale);
        }
        gt_buf_puts(to, "\n");
    }
}

/* ---- CSV: a line a run ---- */

void gt_report_csv(const struct gt_report *reports, uint32_t count, struct gt_buf *to)
{
    gt_buf_puts(to, "policy,seed");
    for (size_t f = 0; f < GT_COUNT(fields); f++)
        gt_buf_printf(to, ",%s", fields[f].key);
    gt_buf_puts(to, "\n");
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t r = 0; r < reports[i].runs; r++) {
            gt_buf_printf(to, "%s,%" PRIu64, reports[i].policy, reports[i].seed + r);
            for (size_t f = 0; f < GT_COUNT(fields); f++)
                gt_buf_printf(to, ",%.9g", fields[f].get(&reports[i].run[r]));
            gt_buf_puts(to, "\n");
        }
}

/* ---- JSON: an object a policy ---- */

static void add_sample(struct gt_buf *to, const struct gt_sample *sample)
{
    gt_json_new_line(to, 2);
    gt_json_begin(to, NULL, '{');
    gt_json_add_real(to, "at", sample->at, 6);
    gt_json_add_real(to, "occupancy", sample->occupancy, 4);
    gt_json_add_real(to, "acceptance", sample->acceptance, 4);
    gt_json_add_real(to, "spread", sample->spread, 4);
    gt_json_add_real(to, "fragmentation", sample->fragmentation, 4);
    gt_json_end(to, '}');
}

void gt_report_json(const struct gt_report *reports, uint32_t count, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '[');
    for (uint32_t i = 0; i < count; i++) {
        const struct gt_report *report = &reports[i];
        gt_json_new_line(to, 0);
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "policy", report->policy);
        for (size_t f = 0; f < GT_COUNT(fields); f++) {
            gt_json_new_line(to, 1);
            gt_json_add_real(to, fields[f].key, gt_report_mean(report, fields[f].get).mean, 9);
        }
        gt_json_new_line(to, 1);
        gt_json_add_unsigned(to, "fragmentationSize", report->runs ? report->run[0].fragmentation_size : 0);
        gt_json_begin(to, "seeds", '[');
        for (uint32_t r = 0; r < report->runs; r++)
            gt_json_add_unsigned(to, NULL, report->seed + r);
        gt_json_end(to, ']');
        gt_json_new_line(to, 1);
        gt_json_begin(to, "ci95", '{');
        for (size_t f = 0; f < GT_COUNT(fields); f++)
            gt_json_add_real(to, fields[f].key, gt_report_mean(report, fields[f].get).ci95, 4);
        gt_json_end(to, '}');
        gt_json_new_line(to, 1);
        gt_json_begin(to, "series", '[');
        for (uint32_t s = 0; report->runs && s < report->run[0].samples; s++)
            add_sample(to, &report->run[0].series[s]);
        gt_json_ends(to, "]}");
    }
    gt_buf_puts(to, "\n]\n");
}
