/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kube/writer.h"
#include "tests/unit/aborts.h"

/* The writer with a clock and an API server of the test. */

enum { FLIGHTS_MAX = 2048, KEYS = 8 };

struct gt_kube_call {
    gt_kube_done *done;
    void *arg;
    char name[16], body[16];
    bool cancelled;
};

static struct {
    uint64_t now, wake_at;
    struct gt_kube_call calls[FLIGHTS_MAX];
    unsigned sent, told, told_again, answered, cannot_start;
    enum gt_write_outcome last;
    bool is_reading; /* the last request asked for the state first */
    int made;        /* what make returns */
} world;

static struct gt_writer *writer;
static struct gt_write_line texts, lifts;
static struct gt_write_key keys[KEYS];

static int start(struct gt_kube *kube, const struct gt_kube_request *request, gt_kube_done *done,
                 void *done_arg, struct gt_kube_call **ret, struct gt_err **err)
{
    (void)kube;
    assert_true(request->once);
    if (world.cannot_start)
        return gt_fail(err, EAGAIN, "full");
    assert_in_range(world.sent, 0, FLIGHTS_MAX - 1);
    struct gt_kube_call *call = &world.calls[world.sent++];
    *call = (struct gt_kube_call){.done = done, .arg = done_arg};
    snprintf(call->name, sizeof(call->name), "%s", request->name ? request->name : "");
    snprintf(call->body, sizeof(call->body), "%s", request->body);
    *ret = call;
    return 0;
}

static void cancel(struct gt_kube_call *call)
{
    call->cancelled = true;
}

static uint64_t now(void)
{
    return world.now;
}

static void wake(struct gt_kube *kube, uint64_t after_ms)
{
    (void)kube;
    if (world.now + after_ms < world.wake_at)
        world.wake_at = world.now + after_ms;
}

static const char *const names[KEYS] = {"0", "1", "2", "3", "4", "5", "6", "7"};

static int make(struct gt_write_key *key, struct gt_kube_request *ret, struct gt_buf *body,
                struct gt_err **err)
{
    if (world.made < 0)
        return gt_fail(err, -world.made, "cannot be made");
    world.is_reading = key->is_unknown;
    *ret = (struct gt_kube_request){.verb = key->is_unknown ? GT_KUBE_GET : GT_KUBE_MERGE_PATCH,
                                    .resource = &gt_kube_pods,
                                    .name = names[key - keys]};
    gt_buf_puts(body, "{}");
    return world.made;
}

static bool answered(struct gt_write_key *key, enum gt_write_outcome outcome, struct gt_kube_answer *answer)
{
    (void)key;
    (void)answer;
    world.answered++;
    world.last = outcome;
    return true;
}

static void report(const struct gt_write_key *key, bool again, const struct gt_err *error)
{
    (void)key;
    assert_non_null(error);
    world.told += !again;
    world.told_again += again;
}

static int begin(void **state)
{
    (void)state;
    memset(&world, 0, sizeof(world));
    memset(keys, 0, sizeof(keys));
    world.now = 1000;
    world.wake_at = UINT64_MAX;
    world.made = GT_WRITE_SEND;
    const struct gt_writer_port port = {start, cancel, now, wake, NULL};
    const struct gt_write_line line = {.name = "texts",
                                       .order = 2,
                                       .running_max = 2,
                                       .body_max = 100,
                                       .retry_ms = 1000,
                                       .retry_max_ms = 8000,
                                       .make = make,
                                       .answered = answered,
                                       .report = report};
    texts = lifts = line;
    lifts.name = "lifts";
    lifts.order = 1;
    assert_int_equal(gt_writer_new(&port, &writer, NULL), 0);
    gt_write_open(writer, &texts);
    gt_write_open(writer, &lifts);
    for (unsigned i = 0; i < KEYS; i++)
        keys[i].line = &texts;
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KEYS; i++)
        gt_write_remove(&keys[i]);
    gt_write_close(&texts);
    gt_write_close(&lifts);
    gt_writer_free(writer);
    return 0;
}

/* Lets the time pass that the writer asks for, at most `ms`, and runs it. False: it did not ask. */
static bool tick(uint64_t ms)
{
    if (world.wake_at == UINT64_MAX || world.wake_at > world.now + ms)
        return false;
    world.now = world.wake_at > world.now ? world.wake_at : world.now;
    world.wake_at = UINT64_MAX;
    gt_writer_run(writer);
    return true;
}

