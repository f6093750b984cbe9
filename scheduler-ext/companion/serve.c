/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/prometheus.h"
#include "base/text.h"
#include "base/time_text.h"
#include "http/http.h"
#include "kube/writer.h"
#include "scheduler-ext/companion/private.h"

enum {
    COLLECTED_MAX = 4 << 20,       /* an AdmissionReview: two objects of at most 1.5 MiB, and room */
    ANSWER_MAX = 64 << 20,         /* a filter that repeats whole nodes */
    REQUEST_BYTES_MAX = 192 << 20, /* for all requests; together with 150 MB for the largest cluster it is
                             within the chart's limit */
    BUFFER = 32 << 10,
    CONNECTIONS_MAX = 512, /* Volcano opens hundreds of short connections */
    IDLE_MS = 100000, /* longer than the idle timeout of Go's clients (90 s), which would otherwise race */
    REQUEST_MS = 30000,
};

enum { SOON_S = 3 * 24 * 3600 };

/* Clients that check certificates, such as the API server, refuse one that is expired or not valid yet. */
static bool has_valid_certificate(const struct gt_companion *companion, struct gt_buf *why)
{
    struct gt_http_stats stats;
    if (!companion->https)
        return true;
    gt_http_stats(companion->https, &stats);
    int64_t now = time(NULL);
    if (now >= stats.tls_begins && now <= stats.tls_expires)
        return true;
    char when[GT_TIME_TEXT_SIZE];
    bool expired = now > stats.tls_expires;
    gt_time_text(expired ? stats.tls_expires : stats.tls_begins, when);
    gt_buf_printf(why, "https: the certificate %s %s %s\n", companion->options->serve.tls.certificate,
                  expired ? "expired on" : "is not valid before", when);
    return false;
}

const char *gt_companion_describe(void *arg, struct gt_buf *certificate)
{
    const struct gt_companion *companion = arg;
    struct gt_http_stats stats;
    if (has_valid_certificate(companion, certificate) && companion->https) {
        gt_http_stats(companion->https, &stats);
        int64_t left = stats.tls_expires - time(NULL);
        if (left < SOON_S)
            gt_buf_printf(certificate, "https: the certificate expires in %d hours", (int)(left / 3600));
    }
    if (companion->elect)
        return gt_leader_identity(gt_elect_leader(companion->elect));
    return companion->leads ? companion->instance : "";
}

/* An invalid certificate concerns only the port of --https. The readiness probe of the pod, which counts for
 * all ports of its Service, uses `exclude=certificate`. */
static void serve_readiness(const struct gt_companion *companion, const char *query,
                            struct gt_http_response *response)
{
    bool excluded = query && strcmp(query, "exclude=certificate") == 0;
    if (!has_valid_certificate(companion, &response->body) && !excluded)
        response->status = 503;
    for (unsigned i = 0; i < gt_part_count; i++) {
        if (!companion->parts[i] || !gt_parts[i]->ready)
            continue;
        gt_auto_buf struct gt_buf why = GT_BUF(4 << 10);
        if (!gt_parts[i]->ready(companion->parts[i], &why)) {
            response->status = 503;
            gt_buf_printf(&response->body, "%s: %s\n", gt_parts[i]->name, why.data ? why.data : "not ready");
        }
    }
    if (response->status == 200)
        gt_buf_printf(&response->body, "ok, %s\n", companion->leads ? "leads" : "stands by");
}

static bool companion_serve_health(const struct gt_companion *companion,
                                   const struct gt_http_request *request, struct gt_http_response *response)
{
    if (strcmp(request->path, "/healthz") == 0)
        gt_buf_puts(&response->body, "ok\n");
    else if (strcmp(request->path, "/readyz") == 0)
        serve_readiness(companion, request->query, response);
    else
        return false;
    return true;
}

static void serve_health_alone(void *arg, const struct gt_http_request *request,
                               struct gt_http_response *response)
{
    if (companion_serve_health(arg, request, response))
        return;
    response->status = 404;
    gt_buf_puts(&response->body, "there are /healthz and /readyz\n");
}

