/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "http/internal.h"
/*
 * A request is seen in three steps: its header, its body in pieces, its end. The library takes an answer at
 * the first, which ends the connection where a body is still to come, and at the last. An answer that is
 * known in between is kept, with the stage AT_REST, and the rest of the body is discarded.
 */

enum {
    DISCARDED_MAX = 1 << 20, /* bytes of body behind a GET */
    REST_SPARE = 1 << 20,    /* and beyond twice the limit of a body that is too large */
};

static const char PLAIN[] = "text/plain; charset=utf-8";

static struct gt_http_peer *http_request_peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void http_request_prepare(struct gt_http_peer *peer, struct gt_http_response *response)
{
    size_t max = peer->http->spec.answer_max, capacity = gt_http_bytes_left(peer);
    if (capacity < max)
        max = capacity > GT_HTTP_SMALL ? capacity : GT_HTTP_SMALL;
    *response = (struct gt_http_response){.status = MHD_HTTP_OK, .content_type = PLAIN, .body = GT_BUF(max)};
}

static void drop_consumer(struct gt_http_peer *peer)
{
    if (peer->request.consumer.free)
        peer->request.consumer.free(peer->request.consumer.consumer);
    peer->request.consumer = (struct gt_http_consumer){0};
}

static void drop_body(struct gt_http_peer *peer)
{
    gt_buf_done(&peer->request.body);
    gt_http_reserve_bytes(peer, 0);
}

void gt_http_peer_reset(struct gt_http_peer *peer)
{
    drop_consumer(peer);
    drop_body(peer);
    gt_buf_done(&peer->request.response.body);
    free(gt_steal(peer->request.query));
    peer->request.received = 0;
    peer->request.stage = AT_HEADER;
}

