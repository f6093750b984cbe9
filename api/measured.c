/* SPDX-License-Identifier: Apache-2.0 */
#include "api/measured.h"

#include <limits.h>
#include <stdio.h>

#include "base/err.h"
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

static int measured_entry(const struct gt_at *at, const cJSON *item, struct gt_measurement *to, int64_t *at_s)
{
    const cJSON *link, *gpu = gt_get(item, "gpu");
    const char *when = gt_get_string(item, "at");
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
    *at_s = gt_time_of_text(when);
    return *at_s ? 0 : gt_at_fail(at, "at", "'%.40s' is no time such as 2026-11-29T09:00:00Z", when);
}

int gt_measured_read(const cJSON *file, const char *source, int64_t now_s, struct gt_measured *to,
                     int64_t *again_s, void (*note)(void *arg, const char *why), void *arg,
                     struct gt_err **err)
{
    struct gt_at at = {source, "", err};
    const cJSON *list;
    unsigned version = 0, count, i = 0;
    GT_TRY(gt_get_unsigned(&at, file, "version", UINT_MAX, &version));
    if (version != 1)
        return gt_at_fail(&at, "version", "%u is not known here, 1 is", version);
    GT_TRY(gt_get_array(&at, file, "measured", GT_MEASURED_MAX - to->count, &list, &count));
    if (!list)
        return gt_at_fail(&at, "measured", "is not there");
    for (const cJSON *item = list->child; item; item = item->next) {
        char path[32];
        gt_auto_err struct gt_err *why = NULL;
        struct gt_measurement one = {.gpu = ""};
        snprintf(path, sizeof(path), "measured[%u]", i++);
        const struct gt_at below = {source, path, &why};
        int64_t at_s = 0, begin, end;
        if (measured_entry(&below, item, &one, &at_s) < 0) {
            note(arg, gt_err_text(why));
            continue;
        }
        begin = at_s - GT_MEASURED_AHEAD_S, end = at_s + GT_MEASURED_AGE_S;
        if (end <= now_s)
            continue;
        if (now_s >= begin)
            to->of[to->count++] = one;
        else {
            gt_at_fail(&below, "at", "%.40s is in the future", gt_get_string(item, "at"));
            note(arg, gt_err_text(why));
            end = begin;
        }
        if (!*again_s || end < *again_s)
            *again_s = end;
    }
    return 0;
}
