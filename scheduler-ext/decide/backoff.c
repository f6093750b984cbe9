/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/backoff.h"

#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/digest.h"
#include "base/time_text.h"
#include "scheduler-ext/decide/reservations.h"

/* ---- jobs ---- */

/*
 * A scheduler evicts pods (preemption, Volcano's reclaim) since another pod needs their GPUs. Reserving the
 * place for the successor, or planning it at once, would take the GPUs back before the other pod is bound,
 * which would lead to another eviction, without end.
 */
static struct backoff_job *find_backoff(const struct backoffs *backoffs, const char *key)
{
    uint64_t digest = gt_digest_keyed(key);
    for (unsigned i = 0; i < BACKOFF_JOBS_MAX; i++)
        if (backoffs->jobs[i].last_ms && backoffs->jobs[i].key == digest)
            return (struct backoff_job *)(uintptr_t)&backoffs->jobs[i];
    return NULL;
}

/* The entry of the job, in place of the oldest where it has none, which counts until `last_ms`. */
static struct backoff_job *make_backoff(struct backoffs *backoffs, const char *key, uint64_t last_ms)
{
    struct backoff_job *to = find_backoff(backoffs, key);
    if (!to) {
        to = &backoffs->jobs[0];
        for (unsigned i = 1; i < BACKOFF_JOBS_MAX; i++)
            if (backoffs->jobs[i].last_ms < to->last_ms)
                to = &backoffs->jobs[i];
        *to = (struct backoff_job){.key = gt_digest_keyed(key)};
    }
    to->last_ms = last_ms > to->last_ms ? last_ms : to->last_ms;
    return to;
}

void gt_backoff_job(struct backoffs *backoffs, const char *key, uint64_t until_ms)
{
    struct backoff_job *job = make_backoff(backoffs, key, until_ms);
    job->until_ms = until_ms > job->until_ms ? until_ms : job->until_ms;
}

uint64_t gt_backoff_job_until(const struct backoffs *backoffs, const char *key)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    return job ? job->until_ms : 0;
}

enum { REPLAN_MAX_MS = 600000 };

unsigned gt_backoff_replan(struct backoffs *backoffs, const char *key, const char *rule, uint64_t now_ms,
                           uint64_t first_ms)
{
    struct backoff_job *job = make_backoff(backoffs, key, now_ms);
    job->alike = strcmp(job->rule, rule) == 0 ? job->alike + 1 : 1;
    snprintf(job->rule, sizeof(job->rule), "%s", rule);
    uint64_t pause = gt_backoff_rule(backoffs, key) ? REPLAN_MAX_MS
                                                    : gt_backoff_step(job->replans, first_ms, REPLAN_MAX_MS);
    gt_backoff_job(backoffs, key, now_ms + pause);
    return ++job->replans;
}

const char *gt_backoff_rule(const struct backoffs *backoffs, const char *key)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    return job && job->rule[0] && job->alike >= BACKOFF_ALIKE ? job->rule : NULL;
}

unsigned gt_backoff_replans(const struct backoffs *backoffs, const char *key)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    return job ? job->replans : 0;
}

void gt_backoff_forget_replans(struct backoffs *backoffs, const char *key)
{
    struct backoff_job *job = find_backoff(backoffs, key);
    if (job) {
        job->replans = job->alike = 0;
        job->rule[0] = '\0';
    }
}

/* Its owner makes the next pod at once: without a limit hundreds are refused in a day. */
void gt_backoff_refusal(struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                        const struct gt_pod *pod, uint64_t now_ms, char text[static BACKOFF_TEXT_SIZE])
{
    struct backoff_job *job = make_backoff(backoffs, key, now_ms + BACKOFF_REFUSED_MS);
    uint32_t node = gt_cluster_find_node(cluster, pod->node_name);
    memmove(&job->refused_ms[1], &job->refused_ms[0], (BACKOFF_REFUSALS - 1) * sizeof(job->refused_ms[0]));
    job->refused_ms[0] = now_ms;
    if (node != GT_NONE)
        gt_backoff_node(backoffs, cluster, key, node, now_ms);
    snprintf(
        text, BACKOFF_TEXT_SIZE,
        "the kubelet of node %s refuses pod %s (%s): pods of the job are not planned there for %d minutes%s",
        pod->node_name, pod->meta.name, pod->failed_for, BACKOFF_REFUSALS_MS / 60000,
        gt_backoff_refused_until(backoffs, key, now_ms)
            ? ", and wait meanwhile, since kubelets have refused several"
            : "");
}

unsigned gt_backoff_refusals(const struct backoffs *backoffs, const char *key, uint64_t now_ms,
                             uint64_t *ret_last)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    uint64_t last = job ? job->refused_ms[0] : 0;
    unsigned recent = 0;
    while (last && recent < BACKOFF_REFUSALS && job->refused_ms[recent] &&
           job->refused_ms[recent] + BACKOFF_REFUSALS_MS > now_ms)
        recent++;
    *ret_last = last && last + BACKOFF_REFUSED_MS > now_ms ? last : 0;
    return recent;
}

uint64_t gt_backoff_refused_until(const struct backoffs *backoffs, const char *key, uint64_t now_ms)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    uint64_t first = job ? job->refused_ms[BACKOFF_REFUSALS - 1] : 0;
    return first && first + BACKOFF_REFUSALS_MS > now_ms ? first + BACKOFF_REFUSALS_MS : 0;
}

void gt_backoff_refused_text(int64_t until_s, char text[static BACKOFF_TEXT_SIZE])
{
    char when[GT_TIME_TEXT_SIZE];
    gt_time_text(until_s, when);
    snprintf(
        text, BACKOFF_TEXT_SIZE,
        "kubelets have refused %d of its pods within %d minutes, Events RefusedByKubelet say why: further "
        "ones are planned from %s on",
        BACKOFF_REFUSALS, BACKOFF_REFUSALS_MS / 60000, when);
}

void gt_backoff_set_recreated(struct backoffs *backoffs, const char *key, uint64_t leave_before_s,
                              uint64_t until_ms)
{
    struct backoff_job *job = make_backoff(backoffs, key, until_ms);
    job->recreated_ms = until_ms;
    job->leave_before_s = leave_before_s;
}

uint64_t gt_backoff_recreated(const struct backoffs *backoffs, const char *key, uint64_t now_ms)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    return job && job->recreated_ms > now_ms ? job->leave_before_s : 0;
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
