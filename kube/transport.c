/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/transport.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kube/curl_load.h"

/*
 * libcurl's multi interface on the event loop: it says which sockets and which timer to watch. Its own
 * callbacks only take notes, since libcurl may not be called from within them; ours are called afterwards.
 */

enum {
    IDLE_HANDLES_MAX = 16,
    /* Connections in use count: with a lower limit than watches and requests at a time, every request would
     * begin with a handshake, which costs each side 2 ms of CPU. A program that needs few connections keeps
     * few. */
    CONNECTIONS_KEPT = 64,
    CONNECT_TIMEOUT_MS = 10000,
    IDLE_MAX_S = 90, /* a connection that was not used for longer is not used again */
    /* By then one of HTTP/2 that has failed is too old. */
    HTTP1_AFTER_FAILURE_MS = 2 * IDLE_MAX_S * 1000,
    KEEPALIVE_IDLE_S = 30,
    KEEPALIVE_INTERVAL_S = 10,
    STREAM_PENDING_MAX = 8 << 20, /* libcurl reads at most 1.6 MB between two rounds */
};

static struct gt_curl curl; /* filled before the first transport */

struct gt_transport {
    struct gt_loop *loop;
    CURLM *multi;
    struct gt_source *timer;
    struct gt_transfer *transfers;
    CURL *idle[IDLE_HANDLES_MAX];
    unsigned idle_count;
    const struct gt_kube_config *config;
    char *user_agent;
    struct gt_pem ca, certificate, key;
    uint64_t http1_until; /* HTTP/2 is not offered before */
    bool starved;         /* a socket could not be watched */
    bool busy;            /* within round() */
    bool dead;            /* freed within it: the end of round() does the rest */
};

struct gt_transfer {
    struct gt_transport *transport;
    struct gt_transfer *previous, *next;
    CURL *easy;
    struct curl_slist *headers;
    char error_text[CURL_ERROR_SIZE];
    struct gt_buf body; /* collected, or waiting for on_data */
    bool http2;
    bool too_large;
    bool streaming; /* status 2xx and on_data: read at the first byte */
    bool has_status;
    bool starved; /* one of its sockets may not be watched */
    bool in_callback, cancelled;
    gt_transfer_data *on_data;
    gt_transfer_done *on_done;
    void *arg;
    size_t body_max;
};

/* What libcurl watches of one socket. */
struct watch {
    struct gt_transport *transport;
    struct gt_source *source;
    curl_socket_t fd;
};

static void round_of(struct gt_transport *transport, curl_socket_t fd, int events);

static void on_socket(void *arg, uint32_t events)
{
    struct watch *watch = arg;
    int happened = 0;
    if (events & POLLIN)
        happened |= CURL_CSELECT_IN;
    if (events & POLLOUT)
        happened |= CURL_CSELECT_OUT;
    if (events & (POLLERR | POLLHUP))
        happened |= CURL_CSELECT_ERR;
    round_of(watch->transport, watch->fd, happened);
}

static void transport_on_timer(void *arg)
{
    round_of(arg, CURL_SOCKET_TIMEOUT, 0);
}

/* A socket that cannot be watched is no error to libcurl: after one it could not be used any more.
 * fail_starved() ends the transfers. */
static int socket_callback(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct gt_transport *transport = arg;
    struct watch *watch = known;
    (void)easy;
    if (watch) {
        gt_source_free(watch->source);
        watch->source = NULL;
    }
    if (what == CURL_POLL_REMOVE) {
        free(watch);
        curl.curl_multi_assign(transport->multi, fd, NULL);
        return 0;
    }
    if (!watch) {
        watch = calloc(1, sizeof(*watch));
        if (!watch) {
            transport->starved = true;
            return 0;
        }
        *watch = (struct watch){.transport = transport, .fd = fd};
        curl.curl_multi_assign(transport->multi, fd, watch);
    }
    uint32_t events = 0;
    if (what & CURL_POLL_IN)
        events |= POLLIN;
    if (what & CURL_POLL_OUT)
        events |= POLLOUT;
    if (gt_loop_add_fd(transport->loop, fd, events, on_socket, watch, &watch->source, NULL) < 0)
        transport->starved = true;
    return 0;
}

static int timer_callback(CURLM *multi, long milliseconds, void *arg)
{
    struct gt_transport *transport = arg;
    (void)multi;
    if (milliseconds < 0)
        gt_source_disarm(transport->timer);
    else
        gt_source_arm(transport->timer, (uint64_t)milliseconds);
    return 0;
}

