/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "agent/publish.h"
#include "base/log.h"

enum { SENT_MAX = 4096, HEARTBEAT = 300000 };

/* A double of the world outside, with a clock that the test advances. */
/* Without composites. */
enum { LANES_USED = GT_PUBLISH_LANES - 1 };

struct world {
    uint64_t now, wake_at;
    uint64_t seed;
    struct gt_writer *writer;
    struct gt_publish *publish;

    char text[GT_PUBLISH_LANES][32]; /* what is to be published; "": nothing */
    bool wanted, composites;
    unsigned conflicts; /* how many times a conflict changes the labels' text */
    unsigned found;

    struct sent {
        uint64_t at;
        enum gt_publish_lane lane;
        char body[128];
        struct gt_kube_request request;
    } sent[SENT_MAX];
    unsigned count;

    gt_kube_done *done; /* NULL: none runs */
    void *done_arg;

    bool answers; /* at once, by what is below; else the test does */
    bool object_there, node_there, crd_there;
    const char *uid;
    char written_uid[8];               /* the one in the last body */
    unsigned refuse[GT_PUBLISH_LANES]; /* HTTP status for a lane, 0: none */
};

static struct world *running; /* for the writer */

static uint64_t writers_now(void)
{
    return running->now;
}

static void writers_wake(struct gt_kube *kube, uint64_t after_ms)
{
    (void)kube;
    if (running->now + after_ms < running->wake_at)
        running->wake_at = running->now + after_ms;
}

static enum gt_publish_lane lane_of(const struct gt_kube_request *request)
{
    bool node = strcmp(request->resource->plural, "nodes") == 0;
    if (request->verb == GT_KUBE_GET)
        return GT_PUBLISH_OWNER;
    if (strcmp(request->resource->plural, "resourceslices") == 0)
        return strcmp(request->name, "s1") == 0 ? GT_PUBLISH_SLICE : GT_PUBLISH_COUNTERS;
    if (!node && !request->subresource)
        return GT_PUBLISH_OBJECT;
    if (!node)
        return strcmp(request->field_manager, "gputopo-agent") == 0 ? GT_PUBLISH_WIRING : GT_PUBLISH_USAGE;
    if (request->subresource)
        return GT_PUBLISH_CONDITION;
    return strcmp(request->field_manager, "gputopo-agent") == 0 ? GT_PUBLISH_ANNOTATIONS : GT_PUBLISH_LABELS;
}

static int writers_start(struct gt_kube *kube, const struct gt_kube_request *request, gt_kube_done *done,
                         void *done_arg, struct gt_kube_call **ret, struct gt_err **err)
{
    struct world *w = running;
    (void)kube, (void)err;
    *ret = NULL;
    assert_null(w->done); /* one at a time */
    assert_true(w->count < SENT_MAX);
    struct sent *sent = &w->sent[w->count++];
    *sent = (struct sent){.at = w->now, .lane = lane_of(request), .request = *request};
    snprintf(sent->body, sizeof(sent->body), "%s", request->body ? request->body : "");
    w->done = done;
    w->done_arg = done_arg;
    return 0;
}

static void writers_cancel(struct gt_kube_call *call)
{
    (void)call;
    running->done = NULL;
}

static bool world_write(void *arg, enum gt_publish_lane lane, const char *uid, const char *at,
                        struct gt_buf *to)
{
    struct world *w = arg;
    snprintf(w->written_uid, sizeof(w->written_uid), "%s", uid);
    if (lane == GT_PUBLISH_OBJECT)
        gt_buf_printf(to, "owned by %s", uid);
    else if (w->text[lane][0])
        gt_buf_printf(to, "%s%s%s", w->text[lane], at && lane == GT_PUBLISH_WIRING ? " at " : "",
                      at && lane == GT_PUBLISH_WIRING ? at : "");
    return to->len > 0;
}

static bool world_wanted(void *arg)
{
    return ((struct world *)arg)->wanted;
}

static void world_found(void *arg, const cJSON *object)
{
    struct world *w = arg;
    assert_non_null(object);
    w->found++;
}

static bool world_conflict(void *arg, enum gt_publish_lane lane, const cJSON *status)
{
    struct world *w = arg;
    (void)status;
    if (lane != GT_PUBLISH_LABELS || !w->conflicts)
        return false;
    w->conflicts--;
    w->text[lane][strlen(w->text[lane]) - 1] = '\0';
    return true;
}

