/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "base/text.h"

struct gt_writer {
    struct gt_writer_port port;
    struct gt_write_line *lines; /* by order */
    struct gt_jitter jitter;
    int64_t tokens; /* thousandths of a request; below zero: overdrawn */
    uint64_t tokens_ms;
};

/* Thousandths that a line may use; the rest of the budget is for those before it. */
static const int64_t writer_debts[] = {[GT_WRITE_FIRST] = GT_WRITER_FIRST_DEBT * 1000,
                                       [GT_WRITE_SOON] = GT_WRITER_SOON_DEBT * 1000,
                                       [GT_WRITE_LAST] = 0};

uint64_t gt_writer_now(const struct gt_writer *writer)
{
    return writer->port.now();
}

static void writer_wake(const struct gt_writer *writer, uint64_t after_ms)
{
    writer->port.wake(writer->port.kube, after_ms);
}

/* ---- lists ---- */

/* Into the list of its state. */
static void writer_link(struct gt_write_key *key, int state)
{
    struct gt_write_list *list = &key->line->lists[state];
    GT_ASSERT(key->state == GT_WRITE_IDLE);
    key->state = state;
    key->next = NULL;
    key->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = key;
    list->last = key;
    list->count++;
}

static void writer_unlink(struct gt_write_key *key)
{
    struct gt_write_list *list = &key->line->lists[key->state];
    GT_ASSERT(list->count && key->state != GT_WRITE_IDLE);
    *(key->previous ? &key->previous->next : &list->first) = key->next;
    *(key->next ? &key->next->previous : &list->last) = key->previous;
    list->count--;
    key->state = GT_WRITE_IDLE;
}

unsigned gt_write_count(const struct gt_write_line *line)
{
    return line->lists[GT_WRITE_READY].count + line->lists[GT_WRITE_DELAYED].count +
           line->lists[GT_WRITE_RUNNING].count;
}

static void writer_enqueue(struct gt_write_key *key)
{
    struct gt_write_line *line = key->line;
    uint64_t now = gt_writer_now(line->writer);
    bool delayed = key->due_ms > now;
    key->since_ms = now;
    writer_link(key, delayed ? GT_WRITE_DELAYED : GT_WRITE_READY);
    if (delayed && key->due_ms < line->delayed_ms)
        line->delayed_ms = key->due_ms;
}

static void writer_release_delayed(struct gt_write_line *line, uint64_t now)
{
    struct gt_write_key *key = line->lists[GT_WRITE_DELAYED].first, *next;
    if (line->delayed_ms > now)
        return;
    line->delayed_ms = UINT64_MAX;
    for (; key; key = next) {
        next = key->next;
        if (key->due_ms <= now) {
            writer_unlink(key);
            writer_enqueue(key);
        } else if (key->due_ms < line->delayed_ms) {
            line->delayed_ms = key->due_ms;
        }
    }
}

static void writer_count(uint64_t ms, uint64_t *buckets, uint64_t *sum_ms)
{
    unsigned bucket = 0;
    for (uint64_t limit = 1; limit < ms && bucket < GT_WRITE_BUCKETS - 1; limit *= 10)
        bucket++;
    buckets[bucket]++;
    *sum_ms += ms;
}

/* ---- answers ---- */

struct gt_write_posted {
    struct gt_write_key key; /* first */
    struct gt_kube_request request;
    char *texts;
};

static void writer_free_posted(struct gt_write_key *key)
{
    free(((struct gt_write_posted *)key)->texts);
    free(key);
}

static enum gt_write_outcome writer_outcome(const struct gt_kube_answer *answer)
{
    if (!answer->error)
        return GT_WRITE_DONE;
    if (answer->status == 404 || (answer->status == 409 && gt_err_code(answer->error) != EEXIST))
        return GT_WRITE_CHANGED;
    return answer->status >= 400 && answer->status < 500 ? GT_WRITE_REFUSED : GT_WRITE_UNKNOWN;
}

