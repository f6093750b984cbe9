/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/decision_log.h"

#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/time_text.h"
#include "scheduler-ext/core/internal.h"

enum { LINE_MAX_BYTES = 8 << 20 };

/* A cluster without its state, which decisions share. */
struct logged_cluster {
    uint64_t shape;
    uint32_t users;
    char *text;
    size_t len;
};

struct logged {
    uint64_t number;
    struct logged_cluster *cluster;
    char *job, *text;
    size_t len;
    bool placed;
};

struct gt_decision_log {
    struct logged list[GT_DECISIONS_MAX]; /* oldest first */
    uint32_t count;
    uint64_t number, left_out, wall_ms;
    size_t bytes;
};

int gt_decision_log_new(struct gt_decision_log **ret, struct gt_err **err)
{
    struct gt_decision_log *log = calloc(1, sizeof(*log));
    GT_NEED(log, err, "decisions");
    *ret = log;
    return 0;
}

static void drop_cluster(struct gt_decision_log *log, struct logged_cluster *cluster)
{
    if (!cluster || --cluster->users)
        return;
    log->bytes -= cluster->len;
    free(cluster->text);
    free(cluster);
}

static void drop(struct gt_decision_log *log, uint32_t at)
{
    struct logged *logged = &log->list[at];
    log->bytes -= logged->len;
    drop_cluster(log, logged->cluster);
    free(logged->job);
    free(logged->text);
    log->count--;
    memmove(logged, logged + 1, (log->count - at) * sizeof(*logged));
}

void gt_decision_log_free(struct gt_decision_log *log)
{
    while (log && log->count)
        drop(log, log->count - 1);
    free(log);
}

void gt_decision_log_set_time(struct gt_decision_log *log, uint64_t wall_ms)
{
    log->wall_ms = wall_ms;
}

/* The cluster as it is now, shared with the last decision if it has not changed; NULL: no memory. */
static struct logged_cluster *logged_cluster_of(struct gt_decision_log *log, const struct gt_cluster *cluster)
{
    struct logged_cluster *last = log->count ? log->list[log->count - 1].cluster : NULL;
    if (last && last->shape == cluster->shape) {
        last->users++;
        return last;
    }
    gt_auto_buf struct gt_buf text = GT_BUF(LINE_MAX_BYTES);
    gt_auto_free struct logged_cluster *made = calloc(1, sizeof(*made));
    gt_decision_cluster_json(cluster, cluster->shape, &text);
    if (!made || text.failed)
        return NULL;
    *made = (struct logged_cluster){.shape = cluster->shape, .users = 1, .len = text.len};
    made->text = gt_buf_take(&text);
    if (!made->text)
        return NULL;
    log->bytes += made->len;
    return gt_steal(made);
}

static void write_line(const struct gt_decision_log *log, struct gt_cluster *cluster,
                       const struct gt_decided *decided, struct gt_buf *to)
{
    char time[GT_TIME_TEXT_SIZE];
    const struct timespec when = {.tv_sec = (time_t)(log->wall_ms / 1000),
                                  .tv_nsec = (long)(log->wall_ms % 1000) * 1000000};
    gt_time_text_fine(&when, 3, time);
    gt_json_begin(to, NULL, '{');
    gt_json_add_unsigned(to, "decision", log->number + 1);
    gt_json_add_unsigned(to, "cluster", cluster->shape);
    gt_json_add_text(to, "time", time);
    gt_json_add_text(to, "job", decided->job);
    gt_decision_json(cluster, decided, to);
    gt_json_end(to, '}');
    gt_buf_puts(to, "\n");
}

static void drop_waiting(struct gt_decision_log *log, const char *job)
{
    for (uint32_t i = log->count; i > 0; i--)
        if (!log->list[i - 1].placed && strcmp(log->list[i - 1].job, job) == 0)
            drop(log, i - 1);
}

void gt_decision_log_add(struct gt_decision_log *log, struct gt_cluster *cluster,
                         const struct gt_decided *decided)
{
    if (!log)
        return;
    gt_auto_buf struct gt_buf text = GT_BUF(LINE_MAX_BYTES);
    gt_auto_free char *job = strdup(decided->job);
    struct logged_cluster *shared = logged_cluster_of(log, cluster);
    if (shared)
        write_line(log, cluster, decided, &text);
    struct logged logged = {.number = log->number + 1, .placed = decided->placed, .len = text.len};
    logged.text = gt_buf_take(&text);
    if (!shared || !job || !logged.text) {
        log->left_out++;
        drop_cluster(log, shared);
        free(logged.text);
        return;
    }
    logged.cluster = shared;
    drop_waiting(log, job);
    logged.job = gt_steal(job);
    log->number++;
    log->bytes += logged.len;
    while (log->count == GT_DECISIONS_MAX || (log->count && log->bytes > GT_DECISIONS_BYTES))
        drop(log, 0);
    log->list[log->count++] = logged;
}

void gt_decision_log_write(const struct gt_decision_log *log, uint64_t after, size_t max, struct gt_buf *to)
{
    const struct logged_cluster *told = NULL;
    size_t begun = to->len;
    for (uint32_t i = 0; i < log->count; i++) {
        const struct logged *logged = &log->list[i];
        if (logged->number <= after)
            continue;
        if (told && to->len - begun + logged->len > max)
            return;
        if (logged->cluster != told)
            gt_buf_add(to, logged->cluster->text, logged->cluster->len);
        told = logged->cluster;
        gt_buf_add(to, logged->text, logged->len);
    }
}

struct gt_decision_log_size gt_decision_log_size(const struct gt_decision_log *log)
{
    return (struct gt_decision_log_size){log->count, log->left_out, log->bytes};
}