/* The running request is answered; `json` may be NULL. */
static void reply(struct world *w, unsigned status, const char *json)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_kube_done *done = w->done;
    assert_non_null(done);
    w->done = NULL;
    if (status < 200 || status > 299)
        gt_fail(&err,
                status == 404   ? ENOENT
                : status == 409 ? EBUSY
                : status == 0   ? ETIMEDOUT
                                : EACCES,
                "%u", status);
    struct gt_kube_answer answer = {.status = status,
                                    .object = json ? cJSON_Parse(json) : NULL,
                                    .error = err,
                                    .tries = 1,
                                    .retry_after_s = status == 429 ? 60 : 0};
    done(w->done_arg, &answer);
    cJSON_Delete(answer.object);
}

/* Answers as an API server with the world's state. */
static void serve(struct world *w)
{
    enum gt_publish_lane lane = w->sent[w->count - 1].lane;
    char object[128];
    snprintf(object, sizeof(object), "{\"metadata\":{\"uid\":\"%s\"}}", w->uid);
    bool of_status = lane == GT_PUBLISH_WIRING || lane == GT_PUBLISH_USAGE;
    bool of_node = lane >= GT_PUBLISH_ANNOTATIONS && lane <= GT_PUBLISH_CONDITION;
    if (w->refuse[lane])
        reply(w, w->refuse[lane], NULL);
    else if (lane == GT_PUBLISH_OWNER)
        reply(w, w->node_there ? 200 : 404, w->node_there ? object : NULL);
    else if (lane == GT_PUBLISH_OBJECT && !w->crd_there)
        reply(w, 404, NULL);
    else if (lane == GT_PUBLISH_OBJECT) {
        bool was = w->object_there;
        w->object_there = true;
        reply(w, was ? 200 : 201, "{}");
    } else if (of_status && !w->object_there)
        reply(w, 404, NULL);
    else if (of_node && (!w->node_there || strcmp(w->written_uid, w->uid) != 0))
        reply(w, 409, "{\"message\":\"uid mismatch\"}");
    else
        reply(w, 200, "{}");
}

static void pass(struct world *w, uint64_t ms)
{
    uint64_t end = w->now + ms;
    for (;;) {
        if (w->done && w->answers) {
            serve(w);
            continue;
        }
        if (w->wake_at > end)
            break;
        w->now = w->wake_at > w->now ? w->wake_at : w->now;
        w->wake_at = UINT64_MAX;
        gt_writer_run(w->writer);
    }
    w->now = end;
}

static unsigned count_of(const struct world *w, enum gt_publish_lane lane)
{
    unsigned count = 0;
    for (unsigned i = 0; i < w->count; i++)
        count += w->sent[i].lane == lane;
    return count;
}

static const struct sent *last_of(const struct world *w, enum gt_publish_lane lane)
{
    for (unsigned i = w->count; i-- > 0;)
        if (w->sent[i].lane == lane)
            return &w->sent[i];
    fail_msg("no request of lane %s", gt_publish_lane_name(lane));
    return NULL;
}

static void say(struct world *w, enum gt_publish_lane lane, const char *text)
{
    snprintf(w->text[lane], sizeof(w->text[lane]), "%s", text);
    gt_publish_changed(w->publish);
}

static void make_publish(struct world *w, bool node_only)
{
    const struct gt_publish_options options = {.node_name = "n1",
                                               .slice_name = "s1",
                                               .counters_name = w->composites ? "c1" : NULL,
                                               .heartbeat_ms = HEARTBEAT,
                                               .jitter = {w->seed},
                                               .force_annotations = true,
                                               .node_only = node_only};
    const struct gt_publish_source source = {world_write, world_wanted, world_found, world_conflict, w};
    gt_publish_free(w->publish);
    assert_int_equal(gt_publish_new(&options, &source, w->writer, &w->publish, NULL), 0);
}

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    gt_log_setup(GT_LOG_ERROR, GT_LOG_TEXT);
    *w = (struct world){.now = 5000,
                        .wake_at = UINT64_MAX,
                        .wanted = true,
                        .answers = true,
                        .node_there = true,
                        .crd_there = true,
                        .uid = "u1",
                        .text = {[GT_PUBLISH_WIRING] = "wired",
                                 [GT_PUBLISH_USAGE] = "free",
                                 [GT_PUBLISH_ANNOTATIONS] = "maps",
                                 [GT_PUBLISH_LABELS] = "abc",
                                 [GT_PUBLISH_CONDITION] = "all well",
                                 [GT_PUBLISH_COUNTERS] = "one each",
                                 [GT_PUBLISH_SLICE] = "gpus"}};
    const struct gt_writer_port port = {writers_start, writers_cancel, writers_now, writers_wake, NULL};
    running = w;
    assert_int_equal(gt_writer_new(&port, &w->writer, NULL), 0);
    make_publish(w, false);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    gt_publish_free(w->publish);
    gt_writer_free(w->writer);
    free(w);
    return 0;
}

