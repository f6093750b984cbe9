/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "http/http.h"

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

/* Copies `files`; fails if they do not load. */
int gt_tls_new(const struct gt_http_tls *files, struct gt_tls **ret, struct gt_err **err);
void gt_tls_free(struct gt_tls *tls);

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

enum { GT_TLS_NAMES_MAX = 16 };

/* Names of the verified certificate of the session's client: its CN, then its DNS names, at most
 * GT_TLS_NAMES_MAX, followed by NULL. One allocation, which the caller frees. NULL: it has none. */
char **gt_tls_client_names(void *session);
