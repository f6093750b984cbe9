/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/text.h"
#include "kube/internal.h"
#include "kube/status.h"

enum {
    WATCH_PATH_MAX = 64 << 10,
    ERROR_BODY_MAX = 1 << 20,
    GRACE_S = 30, /* a server that has not ended the watch this long after its time is dead */
    VERSION_CHECK_MS = 30000,
    VERSION_CHECK_BODY_MAX = 4 << 20, /* names of the pods of a node */
    STEADY_MS = 30000,                /* after a stream of this length the connection counts as good */
    VERSION_MAX = 256,
};

struct gt_kube_watch {
    struct gt_kube *kube;
    struct gt_kube_watch_spec spec; /* its strings are not ours any more */
    char *path;
    char version[VERSION_MAX];
    struct gt_lines lines;
    struct gt_transfer *transfer;
    struct gt_source *timer;
    struct gt_backoff backoff;
    uint64_t started_ms;
    bool opened; /* the server answers with a stream */
    bool refreshed;
    bool unknown;          /* whether the server still knows this version: the last stream failed */
    struct gt_err *failed; /* why this stream is ended by us */
    bool lost;             /* and not resumed */
    bool selects_few;      /* of the objects */
    bool busy, dead;
    struct gt_kube_watch_counters counters;
};

static void free_watch(struct gt_kube_watch *watch)
{
    gt_source_free(watch->timer);
    gt_lines_reset(&watch->lines);
    gt_err_free(watch->failed);
    free(watch->path);
    free(watch);
}
GT_DEFINE_CLEANUP(struct gt_kube_watch *, free_watch)

void gt_kube_watch_free(struct gt_kube_watch *watch)
{
    if (!watch || watch->dead)
        return;
    gt_transfer_cancel(gt_steal(watch->transfer));
    if (watch->busy)
        watch->dead = true;
    else
        free_watch(watch);
}

void gt_kube_watch_counters(const struct gt_kube_watch *watch, struct gt_kube_watch_counters *ret)
{
    *ret = watch->counters;
}

static void note_version(struct gt_kube_watch *watch, const char *version)
{
    size_t len = strlen(version);
    if (len && len < sizeof(watch->version))
        memcpy(watch->version, version, len + 1);
}

/* The event ERROR: a Status inside a stream that began with 200. */
static void note_error(struct gt_kube_watch *watch, const cJSON *status)
{
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(status, "code");
    double number = cJSON_IsNumber(code) && code->valuedouble >= 0 ? code->valuedouble : 0;
    unsigned http = number < 1000 ? (unsigned)number : 0;
    gt_kube_fail(&watch->failed, http, status);
    watch->lost = http == 410;
}

static bool on_line(void *arg, const char *line, size_t len)
{
    struct gt_kube_watch *watch = arg;
    struct gt_json_arena *arena = watch->kube->arena;
    if (len == 0)
        return true;
    cJSON *json = gt_json_arena_parse(arena, line, len, NULL);
    const char *type = gt_get_string(json, "type");
    cJSON *object = cJSON_GetObjectItemCaseSensitive(json, "object");
    static const char *const types[] = {
        [GT_KUBE_ADDED] = "ADDED", [GT_KUBE_MODIFIED] = "MODIFIED", [GT_KUBE_DELETED] = "DELETED"};
    watch->counters.last_received_ms = gt_clock_ms();
    if (!cJSON_IsObject(object)) {
        gt_fail(&watch->failed, EBADMSG, "watch: a line of %zu bytes that is no event", len);
    } else if (strcmp(type, "ERROR") == 0) {
        note_error(watch, object);
    } else if (strcmp(type, "BOOKMARK") == 0) {
        watch->counters.bookmarks++;
        note_version(watch, gt_meta_version(object));
    } else {
        for (unsigned i = 0; i < GT_COUNT(types); i++) {
            if (strcmp(type, types[i]) != 0)
                continue;
            watch->counters.events++;
            note_version(watch, gt_meta_version(object));
            watch->spec.on_event(watch->spec.arg, (enum gt_kube_event_type)i, object);
            break;
        }
    }
    gt_json_arena_delete(arena, json);
    return !watch->failed && !watch->dead;
}

/*
 * Only the event that is too large is left out. Its beginning shows a deletion; if it does not name the
 * object, only a new list can show which one it was.
 */
