/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/mailbox.h"
#include "http/http.h"
#include "http/internal.h"

/* The server runs on a thread of its own; asserts are made on the test's thread only. */
struct world {
    struct gt_loop *loop;
    struct gt_http *http;
    struct gt_mailbox *mailbox;
    struct gt_message end;
    pthread_t thread;
};

static void handle(void *arg, const struct gt_http_request *request, struct gt_http_response *response)
{
    const char *path = request->path;
    (void)arg;
    if (strcmp(path, "/big") == 0) {
        for (int i = 0; i < 100000; i++)
            gt_buf_puts(&response->body, "0123456789");
    } else if (strcmp(path, "/overflow") == 0) {
        for (int i = 0; i < GT_HTTP_BODY_MAX / 8 + 1; i++)
            gt_buf_puts(&response->body, "01234567");
    } else if (strcmp(path, "/empty") != 0) {
        response->status = strcmp(path, "/ok") == 0 ? 200 : 404;
        gt_buf_printf(&response->body, "path %s\n", path);
    }
}

static void *run_loop(void *arg)
{
    gt_loop_run(arg, NULL);
    return NULL;
}

static void stop_loop(void *owner, struct gt_message *message)
{
    const struct world *world = owner;
    (void)message;
    gt_loop_stop(world->loop, 0);
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    assert_return_code(gt_loop_new(&world->loop, NULL), 0);
    assert_return_code(gt_http_new(world->loop, "127.0.0.1:0", handle, world, &world->http, NULL), 0);
    assert_return_code(gt_mailbox_new(world->loop, world, &world->mailbox, NULL), 0);
    world->end = (struct gt_message){.embedded = true, .deliver = stop_loop};
    assert_return_code(pthread_create(&world->thread, NULL, run_loop, world->loop), 0);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    gt_mailbox_send(world->mailbox, &world->end);
    pthread_join(world->thread, NULL);
    gt_mailbox_free(world->mailbox);
    gt_http_free(world->http);
    gt_loop_free(world->loop);
    free(world);
    return 0;
}

static int dial(const struct world *world)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct timeval limit = {.tv_sec = 30};
    assert_return_code(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), errno);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)gt_http_port(world->http)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_return_code(connect(fd, (const struct sockaddr *)&to, sizeof(to)), errno);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Everything until the server closes. */
static void read_all(int fd, struct gt_buf *to)
{
    char part[4096];
    ssize_t n;
    while ((n = recv(fd, part, sizeof(part), 0)) > 0)
        gt_buf_add(to, part, (size_t)n);
    gt_buf_add(to, "", 0);
    assert_false(to->failed);
}

/* One request on a connection that is closed behind it; the caller frees the answer. */
static char *ask(const struct world *world, const char *request)
{
    struct gt_buf answer = GT_BUF(8 << 20);
    gt_auto_close int fd = dial(world);
    say(fd, request);
    read_all(fd, &answer);
    return gt_buf_take(&answer);
}

static void expect(const struct world *world, const char *request, const char *start, const char *part)
{
    gt_auto_free char *answer = ask(world, request);
    if (strncmp(answer, start, strlen(start)) != 0 || !strstr(answer, part))
        print_error("asked: %s\nanswer: %.600s\n", request, answer);
    assert_memory_equal(answer, start, strlen(start));
    assert_non_null(strstr(answer, part));
}

#define CLOSE "\r\nHost: x\r\nConnection: close\r\n\r\n"

static void test_answers(void **state)
{
    expect(*state, "GET /ok HTTP/1.1" CLOSE, "HTTP/1.1 200 ", "\r\n\r\npath /ok\n");
    expect(*state, "GET /ok?a=b HTTP/1.1" CLOSE, "HTTP/1.1 200 ", "\r\n\r\npath /ok\n");
    expect(*state, "GET /other HTTP/1.1" CLOSE, "HTTP/1.1 404 ", "path /other\n");
    expect(*state, "GET /ok%00/x HTTP/1.1" CLOSE, "HTTP/1.1 404 ", "path /ok%00/x\n");
    expect(*state, "GET /empty HTTP/1.1" CLOSE, "HTTP/1.1 200 ", "Content-Length: 0\r\n");
    expect(*state, "GET /ok HTTP/1.0\r\n\r\n", "HTTP/1.", "path /ok\n");
    expect(*state, "GET /overflow HTTP/1.1" CLOSE, "HTTP/1.1 500 ", "too large");
}

static void test_head(void **state)
{
    gt_auto_free char *answer = ask(*state, "HEAD /ok HTTP/1.1" CLOSE);
    assert_non_null(strstr(answer, "HTTP/1.1 200 "));
    assert_non_null(strstr(answer, "Content-Length: 9\r\n"));
    assert_null(strstr(answer, "path"));
}

