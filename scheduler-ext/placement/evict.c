/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "base/clock.h"

enum {
    EVICTIONS_RUNNING_MAX = 8,
    BACKOFF_MAX_MS = 60000, /* a PodDisruptionBudget may allow it soon */
    BODY_MAX = 4096,
    ALLOWED_ROUNDS = 10, /* for so many retries the answer to a dry run counts */
};

struct eviction {
    struct pjob *pjob;
    char *namespace_, *name, *uid;
    struct gt_write_key key;
    char *refusal;             /* from the last answer; NULL: not refused */
    bool is_named;             /* requested in this round */
    bool is_done;              /* the API server lets it go */
    bool is_dry;               /* what is in flight, or sent next, is a dry run */
    bool preempts;             /* it makes room for its job, of higher priority */
    uint32_t node;             /* of the pod when it was asked for */
    uint64_t allowed_until_ms; /* a dry run has said so */
    struct eviction *next;
};

static void free_eviction(struct eviction *eviction)
{
    gt_write_remove(&eviction->key);
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

/* The node of a pod that really leaves for a preemption counts for the brake; of moves it did before. */
static void evict_count_node(const struct eviction *eviction)
{
    struct placement_nodes *nodes = &eviction->pjob->placement->nodes;
    if (!eviction->preempts || eviction->node == GT_NONE)
        return;
    gt_node_set_clear(&nodes->leaving);
    if (gt_node_set_add(&nodes->leaving, eviction->node, NULL) >= 0)
        gt_brake_take(&nodes->brake, &nodes->leaving, false, gt_clock_ms());
}

/* Of an eviction whose answer is not waited for any more: the pod may have gone, or be on its way, before it.
 */
static bool evict_has_gone(const struct eviction *eviction)
{
    const struct gt_cache *cache = eviction->pjob->placement->spec.cache;
    const struct gt_cache_pod *pod = gt_cache_find_pod(cache, eviction->namespace_, eviction->name);
    return eviction->key.state == GT_WRITE_RUNNING && !eviction->is_dry &&
           (!pod || pod->deleting || strcmp(pod->uid, eviction->uid) != 0);
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
        if (evict_has_gone(eviction))
            evict_count_node(eviction);
        free_eviction(eviction);
    }
}

void gt_evict_withdraw(struct pjob *pjob)
{
    for (struct eviction *eviction = pjob->move.evictions; eviction; eviction = eviction->next) {
        unsigned failures = eviction->key.failures;
        bool waits = eviction->key.state == GT_WRITE_READY || eviction->key.state == GT_WRITE_DELAYED;
        if (eviction->is_named || !waits)
            continue;
        gt_write_remove(&eviction->key);
        eviction->key.failures = failures;
    }
}

const char *gt_evict_refusal(const struct pjob *pjob, const struct gt_cache_pod *pod)
{
    const struct eviction *eviction = pjob->move.evictions;
    while (eviction && (!eviction->refusal || (pod && strcmp(eviction->uid, pod->uid) != 0)))
        eviction = eviction->next;
    return eviction ? eviction->refusal : NULL;
}

/* ---- the brake ---- */

bool gt_placement_brake_keeps(struct reconcile *reconcile, const struct gt_cache_pod *only,
                              char why[static GT_BRAKE_WHY_SIZE])
{
    struct placement_nodes *nodes = &reconcile->placement->nodes;
    bool known = true;
    snprintf(why, GT_BRAKE_WHY_SIZE, "there is no memory");
    gt_node_set_clear(&nodes->leaving);
    for (const struct gt_cache_pod *pod = only ? only : reconcile->pjob->job->pods; pod && known;
         pod = only ? NULL : pod->next)
        known = pod->node == GT_NONE || gt_node_set_add(&nodes->leaving, pod->node, NULL) >= 0;
    if (known && (only ? gt_brake_lets(&nodes->brake, &nodes->leaving, reconcile->now, why)
                       : !gt_brake_is_on(&nodes->brake, &nodes->leaving, true, reconcile->now, why)))
        return false;
    gt_placement_due(reconcile->pjob, reconcile->now + reconcile->placement->times.retry_ms);
    return true;
}

void gt_placement_brake_take(struct reconcile *reconcile)
{
    struct placement_nodes *nodes = &reconcile->placement->nodes;
    gt_brake_take(&nodes->brake, &nodes->leaving, false, reconcile->now);
}

/* ---- answers ---- */

/* It is repeated when the job's next round names the pod. */
static bool evict_on_answer(struct gt_write_key *key, enum gt_write_outcome outcome,
                            struct gt_kube_answer *answer)
{
    struct eviction *eviction = key->of;
    struct gt_placement_counters *counters = &eviction->pjob->placement->counters;
    const struct gt_cache_pod *pod =
        gt_cache_find_pod(eviction->pjob->placement->spec.cache, eviction->namespace_, eviction->name);
    bool refused = outcome == GT_WRITE_REFUSED || outcome == GT_WRITE_UNKNOWN;
    bool goes = outcome == GT_WRITE_DONE && !eviction->is_dry;
    free(eviction->refusal);
    eviction->refusal = refused ? strdup(gt_err_text(answer->error)) : NULL;
    eviction->allowed_until_ms =
        outcome == GT_WRITE_DONE ? gt_clock_ms() + ALLOWED_ROUNDS * key->line->retry_ms : 0;
    eviction->is_done = eviction->is_done || goes;
    counters->pods.evicted += goes;
    counters->writes.conflicts += outcome == GT_WRITE_CHANGED;
    counters->writes.failures += refused;
    if (goes)
        key->due_ms = gt_clock_ms() + key->line->retry_ms;
    if (goes)
        evict_count_node(eviction);
    if (answer->status == 400 || answer->status == 403 || answer->status == 422)
        gt_placement_write_refused(eviction->pjob, pod, "Evict", answer->error);
    gt_placement_mark(eviction->pjob);
    return false;
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
    const struct eviction *eviction = evict_find(pjob, pod);
    return eviction && !eviction->is_dry;
}