/* The key is in no list. `answered` may remove and free it. */
static void writer_finish(struct gt_write_key *key, enum gt_write_outcome outcome,
                          struct gt_kube_answer *answer)
{
    struct gt_write_line *line = key->line;
    bool failed = outcome == GT_WRITE_REFUSED || outcome == GT_WRITE_UNKNOWN, posted = key->is_posted;
    bool quiet = key->failures < line->quiet_tries && (outcome == GT_WRITE_UNKNOWN || answer->status == 429);
    if (failed && !quiet && line->report)
        line->report(key, key->is_reported, answer->error);
    key->is_reported = outcome != GT_WRITE_DONE && (key->is_reported || (failed && !quiet));
    key->is_unknown = outcome == GT_WRITE_UNKNOWN || (key->is_unknown && outcome == GT_WRITE_REFUSED);
    key->is_repeat = outcome != GT_WRITE_DONE;
    if (outcome == GT_WRITE_DONE)
        key->failures = 0;
    else
        key->due_ms =
            gt_writer_now(line->writer) + gt_backoff_wait(key->failures++, line->retry_ms, line->retry_max_ms,
                                                          answer->retry_after_s, &line->writer->jitter);
    bool added = key->added, again = added || outcome != GT_WRITE_DONE;
    key->added = false;
    if (!quiet && (!line->answered || !line->answered(key, outcome, answer)) && !(posted && added))
        again = false;
    else if (again && key->state == GT_WRITE_IDLE)
        writer_enqueue(key);
    if (posted && !again)
        writer_free_posted(key);
}

static void writer_on_answer(void *arg, struct gt_kube_answer *answer)
{
    struct gt_write_key *key = arg;
    struct gt_write_line *line = key->line;
    struct gt_writer *writer = line->writer;
    GT_ASSERT(key->state == GT_WRITE_RUNNING);
    writer_unlink(key);
    writer_count(gt_writer_now(writer) - key->since_ms, line->stats.worked, &line->stats.worked_ms);
    key->call = NULL;
    writer_finish(key, writer_outcome(answer), answer);
    writer_wake(writer, 0);
}

/* ---- requests ---- */

const struct gt_kube_request *gt_write_request(const struct gt_write_key *key)
{
    GT_ASSERT(key->is_posted);
    return &((const struct gt_write_posted *)key)->request;
}

static int writer_make(struct gt_write_key *key, struct gt_kube_request *ret, struct gt_buf *body,
                       struct gt_err **err)
{
    const struct gt_write_line *line = key->line;
    if (line->may_send && !line->may_send(line->arg))
        return GT_WRITE_LATER;
    if (!key->is_posted)
        return line->make(key, ret, body, err);
    *ret = *gt_write_request(key);
    return GT_WRITE_SEND;
}

static void writer_send(struct gt_write_key *key, uint64_t now)
{
    struct gt_write_line *line = key->line;
    struct gt_writer *writer = line->writer;
    gt_auto_buf struct gt_buf body = GT_BUF(line->body_max);
    gt_auto_err struct gt_err *error = NULL;
    struct gt_kube_request request = {0};
    uint64_t waited = now - key->since_ms;
    writer_unlink(key);
    key->is_later = false;
    int r = writer_make(key, &request, &body, &error);
    if (r == GT_WRITE_LATER) {
        key->is_later = true;
        key->due_ms = key->due_ms > now ? key->due_ms : now + line->retry_ms;
        writer_enqueue(key);
    }
    if (r == GT_WRITE_NOTHING || r == GT_WRITE_LATER)
        return;
    request.once = true; /* the pauses are the key's */
    if (body.data)
        request.body = body.data;
    if (r > 0)
        r = gt_buf_check(&body, line->name, &error);
    if (r >= 0)
        r = writer->port.start(writer->port.kube, &request, writer_on_answer, key, &key->call, &error);
    if (r < 0) {
        writer_finish(key, GT_WRITE_REFUSED, &(struct gt_kube_answer){.error = error});
        return;
    }
    writer_link(key, GT_WRITE_RUNNING);
    key->since_ms = now;
    writer_count(waited, line->stats.queued, &line->stats.queued_ms);
    line->stats.retries += key->is_repeat;
    writer->tokens -= 1000;
}

/* When the line may send its next request, by the clock; UINT64_MAX: it has none, or too many run. */
static uint64_t writer_when(const struct gt_writer *writer, const struct gt_write_line *line)
{
    int64_t lacks = 1000 - writer_debts[line->order] - writer->tokens;
    if (!line->lists[GT_WRITE_READY].first || line->lists[GT_WRITE_RUNNING].count >= line->running_max)
        return UINT64_MAX;
    return writer->tokens_ms + (lacks > 0 ? (uint64_t)(lacks - 1) / GT_WRITER_PER_SECOND + 1 : 0);
}

static struct gt_write_key *writer_next(const struct gt_writer *writer)
{
    for (struct gt_write_line *line = writer->lines; line; line = line->next)
        if (writer_when(writer, line) <= writer->tokens_ms)
            return line->lists[GT_WRITE_READY].first;
    return NULL;
}