static size_t write_callback(char *data, size_t size, size_t count, void *arg)
{
    struct gt_transfer *transfer = arg;
    size_t len = size * count;
    if (!transfer->has_status) {
        long status = 0;
        curl.curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
        transfer->has_status = true;
        transfer->streaming = transfer->on_data && status >= 200 && status < 300;
        transfer->body.max = transfer->streaming ? STREAM_PENDING_MAX : transfer->body_max;
    }
    gt_buf_add(&transfer->body, data, len);
    if (transfer->body.failed) {
        transfer->too_large = true;
        return 0; /* libcurl ends the transfer with CURLE_WRITE_ERROR */
    }
    return len;
}

static void recycle(struct gt_transport *transport, CURL *easy)
{
    if (transport->idle_count < IDLE_HANDLES_MAX) {
        curl.curl_easy_reset(easy);
        transport->idle[transport->idle_count++] = easy;
    } else {
        curl.curl_easy_cleanup(easy);
    }
}

/* Takes a transfer out of libcurl and out of the list. */
static void detach(struct gt_transfer *transfer)
{
    struct gt_transport *transport = transfer->transport;
    if (!transfer->easy)
        return;
    curl.curl_multi_remove_handle(transport->multi, transfer->easy);
    recycle(transport, gt_steal(transfer->easy));
    if (transfer->previous)
        transfer->previous->next = transfer->next;
    else
        transport->transfers = transfer->next;
    if (transfer->next)
        transfer->next->previous = transfer->previous;
}

static void free_transfer(struct gt_transfer *transfer)
{
    curl.curl_slist_free_all(transfer->headers);
    gt_buf_done(&transfer->body);
    free(transfer);
}

/* HTTP/2 keeps a connection on which a transfer was ended before its time, by a timeout for instance, and
 * would give it to the next. If it is dead, only a transfer that does without HTTP/2 is safe from it. */
static void distrust(const struct gt_transfer *transfer)
{
    if (transfer->http2)
        transfer->transport->http1_until = gt_clock_ms() + HTTP1_AFTER_FAILURE_MS;
}

void gt_transfer_cancel(struct gt_transfer *transfer)
{
    if (!transfer || transfer->cancelled)
        return;
    if (transfer->easy)
        distrust(transfer);
    detach(transfer);
    transfer->cancelled = true;
    if (!transfer->in_callback)
        free_transfer(transfer);
}

/* Passes on what has arrived. False if the transfer was freed meanwhile. */
static bool transport_deliver(struct gt_transfer *transfer)
{
    if (!transfer->streaming || !transfer->body.len)
        return true;
    struct gt_buf body = transfer->body;
    transfer->body = (struct gt_buf)GT_BUF(STREAM_PENDING_MAX);
    transfer->in_callback = true;
    transfer->on_data(transfer->arg, body.data, body.len);
    transfer->in_callback = false;
    gt_buf_done(&body);
    if (!transfer->cancelled)
        return true;
    free_transfer(transfer);
    return false;
}

static int error_of(CURLcode code)
{
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_COULDNT_RESOLVE_HOST:
        return EHOSTUNREACH;
    case CURLE_COULDNT_CONNECT:
        return ECONNREFUSED;
    case CURLE_OPERATION_TIMEDOUT:
        return ETIMEDOUT;
    case CURLE_OUT_OF_MEMORY:
        return ENOMEM;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
        return EPROTO;
    default:
        return ECONNRESET;
    }
}

static void transport_finish(struct gt_transfer *transfer, CURLcode code)
{
    struct gt_transfer_result result = {.error = error_of(code), .text = ""};
    long status = 0;
    curl_off_t retry_after = 0;
    curl.curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    curl.curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &retry_after);
    result.status = status > 0 && status < 1000 ? (unsigned)status : 0;
    result.retry_after = retry_after > 0 && retry_after < 86400 ? (unsigned)retry_after : 0;
    if (code != CURLE_OK)
        distrust(transfer);
    char too_large[64];
    if (transfer->too_large) {
        result.error = EFBIG;
        snprintf(too_large, sizeof(too_large), "the answer is larger than %zu bytes", transfer->body.max);
        result.text = too_large;
    } else if (code != CURLE_OK) {
        result.text = *transfer->error_text ? transfer->error_text : curl.curl_easy_strerror(code);
    }
    transfer->in_callback = true; /* also a cancel from within leaves it to us */
    detach(transfer);
    gt_buf_add(&transfer->body, "", 0);
    result.body = transfer->body.data && !transfer->too_large ? transfer->body.data : "";
    result.body_len = transfer->too_large ? 0 : transfer->body.len;
    transfer->on_done(transfer->arg, &result);
    free_transfer(transfer);
}