static void test_big_answer(void **state)
{
    gt_auto_free char *answer = ask(*state, "GET /big HTTP/1.1" CLOSE);
    const char *body = strstr(answer, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(strlen(body + 4), 1000000);
}

static void test_other_methods(void **state)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"};
    for (size_t i = 0; i < GT_COUNT(methods); i++) {
        char request[256];
        snprintf(request, sizeof(request), "%s /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
                 methods[i]);
        expect(*state, request, "HTTP/1.1 405 ", "Allow: GET, HEAD\r\n");
    }
}

/* A body behind a GET is no second request. */
static void test_get_with_a_body(void **state)
{
    struct gt_buf answer = GT_BUF(1 << 20);
    gt_auto_close int fd = dial(*state);
    say(fd, "GET /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 24\r\n\r\nGET /other HTTP/1.1\r\n\r\nXX"
            "GET /empty HTTP/1.1" CLOSE);
    read_all(fd, &answer);
    gt_auto_free char *text = gt_buf_take(&answer);
    assert_non_null(strstr(text, "path /ok\n"));
    assert_null(strstr(text, "/other"));
}

static void test_keep_alive(void **state)
{
    gt_auto_close int fd = dial(*state);
    for (int i = 0; i < 3; i++) {
        char answer[1024] = "";
        size_t len = 0;
        say(fd, "GET /ok HTTP/1.1\r\nHost: x\r\n\r\n");
        while (!strstr(answer, "path /ok\n")) {
            ssize_t n = recv(fd, answer + len, sizeof(answer) - 1 - len, 0);
            assert_true(n > 0);
            len += (size_t)n;
            answer[len] = '\0';
        }
    }
}

