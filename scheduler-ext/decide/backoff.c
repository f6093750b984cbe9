/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/backoff.h"

#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/digest.h"
#include "scheduler-ext/decide/reservations.h"

/* ---- jobs ---- */

/*
 * A scheduler evicts pods (preemption, Volcano's reclaim) since another pod needs their GPUs. Reserving the
 * place for the successor, or planning it at once, would take the GPUs back before the other pod is bound,
 * which would lead to another eviction, without end.
 */
static struct evicted_job *find_evicted(const struct backoffs *backoffs, const char *key)
{
    uint64_t digest = gt_digest_keyed(key);
    for (unsigned i = 0; i < BACKOFF_JOBS_MAX; i++)
        if (backoffs->jobs[i].until_ms && backoffs->jobs[i].key == digest)
            return (struct evicted_job *)(uintptr_t)&backoffs->jobs[i];
    return NULL;
}

static struct evicted_job *make_evicted(struct backoffs *backoffs, const char *key)
{
    struct evicted_job *to = find_evicted(backoffs, key);
    if (to)
        return to;
    to = &backoffs->jobs[0];
    for (unsigned i = 1; i < BACKOFF_JOBS_MAX; i++)
        if (backoffs->jobs[i].until_ms < to->until_ms)
            to = &backoffs->jobs[i];
    *to = (struct evicted_job){.key = gt_digest_keyed(key)};
    return to;
}

void gt_backoff_job(struct backoffs *backoffs, const char *key, uint64_t until_ms)
{
    struct evicted_job *job = make_evicted(backoffs, key);
    job->until_ms = until_ms > job->until_ms ? until_ms : job->until_ms;
}

uint64_t gt_backoff_job_until(const struct backoffs *backoffs, const char *key)
{
    const struct evicted_job *job = find_evicted(backoffs, key);
    return job ? job->until_ms : 0;
}

enum { REPLAN_MAX_MS = 600000 };

unsigned gt_backoff_replan(struct backoffs *backoffs, const char *key, const char *rule, uint64_t now_ms,
                           uint64_t first_ms)
{
    gt_backoff_job(backoffs, key, now_ms); /* an entry is there only with a time */
    struct evicted_job *job = make_evicted(backoffs, key);
    job->alike = strcmp(job->rule, rule) == 0 ? job->alike + 1 : 1;
    snprintf(job->rule, sizeof(job->rule), "%s", rule);
    uint64_t pause = gt_backoff_rule(backoffs, key) ? REPLAN_MAX_MS
                                                    : gt_backoff_step(job->replans, first_ms, REPLAN_MAX_MS);
    gt_backoff_job(backoffs, key, now_ms + pause);
    return ++job->replans;
}

const char *gt_backoff_rule(const struct backoffs *backoffs, const char *key)
{
    const struct evicted_job *job = find_evicted(backoffs, key);
    return job && job->rule[0] && job->alike >= BACKOFF_ALIKE ? job->rule : NULL;
}

unsigned gt_backoff_replans(const struct backoffs *backoffs, const char *key)
{
    const struct evicted_job *job = find_evicted(backoffs, key);
    return job ? job->replans : 0;
}

void gt_backoff_forget_replans(struct backoffs *backoffs, const char *key)
{
    struct evicted_job *job = find_evicted(backoffs, key);
    if (job) {
        job->replans = job->alike = 0;
        job->rule[0] = '\0';
    }
}

/* Its owner makes the next pod at once: without a limit hundreds are refused in a day. */
void gt_backoff_refusal(struct backoffs *backoffs, const char *key, uint64_t now_ms)
{
    const uint64_t digest = gt_digest_keyed(key);
    struct refusing_job *to = &backoffs->refusing[0];
    for (unsigned i = 1; i < BACKOFF_JOBS_MAX; i++)
        if (backoffs->refusing[i].at_ms[0] < to->at_ms[0])
            to = &backoffs->refusing[i];
    for (unsigned i = 0; i < BACKOFF_JOBS_MAX; i++)
        if (backoffs->refusing[i].key == digest)
            to = &backoffs->refusing[i];
    if (to->key != digest)
        *to = (struct refusing_job){.key = digest};
    for (unsigned i = BACKOFF_REFUSALS - 1; i > 0; i--)
        to->at_ms[i] = to->at_ms[i - 1];
    to->at_ms[0] = now_ms;
}