static void writer_refill(struct gt_writer *writer, uint64_t now)
{
    int64_t tokens = writer->tokens + (int64_t)(now - writer->tokens_ms) * GT_WRITER_PER_SECOND;
    writer->tokens = tokens < GT_WRITER_BURST * 1000 ? tokens : GT_WRITER_BURST * 1000;
    writer->tokens_ms = now;
}

void gt_writer_run(struct gt_writer *writer)
{
    uint64_t now = gt_writer_now(writer), next = UINT64_MAX;
    struct gt_write_key *key = NULL;
    writer_refill(writer, now);
    for (struct gt_write_line *line = writer->lines; line; line = line->next)
        writer_release_delayed(line, now);
    while ((key = writer_next(writer)))
        writer_send(key, now);
    for (const struct gt_write_line *line = writer->lines; line; line = line->next) {
        uint64_t when = writer_when(writer, line);
        when = line->delayed_ms < when ? line->delayed_ms : when;
        next = when < next ? when : next;
    }
    if (next != UINT64_MAX)
        writer_wake(writer, next > now ? next - now : 0);
}

void gt_write_add(struct gt_write_key *key)
{
    GT_ASSERT(key->line->writer);
    key->line->stats.adds++;
    if (key->is_later && key->state == GT_WRITE_DELAYED) {
        writer_unlink(key);
        key->due_ms = 0;
    }
    if (key->state == GT_WRITE_RUNNING)
        key->added = true;
    if (key->state != GT_WRITE_IDLE)
        return;
    writer_enqueue(key);
    writer_wake(key->line->writer, key->state == GT_WRITE_READY ? 0 : key->due_ms - key->since_ms);
}

static bool writer_is_same(const char *one, const char *other)
{
    return strcmp(one ? one : "", other ? other : "") == 0;
}

struct gt_write_key *gt_write_find(const struct gt_write_line *line, const char *namespace_, const char *name)
{
    for (unsigned i = 0; name && i < GT_WRITE_STATES; i++)
        for (struct gt_write_key *key = line->lists[i].first; key; key = key->next) {
            const struct gt_kube_request *request = gt_write_request(key);
            if (writer_is_same(request->name, name) && writer_is_same(request->namespace_, namespace_))
                return key;
        }
    return NULL;
}

bool gt_write_post(struct gt_write_line *line, const struct gt_kube_request *request, void *of)
{
    struct gt_write_key *key = gt_write_find(line, request->namespace_, request->name);
    struct gt_write_posted *posted = key ? (struct gt_write_posted *)key : calloc(1, sizeof(*posted));
    struct gt_kube_request copy = *request;
    const char **const texts[] = {&copy.namespace_, &copy.name, &copy.body};
    size_t size = 1;
    for (unsigned i = 0; i < GT_COUNT(texts); i++)
        size += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    char *at = posted ? malloc(size) : NULL;
    if (!at) {
        free(key ? NULL : posted);
        return false;
    }
    free(posted->texts);
    posted->texts = at;
    for (unsigned i = 0; i < GT_COUNT(texts); i++)
        if (*texts[i])
            *texts[i] = gt_text_put(*texts[i], &at);
    posted->request = copy;
    posted->key.line = line;
    posted->key.of = of;
    posted->key.is_posted = true;
    gt_write_add(&posted->key);
    return true;
}

void gt_write_remove(struct gt_write_key *key)
{
    struct gt_write_line *line = key->line;
    if (key->state == GT_WRITE_RUNNING) {
        line->writer->port.cancel(key->call);
        writer_wake(line->writer, 0);
    }
    if (key->state != GT_WRITE_IDLE)
        writer_unlink(key);
    if (key->is_posted)
        writer_free_posted(key);
    else
        *key = (struct gt_write_key){.line = line, .of = key->of};
}

/* ---- lines ---- */

void gt_write_open(struct gt_writer *writer, struct gt_write_line *line)
{
    struct gt_write_line **at = &writer->lines;
    GT_ASSERT(!line->writer && line->name && line->running_max && line->order <= GT_WRITE_LAST);
    if (!line->retry_max_ms)
        line->retry_max_ms = line->retry_ms ? line->retry_ms : GT_BACKOFF_MAX_MS;
    line->retry_ms = line->retry_ms ? line->retry_ms : GT_BACKOFF_FIRST_MS;
    while (*at && (*at)->order <= line->order)
        at = &(*at)->next;
    line->writer = writer;
    line->delayed_ms = UINT64_MAX;
    line->next = *at;
    *at = line;
}

