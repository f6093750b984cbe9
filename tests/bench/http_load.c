/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load client for HTTP servers: one thread, keep-alive or a connection per request, plain or TLS.
 *
 *     http_load [OPTION...] URL...          http_load --help tells the options
 *
 * Without --rate every connection asks again as soon as it has its answer (closed loop). With --rate the
 * requests start by the clock, whatever the server does, and the time of each counts from when it was due
 * (open loop). Several URLs (of one server) and several bodies are used in turn.
 */
#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "load_connection.h"

enum { CONNECTIONS_MAX = 4096, URLS_MAX = 64, BODIES_MAX = 64, EVENTS = 256, BODY_FILE_MAX = 1 << 30 };
enum { SUB = 64, BUCKETS = 40 * SUB }; /* of the histogram: within 1.6 % of a value, up to 2^40 ns */

static struct {
    const char *urls[URLS_MAX], *bodies[BODIES_MAX];
    unsigned url_count, body_count, connections, warm_ms, duration_ms, expect;
    double rate;
    bool no_keep_alive, measures;
    const char *content_type, *name, *ca, *certificate, *key;
    pid_t server;
} options = {.connections = 1, .duration_ms = 5000, .warm_ms = 500, .expect = 200};

static struct load_target target;
static struct load_connection connections[CONNECTIONS_MAX];
static struct gt_buf *requests; /* every URL with every body */
static unsigned request_count, next_request;
static struct load_connection *idle[CONNECTIONS_MAX];
static unsigned idle_count;
static int epoll_fd;

struct histogram {
    uint64_t count, buckets[BUCKETS];
};
static struct histogram took, late; /* late: how long after its time a request was started, open loop */
static uint64_t wrong_status, failures, bytes_out, worst_ns;
static uint64_t begin_ns, count_from_ns, end_ns; /* measured is what is answered between the latter two */
static uint64_t started;

static void die(const char *what)
{
    fprintf(stderr, "http_load: %s\n", what);
    exit(2);
}

static unsigned bucket_of(uint64_t ns)
{
    if (ns < SUB)
        return (unsigned)ns;
    unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - 6; /* 2^6 = SUB */
    unsigned bucket = (shift + 1) * SUB + (unsigned)((ns >> shift) - SUB);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static void note(struct histogram *histogram, uint64_t ns)
{
    histogram->count++;
    histogram->buckets[bucket_of(ns)]++;
}

static double percentile_us(const struct histogram *histogram, double part)
{
    uint64_t want = (uint64_t)ceil(part * (double)histogram->count), seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen >= want && seen) {
            unsigned shift = i / SUB ? i / SUB - 1 : 0;
            uint64_t upper = i < SUB ? i + 1 : ((uint64_t)(i % SUB) + SUB + 1) << shift;
            return (double)upper / 1000;
        }
    }
    return 0;
}

static void count(const struct load_connection *c, uint64_t now)
{
    if (now < count_from_ns || now > end_ns)
        return;
    uint64_t ns = now - c->since_ns;
    note(&took, ns);
    worst_ns = ns > worst_ns ? ns : worst_ns;
    bytes_out += c->request_len;
    wrong_status += c->status != options.expect;
}

static void act(struct load_connection *c, enum load_result result);

static void open_again(struct load_connection *c)
{
    load_close(c);
    if (!load_open(c, epoll_fd)) {
        failures++;
        load_close(c);
    }
}

/* since: when it was due. */
static void ask(struct load_connection *c, uint64_t since)
{
    const struct gt_buf *request = &requests[next_request++ % request_count];
    c->since_ns = since;
    started++;
    act(c, load_request(c, request->data, request->len));
}

static void make_idle(struct load_connection *c)
{
    if (options.rate <= 0)
        ask(c, gt_clock_ns());
    else
        idle[idle_count++] = c;
}

static void act(struct load_connection *c, enum load_result result)
{
    switch (result) {
    case LOAD_WAITS:
        break;
    case LOAD_READY:
        make_idle(c);
        break;
    case LOAD_ANSWER:
        count(c, gt_clock_ns());
        if (c->close_after || options.no_keep_alive)
            open_again(c);
        else
            make_idle(c);
        break;
    case LOAD_ENDED:
    case LOAD_FAILED:
        failures += result == LOAD_FAILED;
        for (unsigned i = 0; i < idle_count; i++)
            if (idle[i] == c)
                idle[i] = idle[--idle_count];
        open_again(c);
        break;
    }
}

/* Starts what is due; the time of the next one. */
static uint64_t start_due(uint64_t now)
{
    double interval = 1e9 / options.rate;
    for (;;) {
        uint64_t at = begin_ns + (uint64_t)((double)started * interval);
        if (at > now)
            return at;
        if (!idle_count)
            return now + 1000000000; /* an answer wakes us */
        note(&late, now - at);
        ask(idle[--idle_count], at);
    }
}

