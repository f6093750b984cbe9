/* SPDX-License-Identifier: Apache-2.0 */
#include "base/prometheus.h"

#include <inttypes.h>
#include <string.h>

#include "base/process.h"
#include "base/text.h"
#include "base/version.h"

void gt_prom_head(struct gt_buf *to, const char *name, const char *help)
{
    size_t len = strlen(name), total = strlen("_total");
    bool counts = len > total && strcmp(name + len - total, "_total") == 0;
    gt_buf_printf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, counts ? "counter" : "gauge");
}

void gt_prom_histogram_head(struct gt_buf *to, const char *name, const char *help)
{
    gt_buf_printf(to, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
}

void gt_prom_by(struct gt_buf *to, const char *name, const char *help, const char *label,
                const struct gt_prom_sample *samples)
{
    gt_prom_head(to, name, help);
    for (; samples->of; samples++)
        gt_buf_printf(to, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, samples->of, samples->value);
}

void gt_prom_label(struct gt_buf *to, const char *text)
{
    gt_buf_puts(to, "\"");
    bool valid = gt_text_is_utf8(text);
    for (const char *p = text; *p; p++) {
        if (*p == '\\' || *p == '"')
            gt_buf_printf(to, "\\%c", *p);
        else if (*p == '\n')
            gt_buf_puts(to, "\\n");
        else if (!valid && (unsigned char)*p >= 0x80)
            gt_buf_puts(to, "\xef\xbf\xbd");
        else
            gt_buf_add(to, p, 1);
    }
    gt_buf_puts(to, "\"");
}

void gt_prom_number(struct gt_buf *to, const char *name, const char *help, uint64_t value)
{
    gt_prom_head(to, name, help);
    gt_buf_printf(to, "%s %" PRIu64 "\n", name, value);
}

void gt_prom_real(struct gt_buf *to, const char *name, const char *help, double value)
{
    gt_prom_head(to, name, help);
    gt_buf_printf(to, "%s %.9g\n", name, value);
}

void gt_prom_histogram_of(struct gt_buf *to, const char *name, const char *label,
                          const struct gt_prom_buckets *buckets)
{
    uint64_t total = 0;
    const char *comma = *label ? "," : "", *open = *label ? "{" : "", *close = *label ? "}" : "";
    for (unsigned i = 0; i < buckets->count; i++) {
        total += buckets->buckets[i];
        gt_buf_printf(to, "%s_bucket{%s%sle=\"", name, label, comma);
        if (i + 1 < buckets->count)
            gt_buf_printf(to, "%g\"} %" PRIu64 "\n", buckets->limits[i], total);
        else
            gt_buf_printf(to, "+Inf\"} %" PRIu64 "\n", total);
    }
    /* The count is the sum of the buckets, so that they agree even while a request is being counted. */
    gt_buf_printf(to, "%s_sum%s%s%s %.9g\n%s_count%s%s%s %" PRIu64 "\n", name, open, label, close,
                  buckets->sum, name, open, label, close, total);
}

void gt_prom_histogram(struct gt_buf *to, const char *name, const char *help,
                       const struct gt_prom_buckets *buckets)
{
    gt_prom_histogram_head(to, name, help);
    gt_prom_histogram_of(to, name, "", buckets);
}

void gt_prom_build(struct gt_buf *to)
{
    gt_prom_head(to, "gputopo_build_info", "The program's version; always 1.");
    gt_buf_puts(to, "gputopo_build_info{version=");
    gt_prom_label(to, gt_version);
    gt_buf_puts(to, ",commit=");
    gt_prom_label(to, gt_commit);
    gt_buf_puts(to, "} 1\n");
}

void gt_prom_process(struct gt_buf *to)
{
    struct gt_process process;
    if (!gt_process_read(&process))
        return;
    gt_prom_real(to, "process_cpu_seconds_total", "Processor time used.", process.cpu_s);
    gt_prom_number(to, "process_resident_memory_bytes", "Resident memory.", process.resident_bytes);
    gt_prom_number(to, "process_open_fds", "Open descriptors.", process.descriptors);
    gt_prom_head(to, "process_start_time_seconds", "When the process started.");
    gt_buf_printf(to, "process_start_time_seconds %.2f\n", process.start_s);
}
