/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/health_file.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

enum {
    HEALTH_FILE_MAX = 256 << 10,
    FORMAT_VERSION = 1,
    VERSION_MAX = 1000,
    HOLD_MAX = GT_FAULT_SECONDS_MAX,
    LEVEL_MAX = 1000
};

/* ---- the text ---- */

static void health_file_write_gpu(const struct gt_health_history *past, struct gt_buf *to)
{
    const char *comma = "";
    gt_buf_puts(to, "{\"bdf\": ");
    gt_text_quote(to, past->bdf);
    gt_buf_puts(to, ", \"uuid\": ");
    gt_text_quote(to, past->uuid);
    gt_buf_puts(to, ", \"signals\": [");
    for (enum gt_signal signal = 0; signal < GT_SIGNALS; signal++) {
        if (!(past->signals >> signal & 1))
            continue;
        gt_buf_printf(to, "%s\"%s\"", comma, gt_signal_name(signal));
        comma = ", ";
    }
    gt_buf_printf(to,
                  "], \"holdSeconds\": %llu, \"level\": %u, \"reason\": ", (unsigned long long)past->hold_s,
                  past->level);
    gt_text_quote(to, past->reason);
    gt_buf_puts(to, "}");
}

void gt_health_text_write(const struct gt_health *health, const char *boot, struct gt_buf *to)
{
    const char *comma = "";
    gt_buf_printf(to, "{\"version\": %d, \"bootId\": ", FORMAT_VERSION);
    gt_text_quote(to, boot);
    gt_buf_puts(to, ", \"gpus\": [");
    for (unsigned i = 0; i < health->count; i++) {
        struct gt_health_history past;
        if (!health->gpus[i].unhealthy)
            continue;
        gt_health_history(&health->gpus[i], &past);
        gt_buf_printf(to, "%s\n  ", comma);
        health_file_write_gpu(&past, to);
        comma = ",";
    }
    gt_buf_puts(to, "\n]}\n");
}

static const char *health_file_text_of(const cJSON *json, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
}

static bool health_file_number_of(const cJSON *json, const char *key, unsigned max, unsigned *ret)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!cJSON_IsNumber(number) || !(number->valuedouble >= 0 && number->valuedouble <= max))
        return false;
    *ret = (unsigned)number->valuedouble;
    return true;
}

