/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"
#include "scheduler-ext/serve/debug_view.h"

/*
 * What the page /ui shows, and since when: /ui/state answers with all that has changed since the state that a
 * client has. The cluster is read in rounds, in pieces, and what differs from the round before gets the
 * number of the round. docs/reference/debug-endpoints.md describes the answer, which is the page's own.
 */
struct gt_page;

struct gt_page_spec {
    /* A node's health has changed since the round before. May be NULL. */
    void (*on_health)(void *arg, const char *node, bool worse, const char *reason, const char *text);
    void *arg;
};
int gt_page_new(const struct gt_page_spec *spec, struct gt_page **ret, struct gt_err **err);
void gt_page_free(struct gt_page *page);
GT_DEFINE_CLEANUP(struct gt_page *, gt_page_free)

/* Continues the round, or begins one, for about `budget_ns`; true: it is complete. */
bool gt_page_scan(struct gt_page *page, const struct gt_debug_view *view, uint64_t budget_ns);
bool gt_page_is_scanning(const struct gt_page *page);

/* What the page's process knows beside the cluster. */
struct gt_page_around {
    const char *leader;                      /* the name of the replica that writes; "": none is known */
    const char *certificate;                 /* what is wrong with the certificate of --https; "": nothing */
    const struct gt_kube_recorder *recorder; /* NULL: none */
    const char
        *only; /* the viewer may see only jobs of this namespace, and nodes that they are on; NULL: all */
};
/* `query`: since=STATE, events=NUMBER of the last ones that the client has; without them it gets all. */
void gt_page_state(struct gt_page *page, const struct gt_debug_view *view,
                   const struct gt_page_around *around, const char *query, struct gt_http_response *response);
/* The wiring of a node; false: there is none of this name. */
bool gt_page_node_json(const struct gt_debug_view *view, const char *name, struct gt_buf *to);

/* What the page needs of a node or a job, and nothing that changes by itself. A removed node appends nothing,
 * and with `only` a node without users of that namespace; others are not told of. */
void gt_page_node_row(const struct gt_debug_view *view, uint32_t id, const char *only, struct gt_buf *to);
void gt_page_job_row(const struct gt_debug_view *view, const struct gt_cache_job *job, struct gt_buf *to);