static void test_garbage(void **state)
{
    gt_auto_free char *huge = malloc(GT_HTTP_HEADER_MAX + 100);
    assert_non_null(huge);
    memset(huge, 'a', GT_HTTP_HEADER_MAX + 99);
    huge[GT_HTTP_HEADER_MAX + 99] = '\0';
    memcpy(huge, "GET /", 5);
    gt_auto_free char *long_path = ask(*state, huge);
    assert_null(strstr(long_path, " 200 "));
    gt_auto_free char *nonsense = ask(*state, "\r\n\r\n\x01\x02\x03\r\n\r\n\r\n");
    assert_null(strstr(nonsense, " 200 "));
    gt_auto_free char *no_host = ask(*state, "GET /ok HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_non_null(no_host);
    expect(*state, "GET /ok HTTP/1.1" CLOSE, "HTTP/1.1 200 ", "path /ok\n");
}

/* Silent connections fill every place, and the next client is served all the same. */
static void test_connection_limit(void **state)
{
    int silent[GT_HTTP_CONNECTIONS_MAX * 2];
    for (size_t i = 0; i < GT_COUNT(silent); i++)
        silent[i] = dial(*state);
    gt_auto_free char *text = ask(*state, "GET /ok HTTP/1.1" CLOSE);
    struct gt_http_stats stats;
    gt_http_stats(((const struct world *)*state)->http, &stats);
    for (size_t i = 0; i < GT_COUNT(silent); i++)
        close(silent[i]);
    assert_non_null(strstr(text, "path /ok\n"));
    assert_true(stats.evicted > 0);
    assert_true(stats.connections <= GT_HTTP_CONNECTIONS_MAX / 2 + 1);
}

/* Without descriptors nothing is accepted; with them again, it is. */
static void test_no_descriptors(void **state)
{
    if (getenv("GPUTOPO_UNDER_VALGRIND")) /* which has a limit of descriptors of its own */
        skip();
    struct rlimit before, none;
    assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
    struct timespec pause = {.tv_nsec = 50000000};
    gt_auto_close int second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int lowest = dup(0);
    close(lowest);
    none = before;
    none.rlim_cur = (rlim_t)lowest;
    assert_return_code(setrlimit(RLIMIT_NOFILE, &none), errno);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)gt_http_port(((const struct world *)*state)->http)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int connected = connect(second, (const struct sockaddr *)&to, sizeof(to));
    say(second, "GET /ok HTTP/1.1" CLOSE);
    nanosleep(&pause, NULL);
    struct timespec cpu_before, cpu_after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_before);
    pause.tv_nsec = 500000000;
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_after);
    int restored = setrlimit(RLIMIT_NOFILE, &before);
    assert_return_code(restored, errno);
    assert_return_code(connected, errno);
    double used = (double)(cpu_after.tv_sec - cpu_before.tv_sec) +
                  (double)(cpu_after.tv_nsec - cpu_before.tv_nsec) / 1e9;
    assert_true(used < 0.2); /* it waits, it does not spin */
    struct timeval limit = {.tv_sec = 60};
    assert_return_code(setsockopt(second, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), errno);
    struct gt_buf answer = GT_BUF(1 << 20);
    read_all(second, &answer);
    gt_auto_free char *text = gt_buf_take(&answer);
    assert_non_null(strstr(text, "path /ok\n"));
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* One byte every half second is never silent for long, and is cut off all the same. */
static void test_slow_loris(void **state)
{
    double begin = seconds_now(), silent_end = 0;
    gt_auto_close int drip = dial(*state), silent = dial(*state);
    bool cut = false;
    struct timespec pause = {.tv_nsec = 500000000};
    say(silent, "GET /ok HTTP/1.1\r\n");
    for (int i = 0; i < 100 && !cut; i++) {
        char byte;
        cut = send(drip, "a", 1, MSG_NOSIGNAL) != 1 ||
              (recv(drip, &byte, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
        if (!cut && !silent_end && recv(silent, &byte, 1, MSG_DONTWAIT) == 0)
            silent_end = seconds_now();
        nanosleep(&pause, NULL);
    }
    assert_true(cut);
    assert_true(silent_end > begin + 8); /* and before the other */
    assert_true(seconds_now() - begin > 15);
}

static void test_address_in_use(void **state)
{
    const struct world *world = *state;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_http *http = NULL;
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%u", gt_http_port(world->http));
    assert_int_equal(gt_http_new(world->loop, address, handle, NULL, &http, &err), -EADDRINUSE);
    assert_non_null(strstr(gt_err_text(err), address));
    assert_non_null(strstr(gt_err_text(err), "another process"));
    assert_null(http);
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"",         "9400",     "host:80",       "1.2.3.4",
                                      "1.2.3:80", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:-1",
                                      "[::1:80",  "::1:80",   "[1.2.3.4]:80",  "[localhost]:80",
                                      "[]:80",    "[::1]80",  "1.2.3.4:80x",   ":"};
    struct sockaddr_storage to;
    bool any;
    (void)state;
    for (size_t i = 0; i < GT_COUNT(bad); i++) {
        gt_auto_err struct gt_err *err = NULL;
        if (gt_http_address(bad[i], &to, &any, &err) >= 0)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_non_null(strstr(gt_err_text(err), "address"));
    }
    assert_return_code(gt_http_address("10.1.2.3:9400", &to, &any, NULL), 0);
    assert_int_equal(to.ss_family, AF_INET);
    assert_int_equal(ntohs(((struct sockaddr_in *)&to)->sin_port), 9400);
    assert_false(any);
    assert_return_code(gt_http_address("[fe80::1]:80", &to, &any, NULL), 0);
    assert_int_equal(to.ss_family, AF_INET6);
    assert_return_code(gt_http_address("localhost:80", &to, &any, NULL), 0);
    assert_int_equal(((struct sockaddr_in *)&to)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_return_code(gt_http_address(":0", &to, &any, NULL), 0);
    assert_true(any);
}

static void test_all_addresses(void **state)
{
    (void)state;
    gt_auto_loop struct gt_loop *loop = NULL;
    gt_auto_http struct gt_http *http = NULL;
    assert_return_code(gt_loop_new(&loop, NULL), 0);
    assert_return_code(gt_http_new(loop, ":0", handle, NULL, &http, NULL), 0);
    assert_true(gt_http_port(http) > 0);
    gt_http_free(gt_steal(http)); /* before its loop */
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* Only what is sent is held until a slow client has it, and only that counts for the limit of memory. */
static void test_gzip_holds_no_more_than_it_sends(void **state)
{
    gt_auto_buf struct gt_buf body = GT_BUF(8 << 20);
    (void)state;
    for (int i = 0; i < 100000; i++)
        gt_buf_puts(&body, "0123456789");
    assert_true(gt_gzip(&body));
    assert_memory_equal(body.data, "\x1f\x8b", 2);
    assert_in_range(body.len, 20, 20000);
    assert_true(body.capacity < 4 * body.len);
}

/* What is small, or would not get smaller, stays. */
static void test_gzip_leaves_what_is_not_worth_it(void **state)
{
    gt_auto_buf struct gt_buf body = GT_BUF(8 << 20), few = GT_BUF(1024);
    uint64_t random = 1;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        gt_buf_add(&body, (const char *)&random + 7, 1);
    }
    assert_false(gt_gzip(&body));
    assert_int_equal(body.len, 20000);
    gt_buf_puts(&few, "short");
    assert_false(gt_gzip(&few));
    assert_string_equal(few.data, "short");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVER(test_answers),
        WITH_SERVER(test_head),
        WITH_SERVER(test_big_answer),
        WITH_SERVER(test_other_methods),
        WITH_SERVER(test_get_with_a_body),
        WITH_SERVER(test_keep_alive),
        WITH_SERVER(test_garbage),
        WITH_SERVER(test_connection_limit),
        WITH_SERVER(test_no_descriptors),
        WITH_SERVER(test_slow_loris),
        WITH_SERVER(test_address_in_use),
        cmocka_unit_test(test_gzip_holds_no_more_than_it_sends),
        cmocka_unit_test(test_gzip_leaves_what_is_not_worth_it),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_all_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
