/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_HTTP_HTTP_H
#define GPUTOPO_HTTP_HTTP_H

#include "base/buf.h"
#include "base/loop.h"
#include "base/options.h"

/*
 * The HTTP/1.1 server of the daemons, with TLS where asked for, on libmicrohttpd and driven by the event loop
 * (no thread of its own). GET, HEAD and POST; another method gets 405. Every callback runs on the loop's
 * thread and answers at once. docs/reference/scheduler.md lists the limits and what a client gets beyond
 * each.
 */
struct gt_http;

/* What a server has where its spec says 0. */
enum {
    GT_HTTP_CONNECTIONS_MAX = 64, /* one more closes another one (connections.c says which) */
    GT_HTTP_HEADER_MAX = 8 << 10, /* bytes of buffer per connection, so also of request header */
    GT_HTTP_BODY_MAX = 4 << 20,   /* of an answer */
    GT_HTTP_HELD_MAX = 32 << 20,  /* of all requests together */
    GT_HTTP_SMALL = 16 << 10,     /* of an answer, whatever others hold */
    GT_HTTP_IDLE_MS = 10000,      /* silence, also between two requests */
    GT_HTTP_REQUEST_MS = 20000,   /* from the request line to the last byte of the answer */
};

enum gt_http_method {
    GT_HTTP_GET, /* HEAD as well: its body is dropped on the way out */
    GT_HTTP_POST,
};

/* Everything lives as long as the callback that got it. */
struct gt_http_request {
    enum gt_http_method method;
    const char *path;         /* without the query, as the client wrote it (escapes not decoded) */
    const char *query;        /* behind the "?", as written; NULL: none */
    const char *content_type; /* NULL: none */
    bool tls;                 /* it came over TLS */
    const char *client;       /* the first of client_names; NULL: none */
    /* CN and DNS names of the certificate that the client proved, NULL behind the last; NULL: none */
    const char *const *client_names;
    const char *body; /* of a POST whose body was collected, NUL behind it; otherwise "" */
    size_t body_len;
};

/* Whether the client proved a name that is in the list, which has commas between names; "any": any name. */
bool gt_http_client_is(const struct gt_http_request *request, const char *names);

struct gt_http_response {
    unsigned status;          /* 200 */
    const char *content_type; /* a literal */
    struct gt_buf body;       /* at most answer_max of the spec; one that failed is answered with 500 */
};

/* Fills `response` (prepared as an empty 200 text/plain). */
typedef void gt_http_handler(void *arg, const struct gt_http_request *request,
                             struct gt_http_response *response);

/* Takes a body in pieces as they arrive, in place of the handler. */
struct gt_http_consumer {
    void *consumer;
    /* Negative: no more is wanted. done() follows at once; the rest of the body is discarded. */
    int (*consume)(void *consumer, const char *data, size_t len);
    /* The body is complete, or consume() was negative: the answer, as the handler's. Not called when the
     * client goes away, or is refused for the size or time of its request. */
    void (*done)(void *consumer, struct gt_http_response *response);
    void (*free)(void *consumer); /* called exactly once, whatever happened; NULL: nothing to free */
    /* Bytes that the consumer holds now, called after each piece; NULL: few. */
    size_t (*held)(const void *consumer);
    /* The largest body of this request, preset to that of the spec: more gets 413. */
    size_t body_max;
};

/*
 * Asked when the header of a POST is there (`request` has no body yet). True: ret's functions take the body.
 * False: it is collected for the handler. Either may set ret->body_max. Not asked for GET and HEAD.
 */
typedef bool gt_http_on_body(void *arg, const struct gt_http_request *request, struct gt_http_consumer *ret);

/* PEM files. They are checked when a connection comes, every two seconds at most, and read again when one
 * was replaced or written; a set that does not load leaves the one before in use. */
