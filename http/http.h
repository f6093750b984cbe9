/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "base/options.h"

/*
 * The HTTP/1.1 server of the daemons, with TLS if configured, on libmicrohttpd and driven by the event loop
 * (no thread of its own). GET, HEAD and POST; another method gets 405. Every callback runs on the loop's
 * thread and answers at once. docs/reference/scheduler.md lists the limits, and the answer when one is
 * exceeded.
 */
struct gt_http;

/* The defaults for members of the spec that are 0. */
enum {
    GT_HTTP_CONNECTIONS_MAX = 64, /* a further one closes another one (connections.c says which) */
    GT_HTTP_HEADER_MAX = 8 << 10, /* bytes of buffer per connection, so also of request header */
    GT_HTTP_BODY_MAX = 4 << 20,   /* of an answer */
    GT_HTTP_BYTES_MAX = 32 << 20, /* bytes of all requests together */
    GT_HTTP_SMALL = 16 << 10,     /* bytes that an answer always has, whatever others hold */
    GT_HTTP_IDLE_MS = 10000,      /* silence, also between two requests */
    GT_HTTP_REQUEST_MS = 20000,   /* from the request line to the last byte of the answer */
};

enum gt_http_method {
    GT_HTTP_GET, /* HEAD as well: the body of its answer is not sent */
    GT_HTTP_POST,
};

/* All texts are valid until the callback returns. */
struct gt_http_request {
    enum gt_http_method method;
    const char *path;          /* without the query, as the client wrote it (escapes not decoded) */
    const char *query;         /* behind the "?", as written; NULL: none */
    const char *content_type;  /* NULL: none */
    const char *authorization; /* NULL: none */
    bool tls;                  /* received over TLS */
    const char *client;        /* the first of client_names; NULL: none */
    /* CN and DNS names of the client's verified certificate, ends with NULL; NULL: none */
    const char *const *client_names;
    const char *body; /* of a POST whose body was collected, NUL-terminated; otherwise "" */
    size_t body_len;
};

/* Whether the client's verified certificate has a name of the list `names` (with commas); "any": any name
 * will do. */
bool gt_http_client_is(const struct gt_http_request *request, const char *names);

struct gt_http_response {
    unsigned status;          /* 200 */
    const char *content_type; /* a literal */
    char etag[80]; /* names this state of the answer, without quotes; where the client has it, it gets 304 and
                      no body; "": none */
    bool compressed;    /* the body is sent by gzip to clients that take it */
    struct gt_buf body; /* at most answer_max of the spec; if the buffer has failed, the answer is 500 */
};

/* Fills `response` (prepared as an empty 200 text/plain). */
typedef void gt_http_handler(void *arg, const struct gt_http_request *request,
                             struct gt_http_response *response);

/* Takes a body in pieces as they arrive, in place of the handler. */
struct gt_http_consumer {
    void *consumer;
    /* Negative: it wants no more. done() is called at once; the rest of the body is discarded. */
    int (*consume)(void *consumer, const char *data, size_t len);
    /* The body is complete, or consume() was negative: the answer, as the handler's. Not called if the client
     * disconnects, or if its request exceeds the limit of size or time. */
    void (*done)(void *consumer, struct gt_http_response *response);
    void (*free)(void *consumer); /* called exactly once, whatever happened; NULL: nothing to free */
    /* Returns how many bytes the consumer holds; called after each piece. NULL: they do not count. */
    size_t (*bytes_used)(const void *consumer);
    /* The largest body of this request in bytes, preset to that of the spec: a larger one gets 413. */
    size_t body_max;
};

/*
 * Called when the header of a POST has arrived (`request` has no body yet). True: ret's functions take the
 * body. False: the body is collected for the handler. In both cases it may set ret->body_max. Not called for
 * GET and HEAD.
 */
typedef bool gt_http_on_body(void *arg, const struct gt_http_request *request, struct gt_http_consumer *ret);

/* PEM files. They are checked when a connection comes, every two seconds at most, and read again when one was
 * replaced or written. If they do not load, the earlier ones stay in use. */
struct gt_http_tls {
    const char *certificate; /* chain, own first; NULL: no TLS */
    const char *key;
    const char *client_ca; /* NULL: clients are not asked for a certificate */
    bool client_required; /* the handshake fails without a certificate; false: request->client is then NULL */
};

