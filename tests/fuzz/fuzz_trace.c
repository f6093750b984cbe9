/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/sim/trace.h"
#include "tests/fuzz/fuzz.h"

/* A trace, or a list of nodes, is refused with one line that names the file, or gives rows within their
 * limits. */
static char *text_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static void check_error(const struct gt_err *err)
{
    if (strncmp(gt_err_text(err), "input:", 6) != 0 || strchr(gt_err_text(err), '\n'))
        abort();
}

static void read_trace(char *text, size_t size)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_trace struct gt_trace *trace = NULL;
    if (gt_trace_from_text("input", text, size, &trace, &err) < 0) {
        check_error(err);
        return;
    }
    for (uint32_t i = 0; i < trace->row_count; i++) {
        const struct gt_trace_row *row = &trace->rows[i];
        if (row->gpus > GT_TRACE_JOB_GPUS_MAX || !(row->duration >= 0))
            abort();
    }
}

static void read_site(char *text, size_t size)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_site struct gt_site *site = NULL;
    if (gt_site_from_text("input", text, size, &site, &err) < 0) {
        check_error(err);
        return;
    }
    for (uint32_t i = 0; i < site->node_count; i++)
        if (site->nodes[i].super >= site->super_count || site->nodes[i].gpus > 64)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    read_trace(text, size);
    free(text);
    text = text_of(data, size);
    read_site(text, size);
    free(text);
    return 0;
}
