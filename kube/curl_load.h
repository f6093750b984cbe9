/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>

#include "base/err.h"

#define CURL_DISABLE_TYPECHECK /* its macros would replace the names in the table */

/*
 * libcurl, loaded when the first client is made: with its 30 libraries it takes a third of the agent's
 * resident memory, and an agent that publishes nothing does not need it. In the client alone it is linked
 * (curl_linked.c). Private to transport.c.
 */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define GT_CURL_FUNCTIONS(X)                                                                                 \
    X(curl_easy_cleanup)                                                                                     \
    X(curl_easy_getinfo)                                                                                     \
    X(curl_easy_init)                                                                                        \
    X(curl_easy_reset)                                                                                       \
    X(curl_easy_setopt)                                                                                      \
    X(curl_easy_strerror)                                                                                    \
    X(curl_global_cleanup)                                                                                   \
    X(curl_global_init)                                                                                      \
    X(curl_multi_add_handle)                                                                                 \
    X(curl_multi_assign)                                                                                     \
    X(curl_multi_cleanup)                                                                                    \
    X(curl_multi_info_read)                                                                                  \
    X(curl_multi_init)                                                                                       \
    X(curl_multi_remove_handle)                                                                              \
    X(curl_multi_setopt)                                                                                     \
    X(curl_multi_socket_action)                                                                              \
    X(curl_multi_strerror)                                                                                   \
    X(curl_slist_append)                                                                                     \
    X(curl_slist_free_all)

struct gt_curl {
#define GT_CURL_FIELD(name)                                                                                  \
    __typeof__(&(name)) name; /* NOLINT(bugprone-macro-parentheses): a member's name */
    GT_CURL_FUNCTIONS(GT_CURL_FIELD)
#undef GT_CURL_FIELD
    bool http2; /* the library knows HTTP/2 */
};

/* Loads the library once in a process; call it from one thread. -ENOENT if the library or a function is
 * missing. */
int gt_curl_load(struct gt_curl *ret, struct gt_err **err);

/* A PEM text. libcurl with GnuTLS accepts files only: there it is a file in memory. */
struct gt_pem {
    int fd; /* -1: none */
    char path[32];
    const char *text; /* borrowed; NULL: there is none */
};

/* Does nothing if `data` is NULL. `name` is used in errors. `data` has to live as long as *ret. */
int gt_pem_open(const char *data, const char *name, struct gt_pem *ret, struct gt_err **err);
void gt_pem_close(struct gt_pem *pem);
/* Gives a transfer the text, else the file; `blob` and `file` are the two options for it. Does nothing
 * without both. */
CURLcode gt_pem_use(CURL *easy, const struct gt_pem *pem, CURLoption blob, const char *path, CURLoption file);