struct gt_http_tls {
    const char *certificate; /* chain, own first; NULL: no TLS */
    const char *key;
    const char *client_ca; /* NULL: clients are not asked for a certificate */
    bool client_required;  /* one that has none fails at the handshake; false: request->client is NULL */
};

/* Memory for what the requests of all servers of a process hold: bodies, what consumers keep of them, answers
 * that are not sent yet. A server has three quarters of it at most, one address of clients half of it. A
 * request that wants more gets 503; the first GT_HTTP_SMALL bytes of an answer are always there. */
struct gt_http_budget {
    size_t max, used;
};

struct gt_http_spec {
    const char *address; /* as for gt_http_new() */
    gt_http_handler *handler;
    gt_http_on_body *on_body; /* NULL: every body is collected */
    void *arg;                /* of every callback */
    struct gt_http_tls tls;   /* copied */
    /* `error` NULL: the files were loaded again; otherwise why not, called once for each state of the files.
     */
    void (*on_tls)(void *arg, const char *error);

    size_t body_max;               /* of a POST; 0: POST gets 405 */
    size_t answer_max;             /* 0: GT_HTTP_BODY_MAX */
    struct gt_http_budget *budget; /* outlives the server; NULL: its own, of GT_HTTP_HELD_MAX */
    size_t buffer;            /* per connection; 0: GT_HTTP_HEADER_MAX. 32 KiB and more for large bodies */
    unsigned connections_max; /* 0: GT_HTTP_CONNECTIONS_MAX; never more than a quarter of the descriptors */
    unsigned address_max;     /* of them, of one IPv4 address or IPv6 /64; 0: half */
    unsigned idle_ms;         /* 0: GT_HTTP_IDLE_MS. Longer than the client's own, or it races: Go has 90 s */
    unsigned request_ms;      /* 0: GT_HTTP_REQUEST_MS */
};

/* Listens as `spec` says, which is copied (its texts too). */
int gt_http_start(struct gt_loop *loop, const struct gt_http_spec *spec, struct gt_http **ret,
                  struct gt_err **err);

/* A server for GET and HEAD with every limit as above, on "ADDRESS:PORT" ("0.0.0.0:9400", "[::1]:0",
 * "localhost:9400", ":9400": all addresses). The address is numeric or "localhost". Port 0: any, see
 * gt_http_port(). */
int gt_http_new(struct gt_loop *loop, const char *address, gt_http_handler *handler, void *arg,
                struct gt_http **ret, struct gt_err **err);
/* The same for health alone (--health): few connections, short ones, so that nothing else can fill it. */
int gt_http_new_health(struct gt_loop *loop, const char *address, gt_http_handler *handler, void *arg,
                       struct gt_http **ret, struct gt_err **err);
/* Reads an option, const char *: an address as above; NULL for "none" and nothing. */
gt_option_reader gt_http_option;
unsigned gt_http_port(const struct gt_http *http);

struct gt_http_stats {
    uint64_t connections_total, requests_total; /* requests: answered, whatever the status */
    uint64_t refused_size, refused_busy;        /* 413 and 503 by the server itself */
    uint64_t refused_tls;                       /* connections that ended before a handshake succeeded */
    uint64_t cut_slow;                          /* connections that ran into request_ms */
    uint64_t evicted;                           /* closed to make room for others */
    uint64_t refused_address;                   /* closed at once: their address had too many at work */
    unsigned connections;
    uint64_t tls_loads, tls_failures; /* of the files */
    int64_t tls_begins, tls_expires;  /* of the certificate in use, seconds since 1970; 0: no TLS */
};
/* Checks the TLS files first, as a connection would. */
void gt_http_stats(struct gt_http *http, struct gt_http_stats *ret);

/* Not from within its own callbacks. */
void gt_http_free(struct gt_http *http);
GT_DEFINE_CLEANUP(struct gt_http *, gt_http_free)
#define gt_auto_http GT_CLEANUP(gt_http_free)

#endif
