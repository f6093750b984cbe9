/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

/* Pieces of the Prometheus text format, version 0.0.4, for /metrics of the daemons: names that end with
 * _total are counters, the others gauges, where nothing else is said. Names and helps have no line breaks. */
#define GT_PROM_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The two comment lines in front of a metric's samples. */
void gt_prom_head(struct gt_buf *to, const char *name, const char *help);
void gt_prom_histogram_head(struct gt_buf *to, const char *name, const char *help);

/* A metric whose samples differ in one label; the last of `samples` has no `of`. */
struct gt_prom_sample {
    const char *of;
    uint64_t value;
};
void gt_prom_by(struct gt_buf *to, const char *name, const char *help, const char *label,
                const struct gt_prom_sample *samples);

/* A label's value in quotes: backslash, quote and line feed are escaped; bytes that are not UTF-8 are
 * replaced. */
void gt_prom_label(struct gt_buf *to, const char *text);

/* A metric without labels, with its head. */
void gt_prom_number(struct gt_buf *to, const char *name, const char *help, uint64_t value);
void gt_prom_real(struct gt_buf *to, const char *name, const char *help, double value);

/* `buckets` has `count` numbers: how many values are within each of the `count - 1` limits, and last how many
 * are above all of them. */
struct gt_prom_buckets {
    const double *limits;
    const uint64_t *buckets;
    unsigned count;
    double sum;
};
void gt_prom_histogram(struct gt_buf *to, const char *name, const char *help,
                       const struct gt_prom_buckets *buckets);
/* The samples alone, of one of several histograms of a name. `label` tells them apart: 'gpus="8"'. */
void gt_prom_histogram_of(struct gt_buf *to, const char *name, const char *label,
                          const struct gt_prom_buckets *buckets);

/* gputopo_build_info; the process_* metrics, as far as /proc has them. */
void gt_prom_build(struct gt_buf *to);
void gt_prom_process(struct gt_buf *to);
