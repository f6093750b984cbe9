/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server alone, for test_http.py: listens on a port of its own choice and says on stdout what
 * happens, one JSON object a line. SIGTERM ends it.
 *
 *     /echo            what the request was, as JSON (a POST collected)
 *     /small           the same, with a limit of 100 bytes
 *     /big?N           N bytes
 *     /consume?MAX,STOP    POST: the body in pieces, at most MAX bytes, "enough" after STOP (0: never)
 *     /keep            the same as /consume, and all of it counts as held
 *     /stats           counters of the server and of the eaters
 */
#include <argp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "http/http.h"
#include "tests/unit/loop_signal.h"

static struct gt_http_spec spec = {.address = "127.0.0.1:0", .body_max = 1 << 20};
static struct gt_http_budget budget;
static struct gt_http *http;
static uint64_t eaters_made, eaters_freed, eaters_done, eaten_total;

static void quote(struct gt_buf *to, const char *text)
{
    if (text)
        gt_text_quote(to, text);
    else
        gt_buf_puts(to, "null");
}

static uint64_t sum_of(uint64_t sum, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        sum = sum * 31 + (unsigned char)data[i];
    return sum;
}

static void echo(const struct gt_http_request *request, struct gt_http_response *response)
{
    struct gt_buf *to = &response->body;
    response->content_type = "application/json";
    gt_buf_printf(to, "{\"method\": \"%s\", \"path\": ", request->method == GT_HTTP_POST ? "POST" : "GET");
    quote(to, request->path);
    gt_buf_puts(to, ", \"query\": ");
    quote(to, request->query);
    gt_buf_puts(to, ", \"content_type\": ");
    quote(to, request->content_type);
    gt_buf_puts(to, ", \"client\": ");
    quote(to, request->client);
    gt_buf_puts(to, ", \"names\": [");
    for (unsigned i = 0; request->client_names && request->client_names[i]; i++) {
        gt_buf_puts(to, i ? ", " : "");
        gt_text_quote(to, request->client_names[i]);
    }
    gt_buf_puts(to, "]");
    gt_buf_printf(to, ", \"len\": %zu, \"terminated\": %s, \"sum\": \"%" PRIu64 "\"}\n", request->body_len,
                  request->body[request->body_len] == '\0' ? "true" : "false",
                  sum_of(0, request->body, request->body_len));
}

static void tell_stats(struct gt_http_response *response)
{
    struct gt_http_stats stats;
    gt_http_stats(http, &stats);
    gt_buf_printf(&response->body,
                  "{\"connections\": %" PRIu64 ", \"connections_total\": %" PRIu64 ", \"requests\": %" PRIu64
                  ", \"refused_size\": %" PRIu64 ", \"refused_busy\": %" PRIu64 ", \"cut_slow\": %" PRIu64
                  ", \"evicted\": %" PRIu64 ", \"refused_address\": %" PRIu64 ", \"tls_loads\": %" PRIu64
                  ", \"tls_failures\": %" PRIu64 ", \"tls_expires\": %" PRId64 ", \"refused_tls\": %" PRIu64,
                  stats.connections, stats.connections_total, stats.requests_total, stats.refused_size,
                  stats.refused_busy, stats.cut_slow, stats.evicted, stats.refused_address, stats.tls_loads,
                  stats.tls_failures, stats.tls_expires, stats.refused_tls);
    gt_buf_printf(&response->body,
                  ", \"made\": %" PRIu64 ", \"freed\": %" PRIu64 ", \"done\": %" PRIu64
                  ", \"eaten\": %" PRIu64 ", \"held\": %zu}\n",
                  eaters_made, eaters_freed, eaters_done, eaten_total, budget.used);
}

static void handle(void *arg, const struct gt_http_request *request, struct gt_http_response *response)
{
    uint64_t bytes;
    (void)arg;
    if (strcmp(request->path, "/echo") == 0 || strcmp(request->path, "/small") == 0)
        echo(request, response);
    else if (strcmp(request->path, "/stats") == 0)
        tell_stats(response);
    else if (strcmp(request->path, "/big") == 0 && request->query &&
             gt_text_to_unsigned(request->query, 1 << 30, &bytes))
        while (bytes-- && !response->body.failed)
            gt_buf_puts(&response->body, "x");
    else
        response->status = 404;
}

struct mouth {
    uint64_t len, sum, stop;
    bool keeps; /* says that it holds what it was given */
};

static int consume(void *consumer, const char *data, size_t len)
{
    struct mouth *mouth = consumer;
    mouth->sum = sum_of(mouth->sum, data, len);
    mouth->len += len;
    eaten_total += len;
    return mouth->stop && mouth->len >= mouth->stop ? -1 : 0;
}