static bool on_long(void *arg, const char *line, size_t len)
{
    struct gt_kube_watch *watch = arg;
    struct gt_kube_peek object;
    gt_kube_peek(line, len, &object);
    watch->counters.last_received_ms = gt_clock_ms();
    if (strcmp(object.type, "ERROR") == 0) {
        gt_fail(&watch->failed, EFBIG, "watch: an error of more than %zu bytes", len);
        watch->lost = true;
        return false;
    }
    bool deleted = strcmp(object.type, "DELETED") == 0;
    if (!*object.name && (deleted || !*object.type)) {
        gt_fail(&watch->failed, EFBIG,
                "watch: an object is gone, and its event of more than %zu bytes begins "
                "without its name",
                len);
        watch->lost = true;
        return false;
    }
    note_version(watch, object.resource_version);
    if (!deleted)
        gt_kube_pass_over(watch->kube, watch->spec.selection.resource, object.namespace_, object.name, len);
    if (*object.name && watch->spec.on_oversize)
        watch->spec.on_oversize(watch->spec.arg, deleted, &object);
    return !watch->dead;
}

static void end_stream(struct gt_kube_watch *watch, unsigned retry_after_s);

static void watch_on_data(void *arg, const char *data, size_t len)
{
    struct gt_kube_watch *watch = arg;
    watch->counters.connected = true;
    watch->opened = true;
    watch->busy = true;
    int r = gt_lines_feed(&watch->lines, data, len, watch);
    watch->busy = false;
    if (watch->dead) {
        free_watch(watch);
        return;
    }
    if (r == 0)
        return;
    if (r != -ECANCELED)
        gt_fail(&watch->failed, -r, "watch: no memory for a line");
    gt_transfer_cancel(gt_steal(watch->transfer));
    end_stream(watch, 0);
}

static void watch_on_done(void *arg, const struct gt_transfer_result *result)
{
    struct gt_kube_watch *watch = arg;
    watch->transfer = NULL;
    bool refreshed = gt_kube_count(watch->kube, result, !watch->refreshed);
    if (refreshed) {
        watch->refreshed = true;
        gt_source_arm(watch->timer, 0);
        return;
    }
    if (result->status >= 200 && result->status < 300) {
        watch->refreshed = false;
        watch->opened = true;
    }
    if (result->error || result->status < 200 || result->status >= 300) {
        cJSON *object;
        gt_kube_result(result, &object, &watch->failed);
        cJSON_Delete(object);
        gt_wrap(&watch->failed, "watch");
        watch->lost = !result->error && result->status == 410;
    }
    end_stream(watch, result->retry_after);
}

/* The stream has ended: an incomplete line is dropped. Reports it, and begins again after a while. */
static void end_stream(struct gt_kube_watch *watch, unsigned retry_after_s)
{
    gt_lines_reset(&watch->lines);
    watch->counters.connected = false;
    gt_auto_err struct gt_err *error = gt_steal(watch->failed);
    if (error) {
        watch->counters.errors++;
        watch->unknown = true;
    }
    watch->busy = true;
    if (watch->lost) {
        watch->dead = true;
        watch->spec.on_lost(watch->spec.arg, error);
        free_watch(watch);
        return;
    }
    if (error && watch->spec.on_error)
        watch->spec.on_error(watch->spec.arg, error);
    watch->busy = false;
    if (watch->dead) {
        free_watch(watch);
        return;
    }
    /* A look at the version, and a server that is silent, prove nothing. */
    if (watch->opened && gt_clock_ms() - watch->started_ms >= STEADY_MS)
        watch->backoff.failures = 0;
    watch->opened = false;
    gt_source_arm(watch->timer, gt_backoff_next(&watch->backoff, retry_after_s, &watch->kube->jitter));
}

static int connect_stream(struct gt_kube_watch *watch, struct gt_err **err)
{
    unsigned steady = watch->spec.timeout_s * 4 / 5;
    unsigned seconds =
        steady + (unsigned)gt_jitter_below(&watch->kube->jitter, watch->spec.timeout_s * 2 / 5 + 1);
    if (!seconds)
        seconds = 1;
    char timeout[16];
    snprintf(timeout, sizeof(timeout), "%u", seconds);
    gt_auto_buf struct gt_buf path = GT_BUF(WATCH_PATH_MAX);
    gt_buf_puts(&path, watch->path);
    gt_kube_query(&path, "watch", "1");
    gt_kube_query(&path, "allowWatchBookmarks", "true");
    gt_kube_query(&path, "resourceVersion", watch->version);
    gt_kube_query(&path, "timeoutSeconds", timeout);
    GT_TRY(gt_buf_check(&path, "path", err));
    const struct gt_kube_exchange exchange = {
        .method = "GET",
        .path = path.data,
        .accept = watch->spec.selection.metadata_only ? GT_KUBE_ACCEPT_META : GT_KUBE_ACCEPT,
        .timeout_ms = (seconds + GRACE_S) * UINT64_C(1000),
        .body_max = ERROR_BODY_MAX,
        .on_data = watch_on_data,
        .on_done = watch_on_done,
        .arg = watch};
    watch->started_ms = gt_clock_ms();
    watch->counters.connects++;
    return gt_kube_exchange(watch->kube, &exchange, &watch->transfer, err);
}

