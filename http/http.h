/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_HTTP_HTTP_H
#define GPUTOPO_HTTP_HTTP_H

#include "base/buf.h"
#include "base/loop.h"

/*
 * The small HTTP server of the daemons, on libmicrohttpd, driven by the event loop (no thread of its own).
 * GET and HEAD only so far: another method gets 405. Limits: 64 connections (further ones wait in the
 * kernel), 8 KiB of request header, 10 s of silence, 20 s from the first byte awaited to the last one sent
 * however slowly a peer drips.
 */
struct gt_http;

enum { GT_HTTP_CONNECTIONS_MAX = 64, GT_HTTP_HEADER_MAX = 8 << 10, GT_HTTP_BODY_MAX = 4 << 20 };

struct gt_http_response {
    unsigned status;          /* 200 */
    const char *content_type; /* a literal */
    struct gt_buf body;       /* at most GT_HTTP_BODY_MAX bytes; one that failed is answered with 500 */
};

/* Called on the loop's thread; `path` is without the query, as the client wrote it (escapes not decoded).
 * Fills `response` (prepared as an empty 200 text/plain). */
typedef void gt_http_handler(void *arg, const char *path, struct gt_http_response *response);

/* Listens on "ADDRESS:PORT" ("0.0.0.0:9400", "[::1]:0", "localhost:9400", ":9400": all addresses). The
 * address is numeric or "localhost". Port 0: any, see gt_http_port(). */
int gt_http_new(struct gt_loop *loop, const char *address, gt_http_handler *handler, void *arg,
                struct gt_http **ret, struct gt_err **err);
/* Whether gt_http_new() understands such an address; nothing is opened. */
int gt_http_check_address(const char *address, struct gt_err **err);
unsigned gt_http_port(const struct gt_http *http);
void gt_http_free(struct gt_http *http);
GT_DEFINE_CLEANUP(struct gt_http *, gt_http_free)
#define gt_auto_http GT_CLEANUP(gt_http_free)

#endif