static void begin(struct world *w)
{
    gt_publish_begin(w->publish);
    pass(w, 2000 + HEARTBEAT / 30);
}

static void first(void **state)
{
    struct world *w = *state;
    w->composites = true;
    make_publish(w, false);
    begin(w);
    assert_int_equal(w->count, GT_PUBLISH_LANES);
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        assert_int_equal(w->sent[i].lane, i);
    assert_int_equal(w->found, 1);
    assert_string_equal(w->sent[GT_PUBLISH_OBJECT].body, "owned by u1");
    assert_memory_equal(last_of(w, GT_PUBLISH_WIRING)->body, "wired at 2", 10);
    assert_string_equal(last_of(w, GT_PUBLISH_USAGE)->request.field_manager, "gputopo-agent-usage");
    assert_true(last_of(w, GT_PUBLISH_USAGE)->request.force);
    assert_false(last_of(w, GT_PUBLISH_LABELS)->request.force);
    assert_string_equal(last_of(w, GT_PUBLISH_CONDITION)->request.subresource, "status");
    assert_string_equal(last_of(w, GT_PUBLISH_CONDITION)->request.resource->plural, "nodes");
    struct gt_publish_stats stats;
    gt_publish_stats(w->publish, &stats);
    assert_true(stats.current);
    assert_int_equal(stats.writes[GT_PUBLISH_WIRING], 1);
}

/* The Node is updated also when it has no GPU any more, although there is no object. */
static void the_node_only(void **state)
{
    struct world *w = *state;
    make_publish(w, true);
    w->wanted = false;
    begin(w);
    pass(w, 2 * HEARTBEAT);
    gt_publish_refresh(w->publish);
    pass(w, 2000);
    assert_int_equal(count_of(w, GT_PUBLISH_OWNER), 1);
    assert_true(count_of(w, GT_PUBLISH_ANNOTATIONS) > 2);
    assert_int_equal(w->count, 1 + count_of(w, GT_PUBLISH_ANNOTATIONS) + count_of(w, GT_PUBLISH_LABELS) +
                                   count_of(w, GT_PUBLISH_COUNTERS) + count_of(w, GT_PUBLISH_SLICE));
    struct gt_publish_stats stats;
    gt_publish_stats(w->publish, &stats);
    assert_true(stats.current);
}

static void no_change_no_write(void **state)
{
    struct world *w = *state;
    begin(w);
    unsigned before = w->count;
    for (unsigned i = 0; i < 100; i++) {
        gt_publish_changed(w->publish);
        pass(w, 1000);
    }
    assert_int_equal(w->count, before);
}

static void a_change_of_use_is_sent_alone(void **state)
{
    struct world *w = *state;
    begin(w);
    unsigned before = w->count;
    say(w, GT_PUBLISH_USAGE, "less free");
    pass(w, 10);
    assert_int_equal(w->count, before + 1);
    assert_int_equal(w->sent[before].lane, GT_PUBLISH_USAGE);
    assert_string_equal(w->sent[before].body, "less free");
    say(w, GT_PUBLISH_USAGE, ""); /* not known any more: what was published stays */
    pass(w, 10000);
    assert_int_equal(w->count, before + 1);
}

