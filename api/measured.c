/* SPDX-License-Identifier: Apache-2.0 */
#include "api/measured.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "base/time_text.h"

/* A UUID, or the number of a GPU. */
static int measured_gpu(const struct gt_at *at, const char *key, const cJSON *value,
                        char to[static GT_ID_SIZE])
{
    uint64_t index;
    if (!gt_json_is_unsigned(value, GT_GPUS_MAX - 1, &index))
        return gt_read_text(at, key, value, to, GT_ID_SIZE);
    snprintf(to, GT_ID_SIZE, "%u", (unsigned)index);
    return 0;
}

struct measured_time {
    int64_t begin_s, end_s;
};

static int measured_time(const struct gt_at *at, const cJSON *item, struct measured_time *to)
{
    const char *when = gt_get_string(item, "at"), *until = gt_get_string(item, "until");
    int64_t at_s = gt_time_of_text(when), until_s = gt_time_of_text(until);
    if (!at_s)
        return gt_at_fail(at, "at", "'%.40s' is no time such as 2026-11-29T09:00:00Z", when);
    if (*until && !until_s)
        return gt_at_fail(at, "until", "'%.40s' is no time such as 2026-11-29T09:00:00Z", until);
    to->begin_s = at_s - GT_MEASURED_AHEAD_S;
    to->end_s = until_s ? until_s : at_s + GT_MEASURED_AGE_S;
    return 0;
}

static int measured_entry(const struct gt_at *at, const cJSON *item, struct gt_measurement *to,
                          struct measured_time *time)
{
    const cJSON *link, *gpu = gt_get(item, "gpu");
    unsigned count = 0;
    double gbps = 0;
    GT_TRY(gt_get_array(at, item, "link", 2, &link, &count));
    if (!link == !gpu || (link && count != 2))
        return gt_at_fail(at, "", "expected one of gpu and link, with two GPUs");
    GT_TRY(measured_gpu(at, link ? "link[0]" : "gpu", link ? link->child : gpu, to->gpu));
    if (link)
        GT_TRY(measured_gpu(at, "link[1]", link->child->next, to->peer));
    GT_TRY(gt_get_number(at, item, "bandwidthGBps", GT_MEASURED_GBPS_MAX, &gbps));
    if (gbps < 0.001)
        return gt_at_fail(at, "bandwidthGBps", "expected more than 0");
    to->mbps = (uint64_t)(gbps * 1000);
    return measured_time(at, item, time);
}

/* Adds an entry, if it counts now. */
static void measured_add(struct gt_measured_reader *reader, const struct gt_measurement *measurement,
                         const struct measured_time *time)
{
    int64_t next_s = reader->now_s < time->begin_s ? time->begin_s : time->end_s;
    if (time->end_s <= reader->now_s || reader->to->count >= GT_MEASURED_MAX)
        return;
    if (next_s == time->end_s)
        reader->to->of[reader->to->count++] = *measurement;
    if (!reader->again_s || next_s < reader->again_s)
        reader->again_s = next_s;
}

static int measured_read_list(const struct gt_at *at, const cJSON *in, struct gt_measured_reader *reader)
{
    const cJSON *list;
    unsigned count, i = 0;
    GT_TRY(gt_get_array(at, in, "measured", GT_MEASURED_MAX - reader->to->count, &list, &count));
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
        char path[48];
        gt_auto_err struct gt_err *why = NULL;
        struct gt_measurement one = {.gpu = ""};
        struct measured_time when = {0};
        snprintf(path, sizeof(path), "%s%smeasured[%u]", at->path, *at->path ? "." : "", i++);
        const struct gt_at below = {at->source, path, &why};
        int r = measured_entry(&below, item, &one, &when);
        if (r >= 0)
            measured_add(reader, &one, &when);
        if (r >= 0 && reader->now_s < when.begin_s)
            r = gt_at_fail(&below, "at", "%.40s is in the future", gt_get_string(item, "at"));
        if (r < 0)
            reader->note(reader->arg, gt_err_text(why));
    }
    return list != NULL;
}

int gt_measured_read_file(const cJSON *file, const char *source, struct gt_measured_reader *reader,
                          struct gt_err **err)
{
    struct gt_at at = {source, "", err};
    unsigned version = 0;
    GT_TRY(gt_get_unsigned(&at, file, "version", UINT_MAX, &version));
    if (version != 1)
        return gt_at_fail(&at, "version", "%u is not known here, 1 is", version);
    int r = measured_read_list(&at, file, reader);
    return r ? r : gt_at_fail(&at, "measured", "is not there");
}

const cJSON *gt_measured_spec(const cJSON *object)
{
    const cJSON *spec = gt_get(object, "spec");
    return gt_get(spec, "measured") ? spec : NULL;
}