static void answer(unsigned flight, unsigned status, unsigned retry_after_s)
{
    gt_auto_err struct gt_err *error = NULL;
    if (status < 200 || status > 299)
        gt_fail(&error, EIO, "%u", status);
    world.calls[flight].done(
        world.calls[flight].arg,
        &(struct gt_kube_answer){.status = status, .error = error, .retry_after_s = retry_after_s});
}

static void test_once_in_flight(void **state)
{
    (void)state;
    gt_write_add(&keys[0]);
    gt_write_add(&keys[0]);
    assert_int_equal(gt_write_count(&texts), 1);
    assert_true(tick(0));
    assert_int_equal(world.sent, 1);
    gt_write_add(&keys[0]); /* it has changed while it is written */
    tick(0);
    assert_int_equal(world.sent, 1);
    answer(0, 200, 0);
    assert_true(tick(0));
    assert_int_equal(world.sent, 2);
    answer(1, 200, 0);
    tick(100000);
    assert_int_equal(world.sent, 2);
    assert_int_equal(texts.stats.adds, 3);
    assert_int_equal(texts.stats.retries, 0);
}

static void test_order(void **state)
{
    (void)state;
    keys[3].line = &lifts;
    for (unsigned i = 0; i < 4; i++)
        gt_write_add(&keys[i]);
    tick(0);
    assert_int_equal(world.sent, 3); /* a line has two at a time */
    assert_string_equal(world.calls[0].name, "3");
    assert_string_equal(world.calls[1].name, "0");
    assert_string_equal(world.calls[2].name, "1");
    answer(1, 200, 0);
    tick(0);
    assert_string_equal(world.calls[3].name, "2");
}

/* A failure is told once, and the pauses double up to the limit, with jitter; a success ends that. */
static void test_failures(void **state)
{
    static const struct {
        unsigned status, retry_after_s;
        enum gt_write_outcome outcome;
        bool told;
    } cases[] = {{403, 0, GT_WRITE_REFUSED, true},  {422, 0, GT_WRITE_REFUSED, true},
                 {429, 0, GT_WRITE_REFUSED, true},  {500, 0, GT_WRITE_UNKNOWN, true},
                 {503, 0, GT_WRITE_UNKNOWN, true},  {0, 0, GT_WRITE_UNKNOWN, true},
                 {409, 0, GT_WRITE_CHANGED, false}, {404, 0, GT_WRITE_CHANGED, false},
                 {429, 30, GT_WRITE_REFUSED, true}, {503, 30, GT_WRITE_UNKNOWN, true}};
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        if (i)
            begin(state);
        gt_write_add(&keys[0]);
        tick(0);
        for (unsigned round = 0; round < 6; round++) {
            uint64_t step = 1000U << round < 8000 ? 1000U << round : 8000, before = world.now;
            answer(round, cases[i].status, cases[i].retry_after_s);
            assert_int_equal(world.last, cases[i].outcome);
            gt_write_add(&keys[0]); /* does not shorten the pause */
            while (world.sent == round + 1)
                assert_true(tick(200000));
            uint64_t pause = world.now - before;
            if (cases[i].retry_after_s)
                assert_in_range(pause, 30000, 45000);
            else
                assert_in_range(pause, step / 2, step);
            assert_int_equal(world.is_reading, cases[i].outcome == GT_WRITE_UNKNOWN);
        }
        assert_int_equal(world.told, cases[i].told);
        assert_int_equal(world.told_again, cases[i].told ? 5 : 0);
        assert_int_equal(texts.stats.retries, 6);
        answer(6, 200, 0);
        assert_int_equal(keys[0].failures, 0);
        assert_false(keys[0].is_unknown);
        tick(0);
        tick(200000);
        assert_int_equal(world.sent, 7); /* what is written is not written again */
        if (i + 1 < GT_COUNT(cases))
            end(state);
    }
}

static void test_budget(void **state)
{
    (void)state;
    texts.running_max = UINT32_MAX;
    uint64_t began = world.now;
    gt_write_add(&keys[0]);
    while (world.sent < GT_WRITER_BURST + GT_WRITER_PER_SECOND) {
        unsigned flight = world.sent;
        assert_true(tick(1000));
        for (; flight < world.sent; flight++) {
            gt_write_add(&keys[0]);
            answer(flight, 200, 0);
        }
    }
    assert_in_range(world.now - began, 990, 1010);
}