static void done(void *consumer, struct gt_http_response *response)
{
    const struct mouth *mouth = consumer;
    eaters_done++;
    response->status = mouth->stop && mouth->len >= mouth->stop ? 422 : 200;
    gt_buf_printf(&response->body, "{\"len\": %" PRIu64 ", \"sum\": \"%" PRIu64 "\"}\n", mouth->len,
                  mouth->sum);
}

static size_t bytes_used(const void *consumer)
{
    const struct mouth *mouth = consumer;
    return mouth->keeps ? (size_t)mouth->len : 0;
}

static void free_mouth(void *consumer)
{
    eaters_freed++;
    free(consumer);
}

static bool on_body(void *arg, const struct gt_http_request *request, struct gt_http_consumer *ret)
{
    (void)arg;
    if (strcmp(request->path, "/small") == 0)
        ret->body_max = 100;
    if (strcmp(request->path, "/eat") != 0 && strcmp(request->path, "/keep") != 0)
        return false;
    struct mouth *mouth = calloc(1, sizeof(*mouth));
    if (!mouth)
        return false;
    eaters_made++;
    *ret = (struct gt_http_consumer){.consumer = mouth,
                                     .consume = consume,
                                     .done = done,
                                     .free = free_mouth,
                                     .bytes_used = bytes_used,
                                     .body_max = ret->body_max};
    mouth->keeps = strcmp(request->path, "/keep") == 0;
    if (request->query) {
        char *end;
        ret->body_max = strtoull(request->query, &end, 10);
        mouth->stop = *end == ',' ? strtoull(end + 1, NULL, 10) : 0;
    }
    return true;
}

static void on_tls(void *arg, const char *error)
{
    gt_auto_buf struct gt_buf line = GT_BUF(4096);
    (void)arg;
    gt_buf_puts(&line, "{\"event\": \"tls\", \"error\": ");
    quote(&line, error);
    gt_buf_puts(&line, "}");
    puts(line.data);
    fflush(stdout);
}

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    uint64_t number = 0;
    if (key >= 'A' && key <= 'Z' && !gt_text_to_unsigned(arg, 1 << 30, &number))
        argp_error(state, "\"%s\" is no number", arg);
    switch (key) {
    case 'c':
        spec.tls.certificate = arg;
        break;
    case 'k':
        spec.tls.key = arg;
        break;
    case 'a':
        spec.tls.client_ca = arg;
        break;
    case 'r':
        spec.tls.client_required = true;
        break;
    case 'B':
        spec.body_max = (size_t)number;
        break;
    case 'S':
        budget.max = (size_t)number;
        spec.budget = &budget;
        break;
    case 'A':
        spec.answer_max = (size_t)number;
        break;
    case 'F':
        spec.buffer = (size_t)number;
        break;
    case 'C':
        spec.connections_max = (unsigned)number;
        break;
    case 'I':
        spec.idle_ms = (unsigned)number;
        break;
    case 'R':
        spec.request_ms = (unsigned)number;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void on_signal(void *loop, int signal)
{
    (void)signal;
    gt_loop_stop(loop, 0);
}

int main(int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"certificate", 'c', "FILE", 0, NULL, 0}, {"key", 'k', "FILE", 0, NULL, 0},
        {"client-ca", 'a', "FILE", 0, NULL, 0},   {"client-required", 'r', NULL, 0, NULL, 0},
        {"body-max", 'B', "N", 0, NULL, 0},       {"budget", 'S', "N", 0, NULL, 0},
        {"answer-max", 'A', "N", 0, NULL, 0},     {"buffer", 'F', "N", 0, NULL, 0},
        {"connections", 'C', "N", 0, NULL, 0},    {"idle-ms", 'I', "N", 0, NULL, 0},
        {"request-ms", 'R', "N", 0, NULL, 0},     {0}};
    static const struct argp argp = {table, on_option, NULL, NULL, NULL, NULL, NULL};
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_loop struct gt_loop *loop = NULL;
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    signal(SIGPIPE, SIG_IGN);
    spec.handler = handle;
    spec.on_body = on_body;
    spec.on_tls = on_tls;
    int r = gt_loop_new(&loop, &err);
    if (r >= 0)
        r = test_watch_signal(loop, SIGTERM, on_signal, loop, &err);
    if (r >= 0)
        r = gt_http_start(loop, &spec, &http, &err);
    if (r >= 0) {
        printf("{\"event\": \"listening\", \"port\": %u}\n", gt_http_port(http));
        fflush(stdout);
        r = gt_loop_run(loop, &err);
    }
    if (r < 0)
        fprintf(stderr, "http-host: %s\n", gt_err_text(err));
    gt_http_free(http);
    return r < 0;
}