bool gt_evict_is_sent(const struct pjob *pjob, const struct gt_cache_pod *pod)
{
    const struct eviction *eviction = evict_find(pjob, pod);
    return eviction && (eviction->is_done || (eviction->key.state == GT_WRITE_RUNNING && !eviction->is_dry));
}

static struct eviction *find_or_make(struct pjob *pjob, const struct gt_cache_pod *pod)
{
    struct eviction *eviction = evict_find(pjob, pod);
    if (eviction || !(eviction = calloc(1, sizeof(*eviction))))
        return eviction;
    eviction->pjob = pjob;
    eviction->key =
        (struct gt_write_key){.line = &pjob->placement->lines[PLACEMENT_EVICTIONS], .of = eviction};
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

static int evict_make(struct gt_write_key *key, struct gt_kube_request *ret, struct gt_buf *body,
                      struct gt_err **err)
{
    const struct eviction *eviction = key->of;
    (void)err;
    gt_eviction_write(eviction->namespace_, eviction->name, eviction->uid, body);
    *ret = (struct gt_kube_request){.verb = GT_KUBE_CREATE,
                                    .resource = &gt_kube_pods,
                                    .namespace_ = eviction->namespace_,
                                    .name = eviction->name,
                                    .dry_run = eviction->is_dry,
                                    .subresource = "eviction"};
    return GT_WRITE_SEND;
}

static struct eviction *evict_ask(struct reconcile *reconcile, const struct gt_cache_pod *pod, bool dry)
{
    struct eviction *eviction = find_or_make(reconcile->pjob, pod);
    if (eviction && eviction->key.state != GT_WRITE_RUNNING) {
        eviction->is_dry = dry;
        eviction->node = pod->node;
        eviction->preempts = reconcile->placement->preempt.job == reconcile->pjob;
    }
    if (!eviction || eviction->key.due_ms > reconcile->now)
        gt_placement_due(reconcile->pjob, eviction ? eviction->key.due_ms
                                                   : reconcile->now + reconcile->placement->times.retry_ms);
    else
        gt_write_add(&eviction->key);
    if (eviction)
        eviction->is_named = true;
    return eviction;
}

void gt_evict_pod(struct reconcile *reconcile, const struct gt_cache_pod *pod)
{
    evict_ask(reconcile, pod, false);
}

enum gt_evict_answer gt_evict_try(struct reconcile *reconcile, const struct gt_cache_pod *pod)
{
    struct eviction *eviction = evict_find(reconcile->pjob, pod);
    if (eviction && eviction->allowed_until_ms > reconcile->now) {
        eviction->is_named = true;
        return GT_EVICT_ALLOWED;
    }
    eviction = evict_ask(reconcile, pod, true);
    bool asked =
        eviction && (eviction->key.state == GT_WRITE_READY || eviction->key.state == GT_WRITE_RUNNING);
    return asked ? GT_EVICT_ASKED : GT_EVICT_REFUSED;
}

bool gt_evict_may_all(struct reconcile *reconcile, uint32_t first, uint32_t end,
                      char braked[static GT_BRAKE_WHY_SIZE])
{
    const struct gt_job_view_member *members = reconcile->view->members;
    struct placement_nodes *nodes = &reconcile->placement->nodes;
    enum gt_evict_answer all = GT_EVICT_ALLOWED;
    char why[GT_BRAKE_WHY_SIZE] = "there is no memory";
    bool known = true;
    gt_node_set_clear(&nodes->leaving);
    for (uint32_t i = first; i < end && known; i++)
        if (members[i].state == GT_MEMBER_MOVING && members[i].pod->node != GT_NONE)
            known = gt_node_set_add(&nodes->leaving, members[i].pod->node, NULL) >= 0;
    if (!known || gt_brake_is_on(&nodes->brake, &nodes->leaving, false, reconcile->now, why)) {
        memcpy(braked, why, sizeof(why));
        gt_placement_due(reconcile->pjob, reconcile->now + reconcile->placement->times.retry_ms);
        return false;
    }
    /* While some are refused only these are asked: what the others were allowed would be as old as that. */
    bool refused = false;
    for (uint32_t i = first; i < end; i++)
        refused |= members[i].state == GT_MEMBER_MOVING && gt_evict_refusal(reconcile->pjob, members[i].pod);
    for (uint32_t i = first; i < end; i++) {
        const struct gt_cache_pod *pod = members[i].state == GT_MEMBER_MOVING ? members[i].pod : NULL;
        enum gt_evict_answer answer = GT_EVICT_ALLOWED;
        if (pod && (!refused || gt_evict_refusal(reconcile->pjob, pod)))
            answer = gt_evict_try(reconcile, pod);
        all = answer > all ? answer : all;
    }
    return !refused && all == GT_EVICT_ALLOWED;
}

void gt_evict_open(struct gt_placement *placement)
{
    placement->lines[PLACEMENT_EVICTIONS] = (struct gt_write_line){.name = "evictions",
                                                                   .order = GT_WRITE_SOON,
                                                                   .running_max = EVICTIONS_RUNNING_MAX,
                                                                   .body_max = BODY_MAX,
                                                                   .retry_ms = placement->times.retry_ms,
                                                                   .retry_max_ms = BACKOFF_MAX_MS,
                                                                   .make = evict_make,
                                                                   .answered = evict_on_answer};
}