static void set_order(struct gt_write_line *line, unsigned order)
{
    gt_write_close(line);
    line->order = order;
    gt_write_open(writer, line);
}

/* Writes one key again and again, as long as that needs no time. How often that was. */
static unsigned write_all(struct gt_write_key *key)
{
    unsigned count = 0;
    for (gt_write_add(key); tick(0) && world.sent == 1; count++) {
        answer(0, 200, 0);
        world.sent = 0;
        gt_write_add(key);
    }
    return count;
}

/* All lines have one budget. What pods wait for may overdraw it, and then the others wait longer. */
static void test_orders_and_budget(void **state)
{
    (void)state;
    struct gt_write_line middle = lifts;
    middle.writer = NULL;
    set_order(&texts, GT_WRITE_LAST);
    set_order(&lifts, GT_WRITE_FIRST);
    middle.name = "evictions";
    middle.order = GT_WRITE_SOON;
    gt_write_open(writer, &middle);
    keys[6].line = &middle;
    keys[7].line = &lifts;
    assert_int_equal(write_all(&keys[0]), GT_WRITER_BURST);
    assert_int_equal(write_all(&keys[6]), GT_WRITER_SOON_DEBT);
    assert_int_equal(write_all(&keys[7]), GT_WRITER_FIRST_DEBT - GT_WRITER_SOON_DEBT);
    static const struct {
        const char *name;
        uint64_t at; /* when the budget is back to what it may use */
    } turns[] = {
        {"7", 1}, {"6", GT_WRITER_FIRST_DEBT - GT_WRITER_SOON_DEBT + 2}, {"0", GT_WRITER_FIRST_DEBT + 3}};
    const uint64_t began = world.now;
    for (unsigned i = 0, wakes = 0; i < GT_COUNT(turns); i++) {
        while (world.sent == i) {
            assert_true(tick(1000000));
            wakes++;
        }
        assert_string_equal(world.calls[i].name, turns[i].name);
        assert_int_equal(world.now - began, turns[i].at * 1000 / GT_WRITER_PER_SECOND);
        assert_in_range(wakes, 1, 10); /* it does not look again and again */
    }
    gt_write_remove(&keys[6]);
    gt_write_close(&middle);
}

/* Failures that may pass are not told, up to the line's number; and nothing is sent while that is not
 * allowed. */
static bool may_send(void *arg)
{
    return *(bool *)arg;
}

static void test_quiet_and_allowed(void **state)
{
    (void)state;
    bool allowed = false;
    texts.quiet_tries = 2;
    texts.may_send = may_send;
    texts.arg = &allowed;
    gt_write_add(&keys[0]);
    tick(0);
    assert_int_equal(world.sent, 0);
    allowed = true;
    assert_true(tick(1000));
    static const unsigned statuses[] = {503, 429, 503};
    for (unsigned flight = 0; flight < 3; flight++) {
        while (world.sent == flight)
            assert_true(tick(8000));
        assert_int_equal(world.answered, 0);
        answer(flight, statuses[flight], 0);
    }
    assert_int_equal(world.told, 1);
    assert_int_equal(world.answered, 1);
    while (world.sent == 3)
        assert_true(tick(8000));
    answer(3, 200, 0);
    gt_write_add(&keys[0]);
    tick(0);
    answer(4, 403, 0); /* it does not pass */
    assert_int_equal(world.told, 2);
}

/* A request without a key of the caller's: its texts are the writer's, it is repeated while `answered` says
 * so, and it is found until then. */
static void test_posted(void **state)
{
    (void)state;
    char name[] = "5", body[] = "{\"a\":1}";
    const struct gt_kube_request request = {.verb = GT_KUBE_MERGE_PATCH,
                                            .resource = &gt_kube_pods,
                                            .namespace_ = "ns",
                                            .name = name,
                                            .body = body};
    assert_true(gt_write_post(&texts, &request, &world));
    name[0] = '6';
    assert_true(gt_write_post(&texts, &request, &world));
    name[0] = body[0] = '?';
    tick(0);
    assert_int_equal(world.sent, 2);
    assert_string_equal(world.calls[0].name, "5");
    assert_string_equal(world.calls[0].body, "{\"a\":1}");
    answer(0, 503, 0);
    answer(1, 200, 0);
    assert_int_equal(gt_write_count(&texts), 1);
    assert_null(gt_write_find(&texts, "ns", "6"));
    const struct gt_write_key *key = gt_write_find(&texts, "ns", "5");
    assert_ptr_equal(key->of, &world);
    assert_null(gt_write_find(&texts, NULL, "5"));
    assert_true(tick(1000));
    while (world.sent == 2)
        assert_true(tick(1000));
    gt_write_clear(&texts);
    assert_true(world.calls[2].cancelled);
    texts.answered = NULL;
    assert_true(gt_write_post(&texts, &request, &world));
    tick(0);
    answer(3, 503, 0); /* without `answered` it is not repeated */
    assert_int_equal(gt_write_count(&texts), 0);
    assert_true(gt_write_post(&texts, &request, &world)); /* removed by end() */
}