static void at_most_one_write_a_second(void **state)
{
    struct world *w = *state;
    begin(w);
    unsigned before = w->count;
    uint64_t began = w->now;
    for (unsigned i = 0; i < 1000; i++) {
        char text[32];
        snprintf(text, sizeof(text), "use %u", i);
        say(w, GT_PUBLISH_USAGE, text);
        pass(w, 10);
    }
    pass(w, 1000);
    assert_in_range(w->count - before, 10, 11);
    for (unsigned i = before + 1; i < w->count; i++)
        assert_true(w->sent[i].at - w->sent[i - 1].at >= GT_PUBLISH_INTERVAL_MS);
    assert_true(w->sent[before].at - began < GT_PUBLISH_INTERVAL_MS);
    assert_string_equal(w->sent[w->count - 1].body, "use 999");
}

static void heartbeat(void **state)
{
    struct world *w = *state;
    uint64_t least = UINT64_MAX, most = 0;
    gt_publish_begin(w->publish);
    pass(w, 1000 + HEARTBEAT / 30);
    assert_int_equal(w->count, LANES_USED);
    assert_in_range(w->sent[0].at - 5000, 1000, 1000 + HEARTBEAT / 30);
    uint64_t at = last_of(w, GT_PUBLISH_WIRING)->at;
    pass(w, HEARTBEAT * 6 / 5);
    assert_int_equal(count_of(w, GT_PUBLISH_WIRING), 2);
    assert_int_equal(count_of(w, GT_PUBLISH_LABELS), 2);
    assert_int_equal(count_of(w, GT_PUBLISH_OBJECT), 1);
    pass(w, UINT64_C(10) * HEARTBEAT);
    assert_in_range(count_of(w, GT_PUBLISH_WIRING), 10, 15);
    for (unsigned i = 0; i < w->count; i++)
        if (w->sent[i].lane == GT_PUBLISH_WIRING && w->sent[i].at > at) {
            uint64_t gap = w->sent[i].at - at;
            assert_in_range(gap, HEARTBEAT * 3 / 4, HEARTBEAT * 5 / 4);
            least = gap < least ? gap : least;
            most = gap > most ? gap : most;
            at = w->sent[i].at;
        }
    assert_true(most - least > HEARTBEAT / 10); /* the jitter */
}

static void refresh(void **state)
{
    struct world *w = *state;
    begin(w);
    gt_publish_refresh(w->publish);
    pass(w, 1000);
    assert_int_equal(w->count, LANES_USED + 6);
}

static void away_and_back(void **state)
{
    struct world *w = *state;
    struct gt_publish_stats stats;
    begin(w); /* it has "free" */
    w->answers = false;
    say(w, GT_PUBLISH_USAGE, "use 1");
    pass(w, 10);
    unsigned before = w->count;
    /* What is sent next is what is so by then, and it is written once. */
    say(w, GT_PUBLISH_USAGE, "use 2");
    reply(w, 0, NULL);
    gt_publish_stats(w->publish, &stats);
    assert_true(stats.away);
    say(w, GT_PUBLISH_USAGE, "use 3");
    pass(w, 2000);
    assert_int_equal(w->count, before + 1);
    assert_string_equal(w->sent[before].body, "use 3");
    reply(w, 200, "{}");
    w->answers = true;
    pass(w, 60000);
    assert_int_equal(w->count, before + 1);
    gt_publish_stats(w->publish, &stats);
    assert_false(stats.away);
    assert_true(stats.current);
}

/* The text changes back to what the API server has had while another one is being written. */
static void back_to_what_was_written(void **state)
{
    struct world *w = *state;
    struct gt_publish_stats stats;
    begin(w); /* it has "free" */
    w->answers = false;
    say(w, GT_PUBLISH_USAGE, "use 1");
    pass(w, 10);
    say(w, GT_PUBLISH_USAGE, "free");
    reply(w, 0, NULL); /* it may have been written */
    w->answers = true;
    pass(w, 60000);
    assert_string_equal(last_of(w, GT_PUBLISH_USAGE)->body, "free");
    assert_int_equal(count_of(w, GT_PUBLISH_USAGE), 3);
    gt_publish_stats(w->publish, &stats);
    assert_true(stats.current);
}

