/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/mailbox.h"
#include "http/http.h"
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
    struct {
        struct gt_tls_set *set; /* NULL: no TLS */
        void *session;
        bool done;           /* the handshake has succeeded */
        char **client_names; /* when client_known */
        bool client_known;
    } tls;

    uint64_t since_ms; /* in_request: when its request line came; otherwise when it connected or finished the
                          last request */
    uint64_t received_ms; /* in_request: when data last came; otherwise as since_ms */
    bool served;          /* it has served a request */
    bool in_request;
    bool end_shown; /* the library was shown that the peer sends no more */
    bool cut;       /* its socket is shut down already */
    bool linger;    /* answered before its body was read: close through gt_linger */

    struct {
        enum { AT_HEADER, AT_DISCARD, AT_COLLECT, AT_CONSUME, AT_REST } stage;
        char *query;
        uint64_t received; /* bytes of body */
        size_t body_max;
        size_t bytes_used; /* of the budget */
        struct gt_buf body;
        struct gt_http_consumer consumer;
        struct gt_http_response response; /* AT_REST: the answer, to be sent after the rest of the body */
    } request;
};

struct gt_http {
    struct gt_loop *loop;
    struct gt_http_spec spec; /* its texts are only valid in gt_http_start() */
    struct gt_mailbox *mailbox;
    struct gt_message again; /* to this server: the library has work left; embedded */
    struct gt_tls *tls;
    struct gt_linger *linger;
    int listener;
    unsigned port;
    struct gt_source *listener_source; /* NULL while nothing more is accepted */
    struct {
        struct MHD_Daemon *daemon;
        struct gt_source *source, *timeout;
        uint64_t timeout_at_ms; /* when `timeout` fires, 0: not armed */
    } library;
    struct gt_source *sweep, *accept_again;
    struct gt_http_peer *peers;
    struct gt_http_remote *remotes;
    unsigned live; /* peers that are not shut down */
    struct gt_http_budget own_budget;
    size_t bytes_used; /* of the budget, by this server */
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

/* The connections of a server by client, and which of them is closed when there are too many. */

/* One address of clients: an IPv4 address, or the first 64 bits of an IPv6 address. */
struct gt_http_remote {
    struct gt_http_remote *next;
    uint64_t prefix;
    bool v6;
    unsigned references;
    unsigned connections; /* that are not shut down */
    size_t bytes_used;    /* of the budget */
};

/* Finds the client's address or adds it, with a reference for the caller; NULL without memory. */
struct gt_http_remote *gt_http_remote_get(struct gt_http *http, const struct sockaddr *address);
void gt_http_remote_put(struct gt_http *http, struct gt_http_remote *remote);

/* The connection to close first; NULL if all are serving a request. `remote`: only among its connections;
 * NULL: among all. */
struct gt_http_peer *gt_http_victim(struct gt_http *http, const struct gt_http_remote *remote);

/* How many more bytes of the budget the peer may take. */
size_t gt_http_bytes_left(const struct gt_http_peer *peer);
/* Sets how many bytes the peer holds now; false: that is too much, and the earlier number stays. */
bool gt_http_reserve_bytes(struct gt_http_peer *peer, size_t bytes);

/* Shuts the socket down; the library notices and cleans up. It no longer counts. */
void gt_http_cut(struct gt_http_peer *peer);

/*
 * The server's certificate, key and client CA, read from files and read again when these change. A session
 * keeps the set that it began with until it ends.
 */
struct gt_tls;
struct gt_tls_set;

/* The oldest protocol and the ciphers, in GnuTLS's language. */
extern const char gt_tls_priorities[];

/* A callback that gives no certificate (gnutls_certificate_retrieve_function2 *): libmicrohttpd needs one
 * when it starts; its sessions get their certificates by gt_tls_dress(). */
void *gt_tls_no_certificate(void);

/* Copies `tls`; fails if they do not load. */
int gt_tls_new(const struct gt_http_tls *files, struct gt_tls **ret, struct gt_err **err);
void gt_tls_free(struct gt_tls *tls);
GT_DEFINE_CLEANUP(struct gt_tls *, gt_tls_free)

/*
 * Checks the files, at most every two seconds. 1: a new set is in use; 0: nothing new; negative: the files
 * have changed to something that does not load (reported once for each change; checked again all the same).
 */
int gt_tls_check(struct gt_tls *tls, struct gt_err **err);
/* When the certificate in use begins and ends to be valid, in seconds since 1970. */
void gt_tls_validity(const struct gt_tls *tls, int64_t *ret_begins, int64_t *ret_expires);

/* Gives a session (gnutls_session_t) the set in use and returns a reference to it, to be dropped with
 * gt_tls_set_unref(); NULL if that fails. `*done`, which must outlive the session, is set when its handshake
 * has succeeded. */
struct gt_tls_set *gt_tls_dress(struct gt_tls *tls, void *session, bool *done);
void gt_tls_set_unref(struct gt_tls_set *set);
GT_DEFINE_CLEANUP(struct gt_tls_set *, gt_tls_set_unref)

enum { GT_TLS_NAMES_MAX = 16 };

/* Names of the verified certificate of the session's client: its CN, then its DNS names, at most
 * GT_TLS_NAMES_MAX, followed by NULL. One allocation, which the caller frees. NULL: it has none. */
char **gt_tls_client_names(void *session);

/* Reads "ADDRESS:PORT" as gt_http_new() documents it. *ret_any: no address was given; then IPv4 may be used
 * if the machine has no IPv6. -EINVAL for any other text. */
int gt_http_address(const char *text, struct sockaddr_storage *ret, bool *ret_any, struct gt_err **err);

/* A non-blocking listening TCP socket on that address; the caller closes it. */
int gt_http_listen(const char *text, int *ret_fd, unsigned *ret_port, struct gt_err **err);