static void post(const char *name, const char *body)
{
    const struct gt_kube_request request = {
        .verb = GT_KUBE_MERGE_PATCH, .resource = &gt_kube_pods, .name = name, .body = body};
    assert_true(gt_write_post(&texts, &request, &world));
}

/* Of two requests about one object the second waits for the answer to the first, and of those that wait only
 * the last one is sent. */
static void test_posts_of_an_object(void **state)
{
    (void)state;
    texts.answered = NULL;
    post("5", "first");
    post("5", "second");
    post("6", "other");
    assert_int_equal(gt_write_count(&texts), 2);
    tick(0);
    assert_int_equal(world.sent, 2);
    assert_string_equal(world.calls[0].body, "second");
    post("5", "third");
    post("5", "fourth");
    tick(0);
    assert_int_equal(world.sent, 2);
    answer(0, 200, 0);
    tick(0);
    assert_int_equal(world.sent, 3);
    assert_string_equal(world.calls[2].body, "fourth");
    post("5", "fifth");
    answer(2, 503, 0);
    const uint64_t failed = world.now;
    while (world.sent == 3)
        assert_true(tick(1000));
    assert_in_range(world.now - failed, 500, 1000);
    assert_string_equal(world.calls[3].body, "fifth");
    answer(3, 200, 0);
    answer(1, 200, 0);
    assert_int_equal(gt_write_count(&texts), 0);
    const struct gt_kube_request creates = {.verb = GT_KUBE_CREATE, .resource = &gt_kube_pods, .body = "{}"};
    for (unsigned i = 0; i < 2; i++) /* these have no name yet */
        assert_true(gt_write_post(&texts, &creates, &world));
    assert_int_equal(gt_write_count(&texts), 2);
}

static void test_later_and_nothing(void **state)
{
    (void)state;
    world.made = GT_WRITE_NOTHING;
    gt_write_add(&keys[0]);
    tick(0);
    tick(100000);
    assert_int_equal(world.sent, 0);
    assert_int_equal(keys[0].state, GT_WRITE_IDLE);
    world.made = GT_WRITE_LATER;
    gt_write_add(&keys[0]);
    tick(0);
    world.made = GT_WRITE_SEND;
    assert_false(tick(999));
    assert_true(tick(1000));
    assert_int_equal(world.sent, 1);
}

static void test_cannot_start(void **state)
{
    (void)state;
    world.cannot_start = 1;
    gt_write_add(&keys[0]);
    tick(0);
    assert_int_equal(world.last, GT_WRITE_REFUSED);
    assert_int_equal(world.told, 1);
    world.cannot_start = 0;
    world.made = -ENOMEM;
    tick(1000);
    assert_int_equal(world.told_again, 1);
    world.made = GT_WRITE_SEND;
    tick(2000);
    assert_int_equal(world.sent, 1);
}

/* That nothing was sent, or the server refused to say, does not tell what became of the write before. */
static void test_stays_unknown(void **state)
{
    (void)state;
    gt_write_add(&keys[0]);
    tick(0);
    answer(0, 503, 0);
    world.cannot_start = 1;
    while (!world.told_again)
        assert_true(tick(1000));
    world.cannot_start = 0;
    for (unsigned flight = 1; flight < 3; flight++) {
        while (world.sent == flight)
            assert_true(tick(4000));
        assert_true(world.is_reading);
        answer(flight, flight == 1 ? 429 : 200, 0);
    }
    gt_write_add(&keys[0]);
    tick(0);
    assert_int_equal(world.sent, 4);
    assert_false(world.is_reading);
}

static void test_remove(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        gt_write_add(&keys[i]);
    tick(0);
    gt_write_remove(&keys[0]);
    assert_true(world.calls[0].cancelled);
    gt_write_remove(&keys[2]);
    tick(0);
    assert_int_equal(world.sent, 2);
    answer(1, 503, 0);
    gt_write_remove(&keys[1]); /* in its pause */
    tick(100000);
    assert_int_equal(world.sent, 2);
    assert_int_equal(gt_write_count(&texts), 0);
}