/* Even with constant changes a server that does not answer gets few requests. */
static void no_storm_while_away(void **state)
{
    struct world *w = *state;
    begin(w);
    w->answers = false;
    unsigned before = w->count;
    for (unsigned i = 0; i < 1000; i++) {
        char text[32];
        snprintf(text, sizeof(text), "use %u", i);
        say(w, GT_PUBLISH_USAGE, text);
        pass(w, 1000);
        if (w->done)
            reply(w, 0, NULL);
    }
    assert_true(w->count - before <= 60);
    for (unsigned i = before + 7; i < w->count; i++)
        assert_true(w->sent[i].at - w->sent[i - 1].at >= 10000);
    w->answers = true;
    before = w->count;
    pass(w, 60000);
    assert_string_equal(last_of(w, GT_PUBLISH_USAGE)->body, "use 999");
    assert_true(w->count - before <= 6); /* the heartbeat's lanes that were due meanwhile, each once */
}

/* An API server that has just started refuses what it allows a moment later. */
static void refused_after_an_outage(void **state)
{
    struct world *w = *state;
    begin(w);
    w->refuse[GT_PUBLISH_USAGE] = 503;
    say(w, GT_PUBLISH_USAGE, "use 1");
    pass(w, 120000);
    w->refuse[GT_PUBLISH_USAGE] = 403;
    unsigned before = w->count;
    while (w->count == before)
        pass(w, 100);
    w->refuse[GT_PUBLISH_USAGE] = 0;
    pass(w, 1100);
    struct gt_publish_stats stats;
    gt_publish_stats(w->publish, &stats);
    assert_true(stats.current);
}

/* A server error for one request, for instance by a webhook, does not delay other lanes. */
static void one_that_fails(void **state)
{
    struct world *w = *state;
    struct gt_publish_stats stats;
    w->refuse[GT_PUBLISH_LABELS] = 500;
    begin(w);
    pass(w, 60000);
    unsigned tries = count_of(w, GT_PUBLISH_LABELS);
    assert_in_range(tries, 3, 10);
    assert_int_equal(last_of(w, GT_PUBLISH_LABELS)->request.deadline_ms, GT_PUBLISH_DEADLINE_MS);
    gt_publish_stats(w->publish, &stats);
    assert_false(stats.away);
    say(w, GT_PUBLISH_USAGE, "use 1");
    pass(w, 10);
    assert_string_equal(last_of(w, GT_PUBLISH_USAGE)->body, "use 1");
    w->refuse[GT_PUBLISH_LABELS] = 0;
    pass(w, HEARTBEAT);
    gt_publish_stats(w->publish, &stats);
    assert_true(stats.current);
}

static void asked_to_wait(void **state)
{
    struct world *w = *state;
    begin(w);
    w->answers = false;
    say(w, GT_PUBLISH_USAGE, "use 1");
    pass(w, 10);
    reply(w, 429, NULL);
    unsigned before = w->count;
    w->answers = true;
    pass(w, 59999);
    assert_int_equal(w->count, before);
    pass(w, 32000);
    assert_true(w->count > before);
}

static void refused_for_good(void **state)
{
    struct world *w = *state;
    w->refuse[GT_PUBLISH_USAGE] = 422;
    begin(w);
    pass(w, 3600000);
    /* Others go on, this one is tried with growing pauses up to a heartbeat. */
    assert_in_range(count_of(w, GT_PUBLISH_WIRING), 10, 16);
    assert_in_range(count_of(w, GT_PUBLISH_USAGE), 10, 45);
    w->refuse[GT_PUBLISH_USAGE] = 0;
    pass(w, HEARTBEAT + 1000);
    struct gt_publish_stats stats;
    gt_publish_stats(w->publish, &stats);
    assert_true(stats.current);
    assert_int_equal(stats.failures[GT_PUBLISH_WIRING], 0);
    assert_true(stats.failures[GT_PUBLISH_USAGE] >= 10);
}

static void labels_of_others(void **state)
{
    static const char *refusal =
        "{\"message\":\"Apply failed with 1 conflict: conflict with \\\"nfd\\\": .metadata.labels.x\","
        "\"details\":{\"causes\":[{\"reason\":\"FieldManagerConflict\",\"field\":\".metadata.labels.x\"}]}}";
    struct world *w = *state;
    w->conflicts = 2;
    gt_publish_begin(w->publish);
    w->answers = false;
    for (unsigned i = 0; i < 20; i++) {
        pass(w, 1000);
        if (!w->done)
            continue;
        if (w->sent[w->count - 1].lane == GT_PUBLISH_LABELS && w->sent[w->count - 1].body[1])
            reply(w, 409, refusal);
        else
            serve(w);
    }
    assert_int_equal(count_of(w, GT_PUBLISH_LABELS), 3);
    assert_string_equal(last_of(w, GT_PUBLISH_LABELS)->body, "a");
    assert_int_equal(count_of(w, GT_PUBLISH_OWNER), 1);
}

