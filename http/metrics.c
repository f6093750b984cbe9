/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/prometheus.h"

struct listener {
    const char *name;
    struct gt_http_stats stats;
};

/* A counter of every listener, one sample for each reason. */
struct counter {
    const char *reason; /* NULL: without this label */
    size_t offset;      /* of a uint64_t in struct gt_http_stats */
};

static const struct counter total[] = {{NULL, offsetof(struct gt_http_stats, connections_total)}},
                            requests[] = {{NULL, offsetof(struct gt_http_stats, requests_total)}},
                            loads[] = {{NULL, offsetof(struct gt_http_stats, tls_loads)}},
                            load_failures[] = {{NULL, offsetof(struct gt_http_stats, tls_failures)}},
                            refused[] = {{"size", offsetof(struct gt_http_stats, refused_size)},
                                         {"busy", offsetof(struct gt_http_stats, refused_busy)},
                                         {"address", offsetof(struct gt_http_stats, refused_address)},
                                         {"evicted", offsetof(struct gt_http_stats, evicted)},
                                         {"slow", offsetof(struct gt_http_stats, cut_slow)},
                                         {"tls", offsetof(struct gt_http_stats, refused_tls)}};

static void write_counter(struct gt_buf *to, const char *name, const char *help,
                          const struct counter *counter, unsigned counter_count, const struct listener *all,
                          unsigned count)
{
    gt_prom_head(to, name, help);
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < counter_count; j++) {
            uint64_t value = *(const uint64_t *)((const char *)&all[i].stats + counter[j].offset);
            gt_buf_printf(to, "%s{listener=\"%s\"", name, all[i].name);
            if (counter[j].reason)
                gt_buf_printf(to, ",reason=\"%s\"", counter[j].reason);
            gt_buf_printf(to, "} %" PRIu64 "\n", value);
        }
}

static void write_gauges(struct gt_buf *to, const struct listener *all, unsigned count)
{
    static const char name[] = "gputopo_http_connections";
    gt_prom_head(to, name, "Open connections.");
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "%s{listener=\"%s\"} %u\n", name, all[i].name, all[i].stats.connections);
}

static void write_expiry(struct gt_buf *to, const struct listener *all, unsigned count)
{
    static const char name[] = "gputopo_http_tls_certificate_expires_timestamp_seconds";
    gt_prom_head(to, name, "Unix time at which the certificate in use ends.");
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "%s{listener=\"%s\"} %" PRId64 "\n", name, all[i].name, all[i].stats.tls_expires);
}

void gt_http_metrics(const struct gt_http_listener *listeners, unsigned count, struct gt_buf *to)
{
    struct listener all[GT_HTTP_LISTENERS_MAX], tls[GT_HTTP_LISTENERS_MAX];
    unsigned all_count = 0, tls_count = 0;
    for (unsigned i = 0; i < count && all_count < GT_HTTP_LISTENERS_MAX; i++) {
        if (!listeners[i].http)
            continue;
        struct listener *one = &all[all_count++];
        one->name = listeners[i].name;
        gt_http_stats(listeners[i].http, &one->stats);
        if (one->stats.tls_loads)
            tls[tls_count++] = *one;
    }
    if (!all_count)
        return;
    write_gauges(to, all, all_count);
    write_counter(to, "gputopo_http_connections_total", "Connections that were accepted.", total,
                  GT_COUNT(total), all, all_count);
    write_counter(to, "gputopo_http_requests_total", "Requests that were answered.", requests,
                  GT_COUNT(requests), all, all_count);
    write_counter(to, "gputopo_http_refused_total",
                  "Requests and connections that the server itself refused or ended, by reason.", refused,
                  GT_COUNT(refused), all, all_count);
    if (!tls_count)
        return;
    write_counter(to, "gputopo_http_tls_loads_total", "How often certificate and key were loaded.", loads,
                  GT_COUNT(loads), tls, tls_count);
    write_counter(to, "gputopo_http_tls_load_failures_total",
                  "How often new files did not load; the old ones stay in use.", load_failures,
                  GT_COUNT(load_failures), tls, tls_count);
    write_expiry(to, tls, tls_count);
}
