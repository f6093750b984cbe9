/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "http/http.h"
#include "scheduler-ext/serve/feasible_nodes.h"

/*
 * The HTTP extenders, one for each scheduler (docs/how-to/score-nodes-by-topology.md):
 *   POST /kube-scheduler/filter, /kube-scheduler/prioritize, /kube-scheduler/preempt   kube-scheduler
 *   POST /volcano/predicate, /volcano/prioritize                                       Volcano's extender
 * plugin Of a body only what is needed is stored, as it arrives. An invalid body is answered with 400 and one
 * line.
 */
struct gt_extender;

struct gt_extender_spec {
    struct gt_cache *cache;               /* must outlive the extender */
    const struct gt_placement *placement; /* likewise; NULL: nothing is reserved for waiting jobs */
    bool client_wanted;                   /* kube-scheduler must present a client certificate */
    /* Names separated by commas, one of which the certificate must have; "any": any name. Must outlive the
     * extender. */
    const char *clients;
    struct gt_aware_weights weights; /* those of the cache's cluster */
};

int gt_extender_new(const struct gt_extender_spec *spec, struct gt_extender **ret, struct gt_err **err);
void gt_extender_free(struct gt_extender *extender);

/* While the cache is not synced, requests are answered with 503, since an answer could give away reserved
 * GPUs. */
void gt_extender_set_ready(struct gt_extender *extender, bool ready);

/* As gt_http_on_body; false where the path is not one of the extender's. */
bool gt_extender_on_body(struct gt_extender *extender, const struct gt_http_request *request,
                         struct gt_http_consumer *ret);

/* Answers a request for one of its paths that gt_extender_on_body() did not take; false: the path is not one
 * of them. */
bool gt_extender_serve(struct gt_extender *extender, const struct gt_http_request *request,
                       struct gt_http_response *response);

/* Appends its metrics. */
void gt_extender_metrics(const struct gt_extender *extender, struct gt_buf *to);