/* These texts go into logs and resources. */
static bool health_file_copy_text(char *to, size_t size, const cJSON *json, const char *key)
{
    const char *text = health_file_text_of(json, key);
    for (const char *c = text; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return false;
    return text && gt_text_copy(to, size, text);
}

/* A signal that a newer version knows is passed over. */
static unsigned health_file_read_signals(const cJSON *json)
{
    const cJSON *item;
    unsigned signals = 0;
    cJSON_ArrayForEach(
        item, cJSON_GetObjectItemCaseSensitive(
                  json, "signals")) for (enum gt_signal signal = 0; signal < GT_SIGNALS;
                                         signal++) if (cJSON_IsString(item) &&
                                                       strcmp(item->valuestring, gt_signal_name(signal)) == 0)
        signals |= 1U << signal;
    return signals;
}

static bool health_file_read_gpu(const cJSON *json, struct gt_health *health, uint64_t now_s)
{
    struct gt_health_history past = {.signals = health_file_read_signals(json)};
    unsigned hold_s;
    if (!health_file_copy_text(past.bdf, sizeof(past.bdf), json, "bdf") || !past.bdf[0] ||
        !health_file_copy_text(past.uuid, sizeof(past.uuid), json, "uuid") ||
        !health_file_copy_text(past.reason, sizeof(past.reason), json, "reason") ||
        !health_file_number_of(json, "holdSeconds", HOLD_MAX, &hold_s) ||
        !health_file_number_of(json, "level", LEVEL_MAX, &past.level))
        return false;
    past.hold_s = hold_s;
    gt_health_restore(health, &past, now_s);
    return true;
}

static bool health_file_read_all(const cJSON *json, const char *boot, struct gt_health *health,
                                 uint64_t now_s)
{
    const cJSON *gpus = cJSON_GetObjectItemCaseSensitive(json, "gpus"), *gpu;
    const char *of_boot = health_file_text_of(json, "bootId");
    unsigned version;
    if (!health_file_number_of(json, "version", VERSION_MAX, &version) || !of_boot)
        return false;
    if (version != FORMAT_VERSION || strcmp(of_boot, boot) != 0)
        return true; /* of another time */
    if (!cJSON_IsArray(gpus) || cJSON_GetArraySize(gpus) > (int)GT_COUNT(health->gpus))
        return false;
    cJSON_ArrayForEach(gpu, gpus) if (!health_file_read_gpu(gpu, health, now_s)) return false;
    return true;
}

int gt_health_text_read(const char *text, size_t len, const char *boot, struct gt_health *health,
                        uint64_t now_s, struct gt_err **err)
{
    cJSON *json = NULL;
    int r = gt_json_parse(text, len, "unhealthy GPUs of before", &json, err);
    if (r < 0)
        return r;
    if (!health_file_read_all(json, boot, health, now_s)) {
        *health = (struct gt_health){0};
        r = gt_fail(err, EINVAL, "this is no list of unhealthy GPUs");
    }
    cJSON_Delete(json);
    return r;
}

/* ---- the file ---- */

static void remember(struct gt_health_file *file, char *text)
{
    free(file->text);
    file->text = text;
}

int gt_health_file_open(struct gt_health_file *file, const char *kubelet_dir, const char *root,
                        struct gt_err **err)
{
    *file = (struct gt_health_file){0};
    gt_auto_free char *boot = NULL;
    if (asprintf(&boot, "%s/proc/sys/kernel/random/boot_id", root ? root : "") < 0) {
        boot = NULL;
        return gt_fail_sys(err, ENOMEM, "unhealthy GPUs of before");
    }
    int r = gt_file_read_attribute(AT_FDCWD, boot, file->boot, sizeof(file->boot));
    if (r <= 0)
        return gt_fail_sys(err, r ? -r : ENOENT, "%s", boot);
    if (asprintf(&file->dir, "%s/device-plugins/gputopo", kubelet_dir) < 0)
        file->dir = NULL;
    else if (asprintf(&file->path, "%s/unhealthy.json", file->dir) < 0)
        file->path = NULL;
    if (file->path) {
        gt_file_sweep(file->path, GT_FILE_SWEPT_AFTER_S);
        return 0;
    }
    gt_health_file_close(file);
    return gt_fail_sys(err, ENOMEM, "unhealthy GPUs of before");
}

void gt_health_file_close(struct gt_health_file *file)
{
    remember(file, NULL);
    free(file->path);
    free(file->dir);
    file->path = file->dir = NULL;
}

int gt_health_file_read(struct gt_health_file *file, struct gt_health *health, uint64_t now_s,
                        struct gt_err **err)
{
    size_t len;
    if (!file->path || (access(file->path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR)))
        return 0;
    char *text = NULL;
    GT_TRY(gt_file_read(AT_FDCWD, file->path, HEALTH_FILE_MAX, &text, &len, err));
    remember(file, text);
    int r = gt_health_text_read(text, len, file->boot, health, now_s, err);
    return r < 0 ? gt_wrap(err, "%s", file->path) : 0;
}

static bool is_any_unhealthy(const struct gt_health *health)
{
    for (unsigned i = 0; i < health->count; i++)
        if (health->gpus[i].unhealthy)
            return true;
    return false;
}

static int health_file_remove_file(struct gt_health_file *file, struct gt_err **err)
{
    if (unlink(file->path) < 0 && errno != ENOENT && errno != ENOTDIR)
        return gt_fail_sys(err, errno, "%s", file->path);
    rmdir(file->dir);
    remember(file, strdup(""));
    return 0;
}

int gt_health_file_write(struct gt_health_file *file, const struct gt_health *health, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(HEALTH_FILE_MAX);
    if (!file->path)
        return 0;
    if (!is_any_unhealthy(health))
        return file->text && !file->text[0] ? 0 : health_file_remove_file(file, err);
    gt_health_text_write(health, file->boot, &text);
    int r = gt_buf_check(&text, file->path, err);
    if (r < 0 || (file->text && strcmp(file->text, text.data) == 0))
        return r;
    if (mkdir(file->dir, 0755) < 0 && errno != EEXIST)
        return gt_fail_sys(err, errno, "%s", file->dir);
    r = gt_file_write(file->path, text.data, text.len, 0644, err);
    if (r == 0)
        remember(file, gt_buf_take(&text));
    return r;
}