static void deliver_all(struct gt_transport *transport)
{
    struct gt_transfer *transfer = transport->transfers;
    while (transfer && !transport->dead) {
        if (transfer->streaming && transfer->body.len) {
            transport_deliver(transfer);
            transfer = transport->transfers; /* the list may be another now */
        } else {
            transfer = transfer->next;
        }
    }
}

/* Nothing would report when the socket is ready: all transfers that may wait for it fail, and their callers
 * try again. */
static void fail_starved(struct gt_transport *transport)
{
    transport->starved = false;
    for (struct gt_transfer *transfer = transport->transfers; transfer; transfer = transfer->next)
        transfer->starved = true;
    struct gt_transfer *transfer = transport->transfers;
    while (transfer && !transport->dead) {
        bool fails = transfer->starved;
        if (fails)
            transport_finish(transfer, CURLE_OUT_OF_MEMORY);
        transfer = fails ? transport->transfers : transfer->next; /* the list may be another now */
    }
}

static void transport_release(struct gt_transport *transport)
{
    while (transport->idle_count)
        curl.curl_easy_cleanup(transport->idle[--transport->idle_count]);
    if (transport->multi)
        curl.curl_multi_cleanup(transport->multi);
    gt_source_free(transport->timer);
    gt_pem_close(&transport->ca);
    gt_pem_close(&transport->certificate);
    gt_pem_close(&transport->key);
    free(transport->user_agent);
    free(transport);
    curl.curl_global_cleanup();
}

static void round_of(struct gt_transport *transport, curl_socket_t fd, int events)
{
    int running;
    transport->busy = true;
    curl.curl_multi_socket_action(transport->multi, fd, events, &running);
    deliver_all(transport);
    if (transport->starved && !transport->dead)
        fail_starved(transport);
    while (!transport->dead) {
        int left;
        CURLMsg *message = curl.curl_multi_info_read(transport->multi, &left);
        if (!message)
            break;
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode code = message->data.result;
        char *private = NULL;
        curl.curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        struct gt_transfer *transfer = (struct gt_transfer *)(void *)private;
        if (transport_deliver(transfer))
            transport_finish(transfer, code);
    }
    transport->busy = false;
    if (transport->dead)
        transport_release(transport);
}

void gt_transport_free(struct gt_transport *transport)
{
    if (!transport || transport->dead)
        return;
    while (transport->transfers)
        gt_transfer_cancel(transport->transfers);
    if (transport->busy)
        transport->dead = true;
    else
        transport_release(transport);
}

