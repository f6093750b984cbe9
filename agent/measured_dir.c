/* SPDX-License-Identifier: Apache-2.0 */

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/fault_dir.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/log.h"
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

static int measured_entry(const struct gt_at *at, const cJSON *item, int64_t now_s, struct gt_measurement *to)
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
    to->at_s = gt_time_of_text(when);
    if (!to->at_s)
        return gt_at_fail(at, "at", "'%.40s' is no time such as 2026-11-29T09:00:00Z", when);
    if (to->at_s > now_s + GT_MEASURED_AHEAD_S)
        return gt_at_fail(at, "at", "%.40s is in the future", when);
    return 0;
}

/*
 * A file of measured values:
 *
 *     {"version": 1, "measured": [{"link": [0, 1], "bandwidthGBps": 21.5, "by": "p2p test", "at":
 * "2026-11-29T09:00:00Z"}]}
 *
 * Adds its entries to *to; those that cannot be used are left out, with a warning each. Old ones
 * are left out without one. *end_s: when the first of those added is too old; not set where there is none.
 * -EINVAL: no such file.
 */
static int measured_read(const cJSON *file, const char *source, int64_t now_s, struct gt_measured *to,
                         int64_t *end_s, struct gt_err **err)
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
        if (measured_entry(&below, item, now_s, &one) < 0) {
            gt_warning("a measured value is not used", GT_STR("why", gt_err_text(why)));
            continue;
        }
        int64_t end = one.at_s + GT_MEASURED_AGE_S;
        if (end <= now_s)
            continue;
        to->of[to->count++] = one;
        if (!*end_s || end < *end_s)
            *end_s = end;
    }
    return 0;
}

static int measured_dir_is_json(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".json") == 0;
}

static void measured_dir_add(int in, const char *name, struct gt_measured_dir *to)
{
    gt_auto_json cJSON *json = NULL;
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_fault_dir_json(in, name, &json, &err);
    if (r >= 0)
        r = measured_read(json, name, time(NULL), &to->told, &to->end_s, &err);
    if (r < 0)
        gt_warning("a file of measured values is not used", GT_STR("why", gt_err_text(err)));
}

bool gt_measured_dir_read(const char *path, struct gt_measured_dir *dir)
{
    gt_auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent **files = NULL;
    struct stat state;
    uint64_t stamp = GT_DIGEST_EMPTY;
    int count = fd < 0 ? 0 : scandirat(fd, ".", &files, measured_dir_is_json, alphasort);
    if (fd >= 0 && fstat(fd, &state) == 0)
        stamp = gt_digest_number(stamp, gt_fault_dir_stamp(&state));
    for (int i = 0; i < count; i++)
        if (fstatat(fd, files[i]->d_name, &state, AT_SYMLINK_NOFOLLOW) == 0)
            stamp = gt_digest_number(stamp, gt_fault_dir_stamp(&state));
    bool changed = stamp != dir->stamp || (dir->end_s && time(NULL) >= dir->end_s);
    if (changed) {
        gt_auto_err struct gt_err *err = NULL;
        bool is_safe =
            fd >= 0 && fstat(fd, &state) == 0 && gt_fault_dir_check(&state, S_IFDIR, path, &err) >= 0;
        if (err)
            gt_warning("measured values are not used", GT_STR("why", gt_err_text(err)));
        *dir = (struct gt_measured_dir){.stamp = stamp};
        for (int i = 0; is_safe && i < count && i < GT_FAULT_FILES_MAX; i++)
            measured_dir_add(fd, files[i]->d_name, dir);
    }
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
    return changed;
}
