/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "api/removal.h"
#include "base/backoff.h"
#include "base/clock.h"

enum {
    EVICTIONS_RUNNING_MAX = 8,
    BUDGET_MAX_MS = 60000,   /* longest back-off after a PodDisruptionBudget refused */
    REFUSED_MAX_MS = 300000, /* back-off where the API server forbids it */
    BODY_MAX = 4096,
};

struct eviction {
    struct pjob *pjob;
    char *namespace_, *name, *uid;
    struct gt_kube_call *call; /* the request in flight; NULL: none */
    uint64_t next_ms;          /* no new request before then */
    unsigned refusals;         /* refusals in a row */
    char *refusal;             /* from the last answer; NULL: not refused */
    bool is_named;             /* requested in this round */
    struct eviction *next;
};

static void free_eviction(struct eviction *eviction)
{
    if (eviction->call) {
        gt_kube_cancel(eviction->call);
        eviction->pjob->placement->evictions_running--;
    }
    free(eviction->namespace_);
    free(eviction->name);
    free(eviction->uid);
    free(eviction->refusal);
    free(eviction);
}

void gt_evictions_done(struct pjob *pjob)
{
    for (struct eviction *next; pjob->move.evictions; pjob->move.evictions = next) {
        next = pjob->move.evictions->next;
        free_eviction(pjob->move.evictions);
    }
}

void gt_evict_begin(struct pjob *pjob)
{
    for (struct eviction *eviction = pjob->move.evictions; eviction; eviction = eviction->next)
        eviction->is_named = false;
}

void gt_evict_end(struct pjob *pjob)
{
    for (struct eviction **at = &pjob->move.evictions; *at;) {
        struct eviction *eviction = *at;
        if (eviction->is_named) {
            at = &eviction->next;
            continue;
        }
        *at = eviction->next;
        free_eviction(eviction);
    }
}

const char *gt_evict_refusal(const struct pjob *pjob)
{
    const struct eviction *eviction = pjob->move.evictions;
    while (eviction && !eviction->refusal)
        eviction = eviction->next;
    return eviction ? eviction->refusal : NULL;
}

/* ---- answers ---- */

static void evict_note_refusal(struct eviction *eviction, const struct gt_err *error, uint64_t most_ms)
{
    struct gt_placement *placement = eviction->pjob->placement;
    placement->counters.write_failures++;
    eviction->refusal = strdup(gt_err_text(error));
    eviction->next_ms =
        gt_clock_ms() + gt_backoff_step(eviction->refusals++, placement->times.retry_ms, most_ms);
}

static void report_forbidden(const struct eviction *eviction, const struct gt_err *error)
{
    struct pjob *pjob = eviction->pjob;
    if (!pjob->lift.refusal_reported)
        gt_placement_event(
            pjob, gt_cache_find_pod(pjob->placement->spec.cache, eviction->namespace_, eviction->name), true,
            "WriteRefused", "Evict", gt_err_text(error));
    pjob->lift.refusal_reported = true;
}

static void evict_on_answer(void *arg, struct gt_kube_answer *answer)
{
    struct eviction *eviction = arg;
    struct gt_placement *placement = eviction->pjob->placement;
    eviction->call = NULL;
    placement->evictions_running--;
    free(eviction->refusal);
    eviction->refusal = NULL;
    eviction->next_ms = gt_clock_ms() + placement->times.retry_ms;
    switch (answer->error ? answer->status : 201) {
    case 201:
        placement->counters.evicted++;
        eviction->refusals = 0;
        break;
    case 404: /* it was deleted, or another pod has its name: the watch will show it */
    case 409:
        placement->counters.conflicts++;
        break;
    case 400:
    case 403:
    case 422:
        evict_note_refusal(eviction, answer->error, REFUSED_MAX_MS);
        report_forbidden(eviction, answer->error);
        break;
    default: /* 429: a budget */
        evict_note_refusal(eviction, answer->error, BUDGET_MAX_MS);
    }
    gt_placement_mark(eviction->pjob);
}

/* ---- requests ---- */

static struct eviction *evict_find(const struct pjob *pjob, const struct gt_cache_pod *pod)
{
    struct eviction *eviction = pjob->move.evictions;
    while (eviction && strcmp(eviction->uid, pod->uid) != 0)
        eviction = eviction->next;
    return eviction;
}

bool gt_evict_has_begun(const struct pjob *pjob, const struct gt_cache_pod *pod)
{
    return evict_find(pjob, pod) != NULL;
}

static struct eviction *find_or_make(struct pjob *pjob, const struct gt_cache_pod *pod)
{
    struct eviction *eviction = evict_find(pjob, pod);
    if (eviction || !(eviction = calloc(1, sizeof(*eviction))))
        return eviction;
    eviction->pjob = pjob;
    eviction->namespace_ = strdup(pod->meta.namespace_);
    eviction->name = strdup(pod->meta.name);
    eviction->uid = strdup(pod->uid);
    if (!eviction->namespace_ || !eviction->name || !eviction->uid) {
        free_eviction(eviction);
        return NULL;
    }
    eviction->next = pjob->move.evictions;
    pjob->move.evictions = eviction;
    return eviction;
}

static int evict_send(struct eviction *eviction, struct gt_err **err)
{
    struct gt_placement *placement = eviction->pjob->placement;
    gt_auto_buf struct gt_buf body = GT_BUF(BODY_MAX);
    gt_eviction_write(eviction->namespace_, eviction->name, eviction->uid, &body);
    const struct gt_kube_request request = {.verb = GT_KUBE_CREATE,
                                            .resource = &gt_kube_pods,
                                            .namespace_ = eviction->namespace_,
                                            .name = eviction->name,
                                            .subresource = "eviction",
                                            .body = body.data,
                                            .once = true};
    int r = gt_buf_check(&body, "eviction", err);
    return r < 0 ? r
                 : gt_kube_start(placement->spec.kube, &request, evict_on_answer, eviction, &eviction->call,
                                 err);
}

void gt_evict_pod(struct reconcile *reconcile, const struct gt_cache_pod *pod)
{
    struct gt_placement *placement = reconcile->placement;
    struct eviction *eviction = find_or_make(reconcile->pjob, pod);
    gt_auto_err struct gt_err *error = NULL;
    if (eviction)
        eviction->is_named = true;
    if (eviction && eviction->call)
        return;
    bool later = !eviction || placement->evictions_running >= EVICTIONS_RUNNING_MAX ||
                 !gt_placement_may_write(placement);
    uint64_t when = eviction && eviction->next_ms > reconcile->now ? eviction->next_ms
                    : later ? reconcile->now + placement->times.retry_ms / 10
                            : 0;
    if (!when && evict_send(eviction, &error) < 0)
        evict_note_refusal(eviction, error, BUDGET_MAX_MS);
    else if (!when)
        placement->evictions_running++;
    if (when || !eviction->call)
        gt_placement_due(reconcile->pjob, when ? when : eviction->next_ms);
}
