/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One connection of the load client: plain or TLS, never blocking, one request at a time. */
struct load_target {
    struct sockaddr_in address;
    const char *host;
    bool tls;
    gnutls_certificate_credentials_t credentials;
};

struct load_connection {
    const struct load_target *target;
    int fd; /* -1: closed */
    gnutls_session_t session;
    enum { LOAD_CLOSED, LOAD_CONNECTING, LOAD_SHAKING, LOAD_IDLE, LOAD_SENDING, LOAD_RECEIVING } state;
    bool fresh; /* no answer has come on it yet */
    uint64_t since_ns;

    const char *request;
    size_t request_len, sent;
    char header[4096]; /* of the answer */
    size_t header_len;
    bool header_done, close_after;
    unsigned status;
    uint64_t body_left, received;
    void *extra; /* for the user */
};

enum load_result {
    LOAD_WAITS,  /* more events are needed */
    LOAD_ANSWER, /* a whole answer has come: see status */
    LOAD_READY,  /* connected: a request may start */
    LOAD_ENDED,  /* closed by the server between two requests */
    LOAD_FAILED,
};

/* Starts to connect and watches the socket (edge-triggered, data.ptr = connection); false: failed. */
bool load_open(struct load_connection *connection, int epoll);
/* Sends a request, which must stay valid until it is answered. */
enum load_result load_request(struct load_connection *connection, const char *request, size_t len);
/* Call it after an event. */
enum load_result load_go_on(struct load_connection *connection);
void load_close(struct load_connection *connection);
