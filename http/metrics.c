/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/prometheus.h"

struct listener {
    const char *name;
    struct gt_http_stats stats;
};

/* A metric of every listener. */
static const struct metric {
    const char *name, *help; /* NULL: a further sample of the one before */
    const char *reason;      /* a label; NULL: none */
    size_t offset;           /* of 64 bits in struct gt_http_stats */
    bool of_tls;
} metrics[] = {
#define METRIC(name, help, reason, member, ...)                                                              \
    {                                                                                                        \
        (name), (help), (reason), offsetof(struct gt_http_stats, member), __VA_ARGS__                        \
    }
    METRIC("gputopo_http_connections", "Open connections.", NULL, connections, false),
    METRIC("gputopo_http_connections_total", "Connections that were accepted.", NULL, connections_total,
           false),
    METRIC("gputopo_http_requests_total", "Requests that were answered.", NULL, requests_total, false),
    METRIC("gputopo_http_refused_total",
           "Requests and connections that the server itself refused or ended, by reason.", "size",
           refused_size, false),
    METRIC(NULL, NULL, "busy", refused_busy, false),
    METRIC(NULL, NULL, "address", refused_address, false),
    METRIC(NULL, NULL, "evicted", evicted, false),
    METRIC(NULL, NULL, "slow", cut_slow, false),
    METRIC(NULL, NULL, "tls", refused_tls, false),
    METRIC("gputopo_http_tls_loads_total", "How often certificate and key were loaded.", NULL, tls_loads,
           true),
    METRIC("gputopo_http_tls_load_failures_total",
           "How often new files did not load; the old ones stay in use.", NULL, tls_failures, true),
    METRIC("gputopo_http_tls_certificate_expires_timestamp_seconds",
           "Unix time at which the certificate in use ends.", NULL, tls_expires, true),
#undef METRIC
};

void gt_http_metrics(const struct gt_http_listener *listeners, unsigned count, struct gt_buf *to)
{
    struct listener all[GT_HTTP_LISTENERS_MAX];
    unsigned all_count = 0;
    bool tls = false;
    const char *name = "";
    for (unsigned i = 0; i < count && all_count < GT_HTTP_LISTENERS_MAX; i++) {
        if (!listeners[i].http)
            continue;
        all[all_count].name = listeners[i].name;
        gt_http_stats(listeners[i].http, &all[all_count].stats);
        tls = tls || all[all_count].stats.tls_loads;
        all_count++;
    }
    for (const struct metric *metric = metrics; all_count && metric < metrics + GT_COUNT(metrics); metric++) {
        if (metric->of_tls && !tls)
            continue;
        name = metric->name ? metric->name : name;
        if (metric->name)
            gt_prom_head(to, metric->name, metric->help);
        for (unsigned i = 0; i < all_count; i++) {
            if (metric->of_tls && !all[i].stats.tls_loads)
                continue;
            gt_buf_printf(to, "%s{listener=\"%s\"", name, all[i].name);
            if (metric->reason)
                gt_buf_printf(to, ",reason=\"%s\"", metric->reason);
            gt_buf_printf(to, "} %" PRIu64 "\n",
                          *(const uint64_t *)(const void *)((const char *)&all[i].stats + metric->offset));
        }
    }
}