/* ---- a server that was restored from a backup ---- */

static bool watch_is_before(const char *version, const char *other)
{
    uint64_t a, b;
    return gt_text_to_unsigned(version, UINT64_MAX, &a) && gt_text_to_unsigned(other, UINT64_MAX, &b) &&
           a < b;
}

/* A page of a list, of which the version alone counts. */
static void on_looked(void *arg, const struct gt_transfer_result *result)
{
    struct gt_kube_watch *watch = arg;
    watch->transfer = NULL;
    if (gt_kube_count(watch->kube, result, !watch->refreshed)) {
        watch->refreshed = true;
        gt_source_arm(watch->timer, 0);
        return;
    }
    cJSON *object = NULL;
    gt_kube_result(result, &object, &watch->failed);
    if (!watch->failed)
        object = cJSON_ParseWithLength(result->body, result->body_len);
    if (!watch->failed && watch_is_before(gt_meta_version(object), watch->version)) {
        gt_fail(&watch->failed, ESTALE, "watch: the objects have gone back from version %s to %s",
                watch->version, gt_meta_version(object));
        watch->lost = true;
    } else if (gt_err_code(watch->failed) == EFBIG) { /* it does not say: as if nothing had been asked */
        gt_err_free(gt_steal(watch->failed));
    } else if (watch->failed) {
        gt_wrap(&watch->failed, "watch");
    }
    cJSON_Delete(object);
    watch->unknown = false;
    if (watch->failed || connect_stream(watch, &watch->failed) < 0)
        end_stream(watch, result->retry_after);
}

/*
 * A server whose etcd was restored from a backup has lower versions than it had. A watch from an earlier,
 * higher version then sends nothing, without an error, until versions are as high again, and changes until
 * then are never sent. Only a list shows the version. If few objects are selected, a list of one may make the
 * server read all of them, unless it answers from its cache, but then it ignores the limit.
 */
static int check_version(struct gt_kube_watch *watch, struct gt_err **err)
{
    gt_auto_buf struct gt_buf path = GT_BUF(WATCH_PATH_MAX);
    gt_buf_puts(&path, watch->path);
    gt_kube_query(&path, "limit", "1");
    if (watch->selects_few)
        gt_kube_query(&path, "resourceVersion", "0");
    GT_TRY(gt_buf_check(&path, "path", err));
    const struct gt_kube_exchange exchange = {.method = "GET",
                                              .path = path.data,
                                              .accept = GT_KUBE_ACCEPT_METALIST,
                                              .timeout_ms = VERSION_CHECK_MS,
                                              .body_max = VERSION_CHECK_BODY_MAX,
                                              .on_done = on_looked,
                                              .arg = watch};
    return gt_kube_exchange(watch->kube, &exchange, &watch->transfer, err);
}

static void watch_on_timer(void *arg)
{
    struct gt_kube_watch *watch = arg;
    int r = watch->unknown ? check_version(watch, &watch->failed) : connect_stream(watch, &watch->failed);
    if (r < 0)
        end_stream(watch, 0);
}

int gt_kube_watch_start(struct gt_kube *kube, const struct gt_kube_watch_spec *spec,
                        struct gt_kube_watch **ret, struct gt_err **err)
{
    size_t len = strlen(spec->resource_version);
    if (len >= VERSION_MAX)
        return gt_fail(err, EINVAL, "watch: a resourceVersion of %zu bytes", len);
    GT_CLEANUP(free_watch) struct gt_kube_watch *watch = calloc(1, sizeof(*watch));
    GT_NEED(watch, err, "watch");
    watch->kube = kube;
    watch->spec = *spec;
    watch->selects_few = spec->selection.label_selector ||
                         (spec->selection.field_selector && !strstr(spec->selection.field_selector, "!="));
    memcpy(watch->version, spec->resource_version, len + 1);
    if (!watch->spec.timeout_s)
        watch->spec.timeout_s = GT_KUBE_WATCH_TIMEOUT_S;
    watch->lines.rest.max = spec->line_max ? spec->line_max : GT_KUBE_LINE_MAX;
    watch->lines.on_line = on_line;
    watch->lines.on_long = on_long;
    GT_TRY(gt_kube_selection_path(&spec->selection, &watch->path, err));
    GT_TRY(gt_loop_add_timer(kube->loop, watch_on_timer, watch, &watch->timer, err));
    gt_source_arm(watch->timer, 0);
    *ret = gt_steal(watch);
    return 0;
}