void gt_write_clear(struct gt_write_line *line)
{
    for (unsigned i = 0; i < GT_WRITE_STATES; i++)
        while (line->lists[i].first)
            gt_write_remove(line->lists[i].first);
}

void gt_write_close(struct gt_write_line *line)
{
    if (!line->writer)
        return;
    gt_write_clear(line);
    struct gt_write_line **at = &line->writer->lines;
    while (*at != line)
        at = &(*at)->next;
    *at = line->next;
    line->writer = NULL;
}

void gt_write_log(const char *kind, const char *namespace_, const char *name, bool again,
                  const struct gt_err *error)
{
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot write", GT_STR("kind", kind),
           GT_STR("namespace", namespace_ ? namespace_ : ""), GT_STR("name", name),
           GT_STR("error", gt_err_text(error)));
}

void gt_write_log_posted(const struct gt_write_key *key, bool again, const struct gt_err *error)
{
    const struct gt_kube_request *request = gt_write_request(key);
    gt_write_log(request->resource->plural, request->namespace_, request->name, again, error);
}

enum { WRITER_DEPTH, WRITER_ADDS, WRITER_RETRIES, WRITER_UNFINISHED, WRITER_LONGEST };
static const struct {
    const char *name, *help;
} writer_metrics[] = {
    [WRITER_DEPTH] = {"gputopo_workqueue_depth", "Objects that wait for their write."},
    [WRITER_ADDS] = {"gputopo_workqueue_adds_total", "How often an object was added."},
    [WRITER_RETRIES] = {"gputopo_workqueue_retries_total", "Writes after one that failed."},
    [WRITER_UNFINISHED] = {"gputopo_workqueue_unfinished_work_seconds",
                           "For how long requests have waited for their answers, together."},
    [WRITER_LONGEST] = {"gputopo_workqueue_longest_running_processor_seconds",
                        "For how long the first of them has."},
};

static double writer_metric(const struct gt_write_line *line, unsigned which, uint64_t now)
{
    double ms = 0;
    const struct gt_write_key *key = line->lists[GT_WRITE_RUNNING].first; /* the one that was sent first */
    if (which < WRITER_UNFINISHED)
        return (double)(which == WRITER_DEPTH  ? line->lists[GT_WRITE_READY].count
                        : which == WRITER_ADDS ? line->stats.adds
                                               : line->stats.retries);
    for (; key; key = which == WRITER_UNFINISHED ? key->next : NULL)
        ms += (double)(now - key->since_ms);
    return ms / 1000;
}

void gt_writer_metrics(const struct gt_writer *writer, struct gt_buf *to)
{
    static const double limits[GT_WRITE_BUCKETS - 1] = {0.001, 0.01, 0.1, 1, 10};
    char label[64];
    for (unsigned i = 0; i < GT_COUNT(writer_metrics) && writer->lines; i++) {
        gt_prom_head(to, writer_metrics[i].name, writer_metrics[i].help);
        for (const struct gt_write_line *line = writer->lines; line; line = line->next)
            gt_buf_printf(to, "%s{name=\"%s\"} %.15g\n", writer_metrics[i].name, line->name,
                          writer_metric(line, i, gt_writer_now(writer)));
    }
    for (unsigned i = 0; i < 2 && writer->lines; i++) {
        const char *name =
            i ? "gputopo_workqueue_work_duration_seconds" : "gputopo_workqueue_queue_duration_seconds";
        gt_prom_histogram_head(
            to, name, i ? "From the request to its answer." : "How long an object waited until it was sent.");
        for (const struct gt_write_line *line = writer->lines; line; line = line->next) {
            const struct gt_write_stats *stats = &line->stats;
            snprintf(label, sizeof(label), "name=\"%s\"", line->name);
            gt_prom_histogram_of(
                to, name, label,
                &(struct gt_prom_buckets){limits, i ? stats->worked : stats->queued, GT_WRITE_BUCKETS,
                                          (double)(i ? stats->worked_ms : stats->queued_ms) / 1000});
        }
    }
}

int gt_writer_new(const struct gt_writer_port *port, struct gt_writer **ret, struct gt_err **err)
{
    struct gt_writer *writer = calloc(1, sizeof(*writer));
    GT_NEED(writer, err, "writer");
    writer->port = *port;
    writer->tokens = GT_WRITER_BURST * 1000;
    writer->tokens_ms = gt_writer_now(writer);
    gt_jitter_seed(&writer->jitter);
    *ret = writer;
    return 0;
}

void gt_writer_free(struct gt_writer *writer)
{
    GT_ASSERT(!writer || !writer->lines);
    free(writer);
}
