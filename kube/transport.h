/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_TRANSPORT_H
#define GPUTOPO_KUBE_TRANSPORT_H

#include "base/buf.h"
#include "base/loop.h"
#include "kube/config.h"

/*
 * Single HTTPS exchanges in the event loop: the only file that knows libcurl is behind this. Connections are
 * kept and used again; a running transfer has one for itself, also of HTTP/2. Neither redirects nor proxies
 * are followed. Callbacks run on the loop's thread, never before gt_transfer_start() has returned, and may
 * start and cancel transfers and free the transport.
 */
struct gt_transport;
struct gt_transfer;

struct gt_transfer_result {
    unsigned status;      /* of HTTP; 0: no answer */
    int error;            /* positive errno-like where there is no whole answer: ECONNREFUSED, ECONNRESET,
                             ETIMEDOUT, EFBIG (larger than body_max), EPROTO (TLS), EHOSTUNREACH... */
    const char *text;     /* of the error, one line; "" where there is none */
    unsigned retry_after; /* seconds that the server asks for, 0: none */
    const char *body;     /* collected; NUL-terminated behind body_len */
    size_t body_len;
};

/* Answer bytes of status 2xx as they come, when on_data is set; those of others are collected. */
typedef void gt_transfer_data(void *arg, const char *data, size_t len);

/* Once, unless cancelled; the transfer is gone afterwards. */
typedef void gt_transfer_done(void *arg, const struct gt_transfer_result *result);

struct gt_transfer_spec {
    const char *method; /* "GET"... */
    const char *url;
    const char *const *headers; /* "Name: value", ends with NULL */
    const char *body;           /* NULL: none */
    size_t body_len;
    bool http2;          /* offered; the server may take HTTP/1.1 */
    uint64_t timeout_ms; /* of the whole exchange */
    size_t body_max;     /* what may be collected */
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

/* Ends a transfer without calling back; NULL is allowed. Not for one whose on_done was called. */
void gt_transfer_cancel(struct gt_transfer *transfer);

/* Cancels what is running. */
void gt_transport_free(struct gt_transport *transport);
GT_DEFINE_CLEANUP(struct gt_transport *, gt_transport_free)
#define gt_auto_transport GT_CLEANUP(gt_transport_free)

#endif