static void run(void)
{
    begin_ns = gt_clock_ns();
    count_from_ns = begin_ns + (uint64_t)options.warm_ms * 1000000;
    end_ns = count_from_ns + (uint64_t)options.duration_ms * 1000000;
    for (unsigned i = 0; i < options.connections; i++) {
        connections[i] = (struct load_connection){.target = &target, .fd = -1};
        open_again(&connections[i]);
    }
    for (;;) {
        uint64_t now = gt_clock_ns(), wake = end_ns;
        if (now >= end_ns)
            return;
        if (options.rate > 0) {
            uint64_t next = start_due(now);
            wake = next < wake ? next : wake;
            now = gt_clock_ns();
        }
        uint64_t wait = wake > now ? wake - now : 0;
        struct timespec timeout = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
        struct epoll_event events[EVENTS];
        int n = epoll_pwait2(epoll_fd, events, EVENTS, &timeout, NULL);
        if (n < 0 && errno != EINTR)
            die("epoll");
        for (int i = 0; i < n; i++)
            act(events[i].data.ptr, load_go_on(events[i].data.ptr));
    }
}

static const char *set_target(const char *url)
{
    const char *rest = strncmp(url, "http://", 7) == 0    ? url + 7
                       : strncmp(url, "https://", 8) == 0 ? url + 8
                                                          : NULL;
    static char host[256];
    if (!rest)
        die("a URL begins with http:// or https://");
    const char *path = strchr(rest, '/'), *colon = strchr(rest, ':');
    uint64_t port;
    char digits[8] = "";
    if (!path || !colon || colon > path || (size_t)(path - colon) > sizeof(digits) ||
        (size_t)(colon - rest) >= sizeof(host))
        die("a URL is http[s]://ADDRESS:PORT/PATH");
    memcpy(digits, colon + 1, (size_t)(path - colon - 1));
    memcpy(host, rest, (size_t)(colon - rest));
    host[colon - rest] = '\0';
    target.host = host;
    target.tls = url[4] == 's';
    target.address.sin_family = AF_INET;
    if (!gt_text_to_unsigned(digits, 65535, &port))
        die("no such port");
    target.address.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &target.address.sin_addr) !=
        1)
        die("the host of a URL is an IPv4 address or localhost");
    return path;
}

static void add_request(const char *path, const char *body, size_t len)
{
    struct gt_buf *request = &requests[request_count++];
    *request = (struct gt_buf)GT_BUF((size_t)BODY_FILE_MAX + 65536);
    gt_buf_printf(request, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: http_load\r\n", body ? "POST" : "GET",
                  path, target.host);
    if (body)
        gt_buf_printf(request, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                      options.content_type ? options.content_type : "application/json", len);
    if (options.no_keep_alive)
        gt_buf_puts(request, "Connection: close\r\n");
    gt_buf_puts(request, "\r\n");
    gt_buf_add(request, body ? body : "", len);
    if (request->failed)
        die("a body is too large");
}

static void make_requests(void)
{
    unsigned bodies = options.body_count ? options.body_count : 1; /* the one that is none */
    requests = calloc((size_t)(options.url_count ? options.url_count : 1) * bodies, sizeof(*requests));
    if (!requests)
        die("memory");
    for (unsigned b = 0; b < bodies; b++) {
        gt_auto_free char *body = NULL;
        gt_auto_err struct gt_err *err = NULL;
        size_t len = 0;
        if (options.body_count &&
            gt_file_read(AT_FDCWD, options.bodies[b], BODY_FILE_MAX, &body, &len, &err) < 0)
            die(gt_err_text(err));
        for (unsigned u = 0; u < options.url_count; u++)
            add_request(set_target(options.urls[u]), body, len);
    }
}

static void prepare_tls(void)
{
    if (gnutls_certificate_allocate_credentials(&target.credentials) < 0)
        die("gnutls");
    if (options.ca &&
        gnutls_certificate_set_x509_trust_file(target.credentials, options.ca, GNUTLS_X509_FMT_PEM) <= 0)
        die("the CA does not load");
    if (options.certificate && gnutls_certificate_set_x509_key_file(
                                   target.credentials, options.certificate,
                                   options.key ? options.key : options.certificate, GNUTLS_X509_FMT_PEM) < 0)
        die("the certificate does not load");
}