static void write_election(const struct gt_companion *companion, struct gt_buf *to)
{
    struct gt_leader_stats stats = {.leads = companion->leads};
    if (companion->elect)
        gt_leader_stats(gt_elect_leader(companion->elect), &stats);
    gt_prom_number(to, "gputopo_leader", "1 while this replica is the one that writes.", stats.leads);
    if (!companion->elect)
        return;
    gt_prom_number(to, "gputopo_leader_lost_total", "How often it lost that without wanting to.", stats.lost);
}

static void write_client(const struct gt_companion *companion, struct gt_buf *to)
{
    struct gt_kube_counters client;
    struct gt_kube_recorder_counters events;
    gt_kube_counters(companion->kube, &client);
    gt_kube_recorder_counters(companion->recorder, &events);
    gt_prom_number(to, "gputopo_api_requests_total", "Tries of requests to the API server.", client.requests);
    gt_prom_number(to, "gputopo_api_failures_total", "Of them, those without a good answer.",
                   client.failures);
    gt_prom_number(to, "gputopo_api_oversize_total",
                   "Objects that were passed over, since they are too large to be read.", client.oversize);
    gt_kube_recorder_metrics(&events, to);
    gt_writer_metrics(gt_kube_writer(companion->kube), to);
}

static void companion_serve_metrics(const struct gt_companion *companion, struct gt_http_response *response)
{
    struct gt_buf *to = &response->body;
    response->content_type = GT_PROM_TYPE;
    gt_prom_build(to);
    write_election(companion, to);
    write_client(companion, to);
    for (unsigned i = 0; i < gt_part_count; i++)
        if (companion->parts[i] && gt_parts[i]->metrics)
            gt_parts[i]->metrics(companion->parts[i], to);
    if (companion->informers)
        gt_informers_metrics(companion->informers, to);
    const struct gt_http_listener listeners[] = {
        {"http", companion->http}, {"https", companion->https}, {"health", companion->health}};
    gt_http_metrics(listeners, GT_COUNT(listeners), to);
    gt_prom_process(to);
}

static void companion_serve(void *arg, const struct gt_http_request *request,
                            struct gt_http_response *response)
{
    struct gt_companion *companion = arg;
    const char *path = request->path;
    if (companion_serve_health(companion, request, response))
        return;
    if (strcmp(path, "/metrics") == 0)
        companion_serve_metrics(companion, response);
    else {
        for (unsigned i = 0; i < gt_part_count; i++)
            if (companion->parts[i] && gt_parts[i]->serve &&
                gt_parts[i]->serve(companion->parts[i], request, response))
                return;
        response->status = 404;
        gt_buf_puts(&response->body, "there are /healthz, /readyz and /metrics\n");
    }
}

static bool companion_serve_on_body(void *arg, const struct gt_http_request *request,
                                    struct gt_http_consumer *ret)
{
    struct gt_companion *companion = arg;
    for (unsigned i = 0; i < gt_part_count; i++)
        if (companion->parts[i] && gt_parts[i]->on_body &&
            gt_parts[i]->on_body(companion->parts[i], request, ret))
            return true;
    return false;
}

static void on_tls(void *arg, const char *error)
{
    (void)arg;
    if (error)
        gt_warning("the certificate cannot be loaded, the last one stays in use", GT_STR("error", error));
    else
        gt_info("loaded a certificate");
}

int gt_companion_serve(struct gt_companion *companion, struct gt_err **err)
{
    const struct gt_companion_options *options = companion->options;
    companion->budget.max = REQUEST_BYTES_MAX;
    struct gt_http_spec spec = {
        .address = options->serve.http,
        .handler = companion_serve,
        .on_body = companion_serve_on_body,
        .arg = companion,
        .on_tls = on_tls,
        .body_max = COLLECTED_MAX,
        .answer_max = ANSWER_MAX,
        .budget = &companion->budget,
        .buffer = BUFFER,
        .connections_max = CONNECTIONS_MAX,
        .idle_ms = IDLE_MS,
        .request_ms = REQUEST_MS,
    };
    int r = options->serve.health ? gt_http_new_health(companion->loop, options->serve.health,
                                                       serve_health_alone, companion, &companion->health, err)
                                  : 0;
    if (r >= 0 && options->serve.http)
        r = gt_http_start(companion->loop, &spec, &companion->http, err);
    if (r < 0 || !options->serve.https)
        return r;
    spec.address = options->serve.https;
    spec.tls = options->serve.tls;
    return gt_http_start(companion->loop, &spec, &companion->https, err);
}