static void object_deleted(void **state)
{
    struct world *w = *state;
    begin(w);
    w->object_there = false;
    say(w, GT_PUBLISH_USAGE, "use 1");
    pass(w, 5000);
    assert_true(w->object_there);
    assert_int_equal(count_of(w, GT_PUBLISH_OBJECT), 2);
    assert_int_equal(count_of(w, GT_PUBLISH_OWNER), 2);
    assert_int_equal(count_of(w, GT_PUBLISH_WIRING), 2); /* all of it is there again */
    assert_string_equal(last_of(w, GT_PUBLISH_USAGE)->body, "use 1");
    /* Without a change the heartbeat finds it out. */
    w->object_there = false;
    pass(w, HEARTBEAT * 6 / 5 + 5000);
    assert_true(w->object_there);
}

static void node_deleted(void **state)
{
    struct world *w = *state;
    struct gt_publish_stats stats;
    begin(w);
    w->object_there = w->node_there = false; /* collected with it */
    pass(w, HEARTBEAT * 6 / 5);
    gt_publish_stats(w->publish, &stats);
    assert_true(stats.gone);
    assert_false(w->object_there);
    unsigned before = w->count;
    say(w, GT_PUBLISH_USAGE, "use 1");
    pass(w, 3600000);
    assert_false(w->object_there);
    assert_in_range(w->count - before, 10, 35); /* only requests for the Node */
    for (unsigned i = before; i < w->count; i++)
        assert_int_equal(w->sent[i].lane, GT_PUBLISH_OWNER);
    w->node_there = true;
    w->uid = "u2";
    pass(w, HEARTBEAT + 1000);
    assert_true(w->object_there);
    assert_string_equal(last_of(w, GT_PUBLISH_OBJECT)->body, "owned by u2");
    assert_string_equal(last_of(w, GT_PUBLISH_USAGE)->body, "use 1");
    gt_publish_stats(w->publish, &stats);
    assert_false(stats.gone);
    assert_true(stats.current);
}

/* The Node alone, where nobody collects the object. */
static void node_deleted_object_left(void **state)
{
    struct world *w = *state;
    struct gt_publish_stats stats;
    begin(w);
    w->node_there = false;
    pass(w, HEARTBEAT * 6 / 5 + 1000);
    gt_publish_stats(w->publish, &stats);
    assert_true(stats.gone);
    w->node_there = true;
    w->uid = "u2";
    pass(w, HEARTBEAT + 1000);
    assert_string_equal(last_of(w, GT_PUBLISH_OBJECT)->body, "owned by u2");
}

/* The Node was made again so soon that the agent saw no gap, and the object is still the old one. */
static void node_made_again(void **state)
{
    struct world *w = *state;
    begin(w);
    w->uid = "u2";
    unsigned before = count_of(w, GT_PUBLISH_WIRING);
    pass(w, HEARTBEAT * 6 / 5 + 5000);
    assert_string_equal(last_of(w, GT_PUBLISH_OBJECT)->body, "owned by u2");
    assert_true(last_of(w, GT_PUBLISH_WIRING) >
                last_of(w, GT_PUBLISH_OBJECT)); /* the GPUs are written again */
    assert_true(count_of(w, GT_PUBLISH_WIRING) > before);
}

/* What was deleted while there was no text for it is written when there is one, also if it is the same. */
static void deleted_while_unknown(void **state)
{
    struct world *w = *state;
    begin(w);
    unsigned before = count_of(w, GT_PUBLISH_SLICE);
    say(w, GT_PUBLISH_SLICE, "");
    gt_publish_again(w->publish, GT_PUBLISH_SLICE);
    pass(w, 5000);
    assert_int_equal(count_of(w, GT_PUBLISH_SLICE), before);
    say(w, GT_PUBLISH_SLICE, "gpus");
    pass(w, 5000);
    assert_int_equal(count_of(w, GT_PUBLISH_SLICE), before + 1);
}

