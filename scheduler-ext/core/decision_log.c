/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/core/decision_kept.h"

enum { KEPT_TEXT_MAX = GT_DECISIONS_BYTES };

struct gt_decision_log {
    struct kept list[GT_DECISIONS_MAX]; /* oldest first */
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

static void kept_done(struct gt_decision_log *log, struct kept *kept)
{
    for (unsigned i = 0; i < KEPT_COLUMNS; i++)
        if (kept->columns[i] && --kept->columns[i]->users == 0) {
            log->bytes -= kept->columns[i]->len;
            free(kept->columns[i]);
        }
    log->bytes -= kept->len;
    free(kept->job);
    free(kept->text);
}

static void drop(struct gt_decision_log *log, uint32_t at)
{
    struct kept *kept = &log->list[at];
    kept_done(log, kept);
    log->count--;
    memmove(kept, kept + 1, (log->count - at) * sizeof(*kept));
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

/* Takes over what the last decision has if it is the same. False without memory. */
static bool keep_column(struct gt_decision_log *log, struct kept *kept, enum kept_column column,
                        const void *data, size_t len)
{
    struct kept_bytes *last = log->count ? log->list[log->count - 1].columns[column] : NULL;
    if (last && last->len == len && (!len || memcmp(last->data, data, len) == 0)) {
        last->users++;
        kept->columns[column] = last;
        return true;
    }
    struct kept_bytes *made = kept->columns[column] = malloc(sizeof(*made) + len);
    if (!made)
        return false;
    made->users = 1;
    made->len = len;
    if (len)
        memcpy(made->data, data, len);
    log->bytes += len;
    return true;
}

static bool keep_cluster(struct gt_decision_log *log, struct kept *kept, const struct gt_cluster *cluster)
{
    const struct kept *last = log->count ? &log->list[log->count - 1] : NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(KEPT_TEXT_MAX);
    kept->shape = cluster->shape;
    kept->nodes = cluster->node_count;
    if (last && last->shape == cluster->shape) {
        kept->columns[KEPT_CLUSTER] = last->columns[KEPT_CLUSTER];
        kept->columns[KEPT_CLUSTER]->users++;
        return true;
    }
    gt_kept_cluster_json(cluster, &text);
    return !text.failed && keep_column(log, kept, KEPT_CLUSTER, text.data, text.len);
}

static bool keep_all(struct gt_decision_log *log, struct kept *kept, struct gt_cluster *cluster,
                     const struct gt_decided *decided)
{
    const struct gt_plan_request *request = decided->request;
    const struct gt_node_set *excluded = request->excluded;
    size_t masks = cluster->node_count * sizeof(uint64_t);
    gt_auto_buf struct gt_buf text = GT_BUF(KEPT_TEXT_MAX);
    gt_kept_decision_json(cluster, decided, &text);
    kept->job = strdup(decided->job);
    kept->len = text.failed ? 0 : text.len;
    kept->text = gt_buf_take(&text);
    log->bytes += kept->len;
    return kept->job && kept->text && keep_cluster(log, kept, cluster) &&
           keep_column(log, kept, KEPT_FREE, cluster->free, masks) &&
           keep_column(log, kept, KEPT_HEALTHY, cluster->healthy, masks) &&
           keep_column(log, kept, KEPT_SLOW, cluster->slow, masks) &&
           keep_column(log, kept, KEPT_ELIGIBLE, cluster->eligible,
                       cluster->node_count * sizeof(*cluster->eligible)) &&
           keep_column(log, kept, KEPT_LIMITS, request->limits,
                       request->limit_count * sizeof(*request->limits)) &&
           keep_column(log, kept, KEPT_EXCLUDED, excluded ? excluded->bits : NULL,
                       excluded ? gt_core_words(excluded->nodes) * sizeof(uint64_t) : 0);
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
    struct kept kept = {.number = log->number + 1, .wall_ms = log->wall_ms, .placed = decided->placed};
    if (!keep_all(log, &kept, cluster, decided)) {
        log->left_out++;
        kept_done(log, &kept);
        return;
    }
    log->number++;
    drop_waiting(log, decided->job);
    while (log->count == GT_DECISIONS_MAX || (log->count && log->bytes > GT_DECISIONS_BYTES))
        drop(log, 0);
    log->list[log->count++] = kept;
}

void gt_decision_log_write(const struct gt_decision_log *log, uint64_t after, size_t max, struct gt_buf *to)
{
    const struct kept_bytes *told = NULL;
    size_t begun = to->len;
    for (uint32_t i = 0; i < log->count && (to->len == begun || to->len - begun < max); i++) {
        const struct kept *kept = &log->list[i];
        const struct kept_bytes *cluster = kept->columns[KEPT_CLUSTER];
        if (kept->number <= after)
            continue;
        if (cluster != told)
            gt_buf_add(to, cluster->data, cluster->len);
        told = cluster;
        gt_kept_json(kept, to);
    }
}

struct gt_decision_log_size gt_decision_log_size(const struct gt_decision_log *log)
{
    return (struct gt_decision_log_size){log->count, log->left_out, log->bytes};
}
