/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "scheduler-ext/wire/request.h"
#include "tests/bench/wire_bodies.h"

/* Reading and writing what the schedulers' extenders exchange. One measure a line: name, value, unit, goal.
 */

enum { ROUNDS = 9, CHUNK = 64 << 10, BODY_MAX = 256 << 20 };

static volatile size_t sink;
static size_t held; /* bytes, of the last reader and its answer */

static void fail(struct gt_err *err)
{
    fprintf(stderr, "bench_wire: %s\n", gt_err_text(err));
    exit(2);
}

/* The shortest of some rounds in ns, to exclude other work of the machine. */
static uint64_t least(void (*work)(void *), void *arg)
{
    uint64_t took = UINT64_MAX;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t start = gt_clock_ns();
        work(arg);
        uint64_t ns = gt_clock_ns() - start;
        took = ns < took ? ns : took;
    }
    return took;
}

static double mb_per_s(size_t bytes, uint64_t ns)
{
    return (double)bytes * 1000 / (double)ns;
}

static void find_byte(void *arg)
{
    const struct gt_buf *body = arg;
    sink += memchr(body->data, 1, body->len) != NULL;
}

struct volcano {
    const struct gt_buf *body;
    struct gt_wire_request *request;
    struct gt_buf answer;
    double *scores;
};

static void read_volcano(void *arg)
{
    struct volcano *v = arg;
    struct gt_err *err = NULL;
    gt_wire_request_reset(v->request);
    for (size_t at = 0; at < v->body->len; at += CHUNK) {
        size_t n = v->body->len - at < CHUNK ? v->body->len - at : CHUNK;
        if (gt_wire_request_feed(v->request, v->body->data + at, n, &err) < 0)
            fail(err);
    }
    if (gt_wire_request_read(v->request, &err) < 0)
        fail(err);
    for (uint32_t i = 0; i < v->request->count; i++)
        v->scores[i] = v->request->idle[i];
    gt_buf_consume(&v->answer, v->answer.len);
    gt_node_score_answer(&v->answer, v->request, v->scores);
    sink += v->answer.len;
}

/* What a reader that builds a tree would cost before it looks at anything. */
static void build_tree(void *arg)
{
    const struct gt_buf *body = arg;
    cJSON *json = cJSON_ParseWithLength(body->data, body->len);
    if (!json)
        exit(2);
    cJSON_Delete(json);
}

/* A pass over a body, with an answer; the speed in MB/s. */
static double volcano_speed(const struct gt_buf *body, enum gt_wire_verb verb)
{
    struct volcano v = {.body = body, .answer = GT_BUF(GT_WIRE_ANSWER_MAX)};
    v.scores = calloc(GT_WIRE_NODES_MAX, sizeof(double));
    gt_buf_add(&v.answer, "", 1);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    v.request = gt_wire_request_new(verb);
    if (!v.request || !v.scores)
        exit(2);
    double speed = mb_per_s(body->len, least(read_volcano, &v));
    held = mallinfo2().uordblks + mallinfo2().hblkhd - before;
    gt_wire_request_free(v.request);
    free(v.scores);
    gt_buf_done(&v.answer);
    return speed;
}

static void bench_volcano(void)
{
    gt_auto_buf struct gt_buf body = GT_BUF(BODY_MAX), small = GT_BUF(BODY_MAX);
    struct gt_err *err = NULL;
    gt_body_volcano(&body, 500, 12, false);
    if (gt_buf_check(&body, "body", &err) < 0)
        fail(err);
    printf("# Volcano prioritize, 500 nodes of 12 pods, %.1f MB\n", (double)body.len / 1e6);

    double bound = mb_per_s(body.len, least(find_byte, &body));
    held = 0;
    double speed = volcano_speed(&body, GT_WIRE_VOLCANO_PRIORITIZE);
    printf("memory of request and answer, with this body\t%.0f\tKiB\t<2048\n", (double)held / 1024);
    printf("prioritize, read and answered\t%.0f\tMB/s\t>200\n", speed);
    printf("  the same, of the speed of memchr over this body\t%.3f\tx\t-\n", speed / bound);
    printf("memchr over this body, the bound\t%.0f\tMB/s\t-\n", bound);
    gt_body_volcano(&small, 1, 12, true);
    printf("predicate, %.0f KB, read and answered\t%.0f\t/s\t-\n", (double)small.len / 1e3,
           volcano_speed(&small, GT_WIRE_VOLCANO_PREDICATE) * 1e6 / (double)small.len);

    printf("a tree of cJSON, nothing read\t%.0f\tMB/s\t-\n", mb_per_s(body.len, least(build_tree, &body)));
}

struct extender {
    const struct gt_buf *body;
    struct gt_wire_request *request;
    struct gt_buf answer;
    struct gt_filter_verdict *verdicts;
    uint8_t *scores;
    bool prioritize;
    unsigned repeat;
};

static void serve_extender(void *arg)
{
    struct extender *e = arg;
    struct gt_err *err = NULL;
    for (unsigned i = 0; i < e->repeat; i++) {
        gt_wire_request_reset(e->request);
        if (gt_wire_request_feed(e->request, e->body->data, e->body->len, &err) < 0 ||
            gt_wire_request_read(e->request, &err) < 0)
            fail(err);
        gt_buf_consume(&e->answer, e->answer.len);
        if (e->prioritize)
            gt_prioritize_answer(&e->answer, e->request, e->scores);
        else
            gt_filter_answer(&e->answer, e->request, e->verdicts);
        sink += e->answer.len;
    }
}

static void bench_extender(uint32_t nodes, bool prioritize, const char *goal)
{
    gt_auto_buf struct gt_buf body = GT_BUF(BODY_MAX);
    gt_body_extender(&body, nodes);
    struct extender e = {.body = &body,
                         .request = gt_wire_request_new(prioritize ? GT_WIRE_PRIORITIZE : GT_WIRE_FILTER),
                         .answer = GT_BUF(GT_WIRE_ANSWER_MAX),
                         .verdicts = calloc(nodes, sizeof(struct gt_filter_verdict)),
                         .scores = calloc(nodes, 1),
                         .prioritize = prioritize,
                         .repeat = 200000 / nodes};
    if (body.failed || !e.request || !e.verdicts || !e.scores)
        exit(2);
    for (uint32_t i = 0; i < nodes; i++) {
        e.verdicts[i].reason = i % 2 ? "0 of 8 GPUs are free, 8 are asked for" : NULL;
        e.scores[i] = (uint8_t)(i % 11);
    }
    uint64_t ns = least(serve_extender, &e);
    printf("%s, %u names, %.1f KB\t%.0f\t/s\t%s\n", prioritize ? "prioritize" : "filter", nodes,
           (double)body.len / 1e3, e.repeat * 1e9 / (double)ns, goal);
    gt_wire_request_free(e.request);
    gt_buf_done(&e.answer);
    free(e.verdicts);
    free(e.scores);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_volcano();
    printf("# kube-scheduler's extender, read and answered, without HTTP\n");
    for (int prioritize = 0; prioritize < 2; prioritize++) {
        bench_extender(100, prioritize, "-");
        bench_extender(500, prioritize, ">5000");
        bench_extender(1000, prioritize, "-");
        bench_extender(5000, prioritize, "-");
    }
    return 0;
}