/* CPU seconds of a process; 0 if not known. */
static double cpu_of(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (pid <= 0 || gt_file_read_attribute(AT_FDCWD, path, text, sizeof(text)) < 0)
        return 0;
    const char *at = strrchr(text, ')');
    for (int i = 0; at && i < 12; i++) /* fields 14 and 15, counted behind the name */
        at = strchr(at + 1, ' ');
    if (!at)
        return 0;
    char *end;
    double ticks = (double)strtoull(at, &end, 10);
    ticks += (double)strtoull(end, NULL, 10);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

static void line(const char *what, double value, const char *unit)
{
    if (options.measures)
        printf("%s: %s\t%.1f\t%s\t-\n", options.name ? options.name : "http", what, value, unit);
    else
        printf("%-14s %12.1f %s\n", what, value, unit);
}

static void report(double wall_s, double server_cpu_s, double own_cpu_s)
{
    double seconds = (double)options.duration_ms / 1000;
    line("requests", (double)took.count / seconds, "1/s");
    line("p50", percentile_us(&took, 0.5), "us");
    line("p99", percentile_us(&took, 0.99), "us");
    line("p99.9", percentile_us(&took, 0.999), "us");
    if (options.rate > 0)
        line("late p99", percentile_us(&late, 0.99), "us");
    line("worst", (double)worst_ns / 1000, "us");
    line("body", (double)bytes_out / seconds / 1e6, "MB/s");
    line("errors", (double)(failures + wrong_status), "");
    line("client CPU", own_cpu_s / wall_s * 100, "%");
    if (options.server) {
        line("server CPU", server_cpu_s / wall_s * 100, "%");
        if (started)
            line("server CPU each", server_cpu_s / (double)started * 1e6, "us");
    }
}

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    uint64_t number = 0;
    char *end = NULL;
    if (strchr("cwdxp", key) && key > 0 && key < 128 && !gt_text_to_unsigned(arg, 1000000000, &number))
        argp_error(state, "\"%s\" is no number", arg);
    switch (key) {
    case 'b':
        if (options.body_count == BODIES_MAX)
            argp_error(state, "too many bodies");
        options.bodies[options.body_count++] = arg;
        break;
    case 'r':
        options.rate = strtod(arg, &end);
        if (end == arg || *end || !(options.rate >= 0))
            argp_error(state, "\"%s\" is no rate", arg);
        break;
    case 'c':
        if (!number || number > CONNECTIONS_MAX)
            argp_error(state, "1 to %d connections", CONNECTIONS_MAX);
        options.connections = (unsigned)number;
        break;
    case 'd':
        options.duration_ms = (unsigned)number;
        break;
    case 'w':
        options.warm_ms = (unsigned)number;
        break;
    case 'x':
        options.expect = (unsigned)number;
        break;
    case 'p':
        options.server = (pid_t)number;
        break;
    case 't':
        options.content_type = arg;
        break;
    case 'k':
        options.no_keep_alive = true;
        break;
    case 'n':
        options.name = arg;
        options.measures = true;
        break;
    case 'A':
        options.ca = arg;
        break;
    case 'C':
        options.certificate = arg;
        break;
    case 'K':
        options.key = arg;
        break;
    case ARGP_KEY_ARG:
        if (options.url_count == URLS_MAX)
            argp_error(state, "too many URLs");
        options.urls[options.url_count++] = arg;
        break;
    case ARGP_KEY_END:
        if (!options.url_count)
            argp_error(state, "which URL?");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_option option_table[] = {
    {"body", 'b', "FILE", 0, "POST this file; without any: GET", 0},
    {"content-type", 't', "TYPE", 0, "of the bodies (application/json)", 0},
    {"rate", 'r', "N", 0, "open loop, N requests a second; 0: closed loop", 0},
    {"connections", 'c', "N", 0, "(1)", 0},
    {"no-keep-alive", 'k', NULL, 0, "a new connection for each request", 0},
    {"duration", 'd', "MS", 0, "measured (5000)", 0},
    {"warm", 'w', "MS", 0, "before (500)", 0},
    {"expect", 'x', "STATUS", 0, "another one counts as an error (200)", 0},
    {"server", 'p', "PID", 0, "tells this process's CPU use as well", 0},
    {"measures", 'n', "NAME", 0, "print tab separated measures as report.awk reads them", 0},
    {"ca", 'A', "FILE", 0, "loaded, though the server is not verified", 0},
    {"cert", 'C', "FILE", 0, "the client's certificate", 0},
    {"key", 'K', "FILE", 0, "and its key", 0},
    {0},
};

int main(int argc, char **argv)
{
    static const struct argp argp = {option_table, on_option, "URL...", "A load client for HTTP servers.",
                                     NULL,         NULL,      NULL};
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    make_requests();
    prepare_tls();
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        die("epoll");
    double server = cpu_of(options.server), own = cpu_of(getpid());
    uint64_t begin = gt_clock_ns();
    run();
    double wall_s = (double)(gt_clock_ns() - begin) / 1e9;
    report(wall_s, cpu_of(options.server) - server, cpu_of(getpid()) - own);
    for (unsigned i = 0; i < options.connections; i++)
        load_close(&connections[i]);
    for (unsigned i = 0; i < request_count; i++)
        gt_buf_done(&requests[i]);
    free(requests);
    gnutls_certificate_free_credentials(target.credentials);
    return failures || wrong_status || !took.count;
}