/* A limit in bytes for the memory of requests of all servers of a process: bodies, what consumers keep of
 * them, answers that are not sent yet. One server gets three quarters of it at most, one client address half
 * of it. A request that needs more gets 503; the first GT_HTTP_SMALL bytes of an answer are always allowed.
 */
struct gt_http_budget {
    size_t max, used;
};

struct gt_http_spec {
    const char *address; /* as for gt_http_new() */
    gt_http_handler *handler;
    gt_http_on_body *on_body; /* NULL: every body is collected */
    void *arg;                /* of every callback */
    struct gt_http_tls tls;   /* copied */
    /* Called once for each change of the files. `error` NULL: they were loaded again; otherwise why not. */
    void (*on_tls)(void *arg, const char *error);

    size_t body_max;               /* of a POST; 0: POST gets 405 */
    size_t answer_max;             /* 0: GT_HTTP_BODY_MAX */
    struct gt_http_budget *budget; /* must outlive the server; NULL: its own, GT_HTTP_BYTES_MAX */
    size_t buffer;            /* per connection; 0: GT_HTTP_HEADER_MAX. 32 KiB and more for large bodies */
    unsigned connections_max; /* 0: GT_HTTP_CONNECTIONS_MAX; never more than a quarter of the descriptors */
    unsigned address_max;     /* of one IPv4 address or IPv6 /64; 0: half of connections_max */
    unsigned idle_ms;    /* 0: GT_HTTP_IDLE_MS. Longer than the client's, or requests get lost: Go has 90 s */
    unsigned request_ms; /* 0: GT_HTTP_REQUEST_MS */
};

/* Starts a server and listens. `spec` is copied with its texts. */
int gt_http_start(struct gt_loop *loop, const struct gt_http_spec *spec, struct gt_http **ret,
                  struct gt_err **err);

/* A server for GET and HEAD with every limit as above, on "ADDRESS:PORT" ("0.0.0.0:9400", "[::1]:0",
 * "localhost:9400", ":9400": all addresses). The address is numeric or "localhost". Port 0: any free port,
 * see gt_http_port(). */
int gt_http_new(struct gt_loop *loop, const char *address, gt_http_handler *handler, void *arg,
                struct gt_http **ret, struct gt_err **err);
/* The same for health checks only (--health), with low limits of connections and times. */
int gt_http_new_health(struct gt_loop *loop, const char *address, gt_http_handler *handler, void *arg,
                       struct gt_http **ret, struct gt_err **err);
/* Reads an option into a const char *: an address as above; NULL for "none" and for an empty value. */
gt_option_reader gt_http_option;
unsigned gt_http_port(const struct gt_http *http);

struct gt_http_stats {
    uint64_t connections_total, requests_total; /* requests: all that were answered, whatever the status */
    uint64_t refused_size, refused_busy;        /* 413 and 503 by the server itself */
    uint64_t refused_tls;                       /* connections that ended before a handshake succeeded */
    uint64_t cut_slow;        /* connections closed since a request took longer than request_ms */
    uint64_t evicted;         /* closed to make room for others */
    uint64_t refused_address; /* closed at once: all connections of their address were serving requests */
    uint64_t connections;
    uint64_t tls_loads, tls_failures; /* of the files */
    int64_t tls_begins, tls_expires;  /* of the certificate in use, seconds since 1970; 0: no TLS */
};
/* First checks the TLS files, as a new connection does. */
void gt_http_stats(struct gt_http *http, struct gt_http_stats *ret);

/* Must not be called within the server's callbacks. */
void gt_http_free(struct gt_http *http);
GT_DEFINE_CLEANUP(struct gt_http *, gt_http_free)
#define gt_auto_http GT_CLEANUP(gt_http_free)

/* One of a daemon's servers. */
struct gt_http_listener {
    const char *name; /* value of the label `listener`, such as "http" */
    struct gt_http *http;
};

enum { GT_HTTP_LISTENERS_MAX = 4 };

/* Appends the counters of the servers, and when their certificates expire (docs/reference/metrics.md). Those
 * whose `http` is NULL are left out. */
void gt_http_metrics(const struct gt_http_listener *listeners, unsigned count, struct gt_buf *to);