static void test_default_times(void **state)
{
    (void)state;
    struct gt_write_line usual = {.name = "usual", .running_max = 1}, even = usual;
    even.retry_ms = 3000;
    gt_write_open(writer, &usual);
    gt_write_open(writer, &even);
    assert_int_equal(usual.retry_ms, GT_BACKOFF_FIRST_MS);
    assert_int_equal(usual.retry_max_ms, GT_BACKOFF_MAX_MS);
    assert_int_equal(even.retry_ms, 3000);
    assert_int_equal(even.retry_max_ms, 3000);
    gt_write_close(&usual);
    gt_write_close(&even);
}

static void test_metrics(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(8192);
    for (unsigned i = 0; i < 3; i++)
        gt_write_add(&keys[i]);
    world.now += 2000;
    tick(0);
    world.now += 500;
    answer(0, 503, 0);
    tick(0);
    world.now += 250;
    gt_write_add(&keys[3]);
    gt_writer_metrics(writer, &text);
    assert_non_null(strstr(text.data, "gputopo_workqueue_unfinished_work_seconds{name=\"texts\"} 1\n"));
    assert_non_null(
        strstr(text.data, "gputopo_workqueue_longest_running_processor_seconds{name=\"texts\"} 0.75\n"));
    assert_non_null(
        strstr(text.data, "gputopo_workqueue_longest_running_processor_seconds{name=\"lifts\"} 0\n"));
    assert_non_null(strstr(text.data, "gputopo_workqueue_depth{name=\"texts\"} 1\n"));
    assert_non_null(strstr(text.data, "gputopo_workqueue_adds_total{name=\"texts\"} 4\n"));
    assert_non_null(strstr(text.data, "gputopo_workqueue_queue_duration_seconds_sum{name=\"texts\"} 6.5\n"));
    assert_non_null(strstr(text.data, "gputopo_workqueue_queue_duration_seconds_count{name=\"texts\"} 3\n"));
    assert_non_null(strstr(text.data, "gputopo_workqueue_work_duration_seconds_sum{name=\"texts\"} 0.5\n"));
    assert_non_null(strstr(text.data, "work_duration_seconds_bucket{name=\"texts\",le=\"0.1\"} 0\n"));
    assert_non_null(strstr(text.data, "work_duration_seconds_bucket{name=\"texts\",le=\"1\"} 1\n"));
    assert_non_null(strstr(text.data, "gputopo_workqueue_work_duration_seconds_count{name=\"lifts\"} 0\n"));
}

#ifndef NDEBUG
static void add_to_closed(void)
{
    gt_write_close(&texts);
    gt_write_add(&keys[0]);
}

static void open_twice(void)
{
    gt_write_open(writer, &texts);
}

static void free_with_lines(void)
{
    gt_writer_free(writer);
}

static void request_of_own_key(void)
{
    gt_write_request(&keys[0]);
}

static void test_misuse(void **state)
{
    (void)state;
    static void (*const misuses[])(void) = {add_to_closed, open_twice, free_with_lines, request_of_own_key};
    for (unsigned i = 0; i < GT_COUNT(misuses); i++)
        assert_true(aborts(misuses[i]));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_once_in_flight, begin, end),
        cmocka_unit_test_setup_teardown(test_order, begin, end),
        cmocka_unit_test_setup_teardown(test_failures, begin, end),
        cmocka_unit_test_setup_teardown(test_budget, begin, end),
        cmocka_unit_test_setup_teardown(test_orders_and_budget, begin, end),
        cmocka_unit_test_setup_teardown(test_quiet_and_allowed, begin, end),
        cmocka_unit_test_setup_teardown(test_posted, begin, end),
        cmocka_unit_test_setup_teardown(test_posts_of_an_object, begin, end),
        cmocka_unit_test_setup_teardown(test_later_and_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_cannot_start, begin, end),
        cmocka_unit_test_setup_teardown(test_stays_unknown, begin, end),
        cmocka_unit_test_setup_teardown(test_remove, begin, end),
        cmocka_unit_test_setup_teardown(test_default_times, begin, end),
        cmocka_unit_test_setup_teardown(test_metrics, begin, end),
#ifndef NDEBUG
        cmocka_unit_test_setup_teardown(test_misuse, begin, end),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