int gt_measured_read_spec(const cJSON *spec, const char *source, struct gt_measured_reader *reader,
                          struct gt_err **err)
{
    return measured_read_list(&(struct gt_at){source, "spec", err}, spec, reader);
}

int gt_mxvs_row_read(char *line, struct gt_mxvs_row *to)
{
    enum { A, B, WAY, BYTES, EFFECTIVE, UNIT, RAW, RAW_UNIT, DELAY, VALID, WORDS };
    char *words[WORDS + 1] = {NULL};
    unsigned count = 0;
    uint64_t a, b;
    for (char *word; count <= WORDS && (word = strsep(&line, " \t"));)
        if (*word)
            words[count++] = word;
    if (!count || strncmp(words[A], "GPU#", 4) != 0)
        return 0;
    if (count != WORDS || strncmp(words[B], "GPU#", 4) != 0 || strcmp(words[UNIT], "GB/s") != 0 ||
        strcmp(words[RAW_UNIT], "GB/s") != 0 || !gt_text_to_unsigned(words[A] + 4, GT_GPUS_MAX - 1, &a) ||
        !gt_text_to_unsigned(words[B] + 4, GT_GPUS_MAX - 1, &b) || a == b ||
        !gt_text_to_unsigned(words[BYTES], UINT64_MAX, &to->bytes) ||
        !gt_text_to_real(words[EFFECTIVE], &to->gbps) || !gt_text_to_real(words[RAW], &to->raw_gbps))
        return -EINVAL;
    to->a = (unsigned)(a < b ? a : b);
    to->b = (unsigned)(a < b ? b : a);
    to->direct = strcmp(words[WAY], "metaxlink") == 0;
    to->passed = strcmp(words[VALID], "PASS") == 0;
    return 1;
}

char *gt_mxvs_line_end(char *line)
{
    char *end = strpbrk(line, "\r\n");
    if (end)
        *end++ = '\0';
    return end;
}

/* The larger size counts, and of one size the lower bandwidth. */
static bool mxvs_row_add(const struct gt_mxvs_row *row, struct gt_mxvs_row *rows, unsigned max,
                         unsigned *count)
{
    unsigned i = 0;
    while (i < *count && (rows[i].a != row->a || rows[i].b != row->b))
        i++;
    if (i == max)
        return false;
    if (i == *count)
        rows[(*count)++] = *row;
    else if (row->bytes > rows[i].bytes || (row->bytes == rows[i].bytes && row->raw_gbps < rows[i].raw_gbps))
        rows[i] = *row;
    return true;
}

int gt_measured_read_mxvs(const char *text, const char *source, int64_t at_s,
                          struct gt_measured_reader *reader, struct gt_err **err)
{
    const struct measured_time when = {at_s - GT_MEASURED_AHEAD_S, at_s + GT_MEASURED_AGE_S};
    gt_auto_free char *copy = strdup(text);
    gt_auto_free struct gt_mxvs_row *rows = calloc(GT_MEASURED_MAX, sizeof(*rows));
    unsigned count = 0, max = GT_MEASURED_MAX - reader->to->count;
    GT_NEED(copy && rows, err, "%s", source);
    if (!strstr(text, "MXVS P2P TEST") || !strstr(text, "DEVICE1"))
        return gt_fail(err, EINVAL, "%s: expected what mxvs p2p prints", source);
    for (char *line = copy, *next; line; line = next) {
        struct gt_mxvs_row row = {0};
        char why[160], begin[40];
        next = gt_mxvs_line_end(line);
        gt_text_shorten(begin, sizeof(begin), line + strspn(line, " \t"));
        int r = gt_mxvs_row_read(line, &row);
        if (r == 0)
            continue;
        if (r < 0 || !row.passed || row.raw_gbps < 0.001 || row.raw_gbps > GT_MEASURED_GBPS_MAX)
            snprintf(why, sizeof(why), "%.80s: %s: expected two GPUs, GB/s and PASS", source, begin);
        else if (!mxvs_row_add(&row, rows, max, &count))
            snprintf(why, sizeof(why), "%.80s: %s: more than %d values in all", source, begin,
                     GT_MEASURED_MAX);
        else
            continue;
        gt_text_make_printable(why);
        reader->note(reader->arg, why);
    }
    for (unsigned i = 0; i < count; i++) {
        struct gt_measurement one = {.mbps = (uint64_t)(rows[i].raw_gbps * 1000)};
        snprintf(one.gpu, sizeof(one.gpu), "#%u", rows[i].a);
        snprintf(one.peer, sizeof(one.peer), "#%u", rows[i].b);
        measured_add(reader, &one, &when);
    }
    return 0;
}
