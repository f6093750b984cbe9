/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/json_write.h"
#include "base/text.h"
#include "cli/try.h"
#include "topology/model/svg.h"

enum { TRY_SHOWN = 20 };

static void try_write_cluster(const struct try_result *result, struct gt_buf *to)
{
    const struct gt_picture *picture = &result->view.picture;
    const struct gt_picture_counts *counts = &picture->counts;
    gt_buf_printf(to, "%u node%s with %u GPUs, %u free, ", counts->nodes, gt_plural(counts->nodes),
                  counts->gpus, counts->free);
    if (!picture->supernode_count)
        gt_buf_printf(to,
                      "and no supernodes: no node has a label %s. Each node is looked at as a supernode of "
                      "its own; --supernode-label names another label.\n",
                      result->labels);
    else
        gt_buf_printf(to, "in %u supernode%s by label (%s)", picture->supernode_count,
                      gt_plural(picture->supernode_count), result->labels);
    if (picture->supernode_count && result->alone)
        gt_buf_printf(to, "; %u node%s without it, each by itself\n", result->alone,
                      gt_plural(result->alone));
    else if (picture->supernode_count)
        gt_buf_puts(to, "\n");
    gt_buf_puts(
        to, "How the GPUs of a node are wired is known only with gputopo's agent; here they only count.\n");
}

static void try_write_fits(const struct try_result *result, struct gt_buf *to)
{
    gt_buf_printf(to, "\nUnits that fit now, each in one supernode, of pods of %u GPU%s:\n",
                  result->unit_gpus, gt_plural(result->unit_gpus));
    for (unsigned i = 0; i < result->fit_count; i++)
        gt_buf_printf(to, "  %5u GPUs: %u\n", result->fits[i].gpus, result->fits[i].units);
}

/* A number, or "-" where it is not known. */
static void try_write_number(struct gt_buf *to, int width, uint32_t number)
{
    if (number)
        gt_buf_printf(to, "%*u", width, number);
    else
        gt_buf_printf(to, "%*s", width, "-");
}

static void try_write_running(const struct try_result *result, struct gt_buf *to)
{
    uint32_t running = result->job_count - result->waiting, shown = 0;
    gt_buf_printf(to, "\n%u job%s of several pods run%s; %u lie%s in more supernodes than needed\n", running,
                  gt_plural(running), running == 1 ? "s" : "", result->apart, result->apart == 1 ? "s" : "");
    if (result->mixed)
        gt_buf_printf(to, "(%u job%s pods of different sizes and %s not looked at)\n", result->mixed,
                      result->mixed == 1 ? " has" : "s have", result->mixed == 1 ? "is" : "are");
    if (!result->apart)
        return;
    gt_buf_puts(to, "   GPUs  SUPERNODES  NEEDED  WITH GPUTOPO  JOB\n");
    for (uint32_t i = 0; i < result->job_count && shown < TRY_SHOWN; i++) {
        const struct try_job *job = &result->jobs[i];
        if (!job->is_apart)
            continue;
        gt_buf_printf(to, "%7u %11u %7u", job->count * job->gpus, job->supernodes, job->needed);
        try_write_number(to, 14, job->again);
        gt_buf_printf(to, "  %s\n", job->name);
        shown++;
    }
    if (shown < result->apart)
        gt_buf_printf(to, "  and %u more\n", result->apart - shown);
    gt_buf_printf(to,
                  "NEEDED is for the empty cluster, WITH GPUTOPO if the job was placed again now, on what is "
                  "free and what it has.\ngputopo would put %u of the %u into fewer supernodes.\n",
                  result->closer, result->apart);
}

static void try_write_waiting(const struct try_result *result, struct gt_buf *to)
{
    uint32_t shown = 0;
    if (!result->waiting)
        return;
    gt_buf_printf(to, "\n%u job%s wait%s\n", result->waiting, gt_plural(result->waiting),
                  result->waiting == 1 ? "s" : "");
    for (uint32_t i = 0; i < result->job_count && shown < TRY_SHOWN; i++) {
        const struct try_job *job = &result->jobs[i];
        if (!job->waiting)
            continue;
        shown++;
        gt_buf_printf(to, "  %s: %u of %u pod%s wait%s", job->name, job->waiting, job->count,
                      gt_plural(job->count), job->waiting == 1 ? "s" : "");
        if (!job->gpus)
            gt_buf_puts(to, "; its pods have different numbers of GPUs\n");
        else if (!job->again)
            gt_buf_printf(to, "; there is no room for %u GPUs in pods of %u\n", job->count * job->gpus,
                          job->gpus);
        else
            gt_buf_printf(to, "; by GPUs it fits, in %u supernode%s (%u in the empty cluster)\n", job->again,
                          gt_plural(job->again), job->needed);
    }
    if (shown < result->waiting)
        gt_buf_printf(to, "  and %u more\n", result->waiting - shown);
}

void try_write_text(const struct try_result *result, struct gt_buf *to)
{
    try_write_cluster(result, to);
    try_write_fits(result, to);
    try_write_running(result, to);
    try_write_waiting(result, to);
    gt_buf_puts(to, "\nNothing was written into the cluster.\n");
}

/* ---- other formats ---- */

/* A number; null where it is not known. */
static void try_add_count(struct gt_buf *to, const char *key, uint32_t number)
{
    if (number)
        gt_json_add_unsigned(to, key, number);
    else
        gt_json_add_null(to, key);
}

static void try_add_job(const struct try_job *job, struct gt_buf *to)
{
    gt_json_new_line(to, 4);
    gt_json_printf(to, "{'name': %s, 'pods': %u, 'waiting': %u", job->name, job->count, job->waiting);
    try_add_count(to, "gpusPerPod", job->gpus);
    gt_json_add_unsigned(to, "supernodes", job->supernodes);
    try_add_count(to, "needed", job->needed);
    try_add_count(to, "placedAgain", job->again);
    gt_json_end(to, '}');
}

void try_write_json(const struct try_result *result, struct gt_buf *to)
{
    const struct gt_picture_counts *counts = &result->view.picture.counts;
    gt_json_printf(to, "{'nodes': %u, 'gpus': %u, 'free': %u, 'supernodes': %u, 'nodesAlone': %u, 'fits': [",
                   counts->nodes, counts->gpus, counts->free, result->view.picture.supernode_count,
                   result->alone);
    for (unsigned i = 0; i < result->fit_count; i++)
        gt_json_printf(to, "{'gpus': %u, 'units': %u}", result->fits[i].gpus, result->fits[i].units);
    gt_json_printf(to, "], 'jobs': [");
    for (uint32_t i = 0; i < result->job_count; i++)
        try_add_job(&result->jobs[i], to);
    gt_json_printf(to, "], 'cluster':");
    cli_view_json(&result->view, to);
    gt_buf_puts(to, "}\n");
}

void try_write_html(const struct try_result *result, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    try_write_text(result, &text);
    gt_buf_puts(
        to, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>gputopo try</title>\n"
            "<meta name=\"viewport\" content=\"width=device-width\">\n"
            "<style>body{font:15px sans-serif;margin:1.5rem}pre{white-space:pre-wrap}"
            "svg{max-width:100%;height:auto}</style></head>\n<body><h1>gputopo try</h1>\n<pre>");
    for (char *line = text.data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        svg_escape(to, line);
        gt_buf_puts(to, "\n");
    }
    to->failed |= text.failed;
    gt_buf_puts(to, "</pre>\n");
    gt_picture_svg(&result->view.picture, to);
    gt_buf_puts(to, "</body></html>\n");
}
