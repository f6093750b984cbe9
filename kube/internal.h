/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/err.h"
#include "base/json_arena.h"
#include "kube/client.h"
#include "kube/transport.h"
#include "kube/writer.h"

enum { GT_KUBE_OVERSIZE_REPORTED = 64 };

/* Shared by the parts of the client. */
struct gt_kube {
    struct gt_loop *loop;
    struct gt_kube_config config;
    struct gt_transport *transport;
    struct gt_json_arena *arena; /* for the objects of lists and watches */
    struct gt_kube_token *token; /* NULL: none, or it never changes */
    struct gt_jitter jitter;
    struct gt_kube_call *calls; /* all of them */
    unsigned call_count;
    struct gt_source *timer; /* for calls that wait */
    struct gt_writer *writer;
    struct gt_source *writer_timer;
    uint64_t writer_ms; /* when that is due; UINT64_MAX: it is not armed */
    struct gt_kube_counters counters;
    gt_kube_oversize_report *on_oversize; /* NULL: there are no reports */
    void *on_oversize_arg;
    uint64_t
        oversize_reported[GT_KUBE_OVERSIZE_REPORTED]; /* digests of the last objects that were reported */
    unsigned oversize_next;
};

gt_timer_callback gt_kube_on_timer; /* request.c */

/* Body, type and limits of one exchange. */
struct gt_kube_exchange {
    const char *method;
    const char *path; /* with its query */
    const char *body; /* NULL: none */
    const char *content_type;
    const char *accept;
    bool http2;
    uint64_t timeout_ms;
    size_t body_max;
    gt_transfer_data *on_data;
    gt_transfer_done *on_done;
    void *arg;
};

/* Counts and reports an object that was left out. Its namespace and name are "" if they are not known. */
void gt_kube_pass_over(struct gt_kube *kube, const struct gt_kube_resource *resource, const char *namespace_,
                       const char *name, size_t max);

/* One try, with the current token. */
int gt_kube_exchange(struct gt_kube *kube, const struct gt_kube_exchange *exchange, struct gt_transfer **ret,
                     struct gt_err **err);

/* Counts a result. True for a 401 after which another try may succeed: the token was read again. */
bool gt_kube_count(struct gt_kube *kube, const struct gt_transfer_result *result, bool refresh_allowed);

/* The error of a result that is not a 2xx; `*ret_object`: its JSON, or NULL. */
void gt_kube_result(const struct gt_transfer_result *result, cJSON **ret_object, struct gt_err **ret_error);

#define GT_KUBE_ACCEPT_META "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
/* Errors are never metadata, so they are sent as JSON. */
#define GT_KUBE_ACCEPT_SHORT                                                                                 \
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," GT_KUBE_ACCEPT
#define GT_KUBE_ACCEPT_METALIST "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

/* The metadata of one page of a list. */
struct gt_kube_page {
    char *resource_version;
    char *next; /* the `continue` token; NULL at the last page */
    size_t items;
};

/* An object of the page, freed after the call. Returning false stops the reading. */
typedef bool gt_kube_page_item(void *arg, cJSON *item);

/*
 * Reads a list object by object, so that only one of them is in memory as a tree. 0; -EBADMSG if it is not a
 * valid list (objects before the error were reported); -ECANCELED if the callback returned false.
 */
int gt_kube_page_read(struct gt_json_arena *arena, const char *text, size_t len, gt_kube_page_item *item,
                      void *arg, struct gt_kube_page *ret, struct gt_err **err);

void gt_kube_page_done(struct gt_kube_page *page);

/*
 * A bearer token in a file that somebody else renews. The file is opened by its path at most once a minute,
 * and at once when the server refused the token. If its content is empty, incomplete or not a token, the last
 * valid token stays in use.
 */
struct gt_kube_token;

enum { GT_KUBE_TOKEN_MAX = 64 << 10, GT_KUBE_TOKEN_INTERVAL_MS = 60000 };

/* Reads the file for the first time; an error if that fails. */
int gt_kube_token_new(const char *path, uint64_t now_ms, struct gt_kube_token **ret, struct gt_err **err);

/* The current token, valid until the next call of this function or of gt_kube_token_refresh(). */
const char *gt_kube_token_get(struct gt_kube_token *token, uint64_t now_ms);

/* Call it after a 401: reads the file at once. True if it now has another token. */
bool gt_kube_token_refresh(struct gt_kube_token *token, uint64_t now_ms);

void gt_kube_token_free(struct gt_kube_token *token);
GT_DEFINE_CLEANUP(struct gt_kube_token *, gt_kube_token_free)
#define gt_auto_kube_token GT_CLEANUP(gt_kube_token_free)

/* Whether `text`, read while `old` was in use (NULL: none was), can be a complete token. */
bool gt_kube_token_is_whole(const char *text, const char *old);