int gt_transport_new(struct gt_loop *loop, const struct gt_kube_config *config, const char *user_agent,
                     struct gt_transport **ret, struct gt_err **err)
{
    GT_TRY(gt_curl_load(&curl, err));
    gt_auto_transport struct gt_transport *transport = calloc(1, sizeof(*transport));
    GT_NEED(transport, err, "HTTP client");
    if (curl.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(gt_steal(transport));
        return gt_fail(err, EIO, "HTTP client: libcurl does not start");
    }
    transport->loop = loop;
    transport->config = config;
    transport->ca.fd = transport->certificate.fd = transport->key.fd = -1;
    transport->user_agent = strdup(user_agent);
    transport->multi = curl.curl_multi_init();
    GT_NEED(transport->user_agent && transport->multi, err, "HTTP client");
    GT_TRY(gt_pem_open(config->ca_data, "authority", &transport->ca, err));
    GT_TRY(gt_pem_open(config->certificate_data, "client certificate", &transport->certificate, err));
    GT_TRY(gt_pem_open(config->key_data, "client key", &transport->key, err));
    GT_TRY(gt_loop_add_timer(loop, transport_on_timer, transport, &transport->timer, err));
    curl.curl_multi_setopt(transport->multi, CURLMOPT_SOCKETFUNCTION, socket_callback);
    curl.curl_multi_setopt(transport->multi, CURLMOPT_SOCKETDATA, transport);
    curl.curl_multi_setopt(transport->multi, CURLMOPT_TIMERFUNCTION, timer_callback);
    curl.curl_multi_setopt(transport->multi, CURLMOPT_TIMERDATA, transport);
    curl.curl_multi_setopt(transport->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
    curl.curl_multi_setopt(transport->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    *ret = gt_steal(transport);
    return 0;
}

/* Only the first failure is kept. */
#define SET(option, value)                                                                                   \
    do {                                                                                                     \
        if (code == CURLE_OK)                                                                                \
            code = curl.curl_easy_setopt(easy, (option), (value));                                           \
    } while (0)

static CURLcode set_tls(CURL *easy, const struct gt_transport *transport)
{
    const struct gt_kube_config *config = transport->config;
    bool has_certificate = config->certificate_data || config->certificate_file;
    bool has_key = config->key_data || config->key_file;
    CURLcode code = CURLE_OK;
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (config->ca_data || config->ca_file)
        SET(CURLOPT_CAPATH, NULL); /* this authority and no other */
    if (code == CURLE_OK)
        code = gt_pem_use(easy, &transport->ca, CURLOPT_CAINFO_BLOB, config->ca_file, CURLOPT_CAINFO);
    if (code == CURLE_OK && has_certificate && has_key)
        code = gt_pem_use(easy, &transport->certificate, CURLOPT_SSLCERT_BLOB, config->certificate_file,
                          CURLOPT_SSLCERT);
    if (code == CURLE_OK && has_certificate && has_key)
        code = gt_pem_use(easy, &transport->key, CURLOPT_SSLKEY_BLOB, config->key_file, CURLOPT_SSLKEY);
    return code;
}

static CURLcode set_connection(CURL *easy, const struct gt_transport *transport)
{
    CURLcode code = CURLE_OK;
    SET(CURLOPT_PROTOCOLS_STR, gt_kube_config_is_plain(transport->config) ? "http" : "https");
    SET(CURLOPT_PROXY, ""); /* nothing in the environment may send the token elsewhere */
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_MAXAGE_CONN, (long)IDLE_MAX_S);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
    SET(CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
    SET(CURLOPT_USERAGENT, transport->user_agent);
    return code;
}

static CURLcode set_exchange(CURL *easy, struct gt_transfer *transfer, const struct gt_transfer_spec *spec)
{
    CURLcode code = CURLE_OK;
    SET(CURLOPT_URL, spec->url);
    SET(CURLOPT_HTTPHEADER, transfer->headers);
    SET(CURLOPT_HTTP_VERSION, (long)(transfer->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    SET(CURLOPT_TIMEOUT_MS, (long)(spec->timeout_ms < LONG_MAX ? spec->timeout_ms : LONG_MAX));
    SET(CURLOPT_ERRORBUFFER, transfer->error_text);
    SET(CURLOPT_WRITEFUNCTION, write_callback);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_PRIVATE, transfer);
    if (spec->body) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)spec->body_len);
        SET(CURLOPT_COPYPOSTFIELDS, spec->body);
    }
    SET(CURLOPT_CUSTOMREQUEST, spec->method);
    return code;
}

int gt_transfer_start(struct gt_transport *transport, const struct gt_transfer_spec *spec,
                      struct gt_transfer **ret, struct gt_err **err)
{
    struct gt_transfer *transfer = calloc(1, sizeof(*transfer));
    CURL *easy = transport->idle_count ? transport->idle[--transport->idle_count] : curl.curl_easy_init();
    if (!transfer || !easy)
        goto no_memory;
    *transfer =
        (struct gt_transfer){.transport = transport,
                             .body = GT_BUF(spec->body_max),
                             .body_max = spec->body_max,
                             .http2 = curl.http2 && spec->http2 && gt_clock_ms() >= transport->http1_until,
                             .on_data = spec->on_data,
                             .on_done = spec->on_done,
                             .arg = spec->arg};
    for (const char *const *header = spec->headers; *header; header++) {
        struct curl_slist *more = curl.curl_slist_append(transfer->headers, *header);
        if (!more)
            goto no_memory;
        transfer->headers = more;
    }
    CURLcode code = set_tls(easy, transport);
    if (code == CURLE_OK)
        code = set_connection(easy, transport);
    if (code == CURLE_OK)
        code = set_exchange(easy, transfer, spec);
    if (code != CURLE_OK) {
        recycle(transport, easy);
        free_transfer(transfer);
        return gt_fail(err, code == CURLE_OUT_OF_MEMORY ? ENOMEM : EINVAL, "HTTP client: %s",
                       curl.curl_easy_strerror(code));
    }
    CURLMcode added = curl.curl_multi_add_handle(transport->multi, easy);
    if (added != CURLM_OK) {
        recycle(transport, easy);
        free_transfer(transfer);
        return gt_fail(err, EIO, "HTTP client: %s", curl.curl_multi_strerror(added));
    }
    transfer->easy = easy;
    transfer->next = transport->transfers;
    if (transfer->next)
        transfer->next->previous = transfer;
    transport->transfers = transfer;
    *ret = transfer;
    return 0;

no_memory:
    if (easy)
        recycle(transport, easy);
    if (transfer)
        free_transfer(transfer);
    return gt_fail_sys(err, ENOMEM, "HTTP client");
}
