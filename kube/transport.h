/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "kube/config.h"

/*
 * Single HTTPS exchanges in the event loop; transport.c is the only file that uses libcurl. Connections are
 * kept open and used again; a running transfer has a connection for itself, also with HTTP/2. Redirects are
 * not followed and proxies not used. Callbacks run on the loop's thread, never before gt_transfer_start() has
 * returned, and may start and cancel transfers and free the transport.
 */
struct gt_transport;
struct gt_transfer;

struct gt_transfer_result {
    unsigned status; /* of HTTP; 0: no answer */
    int error; /* positive, errno-like, if there is no complete answer: ECONNREFUSED, ECONNRESET, ETIMEDOUT,
                  EFBIG (larger than body_max), EPROTO (TLS), EHOSTUNREACH... */
    const char *text;     /* of the error, one line; "" if there is none */
    unsigned retry_after; /* of Retry-After in seconds, 0: none */
    const char *body;     /* what was collected, NUL-terminated after body_len bytes */
    size_t body_len;
};

/* Gets the bytes of a 2xx answer as they come, if on_data is set; other bodies are collected. */
typedef void gt_transfer_data(void *arg, const char *data, size_t len);

/* Called once, unless cancelled; the transfer is freed afterwards. */
typedef void gt_transfer_done(void *arg, const struct gt_transfer_result *result);

struct gt_transfer_spec {
    const char *method; /* "GET"... */
    const char *url;
    const char *const *headers; /* "Name: value", ends with NULL */
    const char *body;           /* NULL: none */
    size_t body_len;
    bool http2;          /* HTTP/2 is offered; the server may choose HTTP/1.1 */
    uint64_t timeout_ms; /* of the whole exchange */
    size_t body_max;     /* the most bytes that are collected */
    gt_transfer_data *on_data;
    gt_transfer_done *on_done;
    void *arg;
};

/* `config` gives the trusted authorities and the client's certificate; it must outlive the transport. */
int gt_transport_new(struct gt_loop *loop, const struct gt_kube_config *config, const char *user_agent,
                     struct gt_transport **ret, struct gt_err **err);

/* All strings of `spec` are copied. */
int gt_transfer_start(struct gt_transport *transport, const struct gt_transfer_spec *spec,
                      struct gt_transfer **ret, struct gt_err **err);

/* Ends a transfer without a callback; NULL is allowed. Must not be called after its on_done. */
void gt_transfer_cancel(struct gt_transfer *transfer);

/* Cancels running transfers and frees the transport. */
void gt_transport_free(struct gt_transport *transport);
GT_DEFINE_CLEANUP(struct gt_transport *, gt_transport_free)
#define gt_auto_transport GT_CLEANUP(gt_transport_free)
