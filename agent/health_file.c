/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/health_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/isolation.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/json_write.h"

enum { STATE_FILE_MAX = 256 << 10, FORMAT_VERSION = 1, VERSION_MAX = 1000, LEVEL_MAX = 1000 };

/* ---- files in the directory ---- */

static int state_path(const char *kubelet_dir, const char *name, char to[static PATH_MAX],
                      struct gt_err **err)
{
    int len = snprintf(to, PATH_MAX, "%s/device-plugins/gputopo%s", kubelet_dir, name);
    return len < PATH_MAX ? 0 : gt_fail_sys(err, ENAMETOOLONG, "%s", kubelet_dir);
}

/* 0: there is no such file. */
static int state_read(const char *path, char **ret, size_t *ret_len, struct gt_err **err)
{
    if (access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    GT_TRY(gt_file_read(AT_FDCWD, path, STATE_FILE_MAX, ret, ret_len, err));
    return 1;
}

static int state_remove(const char *path, struct gt_err **err)
{
    return unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR ? gt_fail_sys(err, errno, "%s", path) : 0;
}

static int state_make_dir(const char *dir, struct gt_err **err)
{
    return mkdir(dir, 0755) < 0 && errno != EEXIST ? gt_fail_sys(err, errno, "%s", dir) : 0;
}

/* ---- the text ---- */

static void health_file_write_gpu(const struct gt_health_history *history, struct gt_buf *to)
{
    gt_json_new_line(to, 2);
    gt_json_printf(to, "{'bdf': %s, 'uuid': %s, 'signals': [", history->bdf, history->uuid);
    for (enum gt_signal signal = 0; signal < GT_SIGNALS; signal++)
        if (history->signals >> signal & 1)
            gt_json_add_text(to, NULL, gt_signal_name(signal));
    gt_json_end(to, ']');
    gt_json_printf(to, "'holdSeconds': %" PRIu64 ", 'level': %u, 'reason': %s}", history->hold_s,
                   history->level, history->reason);
}

void gt_health_text_write(const struct gt_health *health, const char *boot, struct gt_buf *to)
{
    gt_json_printf(to, "{'version': %d, 'bootId': %s, 'gpus': [", FORMAT_VERSION, boot);
    for (unsigned i = 0; i < health->count; i++) {
        struct gt_health_history past;
        if (!health->gpus[i].unhealthy)
            continue;
        gt_health_history(&health->gpus[i], &past);
        health_file_write_gpu(&past, to);
    }
    gt_buf_puts(to, "\n]}\n");
}

/* A signal that a newer version knows is passed over. */
static unsigned health_file_read_signals(const cJSON *list)
{
    unsigned signals = 0;
    for (const cJSON *item = cJSON_IsArray(list) ? list->child : NULL; item; item = item->next)
        for (enum gt_signal signal = 0; signal < GT_SIGNALS; signal++)
            if (cJSON_IsString(item) && strcmp(item->valuestring, gt_signal_name(signal)) == 0)
                signals |= 1U << signal;
    return signals;
}

static int health_file_read_gpu(const struct gt_at *at, const cJSON *json, struct gt_health *health,
                                uint64_t now_s)
{
    struct gt_health_history past = {.signals = health_file_read_signals(gt_get(json, "signals"))};
    GT_TRY(gt_get_text(at, json, "bdf", past.bdf, sizeof(past.bdf)));
    GT_TRY(gt_get_text(at, json, "uuid", past.uuid, sizeof(past.uuid)));
    GT_TRY(gt_get_text(at, json, "reason", past.reason, sizeof(past.reason)));
    GT_TRY(gt_get_integer(at, json, "holdSeconds", GT_FAULT_SECONDS_MAX, &past.hold_s));
    GT_TRY(gt_get_unsigned(at, json, "level", LEVEL_MAX, &past.level));
    if (!past.bdf[0] || !gt_get(json, "reason"))
        return gt_at_fail(at, past.bdf[0] ? "reason" : "bdf", "is missing");
    gt_health_restore(health, &past, now_s);
    return 0;
}

static int health_file_read_all(const struct gt_at *at, const cJSON *json, const char *boot,
                                struct gt_health *health, uint64_t now_s)
{
    const cJSON *gpus;
    unsigned version = 0, count;
    GT_TRY(gt_get_unsigned(at, json, "version", VERSION_MAX, &version));
    if (version && (version != FORMAT_VERSION || strcmp(gt_get_string(json, "bootId"), boot) != 0))
        return 0; /* of another time */
    GT_TRY(gt_get_array(at, json, "gpus", GT_COUNT(health->gpus), &gpus, &count));
    if (!version || !gpus)
        return gt_at_fail(at, version ? "gpus" : "version", "is missing");
    for (const cJSON *gpu = gpus->child; gpu; gpu = gpu->next)
        GT_TRY(health_file_read_gpu(at, gpu, health, now_s));
    return 0;
}

int gt_health_text_read(const char *text, size_t len, const char *boot, struct gt_health *health,
                        uint64_t now_s, struct gt_err **err)
{
    gt_auto_json cJSON *json = NULL;
    GT_TRY(gt_json_parse(text, len, "unhealthy GPUs of before", &json, err));
    const struct gt_at at = {"this is no list of unhealthy GPUs", "", err};
    int r = health_file_read_all(&at, json, boot, health, now_s);
    if (r < 0)
        *health = (struct gt_health){0};
    return r;
}

/* ---- the file of unhealthy GPUs ---- */

static void remember(struct gt_health_file *file, char *text)
{
    free(file->text);
    file->text = text;
}

int gt_health_file_open(struct gt_health_file *file, const char *kubelet_dir, const char *root,
                        struct gt_err **err)
{
    char boot[PATH_MAX];
    struct gt_health_file opened = {0};
    if (snprintf(boot, sizeof(boot), "%s/proc/sys/kernel/random/boot_id", root ? root : "") >= PATH_MAX)
        return gt_fail_sys(err, ENAMETOOLONG, "%s", root);
    int r = gt_file_read_attribute(AT_FDCWD, boot, opened.boot, sizeof(opened.boot));
    if (r <= 0)
        return gt_fail_sys(err, r ? -r : ENOENT, "%s", boot);
    GT_TRY(state_path(kubelet_dir, "", opened.dir, err));
    GT_TRY(state_path(kubelet_dir, "/unhealthy.json", opened.path, err));
    gt_file_sweep(opened.path, GT_FILE_SWEPT_AFTER_S);
    *file = opened;
    return 0;
}

void gt_health_file_close(struct gt_health_file *file)
{
    remember(file, NULL);
}

int gt_health_file_read(struct gt_health_file *file, struct gt_health *health, uint64_t now_s,
                        struct gt_err **err)
{
    size_t len;
    char *text;
    int r = file->path[0] ? state_read(file->path, &text, &len, err) : 0;
    if (r <= 0)
        return r;
    remember(file, text);
    r = gt_health_text_read(text, len, file->boot, health, now_s, err);
    return r < 0 ? gt_wrap(err, "%s", file->path) : 0;
}

static bool is_any_unhealthy(const struct gt_health *health)
{
    for (unsigned i = 0; i < health->count; i++)
        if (health->gpus[i].unhealthy)
            return true;
    return false;
}

int gt_health_file_write(struct gt_health_file *file, const struct gt_health *health, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(STATE_FILE_MAX);
    if (!file->path[0])
        return 0;
    if (is_any_unhealthy(health)) {
        gt_health_text_write(health, file->boot, &text);
        GT_TRY(gt_buf_check(&text, file->path, err));
    }
    const char *now = text.data ? text.data : "";
    if (file->text && strcmp(file->text, now) == 0)
        return 0;
    if (*now) {
        GT_TRY(state_make_dir(file->dir, err));
        GT_TRY(gt_file_write(file->path, now, text.len, 0644, err));
    } else {
        GT_TRY(state_remove(file->path, err));
        rmdir(file->dir);
    }
    remember(file, strdup(now));
    return 0;
}

/* ---- the file of isolations ---- */

static const char *const isolation_files[GT_ISOLATION_SOURCES] = {
    [GT_ISOLATED_BY_OBJECT] = "/isolated.json",
    [GT_ISOLATED_BY_FILES] = "/faults.json",
    [GT_ISOLATED_BY_NODE] = "/conditions.json",
};

int gt_isolation_file_read(const char *kubelet_dir, enum gt_isolation_source source,
                           struct gt_isolations *ret, struct gt_err **err)
{
    char path[PATH_MAX];
    gt_auto_free char *text = NULL;
    gt_auto_json cJSON *json = NULL;
    size_t len;
    GT_TRY(state_path(kubelet_dir, isolation_files[source], path, err));
    gt_file_sweep(path, GT_FILE_SWEPT_AFTER_S);
    int r = state_read(path, &text, &len, err);
    if (r <= 0)
        return r;
    GT_TRY(gt_json_parse(text, len, path, &json, err));
    return gt_isolations_read(json, ret, err) < 0 ? gt_wrap(err, "%s", path) : 1;
}

int gt_isolation_file_write(const char *kubelet_dir, enum gt_isolation_source source,
                            const struct gt_isolations *isolations, struct gt_err **err)
{
    char dir[PATH_MAX], path[PATH_MAX];
    gt_auto_buf struct gt_buf text = GT_BUF(STATE_FILE_MAX);
    GT_TRY(state_path(kubelet_dir, "", dir, err));
    GT_TRY(state_path(kubelet_dir, isolation_files[source], path, err));
    if (!isolations->count)
        return state_remove(path, err);
    gt_isolations_write(isolations, &text);
    GT_TRY(gt_buf_check(&text, path, err));
    GT_TRY(state_make_dir(dir, err));
    return gt_file_write_durable(path, text.data, text.len, 0644, err);
}

/* ---- that check-node has passed ---- */

bool gt_admitted_file_is_current(const char *kubelet_dir, const char *root)
{
    struct gt_health_file now = {0};
    char path[PATH_MAX];
    gt_auto_free char *text = NULL;
    size_t len;
    return gt_health_file_open(&now, kubelet_dir, root, NULL) >= 0 &&
           state_path(kubelet_dir, "/admitted", path, NULL) >= 0 && state_read(path, &text, &len, NULL) > 0 &&
           strcmp(text, now.boot) == 0;
}

int gt_admitted_file_write(const char *kubelet_dir, const char *root, struct gt_err **err)
{
    struct gt_health_file now = {0};
    char path[PATH_MAX];
    GT_TRY(gt_health_file_open(&now, kubelet_dir, root, err));
    GT_TRY(state_path(kubelet_dir, "/admitted", path, err));
    GT_TRY(state_make_dir(now.dir, err));
    return gt_file_write(path, now.boot, strlen(now.boot), 0644, err);
}