uint64_t gt_backoff_refused_until(const struct backoffs *backoffs, const char *key, uint64_t now_ms)
{
    const uint64_t digest = gt_digest_keyed(key);
    for (unsigned i = 0; i < BACKOFF_JOBS_MAX; i++) {
        uint64_t first = backoffs->refusing[i].at_ms[BACKOFF_REFUSALS - 1];
        if (first && backoffs->refusing[i].key == digest)
            return first + BACKOFF_REFUSALS_MS > now_ms ? first + BACKOFF_REFUSALS_MS : 0;
    }
    return 0;
}

void gt_backoff_set_recreated(struct backoffs *backoffs, const char *key, uint64_t leave_before_s,
                              uint64_t until_ms)
{
    const struct recreated_job made = {gt_digest_keyed(key), until_ms, leave_before_s};
    struct recreated_job *to = &backoffs->recreated[0];
    for (unsigned i = 1; i < BACKOFF_JOBS_MAX; i++)
        if (backoffs->recreated[i].until_ms < to->until_ms)
            to = &backoffs->recreated[i];
    for (unsigned i = 0; i < BACKOFF_JOBS_MAX; i++)
        if (backoffs->recreated[i].key == made.key)
            to = &backoffs->recreated[i];
    *to = made;
}

uint64_t gt_backoff_recreated(const struct backoffs *backoffs, const char *key, uint64_t now_ms)
{
    uint64_t digest = gt_digest_keyed(key);
    for (unsigned i = 0; i < BACKOFF_JOBS_MAX; i++)
        if (backoffs->recreated[i].until_ms > now_ms && backoffs->recreated[i].key == digest)
            return backoffs->recreated[i].leave_before_s;
    return 0;
}

/* ---- nodes ---- */

/*
 * A scheduler may refuse a node for lack of CPU or memory, or for reasons that are not known here. With
 * --on-lost-plan=recreate the same node would be chosen again and again for the new pod. The reason may
 * disappear, so the node is excluded for some minutes, or until a pod leaves it.
 */
enum { NODE_MS = 600000 };

void gt_backoff_node(struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                     uint32_t node, uint64_t now_ms)
{
    const struct refused_node seen = {gt_digest_keyed(key), now_ms + NODE_MS, node,
                                      gt_reservations_node_digest(cluster, node)};
    struct refused_node *to = &backoffs->nodes[0];
    if (!seen.node_digest)
        return;
    for (unsigned i = 1; i < BACKOFF_NODES_MAX; i++)
        if (backoffs->nodes[i].until_ms < to->until_ms)
            to = &backoffs->nodes[i];
    for (unsigned i = 0; i < BACKOFF_NODES_MAX; i++)
        if (backoffs->nodes[i].key == seen.key && backoffs->nodes[i].node_digest == seen.node_digest)
            to = &backoffs->nodes[i];
    *to = seen;
}

void gt_backoff_forget_node(struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                            uint32_t node)
{
    uint64_t digest = gt_reservations_node_digest(cluster, node), own = gt_digest_keyed(key);
    for (unsigned i = 0; i < BACKOFF_NODES_MAX; i++)
        if (backoffs->nodes[i].node_digest == digest && backoffs->nodes[i].key != own)
            backoffs->nodes[i] = (struct refused_node){0};
}

void gt_backoff_nodes(const struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                      uint64_t now_ms, struct gt_node_set *to)
{
    uint64_t digest = gt_digest_keyed(key);
    for (unsigned i = 0; i < BACKOFF_NODES_MAX; i++) {
        const struct refused_node *one = &backoffs->nodes[i];
        if (one->key == digest && one->until_ms > now_ms &&
            gt_reservations_node_digest(cluster, one->node) == one->node_digest)
            gt_node_set_add(to, one->node, NULL);
    }
}