static void no_custom_resource(void **state)
{
    struct world *w = *state;
    w->crd_there = false;
    begin(w);
    assert_int_equal(count_of(w, GT_PUBLISH_ANNOTATIONS), 1); /* the Node's part does not wait for it */
    assert_int_equal(count_of(w, GT_PUBLISH_WIRING), 0);
    pass(w, 3600000);
    assert_in_range(count_of(w, GT_PUBLISH_OBJECT), 10, 45);
    w->crd_there = true;
    pass(w, HEARTBEAT + 1000);
    assert_true(count_of(w, GT_PUBLISH_WIRING) > 0);
}

static void node_without_gpus(void **state)
{
    struct world *w = *state;
    w->wanted = false;
    begin(w);
    assert_int_equal(w->count, 1); /* a write to an object that may be there from before */
    assert_int_equal(w->sent[0].lane, GT_PUBLISH_WIRING);
    assert_false(w->object_there);
    for (unsigned i = 0; i < 10; i++) {
        gt_publish_changed(w->publish);
        pass(w, 1000);
    }
    assert_int_equal(w->count, 1);
    pass(w, UINT64_C(12) * HEARTBEAT);
    w->wanted = true; /* a GPU was added; that there was no object before is no failure */
    unsigned statuses = count_of(w, GT_PUBLISH_WIRING);
    gt_publish_changed(w->publish);
    pass(w, 4000);
    assert_true(w->object_there);
    assert_true(count_of(w, GT_PUBLISH_WIRING) > statuses);
    assert_int_equal(count_of(w, GT_PUBLISH_LABELS), 1);
}

static void node_that_lost_its_gpus(void **state)
{
    struct world *w = *state;
    w->wanted = false;
    w->object_there = true;
    begin(w);
    assert_int_equal(count_of(w, GT_PUBLISH_OBJECT), 1);
    assert_int_equal(count_of(w, GT_PUBLISH_ANNOTATIONS), 1);
}

/* A thousand agents with one clock: what an API server sees of them at a start and at rest. */
static void a_thousand(void **state)
{
    enum { AGENTS = 1000, START_S = 12 };
    (void)state;
    unsigned per_second[START_S] = {0}, at_rest = 0, total = 0;
    for (unsigned i = 0; i < AGENTS; i++) {
        void *one;
        set_up(&one);
        struct world *w = one;
        w->seed = i;
        w->now = 0;
        make_publish(w, false);
        gt_publish_begin(w->publish);
        pass(w, 60000);
        pass(w, UINT64_C(12) * HEARTBEAT);
        for (unsigned k = 0; k < w->count; k++) {
            if (w->sent[k].at / 1000 < START_S)
                per_second[w->sent[k].at / 1000]++;
            else if (w->sent[k].at > 60000)
                at_rest++;
        }
        total += w->count;
        tear_down(&one);
    }
    for (unsigned i = 0; i < START_S; i++) {
        print_message("second %2u of a start: %u requests\n", i, per_second[i]);
        assert_true(per_second[i] <= LANES_USED * AGENTS * 30 * 1000 / HEARTBEAT * 6 / 5);
    }
    double rate = at_rest / (12.0 * HEARTBEAT / 1000);
    print_message("at rest: %.1f requests a second, a fifth of them writes\n", rate);
    assert_true(rate < 6.2 * AGENTS * 1000 / HEARTBEAT);
    assert_true(total > 12 * 4 * AGENTS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(first),
        TEST(the_node_only),
        TEST(no_change_no_write),
        TEST(a_change_of_use_is_sent_alone),
        TEST(at_most_one_write_a_second),
        TEST(heartbeat),
        TEST(refresh),
        TEST(away_and_back),
        TEST(back_to_what_was_written),
        TEST(no_storm_while_away),
        TEST(refused_after_an_outage),
        TEST(one_that_fails),
        TEST(asked_to_wait),
        TEST(refused_for_good),
        TEST(labels_of_others),
        TEST(object_deleted),
        TEST(node_deleted),
        TEST(node_deleted_object_left),
        TEST(node_made_again),
        TEST(deleted_while_unknown),
        TEST(no_custom_resource),
        TEST(node_without_gpus),
        TEST(node_that_lost_its_gpus),
        cmocka_unit_test(a_thousand),
    };
    return cmocka_run_group_tests_name("publish", tests, NULL, NULL);
}
