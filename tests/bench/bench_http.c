/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server for http.sh to measure: the HTTP floor of the daemons, with handlers that cost next to nothing.
 *
 *     bench_http BUFFER [CERTIFICATE KEY]
 *
 * POST /collect has its body collected and gets 15 KB back, POST /consume has it taken in pieces and gets 2
 * bytes. Prints its port and runs until SIGTERM.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "http/http.h"
#include "tests/unit/loop_signal.h"

enum { ANSWER = 15 << 10, BODY = 16 << 20, EATEN = 512 << 20 };

static char answer[ANSWER];
static uint64_t eaten;

static void handle(void *arg, const struct gt_http_request *request, struct gt_http_response *response)
{
    (void)arg;
    response->content_type = "application/json";
    gt_buf_add(&response->body, answer, request->method == GT_HTTP_POST ? sizeof(answer) : 2);
}

static int consume(void *consumer, const char *data, size_t len)
{
    (void)consumer;
    eaten += len + (data[0] == '{');
    return 0;
}

static void done(void *consumer, struct gt_http_response *response)
{
    (void)consumer;
    gt_buf_puts(&response->body, "{}");
}

static bool on_body(void *arg, const struct gt_http_request *request, struct gt_http_consumer *ret)
{
    (void)arg;
    bool eats = strcmp(request->path, "/eat") == 0;
    if (eats)
        *ret = (struct gt_http_consumer){.consume = consume, .done = done, .body_max = EATEN};
    return eats;
}

static void on_signal(void *loop, int signal)
{
    (void)signal;
    gt_loop_stop(loop, 0);
}

int main(int argc, char **argv)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_loop struct gt_loop *loop = NULL;
    gt_auto_http struct gt_http *http = NULL;
    uint64_t buffer;
    if ((argc != 2 && argc != 4) || !gt_text_to_unsigned(argv[1], 64 << 20, &buffer)) {
        fprintf(stderr, "usage: %s BUFFER [CERTIFICATE KEY]\n", argv[0]);
        return 2;
    }
    memset(answer, 'x', sizeof(answer));
    signal(SIGPIPE, SIG_IGN);
    struct gt_http_spec spec = {
        .address = "127.0.0.1:0",
        .handler = handle,
        .on_body = on_body,
        .tls = {.certificate = argc == 4 ? argv[2] : NULL, .key = argc == 4 ? argv[3] : NULL},
        .body_max = BODY,
        .buffer = (size_t)buffer,
        .connections_max = 1024,
    };
    int r = gt_loop_new(&loop, &err);
    if (r >= 0)
        r = test_watch_signal(loop, SIGTERM, on_signal, loop, &err);
    if (r >= 0)
        r = gt_http_start(loop, &spec, &http, &err);
    if (r >= 0) {
        printf("%u\n", gt_http_port(http));
        fflush(stdout);
        r = gt_loop_run(loop, &err);
    }
    if (r < 0)
        fprintf(stderr, "bench_http: %s\n", gt_err_text(err));
    return r < 0;
}
