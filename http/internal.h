/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <microhttpd.h>

#include "base/loop.h"
#include "base/mailbox.h"
#include "http/http.h"
#include "http/tls.h"

/*
 * If a connection is closed while its peer still sends, the kernel resets it, and the peer may lose the
 * answer that is on its way. For a socket that is added here, incoming data is read and discarded for a
 * moment instead.
 */
struct gt_linger;

int gt_linger_new(struct gt_loop *loop, struct gt_linger **ret, struct gt_err **err);
/* Keeps a duplicate of the socket until the peer closes it, at most two seconds; at most 32 sockets at a
 * time, further ones are not kept. */
void gt_linger_add(struct gt_linger *linger, int fd);
void gt_linger_free(struct gt_linger *linger);

/* Replaces the body by its gzip, where that is worth it; false: it stays, or has failed. */
bool gt_gzip(struct gt_buf *body);

struct MHD_Connection;
struct MHD_Daemon;
struct gt_http_remote;

/* One connection and its current request. */
struct gt_http_peer {
    struct gt_http_peer *previous, *next;
    struct gt_http *http;
    struct gt_http_remote *remote;
    int fd;
    struct gt_tls_set *tls_set; /* NULL: no TLS */
    void *tls_session;
    bool tls_done;       /* the handshake has succeeded */
    char **client_names; /* when client_known */
    bool client_known;

    uint64_t since_ms; /* in_request: when its request line came; otherwise when it connected or finished the
                          last request */
    uint64_t received_ms; /* in_request: when data last came; otherwise as since_ms */
    bool served;          /* it has served a request */
    bool in_request;
    bool end_shown; /* the library was shown that the peer sends no more */
    bool cut;       /* its socket is shut down already */
    bool linger;    /* answered before its body was read: close through gt_linger */

    enum { AT_HEADER, AT_DISCARD, AT_COLLECT, AT_CONSUME, AT_REST } stage;
    char *query;
    uint64_t received; /* bytes of body */
    size_t body_max;
    size_t held; /* of the budget */
    struct gt_buf body;
    struct gt_http_consumer consumer;
    struct gt_http_response response; /* AT_REST: the answer, to be sent after the rest of the body */
};

struct gt_http {
    struct gt_loop *loop;
    struct gt_http_spec spec; /* its texts are only valid in gt_http_start() */
    struct MHD_Daemon *daemon;
    struct gt_mailbox *mailbox;
    struct gt_message again; /* to this server: the library has work left; embedded */
    struct gt_tls *tls;
    struct gt_linger *linger;
    int listener;
    unsigned port;
    struct gt_source *listener_source; /* NULL while nothing more is accepted */
    struct gt_source *daemon_source, *timeout, *sweep, *accept_again;
    uint64_t timeout_at_ms; /* when `timeout` fires, 0: not armed */
    struct gt_http_peer *peers;
    struct gt_http_remote *remotes;
    unsigned live; /* peers that are not shut down */
    struct gt_http_budget own_budget;
    size_t held; /* of the budget, by this server */
    struct gt_http_stats stats;
};

/* The callbacks of libmicrohttpd for one request, in their order; `http` is the server. */
void *gt_http_on_line(void *http, const char *uri, struct MHD_Connection *connection);
enum MHD_Result gt_http_on_request(void *http, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **state);
void gt_http_on_request_done(void *http, struct MHD_Connection *connection, void **state,
                             enum MHD_RequestTerminationCode code);

/* Frees what belongs to the current request. */
void gt_http_peer_reset(struct gt_http_peer *peer);
