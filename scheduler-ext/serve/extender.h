/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_EXTENDER_H
#define GPUTOPO_SERVE_EXTENDER_H

#include "http/http.h"
#include "scheduler-ext/serve/feasibility.h"

/*
 * The HTTP extenders, one for each scheduler (docs/how-to/score-nodes-by-topology.md):
 *   POST /kube-scheduler/filter, /kube-scheduler/prioritize   kube-scheduler
 *   POST /volcano/predicate, /volcano/prioritize              Volcano's extender plugin
 * Bodies are read as they arrive and never kept. A body that is none is answered with 400 and one line.
 */
struct gt_extender;

struct gt_extender_spec {
    struct gt_cache *cache;               /* outlives the extender */
    const struct gt_placement *placement; /* likewise; NULL: nothing is reserved for jobs that wait */
    bool client_wanted;                   /* kube-scheduler has to prove a certificate */
    /* Names with commas between them, of which that certificate has one; "any": no matter which. Outlives
     * the extender. */
    const char *clients;
    struct gt_aware_weights weights; /* those of the cache's cluster */
};

int gt_extender_new(const struct gt_extender_spec *spec, struct gt_extender **ret, struct gt_err **err);
void gt_extender_free(struct gt_extender *extender);

/* Until the cache is complete questions are answered with 503: an answer could give reserved GPUs away. */
void gt_extender_set_ready(struct gt_extender *extender, bool ready);

/* As gt_http_on_body: false where the path is none of the extender's. */
bool gt_extender_take(struct gt_extender *extender, const struct gt_http_request *request,
                      struct gt_http_consumer *ret);

/* A request for one of its paths that gt_extender_take() did not take, with its body if it has one; false: it
 * is none of them. */
bool gt_extender_serve(struct gt_extender *extender, const struct gt_http_request *request,
                       struct gt_http_response *response);

/* Appends its metrics. */
void gt_extender_metrics(const struct gt_extender *extender, struct gt_buf *to);

#endif