static enum MHD_Result add_headers(struct MHD_Response *to, const struct gt_http_peer *peer, unsigned status,
                                   const char *content_type)
{
    enum MHD_Result done = MHD_add_response_header(to, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED && done == MHD_YES)
        done = MHD_add_response_header(to, MHD_HTTP_HEADER_ALLOW,
                                       peer->http->spec.body_max ? "GET, HEAD, POST" : "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED && done == MHD_YES)
        done = MHD_add_response_header(to, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE && done == MHD_YES)
        done = MHD_add_response_header(to, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (peer->linger && done == MHD_YES) /* a body that may follow is never read: this one cannot go on */
        done = MHD_add_response_header(to, MHD_HTTP_HEADER_CONNECTION, "close");
    return done;
}

static const char *too_busy(struct gt_http_peer *peer)
{
    peer->http->stats.refused_busy++;
    return "too many requests at once\n";
}

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Whether a list of values with commas has this one, with a weight that is not 0 ("gzip; q=0.5"). */
static bool has_word(const char *header, const char *word)
{
    const char *found = header ? strstr(header, word) : NULL;
    if (!found)
        return false;
    const char *weight = found + strlen(word) + strspn(found + strlen(word), " ;");
    if (strncasecmp(weight, "q=0", 3) != 0)
        return true;
    weight += 3 + strspn(weight + 3, ".0");
    return *weight >= '1' && *weight <= '9';
}

/* A weak one: the same state has a body by gzip and one without. */
static void write_etag(const struct gt_http_response *response, char to[static sizeof(response->etag) + 4])
{
    snprintf(to, sizeof(response->etag) + 4, "W/\"%s\"", response->etag);
}

/* Takes from the answer what the client has, or makes it small. */
static bool shrink(struct MHD_Connection *connection, struct gt_http_response *response)
{
    if (response->status != MHD_HTTP_OK || response->body.failed)
        return false;
    char etag[sizeof(response->etag) + 4];
    write_etag(response, etag);
    if (*response->etag &&
        has_word(header_of(connection, MHD_HTTP_HEADER_IF_NONE_MATCH), etag + strlen("W/"))) {
        response->status = MHD_HTTP_NOT_MODIFIED;
        gt_buf_done(&response->body);
        return false;
    }
    return response->compressed && has_word(header_of(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING), "gzip") &&
           gt_gzip(&response->body);
}

static enum MHD_Result add_cache_headers(struct MHD_Response *to, const struct gt_http_response *response,
                                         bool zipped)
{
    char etag[sizeof(response->etag) + 4];
    write_etag(response, etag);
    if (*response->etag &&
        (MHD_add_response_header(to, MHD_HTTP_HEADER_ETAG, etag) != MHD_YES ||
         MHD_add_response_header(to, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache") != MHD_YES))
        return MHD_NO;
    if (response->compressed &&
        MHD_add_response_header(to, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING) != MHD_YES)
        return MHD_NO;
    return zipped ? MHD_add_response_header(to, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip") : MHD_YES;
}

/* Hands the answer to the library. */
static enum MHD_Result http_request_answer(struct gt_http_peer *peer, struct MHD_Connection *connection,
                                           struct gt_http_response *response)
{
    bool zipped = shrink(connection, response);
    gt_auto_buf struct gt_buf body = response->body;
    response->body = (struct gt_buf){0};
    if (body.failed) {
        bool busy = body.max < peer->http->spec.answer_max;
        gt_buf_done(&body);
        body = (struct gt_buf)GT_BUF(GT_HTTP_SMALL);
        gt_buf_puts(&body, busy ? too_busy(peer) : "the answer is too large\n");
        response->status = busy ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_INTERNAL_SERVER_ERROR;
        response->content_type = PLAIN;
        *response->etag = '\0'; /* this is no state of what was asked */
    }
    gt_http_reserve_bytes(peer, body.len > GT_HTTP_SMALL ? body.len : 0); /* until it is sent */
    size_t len = body.len;
    char *data = gt_buf_take(&body);
    if (!data)
        return MHD_NO;
    struct MHD_Response *to = MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
    if (!to) {
        free(data);
        return MHD_NO;
    }
    enum MHD_Result done = add_headers(to, peer, response->status, response->content_type);
    if (done == MHD_YES)
        done = add_cache_headers(to, response, zipped);
    if (done == MHD_YES)
        done = MHD_queue_response(connection, response->status, to);
    MHD_destroy_response(to);
    if (done == MHD_YES)
        peer->http->stats.requests_total++;
    return done;
}

static enum MHD_Result refuse_now(struct gt_http_peer *peer, struct MHD_Connection *connection,
                                  unsigned status, const char *text)
{
    struct gt_http_response response;
    drop_consumer(peer);
    http_request_prepare(peer, &response);
    response.status = status;
    gt_buf_puts(&response.body, text);
    peer->linger = true;
    return http_request_answer(peer, connection, &response);
}

/* In the middle of a body: the answer is sent after it. */
static void refuse_later(struct gt_http_peer *peer, unsigned status, const char *text)
{
    drop_consumer(peer);
    drop_body(peer);
    http_request_prepare(peer, &peer->request.response);
    peer->request.response.status = status;
    gt_buf_puts(&peer->request.response.body, text);
    peer->request.stage = AT_REST;
}

static const char *too_large(struct gt_http_peer *peer)
{
    peer->http->stats.refused_size++;
    return "the body is larger than this server takes here\n";
}

struct framing {
    unsigned lengths, encodings;
    bool chunked;
};

static enum MHD_Result check_header(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct framing *framing = arg;
    (void)kind;
    if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0)
        framing->lengths++;
    else if (strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        framing->encodings++;
        framing->chunked = value && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

/* A request whose end two programs could see at different places is refused without calling a handler. */
static bool frames_well(struct MHD_Connection *connection, uint64_t *ret_length)
{
    struct framing framing = {0};
    uint64_t length = 0;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, check_header, &framing);
    if (framing.lengths + framing.encodings > 1 || (framing.encodings && !framing.chunked))
        return false;
    const char *text = framing.lengths ? header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH) : NULL;
    if (text && !gt_text_to_unsigned(text, UINT64_MAX, &length))
        return false;
    *ret_length = length;
    return true;
}

static char **names_of_client(struct gt_http_peer *peer)
{
    if (!peer->tls.client_known && peer->tls.session) {
        peer->tls.client_names = gt_tls_client_names(peer->tls.session);
        peer->tls.client_known = true;
    }
    return peer->tls.client_names;
}

bool gt_http_client_is(const struct gt_http_request *request, const char *names)
{
    if (request->client && strcmp(names, "any") == 0)
        return true;
    for (unsigned i = 0; request->client_names && request->client_names[i]; i++)
        if (gt_text_is_listed(request->client_names[i], names))
            return true;
    return false;
}

static struct gt_http_request http_request_describe(struct gt_http_peer *peer,
                                                    struct MHD_Connection *connection, const char *url,
                                                    enum gt_http_method method)
{
    char **names = names_of_client(peer);
    return (struct gt_http_request){
        .method = method,
        .path = url,
        .query = peer->request.query,
        .content_type = header_of(connection, MHD_HTTP_HEADER_CONTENT_TYPE),
        .authorization = header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION),
        .tls = peer->http->tls != NULL,
        .client = names ? names[0] : NULL,
        .client_names = (const char *const *)names,
        .body = peer->request.body.data ? peer->request.body.data : "",
        .body_len = peer->request.body.len,
    };
}

static enum MHD_Result on_header(struct gt_http_peer *peer, struct MHD_Connection *connection,
                                 const char *url, const char *method)
{
    const struct gt_http_spec *spec = &peer->http->spec;
    uint64_t length;
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    bool post = spec->body_max && strcmp(method, MHD_HTTP_METHOD_POST) == 0;
    if (!get && !post)
        return refuse_now(peer, connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                          spec->body_max ? "only GET, HEAD and POST are served here\n"
                                         : "only GET and HEAD are served here\n");
    if (!frames_well(connection, &length))
        return refuse_now(peer, connection, MHD_HTTP_BAD_REQUEST,
                          "the length of the body is not given as HTTP/1.1 wants it\n");
    if (get) {
        peer->request.body_max = DISCARDED_MAX;
        peer->request.stage = AT_DISCARD;
    } else {
        struct gt_http_request request = http_request_describe(peer, connection, url, GT_HTTP_POST);
        peer->request.consumer = (struct gt_http_consumer){.body_max = spec->body_max};
        bool eats = spec->on_body && spec->on_body(spec->arg, &request, &peer->request.consumer);
        peer->request.body_max = peer->request.consumer.body_max;
        peer->request.body = (struct gt_buf)GT_BUF(peer->request.body_max);
        peer->request.stage = eats ? AT_CONSUME : AT_COLLECT;
        if (!eats)
            peer->request.consumer = (struct gt_http_consumer){0};
    }
    if (length > peer->request.body_max)
        return refuse_now(peer, connection, MHD_HTTP_CONTENT_TOO_LARGE, too_large(peer));
    return MHD_YES;
}

static void http_request_collect(struct gt_http_peer *peer, const char *data, size_t len)
{
    if (!gt_http_reserve_bytes(peer, peer->request.body.len + len)) {
        refuse_later(peer, MHD_HTTP_SERVICE_UNAVAILABLE, too_busy(peer));
        return;
    }
    gt_buf_add(&peer->request.body, data, len);
    if (peer->request.body.failed) {
        peer->http->stats.refused_busy++;
        refuse_later(peer, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
    }
}

static void http_request_consume(struct gt_http_peer *peer, const char *data, size_t len)
{
    bool more = peer->request.consumer.consume(peer->request.consumer.consumer, data, len) >= 0;
    if (peer->request.consumer.bytes_used &&
        !gt_http_reserve_bytes(peer, peer->request.consumer.bytes_used(peer->request.consumer.consumer))) {
        refuse_later(peer, MHD_HTTP_SERVICE_UNAVAILABLE, too_busy(peer));
        return;
    }
    if (more)
        return;
    http_request_prepare(peer, &peer->request.response);
    peer->request.consumer.done(peer->request.consumer.consumer, &peer->request.response);
    drop_consumer(peer);
    drop_body(peer);
    peer->request.stage = AT_REST;
}

/* False: the body does not end, and the connection is shut down. */
static bool on_piece(struct gt_http_peer *peer, const char *data, size_t len)
{
    peer->request.received += len;
    if (peer->request.stage == AT_REST)
        return peer->request.received <= (uint64_t)peer->request.body_max * 2 + REST_SPARE;
    if (peer->request.received > peer->request.body_max) {
        if (peer->request.stage == AT_DISCARD)
            return false;
        refuse_later(peer, MHD_HTTP_CONTENT_TOO_LARGE, too_large(peer));
    } else if (peer->request.stage == AT_COLLECT)
        http_request_collect(peer, data, len);
    else if (peer->request.stage == AT_CONSUME)
        http_request_consume(peer, data, len);
    return true;
}

static enum MHD_Result http_request_on_end(struct gt_http_peer *peer, struct MHD_Connection *connection,
                                           const char *url)
{
    struct gt_http *http = peer->http;
    if (peer->request.stage != AT_REST) {
        http_request_prepare(peer, &peer->request.response);
        if (peer->request.stage == AT_CONSUME) {
            peer->request.consumer.done(peer->request.consumer.consumer, &peer->request.response);
        } else {
            struct gt_http_request request = http_request_describe(
                peer, connection, url, peer->request.stage == AT_COLLECT ? GT_HTTP_POST : GT_HTTP_GET);
            http->spec.handler(http->spec.arg, &request, &peer->request.response);
        }
        drop_consumer(peer);
        drop_body(peer); /* before the answer is sent, which may take its time */
    }
    return http_request_answer(peer, connection, &peer->request.response);
}

void *gt_http_on_line(void *arg, const char *uri, struct MHD_Connection *connection)
{
    struct gt_http_peer *peer = http_request_peer_of(connection);
    (void)arg;
    if (!peer)
        return NULL;
    peer->in_request = true;
    peer->since_ms = peer->received_ms = gt_clock_ms();
    const char *query = uri ? strchr(uri, '?') : NULL;
    if (query)
        peer->request.query = strdup(query + 1);
    return NULL;
}

enum MHD_Result gt_http_on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **state)
{
    struct gt_http_peer *peer = http_request_peer_of(connection);
    (void)arg;
    (void)version;
    (void)state;
    if (!peer)
        return MHD_NO;
    peer->received_ms = gt_clock_ms();
    if (peer->request.stage == AT_HEADER)
        return on_header(peer, connection, url, method);
    if (!*upload_size)
        return http_request_on_end(peer, connection, url);
    size_t len = *upload_size;
    *upload_size = 0;
    return on_piece(peer, upload, len) ? MHD_YES : MHD_NO;
}

void gt_http_on_request_done(void *arg, struct MHD_Connection *connection, void **state,
                             enum MHD_RequestTerminationCode code)
{
    struct gt_http_peer *peer = http_request_peer_of(connection);
    (void)arg;
    (void)state;
    (void)code;
    if (!peer)
        return;
    gt_http_peer_reset(peer);
    peer->in_request = false;
    peer->served = true;
    peer->since_ms = peer->received_ms = gt_clock_ms();
}

/* Level 1: a large answer costs the loop a few milliseconds, and a higher level saves little more. */
enum { GZIP_LEVEL = 1, GZIP_MIN = 1 << 10, GZIP_MAX = 16 << 20, GZIP_WINDOW = 15 + 16, GZIP_MEMORY = 8 };

bool gt_gzip(struct gt_buf *body)
{
    z_stream stream = {0};
    if (body->len < GZIP_MIN || body->len > GZIP_MAX ||
        deflateInit2(&stream, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    gt_auto_buf struct gt_buf zipped = GT_BUF(body->len);
    char *to = gt_buf_extend(&zipped, body->len);
    stream.next_in = (unsigned char *)body->data;
    stream.avail_in = (unsigned)body->len;
    stream.next_out = (unsigned char *)to;
    stream.avail_out = to ? (unsigned)body->len : 0;
    bool smaller = to && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    size_t len = body->len - stream.avail_out;
    deflateEnd(&stream);
    if (!smaller)
        return false;
    gt_buf_done(body); /* it is held until a slow client has all */
    gt_buf_add(body, zipped.data, len);
    return !body->failed;
}
